package adapter

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// callRound is one HTTP request of a client at a call. Its fields are guarded
// by call.mu.
type callRound struct {
	call     *call
	req      *Request // valid until Close
	progress []byte   // raw progress token, or nil
	level    mcp.Level

	queue    queue
	outcome  *Outcome
	own      Outcome // where the outcome is that only this round sees
	err      error
	gone     bool
	hungUp   bool      // its client closed the connection, or is not heard of any more
	delivery *delivery // to do at the first Next
	served   Served
	began    time.Time                  // with a request state
	remote   bool                       // its client is at another replica
	routed   bool                       // a routeRound has it, and looks for another way itself
	moved    atomic.Pointer[routeRound] // that goes on with the request in another way; nil: none
	climbs   bool                       // whoever drives it looks for its call elsewhere when it leaves
	hold     time.Time                  // when the client is told to come back; zero: never
	lastAt   time.Time                  // when it is told the handle of a call that lasts; zero: never
	leaves   bool                       // it is let go although something was asked since
	watching bool                       // it hears of each change of a lasting call
	awaits   bool                       // of them, only that it does not work any more, which is its outcome
	told     string                     // of them, the last
	wake     chan struct{}              // has room for one; nil until somebody waits on it

	follows bool      // its client follows the call, once that lasts
	unsure  []pending // what it was given since, and is not known to have told
	sure    uint64    // how many events are
}

// Next implements Round.
func (r *callRound) Next(until time.Time) (Event, error) {
	if m := r.moved.Load(); m != nil {
		return m.Next(until)
	}
	ev, err := r.next(until)
	if (err != nil && err != ErrDeadline || ev.Outcome != nil && ev.Outcome.unfit) && r.move(ev, err) {
		return r.moved.Load().Next(until)
	}
	return ev, err
}

// move lets a routeRound go on with a request that the server does not take any
// more, because it no longer speaks a legacy revision; or that has lost its
// server, and may run again on another endpoint.
func (r *callRound) move(ev Event, err error) bool {
	c := r.call
	if err != nil && unreached(err) {
		c.up.failed(c.engine.settings.DownTTL) // what comes back may be another server
	}
	retry := r.req.RequestState != nil
	c.mu.Lock()
	lasts := c.lasting != nil
	c.mu.Unlock()
	if lasts || byHandle(r.req.Method) || r.remote || r.routed && !retry || errors.Is(err, ErrGone) {
		return false
	}
	m := c.engine.newRoute(c.up.group, r.req, c.key.Caps)
	m.owner = r
	ok := false
	if retry {
		if ok = err != nil && m.runAgain(c, err); ok {
			c.engine.metrics.replayed()
			c.mu.Lock()
			r.served = ServedReplayed
			c.mu.Unlock()
		}
	} else if err == nil || refusedLegacy(err) {
		ok = m.suspect(c.up, legacy.EraLegacy, ev, err)
	}
	if !ok {
		m.cancel()
		return false
	}
	e := c.engine
	e.mu.Lock()
	e.routes[m] = struct{}{} // for Shutdown; the round itself is counted
	e.mu.Unlock()
	m.set()
	r.moved.Store(m)
	c.mu.Lock()
	gone := r.gone
	c.mu.Unlock()
	if gone {
		m.Gone()
	}
	return true
}

