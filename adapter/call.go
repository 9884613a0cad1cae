package adapter

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// phase is where a call is in its life.
type phase uint8

const (
	starting phase = iota // the request has not been sent
	running               // a round waits for the server
	parked                // the server waits for the client
	done                  // the outcome stands
)

// driver says who reads an exchange, and so must Finish it.
type driver uint8

const (
	byNobody    driver = iota // not sent yet: whoever ends the call finishes it
	byRound                   // the goroutine of a round
	byGoroutine               // launch or follow
)

// call is one client operation. It is the Sink of its exchange.
type call struct {
	engine   *Engine
	up       *upstream
	method   string
	askable  bool // the method may be answered with input_required
	eligible bool // and the client can be asked something
	harmless bool // by its method, it may run twice
	repeats  bool // its request may be sent again although the server may have it; guarded by mu
	key      legacy.Key
	msgID    uint64 // upstream request id and progress token
	callID   uint64 // the id of tools/call where the tool runs as a task; else zero
	level    mcp.Level

	mu     sync.Mutex
	phase  phase
	x      *legacy.Exchange
	driver driver
	inline *callRound // whose goroutine drives x, with byRound
	rounds []*callRound
	first  [1]*callRound      // where rounds begins
	creds  legacy.Credentials // of the newest round
	stop   context.CancelFunc // ends launch's or deliver's waiting, or nil

	inputs     []*input  // open: the server waits for their answers
	names      []string  // keys that inputs of this call have had
	asked      [3]int    // how many inputs of each kind there were
	early      responses // that the first request brought, or none
	parkAt     time.Time
	resend     bool // the request is sent anew when the client comes back
	resent     bool // it was, after which the server has asked nothing more
	restart    bool // the request has met no session, and is sent once more
	retried    bool
	posting    int             // deliveries of answers under way: the client does not send them again
	mayHaveRun bool            // it was sent before, and its answer lost
	keptBytes  int64           // guarded by the registry's mu
	keptUntil  time.Time       // likewise
	keptAt     *list.Element   // likewise
	shelf      *shelf          // likewise
	shelvedAt  *list.Element   // likewise
	owed       bool            // likewise: no round has been told the outcome
	heir       string          // the other replica that has the outcome of a lasting call, or ""
	forgotten  bool            // the outcome is no longer kept
	elsewhere  bool            // another replica goes on with it, or may
	lagging    bool            // a round's client reads too slowly
	unanswered bool            // it ended before its client came back to the newest round
	rules      []mcp.ParamRule // of the tool, which every round's headers are held against

	task      *task               // that the call runs as, once the server has named it
	tasked    bool                // the tool demands to run as one
	own       map[string]*ownTask // questions that the server asked as tasks, by name
	expects   *legacy.Session     // that tells when an interaction outside the protocol is over, or nil
	lent      *legacy.Session     // of a call whose stream was let go: that it keeps, to hear of that; or nil
	over      []string            // ids of visits that were over meanwhile
	awaits    []string            // ids of visits that the replica waited for that had the call before
	lasting   *lasting            // once it outlives its client's connections
	lasts     bool                // its client takes a handle for an answer
	lastAt    time.Time           // when it would have been told it, had it not been let go with nothing asked; else zero
	consented []string            // ids of visits that the client has agreed to
	visited   []string            // of them, those that are over

	// For whoever goes on with the call when this replica cannot.
	name            string         // of the tool or prompt, once it has parked
	transcript      []state.Answer // what the server was answered
	transcriptBytes int
	cut             bool           // the transcript is too large for a request state
	known           []state.Answer // in a replay: answers to questions that may come again
	carried         []byte         // params that the request states carry, because the client does not send them again; or nil
	estate          *estate        // parked, or about to be: its stream is gone
	moving          bool           // with phase running: what is to become of that is being found out
	fallback        *estate        // of a replay, until the server has said something
	strandings      int            // how often its stream broke while it ran, and it could be replayed
	withdrawn       []*input       // questions that the server took back since the call parked
	handed          bool           // a client was told its request state: another replica may have it
	safe            bool           // as its tool said when it parked, it may run twice
	kept            bool           // it was not let go when calls.release_after had passed

	// Set when the call first parks.
	id     [16]byte
	since  uint64 // since when it is this replica's, in Unix nanoseconds
	round  uint32 // of the newest request state
	asking int    // rounds that ended with a question, for calls.max_rounds
	digest [16]byte
	until  time.Time // when the parked call, or its kept outcome, expires

	result *Outcome // with phase done, or nil
	err    error    // with phase done and no result

	timer    *time.Timer
	tickAt   time.Time // when it fires; zero: it does not
	begun    time.Time // of the running time, for calls.max_duration
	heard    time.Time // last sign of life, for calls.timeout
	sentAt   time.Time // when the server had the request, the newest time; zero: not yet
	parkedAt time.Time
	stat     *gatherStat
}

