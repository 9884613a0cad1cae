package adapter

import (
	"bytes"
	"errors"
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
// dies: one that stops leaves where the call stands (heirloom.go). A question is
// told in each round that follows, until it is answered.

// handleSoon is how long a call may take before the client is told its handle, at
// least once the server has the request: by then most servers have said where their
// stream can be gone on with, which the handle is to carry, or have answered.
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
	held     bool     // the client has the handle for certain: it came with it
	asked    []string // keys of open questions that are in the backlog, or were told
	progress []byte   // raw progress token of the original request, or nil
	level    mcp.Level
	short    []byte // see shortHandle
	still    bool   // nothing is told until it is known what was
}

// followable reports whether the client is to follow the call that a first
// request begins.
func (req *Request) followable() bool {
	return req.Away > 0 && req.RequestState == nil && mcp.MethodTraits(req.Method).Eligible
}

// begin makes a call one that its client follows. req is the original request.
func (l *lasting) begin(req *Request) {
	l.following = &following{away: (req.Away + time.Second - 1).Truncate(time.Second), progress: bytes.Clone(req.ProgressToken), level: req.LogLevel}
}

// lookAt is when it is looked again whether the client is to be told the handle;
// zero: never. mu is held.
func (r *callRound) lookAt() time.Time {
	at, now := r.handleAt(), time.Now()
	if soon := now.Add(handlePoll); r.follows && soon.Before(at) || !at.IsZero() && !now.Before(at) {
		return soon
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
	f.progress = bytes.Clone(jsonrpc.Get(o.Meta, mcp.MetaProgressToken))
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
	switch c := r.call; {
	case !r.follows:
	case c.callID != 0: // others need the name of the server's task to go on with it
		return r.lastAt.Add(4 * handleSoon)
	case c.sentAt.Add(handleSoon).After(r.lastAt):
		return c.sentAt.Add(handleSoon)
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
	c.engine.calls.stock.admit(&f.backlog, caller(&c.key))
	f.backlog.first(pending{}) // the handle
	for _, n := range r.queue.waiting {
		f.backlog.put(n, &c.engine.settings, true)
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

// secret reports whether nobody was told the handle, so that nobody else can have
// the call. mu is held.
func (f *following) secret() bool {
	p, ok := f.backlog.next()
	return ok && p.isHandle()
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
	// What is asked can be answered once the call goes on.
	held := c.phase != done && (f.still || c.moving && len(c.inputs) > 0)
	for !held && len(r.unsure) < e.settings.MaxUndelivered {
		p, ok := f.backlog.take()
		if !ok {
			break
		}
		ev, ok := c.eventOf(p)
		if !ok {
			continue
		}
		r.unsure = append(r.unsure, p)
		return ev, nil, true
	}
	switch {
	case !held && f.backlog.left() > 0:
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

// notify keeps a notification for a client that follows. mu is held.
func (f *following) notify(c *call, note []byte) {
	f.backlog.put(note, &c.engine.settings, f.round != nil)
}
