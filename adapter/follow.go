package adapter

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// A lasting call can be followed (Request.Away): its client is told the handle
// first, and then all that the call has to say, in order: notifications,
// questions, the outcome. It may lose its connection, and come back with the
// handle wherever it likes; meanwhile that is kept (backlog.go). One round
// follows at a time: the newest, because an older one may hang on a connection
// that is lost, which nobody has noticed yet.
//
// What was told is known when its round asks for the next, or, where the client
// is at another replica, when that one says so; what is not known to be told when
// the round ends is told again. So a notification is told once, unless a replica
// dies; a question is told in each round that follows, until it is answered.

// handleSoon is how long a call may take before the client is told its handle: by
// then most servers have said where their stream can be gone on with, which the
// handle is to carry, or have answered.
const (
	handleSoon = 250 * time.Millisecond
	handlePoll = 25 * time.Millisecond // how often it is looked whether they have
)

// following is what a lasting call has beside others that its client follows. It
// is guarded by call.mu.
type following struct {
	away     time.Duration // how long the client may be
	awayAt   time.Time     // when it has been away too long; zero: it is here
	round    *callRound    // that follows, or nil
	before   *callRound    // that did, and is about to say what it has told; or nil
	handAt   time.Time     // when nobody waits for that any longer
	backlog  backlog
	asked    []string // keys of open questions that are in the backlog, or were told
	progress []byte   // raw progress token of the original request, or nil
	level    mcp.Level
	short    []byte // see shortHandle
}

// byFollower reports whether a round is about a call that its client follows.
func byFollower(method string) bool {
	switch method {
	case mcp.MethodResume, mcp.MethodStatus, mcp.MethodAnswer, mcp.MethodCancel:
		return true
	}
	return false
}

// followable reports whether the client is to follow the call that a first
// request begins.
func (req *Request) followable() bool {
	return req.Away > 0 && req.RequestState == nil && mcp.MethodTraits(req.Method).Eligible
}

// idDigest binds a handle to the id of the request that it is of.
func idDigest(id []byte) [16]byte {
	return digestOf(mcp.MethodResume, append(append([]byte(`{"requestId":`), id...), '}'))
}

// handleOf reports whether a handle is one for a method. A posted response has no
// id of the original request beside its own.
func handleOf(t *state.Token, req *Request) bool {
	return (t.Away != 0) == byFollower(req.Method) &&
		(t.Away == 0 || req.Method == mcp.MethodAnswer || t.Request == idDigest(req.Original))
}

// begin makes a call one that its client follows. req is the original request.
func (l *lasting) begin(req *Request) {
	l.following = &following{away: (req.Away + time.Second - 1).Truncate(time.Second), progress: bytes.Clone(req.ProgressToken), level: req.LogLevel}
}

// lookAt is when it is looked again whether the client is to be told the handle;
// zero: never. mu is held.
func (r *callRound) lookAt() time.Time {
	at := r.handleAt()
	if r.follows {
		if soon := time.Now().Add(handlePoll); soon.Before(at) {
			return soon
		}
	}
	return at
}

// openFollowing is begin for a call whose handle another replica has made. mu need
// not be held: nobody else knows the call yet.
func (c *call) openFollowing(t *state.Token) {
	f := &following{away: time.Duration(t.Away) * time.Second}
	f.awayAt = time.Now().Add(f.away)
	c.lasting.following = f
	var o Request
	if t.Params == nil || o.restore(t) != nil {
		return
	}
	o.Upstream, o.Meta = t.Upstream, jsonrpc.Get(t.Params, "_meta")
	c.lasting.original, c.name = &o, string(o.Name)
	f.progress = jsonrpc.Get(o.Meta, mcp.MetaProgressToken)
	o.ProgressToken = f.progress
	level, _ := jsonrpc.Unquote(jsonrpc.Get(o.Meta, mcp.MetaLogLevel))
	f.level = mcp.ParseLevel(level)
	c.level = f.level
}

// mustFollow reports whether the client is to be told the handle now: there is
// something to tell, or nothing more to wait for. mu is held.
func (r *callRound) mustFollow() bool {
	c := r.call
	switch {
	case !r.follows || c.lasting != nil || c.x == nil || c.moving:
		return false
	case len(c.inputs) > 0 && (c.phase == running || c.phase == starting):
		return true
	case c.phase != running || c.resend || c.restart:
		return false
	case len(r.queue.waiting) > 0, c.task != nil:
		return true
	}
	return c.callID == 0 && c.x.Position().Event != "" || !time.Now().Before(r.handleAt())
}