// enter is the only way from one phase to another. It refuses what cannot be.
func (c *call) enter(to phase) bool {
	ok := false
	switch c.phase {
	case starting:
		ok = to == running || to == parked || to == done
	case running:
		ok = to == parked || to == done || to == starting // it has met a session that is gone
	case parked:
		ok = to == running || to == starting || to == done
	}
	if ok {
		c.unanswered = c.phase == parked && to == done
		if c.phase == starting && to == running {
			c.sentAt = time.Now()
		}
		c.phase = to
	}
	return ok
}

// start begins a call with its first round.
func (e *Engine) start(up *upstream, req *Request, caps *mcp.Capabilities, r *callRound) error {
	traits := mcp.MethodTraits(req.Method)
	c := &call{
		engine: e, up: up, method: req.Method, harmless: traits.Harmless, askable: traits.Eligible,
		eligible: traits.Eligible && caps.Any(), level: req.LogLevel, key: e.key(req, caps),
		creds: credentials(req), begun: time.Now(),
	}
	c.heard = c.begun
	r.call = c
	c.first[0] = r
	c.rounds = c.first[:]
	c.mu.Lock() // once it is on a session, the session's GET stream may reach it
	defer c.mu.Unlock()
	if req.Method == mcp.MethodDiscover {
		c.discover()
		return nil
	}
	c.lasts = req.Lasting > 0 && c.method == mcp.MethodToolsCall
	if r.follows && !e.calls.mayEndure(&c.key) {
		return e.tooManyLast(false)
	}
	if traits.Eligible && len(req.InputResponses) > len("{}") {
		c.early = responses{bytes.Clone(req.InputResponses), req.Wrapped}
	}
	if req.Carried {
		if err := c.carry(req); err != nil {
			return err
		}
	}
	c.msgID = up.Server.NextID()
	text := c.appendRequest(legacy.Text(), req)
	if s := up.Server.TryAcquire(&c.key, c.eligible); s != nil {
		sent, err := c.quick(s, req, text)
		if err != nil {
			legacy.FreeText(text)
			return err
		}
		if sent {
			c.driver, c.inline = byRound, r
			return nil
		}
		c.goLaunch(s, text)
		return nil
	}
	c.goLaunch(nil, text)
	return nil
}

// quick sends the request on the caller's goroutine, if that needs no waiting.
// An error means that the session was given back. mu is held.
//
// Hot: once per call.
func (c *call) quick(s *legacy.Session, req *Request, text []byte) (sent bool, err error) {
	if c.method == mcp.MethodToolsCall {
		rules, known := s.Rules(req.Name)
		if !known || c.runsAsTask(s.TaskSupport(req.Name)) {
			return false, nil
		}
		c.rules = rules
		if err := checkParams(req, rules); err != nil {
			s.Return(c.eligible)
			return false, err
		}
	}
	if c.eligible && s.HasOrphans() {
		return false, nil
	}
	if c.method == mcp.MethodComplete && !s.Info().Revision.Has(mcp.CompletionContext) {
		return false, nil // the request may have to change
	}
	x := s.Prepare(c.msgID, c, c.creds, c.eligible, c.askable, c.level)
	x.SetMessage(text)
	c.keepMessage(x, s, req.Name)
	c.x = x
	if c.level != mcp.LevelNone && s.LevelShort() {
		return false, nil
	}
	switch err := x.Send(c.engine.ctx, false); {
	case err == nil:
		c.enter(running)
	case errors.Is(err, legacy.ErrDeadline), errors.Is(err, legacy.ErrUnreachable):
		return false, nil // nothing went out: launch sends
	default:
		c.enter(running)
		c.lost(asRefusal(err, true))
	}
	return true, nil
}

// keepMessage has an exchange keep its request where that may be sent again
// although the server may have it. mu is held.
func (c *call) keepMessage(x *legacy.Exchange, s *legacy.Session, tool []byte) {
	switch c.engine.settings.Replay {
	case ReplayAlways:
		c.repeats = true
	case ReplayNever:
		c.repeats = c.harmless && !c.askable // to fetch a list again is no replay
	case ReplaySafe:
		c.repeats = c.harmless || c.method == mcp.MethodToolsCall && s.Harmless(tool)
	}
	if c.repeats {
		x.KeepMessage()
	}
}

func checkParams(req *Request, rules []mcp.ParamRule) error {
	if len(rules) == 0 || req.Headers == nil {
		return nil
	}
	if err := req.Headers.CheckParams(rules, req.Args); err != nil {
		return &Refusal{Reason: ReasonHeaderMismatch, Detail: err.Error()}
	}
	return nil
}