func (r *callRound) next(until time.Time) (Event, error) {
	c := r.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.follows && !r.remote {
		r.toldAll()
	}
	for {
		if (r.req.RequestState != nil || r.follows && c.lasting != nil && !c.lasting.following.secret()) && !r.gone && !c.engine.confirmed() {
			// Another replica may have the call by now: nothing is said for it here.
			soon := time.Now().Add(leasePoll)
			if soon.After(until) {
				soon = until
			}
			if r.sleep(soon); !time.Now().Before(until) {
				return Event{}, ErrDeadline
			}
			continue
		}
		if r.delivery != nil {
			r.deliver()
			continue
		}
		if r.mustFollow() {
			c.beginFollowing(r)
			continue
		}
		if ev, err, ok := r.ready(); ok {
			return ev, err
		}
		if r.watching || r.follows && c.lasting != nil {
			wait := until
			if f := c.lasting.following; r.follows && f.before != nil && f.handAt.Before(wait) {
				wait = f.handAt
			}
			if !r.hold.IsZero() && r.hold.Before(wait) && r.follows && c.phase != done {
				wait = r.hold
			}
			if !r.sleep(wait) && !time.Now().Before(until) {
				return Event{}, ErrDeadline
			}
			continue
		}
		if c.stranded() {
			r.revive()
			continue
		}
		if c.resend && c.phase == running {
			if c.inline == r {
				c.detach() // its exchange has ended, which is finished there
			}
			if len(c.inputs) == 0 { // what was to be visited has been
				c.sendAnew(r.req)
			}
		}
		if r.lastsBy(time.Now()) {
			c.last(r)
			continue
		}
		if r.mustLetGo() {
			c.park(r)
			continue
		}
		wait := until
		if at := r.lookAt(); !at.IsZero() && at.Before(wait) && c.phase == running && len(c.inputs) == 0 && (c.callID == 0 || r.follows) && !c.moving && !c.resend && c.x != nil {
			wait = at
		}
		if c.mayLetGo() && !r.follows { // else it is woken when it may
			if now := time.Now(); r.heldEnough(now) {
				wait = earlier(wait, now.Add(handlePoll)) // not placed yet
			} else if !r.hold.IsZero() {
				wait = earlier(wait, r.hold)
			}
		}
		if len(c.inputs) > 0 && c.phase != parked && !c.moving && (!r.leaves || c.phase == running) {
			if !time.Now().Before(c.parkAt) {
				c.park(r)
				continue
			}
			if c.parkAt.Before(wait) {
				wait = c.parkAt
			}
		}
		switch {
		case c.inline != r:
			if !r.sleep(wait) && !wait.Before(until) {
				return Event{}, ErrDeadline
			}
		case c.restart:
			c.detach()
		default:
			if r.step(wait); r.mustFollow() {
				continue
			}
			if ev, err, ok := r.ready(); ok { // it takes what it returns off the queue
				return ev, err
			}
			if c.inline == r && !time.Now().Before(until) { // also while a question gathers its siblings
				c.detach()
				return Event{}, ErrDeadline
			}
		}
	}
}

// ready returns what there is to tell. Notifications come before the outcome.
func (r *callRound) ready() (Event, error, bool) {
	c := r.call
	switch {
	case r.follows && c.lasting != nil:
		return r.followed()
	case r.gone:
		return Event{}, ErrGone, true
	case r.awaits && !c.elsewhere && c.status() != mcp.TaskWorking:
		r.outcome = c.look(r.req.Method)
		return Event{Outcome: r.outcome}, nil, true
	case r.awaits && !c.elsewhere:
	case r.watching && !c.elsewhere && r.told != c.lasting.mark:
		r.told = c.lasting.mark
		return Event{Standing: c.look("")}, nil, true
	case r.watching && !c.elsewhere && c.phase == done:
		return Event{Outcome: acknowledged(r.req.Method)}, nil, true
	case len(r.queue.waiting) > 0:
		if c.inline == r && c.phase == running && !c.restart {
			c.detach() // a call that streams lasts: its time limits and Shutdown must know of it
		}
		return Event{Notification: r.queue.take()}, nil, true
	case r.err != nil:
		return Event{}, r.err, true
	case r.outcome != nil:
		c.handed = c.handed || r.outcome.State != nil
		return Event{Outcome: r.outcome}, nil, true
	case c.phase == done && c.result != nil:
		r.outcome = c.result
		return Event{Outcome: r.outcome}, nil, true
	case c.phase == done && !c.restart && c.elsewhere && !r.remote && !r.climbs:
		return Event{}, busDown(), true
	case c.phase == done && !c.restart:
		return Event{}, c.err, true
	}
	return Event{}, nil, false
}

