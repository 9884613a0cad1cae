package adapter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// estate is what is left of a parked call whose stream is gone: its owner has
// died or let go of it, or the server has. The client's next round decides what
// becomes of it: it is taken over, run again, or lost.
type estate struct {
	position state.Position // where to go on; without an event id, nowhere
	own      *Outcome       // how the server itself has ended the call meanwhile, or nil
	err      error          // what the client is told where nothing helps

	// What there was before the retry's answers were taken, should it come again.
	inputs     []*input
	transcript []state.Answer
	asked      [3]int
	names      []string
	cut        bool

	undelivered []answer // that the server may have or not
	stands      bool     // its stream was let go where it stands: what is asked is open there, and does not come again
}

// inherit makes a call of this replica out of what its request state says. It
// is parked, at the round of the request state. Where another round has just
// done the same, its call is returned. left is what there is beside the request
// state, or nil.
func (e *Engine) inherit(up *upstream, req *Request, caps *mcp.Capabilities, t *state.Token, left *heirloom) (*call, error) {
	method, handle := req.Method, req.RequestState
	whole := left.open(e, t)
	switch {
	case whole != nil:
		t, handle = whole, left.handle
	case req.Method == mcp.MethodAnswer:
		return nil, notAsked()
	}
	if t.Born != 0 { // the request is about the call, which only the handle says, if any
		method = mcp.MethodToolsCall
		if t.Method != "" {
			method = t.Method
		}
		own := jsonrpc.Get(jsonrpc.Get(t.Params, "_meta"), mcp.MetaClientCapabilities)
		if !jsonrpc.IsObject(own) && caps.Bits() != t.Caps { // who asks after the call may declare less than who began it
			own = mcp.CapabilitiesOf(t.Caps)
		}
		if jsonrpc.IsObject(own) {
			var err error
			if caps, err = e.caps.get(own); err != nil {
				return nil, &Refusal{Reason: ReasonInvalidParams, Detail: err.Error()}
			}
		}
	}
	traits := mcp.MethodTraits(method)
	now := time.Now()
	c := &call{
		engine: e, up: up, method: method, harmless: traits.Harmless, askable: traits.Eligible,
		eligible: traits.Eligible && caps.Any(), key: e.key(req, caps), creds: credentials(req),
		name: string(req.Name), phase: parked, id: t.Call, since: sinceNow(), round: t.Round, digest: t.Request,
		until: time.Unix(t.Expires, 0), begun: now.Add(-time.Duration(t.Ran) * time.Second), heard: now, parkedAt: now,
		transcript: t.Transcript, transcriptBytes: sizeOf(t.Transcript), cut: t.Cut,
		estate: &estate{position: t.Position, err: &Refusal{
			Reason: ReasonCallLost, MayHaveRun: true,
			Detail: "the replica that held the call is gone, and nobody can go on with it: the server cannot resume its stream, and running it again might not be harmless",
		}},
	}
	if t.Born == 0 {
		c.carried = t.Params
	}
	if t.Task != "" {
		c.task = &task{id: []byte(t.Task), interval: usualPoll, token: t.Position.Request}
	}
	for i, n := range t.Asked {
		c.asked[i] = int(n)
	}
	for _, q := range t.Inputs {
		in := &input{id: []byte(q.ID), hinted: q.Hinted, told: true, digest: q.Digest}
		in.Key, in.Method, in.Params = q.Key, q.Method.Method(), q.Params
		if len(in.id) == 0 {
			in.id = nil
		}
		c.inputs = append(c.inputs, in)
		if q.Hinted {
			c.names = append(c.names, q.Key)
		}
	}
	for _, a := range t.Transcript {
		if a.Hinted {
			c.names = append(c.names, a.Key)
		}
	}
	if t.Endpoint != "" && t.Endpoint != up.id { // its own is not configured any more
		c.estate.position = state.Position{}
	}
	if t.Born != 0 {
		c.name, c.lasts = "", true
		c.openHandle(handle, t)
		if whole != nil {
			left.restore(c, t)
		}
	}
	// A round that has asked something has asked one question at least.
	c.asking = min(int(t.Round), c.asked[0]+c.asked[1]+c.asked[2]+len(c.names))
	c.ownKey()
	c.mu.Lock()
	defer c.mu.Unlock()
	other, err := e.calls.adopt(c)
	if other != nil || err != nil {
		return other, err
	}
	c.arm()
	return c, nil
}

