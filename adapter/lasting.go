package adapter

import (
	"bytes"
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// A call lasts when it outlives its client's connections (Request.Lasting). It is
// let go once, with a handle that stays the same for all of its life; by that it
// is looked at, answered, cancelled and watched, each in a round of its own that
// does not join it. Without a round it runs, parks when the server asks, and goes
// on when it is answered, as any other; it ends at the latest when its time is
// over. The handle is sealed as a request state is and finds the call on the same
// ladder.

// maxHandle bounds a handle's text: clients put it into a header field.
const maxHandle = 512

// lasting is what a call has beside other calls once it lasts. It is guarded by
// call.mu.
type lasting struct {
	handle    []byte        // as the client has it
	round     uint32        // the call's when it was let go
	born      time.Time     // when that was
	until     time.Time     // when it is forgotten, whatever has become of it
	ttl       time.Duration // what the client was told of that
	changed   time.Time     // when its standing last changed
	mark      string        // tells standings apart
	cancelled bool
	original  *Request     // the client does not send it again; nil: too large to be kept
	watchers  []*callRound // told of each change
	following *following   // where its client follows it; else nil
	behind    int          // where numbers of keys begin, past all that another replica has given; zero: this one has given them
}

// Standing is how a call stands that lasts.
type Standing struct {
	Handle        []byte // text that is safe in a JSON string and in a header field
	Status        mcp.TaskStatus
	Message       string // the server's own words, or ""
	Born, Changed time.Time
	TTL           time.Duration // from Born
	Away          time.Duration // how long the client may be away that follows it; zero: none does
	Waiting       int           // how much it is yet to be told
	// Failure is why the call has failed or was cancelled, where the server did not
	// say so itself.
	Failure error
}

// lastsBy reports whether the round is to be let go because its call lasts from
// now on. mu is held.
func (r *callRound) lastsBy(now time.Time) bool {
	return r.mayLast() && (r.leaves || r.longEnough(now) && r.call.placed(now))
}

// mayLast reports whether nothing keeps the round's call from lasting. mu is held.
func (r *callRound) mayLast() bool {
	c := r.call
	return c.phase == running && c.x != nil && !c.moving && !c.resend && (len(c.inputs) == 0 || r.leaves)
}

// placed reports whether the server has said where another replica can go on with
// the call, which the handle is to carry, or has had its time for that. mu is held.
func (c *call) placed(now time.Time) bool {
	return c.lasting != nil || c.task != nil || c.x.Position().Event != "" || !now.Before(c.sentAt.Add(handleSoon))
}

// longEnough reports whether the server has made a task of the round's call, or it
// was waited for long enough. mu is held.
func (r *callRound) longEnough(now time.Time) bool {
	c := r.call
	if r.follows || r.lastAt.IsZero() {
		return false
	}
	if c.callID != 0 && c.lasting == nil { // by the name of the server's task others can go on with it
		return c.task != nil
	}
	return c.lasting != nil || !now.Before(r.lastAt)
}

// lastBefore lets go of the rounds that are to be, before anything else comes from
// the server that they would be told instead. mu is held.
func (c *call) lastBefore() {
	now := time.Now()
	for _, r := range slices.Clone(c.rounds) {
		switch {
		case c.inline == r, c.phase == starting: // it drives the exchange, or does not know yet that the request was sent
			r.leaves = r.leaves || len(c.inputs) == 0 && r.longEnough(now)
		case r.mayLast() && (r.leaves || r.longEnough(now)):
			c.last(r)
		}
	}
}

// last lets go of the round, whose call lasts from now on. Where there are too
// many of them the round goes on waiting. mu is held.
func (c *call) last(r *callRound) {
	r.leaves = false
	if c.lasting == nil && !c.endure(r.req) {
		r.lastAt = time.Time{}
		return
	}
	r.outcome = c.begunLasting()
	c.handed = true // other replicas may go on with it from now on
	c.remove(r)
	if c.inline == r {
		c.detach()
	}
	c.parkAlone()
	r.rouse()
}

// endure makes a call one that lasts. It reports false where it cannot be one.
func (c *call) endure(req *Request) bool {
	e := c.engine
	if c.round == 0 {
		c.id, c.since = newCallID(), sinceNow()
		c.digest = requestDigest(req)
		c.name = string(req.Name)
	}
	now := time.Now()
	l := &lasting{round: c.round, born: now, changed: now, until: now.Add(req.Lasting), ttl: req.Lasting}
	if req.Away > 0 {
		c.digest = idDigest(req.ID)
		l.begin(req)
	}
	if l.handle = c.sealHandle(l, req); l.handle == nil || !e.calls.endure(c) {
		return false
	}
	if len(req.Params) <= e.settings.MaxState {
		l.original = original(req)
	}
	c.lasting = l
	l.mark = c.mark()
	c.arm()
	return true
}

// original is a request without what differs from round to round, in memory of
// its own.
func original(req *Request) *Request {
	o := &Request{Upstream: req.Upstream, Method: req.Method, NullArgs: req.NullArgs}
	o.Params, o.Name, o.Args, o.Meta = bytes.Clone(req.Params), bytes.Clone(req.Name), bytes.Clone(req.Args), bytes.Clone(req.Meta)
	o.ProgressToken = bytes.Clone(req.ProgressToken)
	return o
}

// again is the original request as if the client had sent it with this one.
func (l *lasting) again(req *Request) *Request {
	again := new(Request)
	if l.original != nil {
		*again = *l.original
	}
	if req != nil {
		again.InputResponses, again.Wrapped, again.Credentials = req.InputResponses, req.Wrapped, req.Credentials
	}
	return again
}

// sealHandle makes the handle. Beside what finds the call it has where the call
// stands upstream, before any question that is open, so that this comes again, and
// for a client that follows it the original request, as far as there is room: with
// that another replica can go on.
func (c *call) sealHandle(l *lasting, req *Request) []byte {
	limit := maxHandle
	if l.following != nil {
		limit = c.engine.settings.MaxState
	}
	plain := c.plainHandle(l)
	t := *plain
	if at := c.x.Position(); at.Event != "" || c.task != nil {
		t.Position = state.Position(at)
		if c.task != nil {
			t.Task, t.Position.Event = string(c.task.id), "" // the task brings its questions itself
		} else if len(c.inputs) > 0 {
			t.Position.Event = c.inputs[0].before
		}
		if t.Position.Event == "" && t.Task == "" { // nowhere
			t.Position = state.Position{}
		}
	}
	if l.following != nil && !c.engine.settings.OwnKey {
		whole := t
		whole.Method, whole.Params = req.Method, req.Params
		if whole.Valid() {
			if text := c.engine.ring.Seal(nil, &whole); len(text) <= limit {
				return text
			}
		}
	}
	if t.Valid() {
		if text := c.engine.ring.Seal(nil, &t); len(text) <= limit {
			return text
		}
	}
	if text := c.engine.ring.Seal(nil, plain); len(text) <= limit {
		return text
	}
	return nil
}

// plainHandle is what finds the call. mu is held.
func (c *call) plainHandle(l *lasting) *state.Token {
	t := &state.Token{
		Owner: c.engine.settings.Replica, Call: c.id, Upstream: c.up.Name, Endpoint: c.up.id, Principal: bearer(&c.key), Request: c.digest,
		Born: l.born.UnixMilli(), Expires: l.until.Unix() + 1, Caps: c.caps().Bits(),
	}
	if l.following != nil {
		t.Away = uint32(l.following.away / time.Second)
	}
	return t
}

// ttlOf is how long a call lasts, as its handle says: to the second.
func ttlOf(t *state.Token) time.Duration {
	return time.Duration(t.Expires-1-t.Born/1000) * time.Second
}

// openHandle reads the parts of a token that is a handle. mu need not be held:
// nobody else knows the call yet.
func (c *call) openHandle(handle []byte, t *state.Token) {
	born := time.UnixMilli(t.Born)
	c.lasting = &lasting{handle: bytes.Clone(handle), born: born, changed: time.Now(), until: time.Unix(t.Expires, 0), ttl: ttlOf(t)}
	c.lasting.mark = c.mark()
	c.handed = true
	// Nobody knows how many questions there were: fewer than milliseconds.
	c.lasting.behind = int(max(time.Since(born)/time.Millisecond, 1))
	for i := range c.asked {
		c.asked[i] = c.lasting.behind
	}
	if t.Away > 0 {
		c.openFollowing(t)
	}
}

// status is how a lasting call stands. mu is held.
func (c *call) status() mcp.TaskStatus {
	switch {
	case c.phase != done && len(c.inputs) > 0:
		return mcp.TaskInputRequired
	case c.phase != done:
		return mcp.TaskWorking
	case c.lasting.cancelled:
		return mcp.TaskCancelled
	case c.result != nil && c.result.Error == nil:
		return mcp.TaskCompleted
	}
	return mcp.TaskFailed
}

// mark tells one standing from another. mu is held.
func (c *call) mark() string {
	mark := append(make([]byte, 0, 32), byte('0'+c.status()))
	if c.phase != done {
		for _, in := range c.inputs {
			mark = append(append(mark, 0), in.Key...)
		}
	}
	return string(mark)
}

// noteChange has watchers look where the call's standing has changed. mu is held.
func (c *call) noteChange() {
	l := c.lasting
	if l == nil || c.elsewhere {
		return
	}
	if mark := c.mark(); mark != l.mark {
		l.mark, l.changed = mark, time.Now()
	}
}

// standing must be called with mu held.
func (c *call) standing() *Standing {
	l := c.lasting
	s := &Standing{Handle: l.handle, Status: c.status(), Born: l.born, Changed: l.changed, TTL: l.ttl}
	if l.following != nil {
		s.Away, s.Waiting = l.following.away, l.following.backlog.left()
	}
	switch {
	case s.Status == mcp.TaskCancelled, s.Status == mcp.TaskFailed && c.result == nil:
		s.Failure = c.err
	case s.Status == mcp.TaskWorking && c.task != nil:
		s.Message = c.task.message
	}
	return s
}

// begunLasting is the outcome of a round whose call lasts. mu is held.
func (c *call) begunLasting() *Outcome {
	s := c.standing()
	s.Status, s.Changed, s.Failure = mcp.TaskWorking, s.Born, nil
	o := &Outcome{Method: c.method, State: s.Handle, Standing: s}
	if c.x != nil {
		o.ServerInfo = c.x.Session().Info().ServerInfo
	}
	return o
}

// look is how the call stands, with what there is to it. mu is held.
func (c *call) look(method string) *Outcome {
	o := &Outcome{Method: method, Standing: c.standing()}
	switch o.Standing.Status {
	case mcp.TaskInputRequired:
		o.Inputs = make([]Input, len(c.inputs))
		for i, in := range c.inputs {
			o.Inputs[i] = in.Input
		}
	case mcp.TaskCompleted:
		o.Result = c.result.Result
	case mcp.TaskFailed:
		if c.result != nil {
			o.Error = c.result.Error
		}
	}
	switch {
	case c.result != nil:
		o.ServerInfo = c.result.ServerInfo
	case c.x != nil:
		o.ServerInfo = c.x.Session().Info().ServerInfo
	}
	return o
}

// lostStanding is how a call stands of which nothing is left but its handle.
func lostStanding(method string, handle []byte, t *state.Token, why *Refusal) *Outcome {
	born := time.UnixMilli(t.Born)
	return &Outcome{Method: method, Standing: &Standing{
		Handle: handle, Status: mcp.TaskFailed, Born: born, Changed: born, TTL: ttlOf(t), Away: time.Duration(t.Away) * time.Second, Failure: why,
	}}
}

// acknowledged is the empty result of what only brings something.
func acknowledged(method string) *Outcome { return &Outcome{Method: method, Result: []byte("{}")} }

// endure counts a call that lasts, and makes it findable. It reports false at
// the limit.
func (r *registry) endure(c *call) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lasting >= r.settings.MaxLasting || r.lastingOf[caller(&c.key)] >= r.settings.MaxLastingPerPrincipal {
		return false
	}
	r.endureLocked(c)
	return true
}