// step drives the exchange on this goroutine. mu is held, and free meanwhile.
func (r *callRound) step(until time.Time) {
	c := r.call
	x := c.x
	err := func() error {
		c.mu.Unlock()
		defer c.mu.Lock() // also in a panic, which the proxy recovers from
		return x.Step(until)
	}()
	if errors.Is(err, legacy.ErrNeedsRun) && c.inline == r && c.phase != done {
		c.detach()
	}
}

// sleep waits for a wake, at most until then. mu is held, and free meanwhile.
func (r *callRound) sleep(until time.Time) (woken bool) {
	if r.wake == nil {
		r.wake = make(chan struct{}, 1)
	}
	wake := r.wake
	r.call.mu.Unlock()
	_, woken = wait.For(wake, until)
	r.call.mu.Lock()
	return woken
}

// wake makes the rounds look again. mu is held.
func (c *call) wake() {
	for _, r := range c.rounds {
		r.rouse()
	}
	if c.lasting != nil {
		c.noteChange()
		for _, r := range c.lasting.watchers {
			r.rouse()
		}
		if f := c.lasting.following; f != nil {
			f.stir(c)
		}
	}
}

func (r *callRound) rouse() {
	if r.wake == nil {
		if c := r.call; c.inline == r {
			return // its own goroutine is in Step, or about to look
		}
		r.wake = make(chan struct{}, 1)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Gone implements Round.
func (r *callRound) Gone() {
	c := r.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.gone {
		return
	}
	r.gone, r.hungUp = true, true
	c.leave(r, "the client closed its connection")
	c.unfollow(r)
	r.rouse()
	if m := r.moved.Load(); m != nil {
		m.Gone()
	}
}

// leave takes a round off its call. The last one that waits cancels the call:
// spec 2026-07-28, basic/patterns/cancellation. mu is held.
func (c *call) leave(r *callRound, why string) {
	if c.remove(r) && len(c.rounds) == 0 && c.lasting == nil && (c.phase == starting || c.phase == running) {
		if r.req.Stays && c.stay() {
			return
		}
		c.engine.metrics.cancelled()
		// Of a call that had parked, this is what a client hears that comes back.
		c.terminate(&Refusal{Reason: ReasonCallLost, Detail: "the call was cancelled: " + why, MayHaveRun: true}, why)
	}
}

// remove takes a round off its call. It reports whether it was there. mu is
// held.
func (c *call) remove(r *callRound) bool {
	i := slices.Index(c.rounds, r)
	if i < 0 {
		return false
	}
	c.rounds = slices.Delete(c.rounds, i, i+1)
	return true
}

// Served implements Round.
func (r *callRound) Served() Served {
	r.call.mu.Lock()
	defer r.call.mu.Unlock()
	return r.served
}

// CallID implements Round.
func (r *callRound) CallID() [16]byte {
	r.call.mu.Lock()
	defer r.call.mu.Unlock()
	return r.call.id
}

// Close implements Round.
func (r *callRound) Close() {
	if m := r.moved.Load(); m != nil {
		m.Close()
	}
	c := r.call
	c.mu.Lock()
	if d := r.delivery; d != nil && c.phase != done { // what the client sent counts all the same
		r.delivery = nil
		c.goDeliver(d, nil)
	}
	c.leave(r, "the client's request has ended")
	r.gone = true
	c.unfollow(r)
	if r.watching {
		c.lasting.watchers = slices.DeleteFunc(c.lasting.watchers, func(w *callRound) bool { return w == r })
	}
	var finish *legacy.Exchange
	if c.inline == r {
		finish = c.x
		c.inline, c.driver = nil, byGoroutine // nobody else may finish it
	}
	c.mu.Unlock()
	if finish != nil {
		finish.Finish()
	}
	if r.remote {
		c.engine.remote.Add(-1)
	}
	if !r.remote || r.served != ServedLocal {
		c.engine.metrics.round(r.served, r.began)
	}
	c.engine.leave()
}