// recover lets a call go on whose stream is gone, with what a retry brought.
// mu is held.
func (c *call) recover(req *Request, r *callRound) error {
	left := c.estate
	c.estate = nil
	c.inputs, c.withdrawn = append(c.withdrawn, c.inputs...), nil
	left.inputs, left.transcript, left.asked, left.names, left.cut = slices.Clone(c.inputs), c.transcript, c.asked, c.names, c.cut
	answered := c.transcribe(req.responses())
	if left.own != nil && len(answered) == 0 {
		c.enter(running)
		c.result = left.own
		c.enter(done)
		c.settle(running)
		c.wake()
		return nil
	}
	c.enter(running)
	c.setOut(left, append(slices.Clone(left.undelivered), answered...), req, r)
	return nil
}

// goOn is the ladder's lower part: take over, replay, or say so.
func (c *call) goOn(ctx context.Context, left *estate, answered []answer, text []byte, r *callRound) {
	c.catchBreath(ctx)
	if left.position.Event != "" || c.joins(&left.position) {
		err := c.takeOver(ctx, left, answered, r)
		if err == nil {
			legacy.FreeText(text)
			return
		}
		c.engine.log.Debug().Err(err).Str("upstream", c.up.Name).Hex("call", c.id[:]).Msg("call not taken over")
		if c.isOver() || c.again(left, answered, err) || c.putBack(left, asRefusal(err, true)) {
			legacy.FreeText(text)
			return
		}
	}
	s, err := c.replaySession(ctx)
	if err != nil && left.own == nil && c.again(left, answered, err) {
		legacy.FreeText(text)
		return
	}
	if err == nil && s == nil {
		err = left.err
	}
	if err != nil {
		legacy.FreeText(text)
		switch {
		case left.own != nil:
			c.endWith(left.own)
		case !c.putBack(left, err):
			c.fail(err)
		}
		return
	}
	c.replay(ctx, s, left, text, r)
}

// isOver reports whether the call has ended, or goes on elsewhere.
func (c *call) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.phase == done
}

// putBack parks a call again, at the same round and as it was, that could not
// go on for a reason that the same retry may not meet again. It reports whether
// it did.
func (c *call) putBack(left *estate, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.putBackLocked(left, err)
}

// putBackLocked must be called with mu held.
func (c *call) putBackLocked(left *estate, err error) bool {
	if left == nil || c.phase != starting && c.phase != running || !untouched(err) || c.engine.calls.park(c) != nil {
		return false
	}
	c.enter(parked)
	c.estate, c.fallback, c.moving, c.driver, c.x = left, nil, false, byNobody, nil
	c.inputs, c.transcript, c.asked, c.names, c.cut = left.inputs, left.transcript, left.asked, left.names, left.cut
	c.known, c.transcriptBytes = nil, sizeOf(c.transcript)
	c.parkedAt = time.Now()
	if c.lasting != nil {
		for _, in := range slices.Clone(c.inputs) {
			c.rekey(in) // some were answered
		}
	}
	c.arm()
	for _, r := range c.rounds {
		r.err = err
	}
	c.wake()
	return true
}

// untouched reports whether an error says that the server has done nothing of
// what it was asked.
func untouched(err error) bool {
	var status *legacy.StatusError
	var auth *Unauthorized
	return errors.Is(err, legacy.ErrUnreachable) || errors.Is(err, legacy.ErrFull) ||
		errors.As(err, &auth) || errors.As(err, &status) && status.Unauthorized()
}

// takeOver goes on with the call's stream on the same upstream session. An
// error means that the server has been sent nothing.
func (c *call) takeOver(ctx context.Context, left *estate, answered []answer, r *callRound) error {
	at := &left.position
	c.mu.Lock()
	creds, level := c.creds, c.level
	c.mu.Unlock()
	s, err := c.up.Server.Adopt(ctx, &c.key, legacy.Position(*at), c.eligible, creds)
	c.mu.Lock()
	if c.phase == done { // meanwhile; or before, and the context with it
		if !c.elsewhere && c.sure() {
			c.endAfar(left, left.inputs, "the client has gone")
		}
		c.mu.Unlock()
		if err == nil {
			s.Return(c.eligible)
		}
		return nil
	}
	if err != nil {
		c.mu.Unlock()
		return err
	}
	x := c.comeBack(s, at, creds, level)
	c.mu.Unlock()
	if x, err = c.open(ctx, x, at); err != nil {
		c.mu.Lock()
		c.x = nil
		c.mu.Unlock()
		x.Finish()
		return err
	}
	c.engine.log.Debug().Str("upstream", c.up.Name).Hex("call", c.id[:]).Msg("call taken over")
	c.engine.metrics.takenOver()
	c.mu.Lock()
	r.served = ServedTakenOver
	over, elsewhere := c.phase == done, c.elsewhere
	c.heard, c.parkAt, c.moving = time.Now(), time.Now(), false
	if !over {
		c.unexpect() // the exchange hears it
		c.catchUp()
	}
	if len(answered) > 0 {
		c.parkAt = c.parkAt.Add(c.engine.settings.Gather)
	}
	c.posting++
	c.parkAlone()
	c.watchTask()
	c.wake()
	c.mu.Unlock()
	defer c.posted()
	if over {
		if !elsewhere { // else another replica goes on with the same request
			x.Cancel("the client has gone")
		}
		x.Finish()
		return nil
	}
	c.engine.wg.Add(1)
	go c.follow(x)
	for i, a := range answered {
		c.mu.Lock()
		a.text = c.answerText(a.in, a.response)
		c.mu.Unlock()
		if a.text == nil {
			continue
		}
		err := c.engine.sure(ctx)
		if err == nil {
			err = c.post(ctx, s, creds, a.text)
		}
		legacy.FreeText(a.text)
		if err != nil {
			c.mu.Lock()
			c.undelivered(x, answered[i:], err)
			c.mu.Unlock()
			break
		}
	}
	return nil
}