// handleAt is when the client is told the handle at the latest. mu is held.
func (r *callRound) handleAt() time.Time {
	if r.follows && r.call.callID != 0 { // others need the name of the server's task to go on with it
		return r.lastAt.Add(4 * handleSoon)
	}
	return r.lastAt
}

// beginFollowing lets the round follow its call. mu is held.
func (c *call) beginFollowing(r *callRound) {
	if !c.endure(r.req) {
		c.terminate(c.engine.tooManyLast(true), "too many calls last")
		return
	}
	f := c.lasting.following
	f.round, f.asked = r, nil
	f.backlog.add(0, pending{}) // the handle
	for _, n := range r.queue.waiting {
		f.backlog.put(n, &c.engine.settings)
	}
	r.queue = queue{}
	c.handed = true
	c.remove(r)
	if c.inline == r {
		c.detach()
	}
	if len(c.inputs) > 0 {
		c.park(nil)
	}
	c.wake()
}

func (e *Engine) tooManyLast(ran bool) error {
	return &Refusal{Reason: ReasonOverload, RetryAfter: 10 * time.Second, MayHaveRun: ran,
		Detail: "too many calls last that outlive their clients' connections (dialects.tasks.max, dialects.tasks.max_per_principal)"}
}

// followBy lets a round follow the call from now on, in the place of the one that
// did. mu is held.
func (c *call) followBy(r *callRound) {
	f := c.lasting.following
	c.handIn(f.before)
	if f.round != nil && len(f.round.unsure) > 0 {
		f.before, f.handAt = f.round, time.Now().Add(handTime)
	}
	if f.round != nil {
		f.round.rouse()
	}
	f.round, f.awayAt = r, time.Time{}
	r.follows = true
	if f.before == nil {
		c.tellAgain()
	}
	if c.estate != nil && len(c.inputs) == 0 { // it came from another replica just now
		c.goOnAlone(r.req)
	}
	c.arm()
}

// handTime is how long the newest round waits for the one before to say what it
// has told: it is about to, or hangs.
const handTime = 250 * time.Millisecond

// unfollow is the end of a round that follows. mu is held.
func (c *call) unfollow(r *callRound) {
	if r == nil || c.lasting == nil || c.lasting.following == nil {
		return
	}
	f := c.lasting.following
	if f.before == r {
		c.handIn(r)
	}
	if f.round != r {
		return
	}
	f.round = nil
	if w := f.backlog.waiting; len(w) > 0 && w[0].isHandle() && c.phase != done { // the client has nothing to come back with
		c.engine.metrics.cancelled()
		c.terminate(&Refusal{Reason: ReasonCallLost, Detail: "the call was cancelled: its client closed its connection", MayHaveRun: true}, "the client closed its connection")
		return
	}
	c.handIn(f.before)
	c.giveBack(r)
	c.tellAgain()
	c.waitForClient()
	switch told := r.outcome != nil || r.err != nil; {
	case told: // it is kept for a client that asks twice
		c.engine.calls.prolong(c, time.Now().Add(c.engine.settings.OutcomeTTL))
	case c.phase == done:
		c.copyOutcome()
	}
	r.rouse()
}

// handIn is the end of waiting for what the round before has told. mu is held.
func (c *call) handIn(before *callRound) {
	if before == nil {
		return
	}
	f := c.lasting.following
	f.before = nil
	c.giveBack(before)
	c.tellAgain()
	if f.round != nil {
		f.round.rouse()
	}
}

// giveBack has told again what a round is not known to have told. mu is held.
func (c *call) giveBack(r *callRound) {
	f := c.lasting.following
	f.backlog.giveBack(slices.DeleteFunc(r.unsure, func(p pending) bool { return p.key != "" && !slices.Contains(f.asked, p.key) }), &c.engine.settings)
	r.unsure = nil
}

// tellAgain has open questions told again to whoever follows next. mu is held.
func (c *call) tellAgain() {
	f := c.lasting.following
	again := 0
	for _, key := range f.asked {
		if !slices.ContainsFunc(f.backlog.waiting, func(p pending) bool { return p.key == key }) {
			f.backlog.add(again, pending{key: key})
			again++
		}
	}
}