// mayEndure reports whether a call may be one that lasts.
func (r *registry) mayEndure(k *legacy.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lasting < r.settings.MaxLasting && r.lastingOf[caller(k)] < r.settings.MaxLastingPerPrincipal
}

// endureLocked must be called with mu held.
func (r *registry) endureLocked(c *call) {
	r.lasting++
	r.lastingOf[caller(&c.key)]++
	r.named[c.id] = c
	r.live[c] = struct{}{}
}

// relent undoes endure's counting.
func (r *registry) relent(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.relentLocked(c)
}

// relentLocked must be called with mu held.
func (r *registry) relentLocked(c *call) {
	r.lasting--
	if r.lastingOf[caller(&c.key)]--; r.lastingOf[caller(&c.key)] == 0 {
		delete(r.lastingOf, caller(&c.key))
	}
}

// handleRuns reports whether another replica can run the call again from its handle.
// mu is held.
func (c *call) handleRuns() bool {
	if c.lasting == nil || c.phase != parked && c.phase != running || c.x == nil || c.moving || c.estate != nil || !c.mayReplay(c.x.Session()) {
		return false
	}
	t, err := c.engine.ring.Open(c.lasting.handle, c.engine.settings.MaxState)
	return err == nil && t.Method != ""
}

// handleLeads reports whether another replica can go on with the call from its
// handle alone. mu is held.
func (c *call) handleLeads() bool {
	t, err := c.engine.ring.Open(c.lasting.handle, c.engine.settings.MaxState)
	return err == nil && (t.Task != "" || t.Position.Event != "")
}