// arm sets the timer to the next time at which tick has something to do. mu is
// held.
func (c *call) arm() {
	var at time.Time
	switch c.phase {
	case starting, running:
		at = c.heard.Add(c.engine.settings.Timeout)
		if limit := c.begun.Add(c.engine.settings.MaxDuration); limit.Before(at) {
			at = limit
		}
		if l := c.lasting; l != nil && l.until.Before(at) {
			at = l.until
		}
	default:
		at = c.until
		if after := c.engine.settings.ReleaseAfter; after > 0 && !c.kept {
			if release := c.parkedAt.Add(after); release.Before(at) {
				at = release
			}
		}
	}
	if l := c.lasting; l != nil && l.following != nil && !l.following.awayAt.IsZero() && l.following.awayAt.Before(at) {
		at = l.following.awayAt
	}
	if c.timer == nil {
		c.timer = time.AfterFunc(time.Until(at), c.tick)
	} else if c.tickAt.IsZero() || at.Before(c.tickAt) {
		c.timer.Reset(time.Until(at))
	} else {
		return // tick comes early, and arms again
	}
	c.tickAt = at
}

// tick ends what has lasted too long.
func (c *call) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tickAt = time.Time{}
	now := time.Now()
	set := &c.engine.settings
	if c.phase != done && c.overdue(now) {
		return
	}
	switch c.phase {
	case starting, running:
		switch {
		case c.lasting != nil && !now.Before(c.lasting.until):
			c.outlast()
		case now.Sub(c.begun) >= set.MaxDuration:
			c.terminate(&Refusal{Reason: ReasonCallDuration, Detail: "the call lasted longer than calls.max_duration", MayHaveRun: c.phase == running}, "the call lasted too long")
		case now.Sub(c.heard) >= set.Timeout:
			c.terminate(&Refusal{Reason: ReasonCallTimeout, Detail: "the server was silent for calls.timeout", MayHaveRun: c.phase == running}, "timeout")
		default:
			c.arm()
		}
	case parked:
		if now.Before(c.until) {
			c.kept = c.engine.settings.ReleaseAfter <= 0 || now.Sub(c.parkedAt) >= c.engine.settings.ReleaseAfter
			if !c.kept || c.polled() || !c.release() {
				c.arm()
			}
			break
		}
		if !c.engine.confirmed() { // it may be another replica's, which tells the server
			c.until = now.Add(leasePoll)
			c.arm()
			break
		}
		if c.lasting != nil {
			c.outlast()
			break
		}
		c.engine.metrics.expired()
		c.terminate(&Refusal{Reason: ReasonStateExpired, Detail: "the client did not come back within calls.park_ttl", MayHaveRun: true}, "the client did not come back")
	}
}

// outlast ends a lasting call whose time is over. mu is held.
func (c *call) outlast() {
	c.engine.metrics.expired()
	c.terminate(&Refusal{Reason: ReasonStateExpired, Detail: "the call lasted longer than was promised", MayHaveRun: true}, "its time is over")
}

// end ends the call whatever its phase.
func (c *call) end(err error, why string) {
	c.mu.Lock()
	c.terminate(err, why)
	c.mu.Unlock()
}

// terminate ends a call without a response of the server: the server is told,
// and every round gets err. mu is held.
func (c *call) terminate(err error, why string) {
	was := c.phase
	if !c.enter(done) {
		return
	}
	c.err, c.restart = err, false
	silent := !c.sure()
	if silent {
		c.inputs = nil
	}
	asked := c.inputs
	c.refuseInputs(why)
	if c.stop != nil {
		c.stop()
	}
	if c.x == nil && c.estate != nil && !silent {
		c.endAfar(c.estate, asked, why)
	}
	if c.x != nil {
		c.leaveServer(was, silent, why)
	}
	c.settle(was)
	c.wake()
}

// leaveServer ends the exchange of a call that has ended here, in the phase was.
// silent says that the server is not to know. mu is held.
func (c *call) leaveServer(was phase, silent bool, why string) {
	x := c.x
	switch {
	case c.driver == byNobody:
		x.Finish()
		return
	case silent:
	case was == starting:
		if c.nameless() {
			return // the request may be on its way: sendPrepared knows
		}
	case c.task != nil:
		c.cancelTask(x.Session(), c.task.id)
		if !c.task.due && !x.Ended() {
			x.Cancel(why)
		}
	case x.Ended():
	case c.nameless():
		c.abandonTask(x, why)
		return
	default:
		x.Cancel(why)
	}
	x.Abort()
}