// waitForClient begins to wait for the client, or begins anew. mu is held.
func (c *call) waitForClient() {
	f := c.lasting.following
	if f.round != nil {
		return
	}
	f.awayAt = time.Now().Add(f.away)
	if c.phase == done {
		c.engine.calls.prolong(c, f.awayAt)
		return
	}
	c.arm()
}

// overdue ends a call whose client has been away for too long. mu is held.
func (c *call) overdue(now time.Time) bool {
	l := c.lasting
	if l == nil || l.following == nil || l.following.awayAt.IsZero() || now.Before(l.following.awayAt) {
		return false
	}
	if !c.engine.confirmed() { // it may be another replica's, where the client is
		l.following.awayAt = now.Add(leasePoll)
		return false
	}
	c.engine.metrics.expired()
	c.terminate(&Refusal{Reason: ReasonStateExpired, Detail: "the client did not come back within maxWait, and the request was cancelled", MayHaveRun: true}, "the client did not come back")
	return true
}

// followed returns what there is to tell to a client that follows. mu is held.
func (r *callRound) followed() (Event, error, bool) {
	c, e := r.call, r.call.engine
	f := c.lasting.following
	switch {
	case r.gone:
		return Event{}, ErrGone, true
	case f.round != r:
		return Event{}, ErrEnded, true
	case c.elsewhere && (r.remote || r.climbs):
		return Event{}, errAway, true
	case c.elsewhere:
		return Event{}, ErrEnded, true
	case f.before != nil && time.Now().Before(f.handAt):
		return Event{}, nil, false
	}
	c.handIn(f.before)
	for len(f.backlog.waiting) > 0 && len(r.unsure) < e.settings.MaxUndelivered {
		p := f.backlog.take()
		ev, ok := c.eventOf(p)
		if !ok {
			continue
		}
		r.unsure = append(r.unsure, p)
		return ev, nil, true
	}
	switch {
	case len(f.backlog.waiting) > 0:
	case c.phase != done && (e.letting.Load() && !r.remote || !r.hold.IsZero() && !time.Now().Before(r.hold)): // the client comes back, perhaps elsewhere
		return Event{}, ErrEnded, true
	case c.phase != done, r.remote && len(r.unsure) > 0: // or the outcome would end the round before the rest is known to be told
	case c.lasting.cancelled:
		return Event{}, ErrEnded, true
	case c.result == nil:
		r.err = final(c.err)
		return Event{}, r.err, true
	default:
		r.outcome = c.result
		return Event{Outcome: r.outcome}, nil, true
	}
	return Event{}, nil, false
}

// final is the error that a call has ended with: the same request about it never
// does better.
func final(err error) error {
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.RetryAfter == 0 {
		return err
	}
	end := *refusal
	end.RetryAfter = 0
	return &end
}

// eventOf makes an event of what is to be told, unless it is over. mu is held.
func (c *call) eventOf(p pending) (Event, bool) {
	switch {
	case p.note != nil:
		return Event{Notification: p.note}, true
	case p.lost > 0:
		return Event{Notification: dropped(p.lost)}, true
	case p.isHandle():
		return Event{Standing: c.begunLasting()}, true
	}
	for _, in := range c.inputs {
		if in.Key == p.key && c.phase != done {
			s := c.standing()
			s.Handle = c.shortHandle()
			return Event{Standing: &Outcome{Standing: s, Inputs: []Input{in.Input}}}, true
		}
	}
	return Event{}, false
}

// hear notes what the replica of the round's client says that this was told, until
// the stream ends.
func (r *callRound) hear(ctx context.Context, s Stream) {
	e := r.call.engine
	var plain []byte
	for last := false; ; {
		message, err := s.Recv(time.Now().Add(time.Hour))
		if errors.Is(err, ErrDeadline) {
			continue
		}
		if err != nil {
			r.letDown(ctx)
			return
		}
		if plain, err = e.ring.OpenMessage(plain[:0], message, contextRound); err != nil {
			continue // it will be told again
		}
		if form, rest, err := readForm(plain); err == nil && form == formTold {
			readFields(rest, func(f item) {
				switch f.tag {
				case 'n':
					r.confirm(f.number())
				case 'e':
					last = true
				}
			})
		}
		if last {
			return
		}
	}
}