// replayable reports whether the call may run twice. mu is held, or nobody else
// knows the call.
func (c *call) replayable(s *legacy.Session) bool {
	if c.lasting != nil && c.lasting.original == nil {
		return false
	}
	if c.carried != nil && c.cut {
		return false // a question that comes again must not find the answer to another one under its key
	}
	switch c.engine.settings.Replay {
	case ReplayAlways:
		return true
	case ReplayNever:
		return false
	}
	return c.harmless || c.method == mcp.MethodToolsCall && s != nil && s.Harmless([]byte(c.name))
}

// mayReplay is replayable as far as is known: where the server has not said yet
// what its tools do, it is asked before the call runs again.
func (c *call) mayReplay(s *legacy.Session) bool {
	if c.lasting != nil && c.lasting.original == nil {
		return false
	}
	return c.replayable(s) || c.engine.settings.Replay == ReplaySafe && c.method == mcp.MethodToolsCall && s != nil && s.ToolsUnknown() != nil
}

// replaySession acquires a session to run the call again on. nil without an
// error: it may not run again.
func (c *call) replaySession(ctx context.Context) (*legacy.Session, error) {
	if c.engine.settings.Replay == ReplayNever {
		return nil, nil
	}
	c.mu.Lock()
	creds := c.creds
	c.mu.Unlock()
	s, err := c.up.Server.Acquire(ctx, &c.key, c.eligible, creds)
	if err != nil {
		return nil, asRefusal(err, true)
	}
	if c.method == mcp.MethodToolsCall && c.engine.settings.Replay == ReplaySafe {
		s.LoadRules(ctx, creds)
	}
	if !c.replayable(s) {
		err := s.ToolsUnknown()
		s.Return(c.eligible)
		if err == nil || c.method != mcp.MethodToolsCall {
			return nil, nil
		}
		return nil, asRefusal(err, true)
	}
	return s, nil
}

// replay runs the call again: the original request, which every retry brings,
// on a session of its own or a shared one. What the server asks again is
// answered from the transcript.
func (c *call) replay(ctx context.Context, s *legacy.Session, left *estate, text []byte, r *callRound) {
	c.engine.log.Debug().Str("upstream", c.up.Name).Hex("call", c.id[:]).Msg("call runs again")
	c.engine.metrics.replayed()
	c.mu.Lock()
	r.served = ServedReplayed
	c.known, c.transcript, c.transcriptBytes = c.transcript, nil, 0
	c.inputs, c.x, c.moving = nil, nil, false
	if c.carried == nil && c.lasting == nil { // else the client brings answers under the keys that there were, or no key may come again
		c.names, c.asked = nil, [3]int{}
	}
	c.fallback, c.resent, c.retried = left, true, false
	c.unwatchTask()
	c.unexpect()
	c.task, c.callID = nil, 0
	if c.phase != done {
		c.phase = starting // as enter would for a request that has met no session
	}
	c.mu.Unlock()
	c.launch(ctx, s, text)
}

// endWith ends the call with an outcome that was kept.
func (c *call) endWith(o *Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.phase
	if !c.enter(done) {
		return
	}
	c.result = o
	c.settle(was)
	c.wake()
}

// bequeath keeps a parked call whose stream is gone for a replay by its next
// round, if it may be replayed. mu is held.
func (c *call) bequeath(own *Outcome, err error) bool {
	if c.phase != parked || c.estate != nil || c.x == nil || !c.mayReplay(c.x.Session()) {
		return false
	}
	c.estate = &estate{own: own, err: err}
	return true
}

// failedOutcome reports whether a server's response says that the call failed.
func failedOutcome(o *Outcome) bool {
	return o.Error != nil || string(jsonrpc.Get(o.Result, "isError")) == "true"
}