// shortHandle finds the call for an answer, while it is here: it is part of the id
// of each question, and has nothing to go on with elsewhere. mu is held.
func (c *call) shortHandle() []byte {
	l := c.lasting
	if l.following.short == nil {
		l.following.short = c.engine.ring.Seal(nil, c.plainHandle(l))
	}
	return l.following.short
}

// toldAll notes that the client was told what the round was given, or nobody would
// ask for more. mu is held.
func (r *callRound) toldAll() {
	r.unsure = nil
	if c := r.call; c.lasting != nil && c.lasting.following != nil && c.lasting.following.before == r {
		c.handIn(r)
	}
}

// confirm notes how many events the client is known to have been told in all.
func (r *callRound) confirm(told uint64) {
	c := r.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if told <= r.sure {
		return
	}
	n := min(int(told-r.sure), len(r.unsure))
	r.sure, r.unsure = told, slices.Delete(r.unsure, 0, n)
	r.rouse()
}

// stir has the round look that follows. mu is held.
func (f *following) stir(c *call) {
	f.askAnew(c)
	if f.round != nil {
		f.round.rouse()
	}
}

// askAnew puts questions that are new into the backlog, so that they are told in
// their turn, and takes out those that are over. mu is held.
func (f *following) askAnew(c *call) {
	over := func(key string) bool {
		return c.phase == done || !slices.ContainsFunc(c.inputs, func(in *input) bool { return in.Key == key })
	}
	before := len(f.asked)
	if f.asked = slices.DeleteFunc(f.asked, over); len(f.asked) < before {
		f.backlog.waiting = slices.DeleteFunc(f.backlog.waiting, func(p pending) bool { return p.key != "" && over(p.key) })
	}
	if c.phase == done {
		return
	}
	for _, in := range c.inputs {
		if !slices.Contains(f.asked, in.Key) {
			f.asked = append(f.asked, in.Key)
			f.backlog.ask(in.Key)
		}
	}
}

// notify keeps a notification for a client that follows. mu is held.
func (f *following) notify(c *call, note []byte) { f.backlog.put(note, &c.engine.settings) }

// attendFollower serves a round about a call that its client follows. mu is held.
func (c *call) attendFollower(req *Request, r *callRound) error {
	if req.Method == mcp.MethodResume {
		c.followBy(r)
		return nil
	}
	if c.estate != nil && len(c.inputs) == 0 {
		c.goOnAlone(req)
	}
	c.waitForClient()
	switch req.Method {
	case mcp.MethodStatus:
		r.outcome = &Outcome{Method: req.Method, Standing: c.standing()}
		return nil
	case mcp.MethodCancel:
		c.cancelLasting(req)
	case mcp.MethodAnswer:
		if err := c.answered(req); err != nil {
			return err
		}
	}
	r.outcome = acknowledged(req.Method)
	return nil
}

// answered takes the response to a question. One that comes twice has been taken.
// mu is held.
func (c *call) answered(req *Request) error {
	if c.phase == done || c.brings(req.InputResponses) {
		return c.update(req)
	}
	for o := jsonrpc.Object(req.InputResponses); o.Next(); {
		if !c.gave(string(o.Name())) {
			return notAsked()
		}
	}
	return nil
}

func notAsked() error {
	return refuse(ReasonStateStale, "the request that this responds to is gone with the replica that sent it: resume the original request, and it comes again if it is open")
}

// gave reports whether a question of this replica had the key. mu is held.
func (c *call) gave(key string) bool {
	if slices.Contains(c.names, key) {
		return true
	}
	for i, kind := range [...]string{"elicitation-", "sampling-", "roots-"} {
		if rest, ok := strings.CutPrefix(key, kind); ok {
			n, err := strconv.Atoi(rest)
			return err == nil && n > c.lasting.behind && n <= c.asked[i]
		}
	}
	return false
}

// waiting is how much waits for a client that is away. mu is held.
func (f *following) waiting() (n int) {
	for _, p := range f.backlog.waiting {
		n += p.lost
		if p.lost == 0 {
			n++
		}
	}
	return n
}

// prolong keeps a done call's outcome for longer. call.mu is held.
func (r *registry) prolong(c *call, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.keptAt != nil {
		c.keptUntil = until
	}
}
