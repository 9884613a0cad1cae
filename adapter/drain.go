package adapter

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Leave makes the replica not ready, so that load balancers send new requests
// elsewhere. What comes all the same is still served.
func (e *Engine) Leave() {
	e.leaving.Store(true)
	e.announce()
}

// shortCall is how long calls may take to end by themselves before their
// clients are told to come back elsewhere.
const shortCall = time.Second

// Shutdown ends the listeners gracefully, lets running calls finish until ctx
// ends but for the Farewell, lets go of or ends what then is left, and deletes or
// hands over the upstream sessions.
//
// With other replicas to go on, calls that may be let go are soon: their
// clients are told to come back with a request state. As long as one may bring
// them here, this replica goes on answering for these and the parked ones, until
// ctx ends, or another has taken them over.
func (e *Engine) Shutdown(ctx context.Context) {
	if e.draining.Swap(true) {
		return
	}
	e.leaving.Store(true)
	if end, ok := ctx.Deadline(); ok {
		e.cutAt.Store(end.UnixNano())
	}
	e.mu.Lock()
	for l := range e.listeners {
		l.finish()
	}
	e.mu.Unlock()
	// Telling the servers of the end of their sessions has its time also when the
	// calls would take all of it.
	wait, tell := ctx, ctx
	if end, ok := ctx.Deadline(); ok {
		kept := min(farewell, time.Until(end)/4)
		var cancel, cancelTell context.CancelFunc
		wait, cancel = context.WithDeadline(ctx, end.Add(-kept))
		defer cancel()
		tell, cancelTell = context.WithDeadline(ctx, end.Add(-kept/2)) // of the ends of calls; the rest is the sessions'
		defer cancelTell()
	}
	for {
		if e.peered() {
			short, cancel := context.WithTimeout(wait, shortCall)
			e.rest(short, nil)
			cancel()
			if e.peered() { // it may have become known since that all stop at once
				e.letGo()
				break
			}
		}
		if !e.rest(wait, e.company) { // another replica may still begin
			break
		}
	}
	e.rest(wait, nil) // the calls of rounds that have just begun are not in the registry yet
	e.deserted.Store(wait.Err() == nil)
	e.announce()
	e.endRoutes()
	if e.peered() {
		e.releaseAll(wait) // another replica goes on with these when their clients come back
		e.bequest(wait)
		e.bequeathCopies(wait) // now, should the rest take all of the time
	}
	e.calls.wait(wait, e.expects)
	e.cutting.Store(true)
	expects := e.expects()
	for _, c := range e.calls.all() {
		c.settleUp(expects)
	}
	e.endReleased(expects && e.bequest(ctx))
	if expects {
		e.bequeathCopies(ctx)
	}
	e.rest(ctx, nil)                            // what the clients are told is on its way
	giveUp := context.AfterFunc(tell, e.cancel) // on servers that do not take what they are sent
	e.wg.Wait()
	giveUp()
	e.cancel()
	e.housekeeping.Wait()
	if errors.Is(ctx.Err(), context.Canceled) { // cut short, by who cannot wait: the servers are told all the same
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastWord)
		defer cancel()
	}
	e.closeServers(ctx)
	e.calls.close()
}

// cutsOff reports whether the time of Shutdown is over, when connections end
// whose clients wait.
func (e *Engine) cutsOff() bool {
	at := e.cutAt.Load()
	return at != 0 && time.Now().UnixNano() >= at
}

// peered reports whether another replica stays, or may live without this one
// hearing of it.
func (e *Engine) peered() bool {
	b := e.settings.Bus
	return b != nil && (len(b.Staying()) > 0 || !b.Confirmed())
}

// expects reports whether another replica may bring clients' rounds here, as far
// as is known: one that stops takes none any more, and may have some in progress.
func (e *Engine) expects() bool {
	b := e.settings.Bus
	return b != nil && (len(b.Serving()) > 0 || !b.Confirmed() || b.Missing())
}

// announce has the other replicas know how far this one is with stopping.
func (e *Engine) announce() {
	if b := e.settings.Bus; b != nil {
		b.Announce()
	}
}

// letGo ends the rounds of running calls that may be let go, now and from now
// on.
func (e *Engine) letGo() {
	e.letAt.Store(time.Now().UnixNano())
	e.letting.Store(true)
	for _, c := range e.calls.all() {
		c.mu.Lock()
		if c.inline != nil && c.x != nil {
			c.x.Wake()
		}
		c.wake()
		c.mu.Unlock()
	}
}

// letLong reports whether rounds that look for their calls have had their time: a
// replica that stops looks on for as long as it takes to find somebody who has it.
func (e *Engine) letLong() bool {
	return e.letting.Load() && time.Since(time.Unix(0, e.letAt.Load())) > 2*e.settings.Bus.Patience()
}

// mustLetGo reports whether the round's client is to be told to come back:
// because the round was held long enough (calls.max_hold), or because its
// connection ends with this replica. call.mu is held.
func (r *callRound) mustLetGo() bool {
	return r.call.mayLetGo() && r.heldEnough(time.Now()) && r.call.placed(time.Now())
}

// heldEnough reports whether the round is to be let go as soon as its call can do
// without it. call.mu is held.
func (r *callRound) heldEnough(now time.Time) bool {
	return !r.follows && (r.call.engine.letting.Load() && !r.remote || !r.hold.IsZero() && !now.Before(r.hold))
}

// mayLetGo reports whether the call can do without its rounds for a while. mu is
// held.
func (c *call) mayLetGo() bool {
	return c.phase == running && c.askable && c.x != nil && !c.moving && c.posting == 0
}

// settleUp ends what the call has to do with this replica. Where another one can
// go on with it, its clients are told to come back, and the server is told
// nothing that would end it there.
func (c *call) settleUp(peered bool) {
	c.mu.Lock()
	if peered && (c.estate != nil || c.moving) { // nothing of it is at the server that is this replica's
		c.surrender()
	}
	if peered && c.phase == running && c.askable && c.driver == byGoroutine && len(c.rounds) > 0 && c.transferable() {
		c.park(c.rounds[0])
	}
	handed := peered && (c.release() || c.releaseLasting()) || c.phase == done
	if peered && !handed && (c.phase == parked && c.lasting == nil && c.transferable() || c.handleRuns()) {
		c.leaveRun()
		handed = true
	}
	reason := &Refusal{Reason: ReasonShutdown, Detail: "this replica is stopping", MayHaveRun: true, RetryAfter: time.Second}
	if c.lasting != nil { // others tell it from a copy, and trying again is of no use
		reason = &Refusal{Reason: ReasonCallLost, Detail: "the replica that held the call has stopped, and no other could go on with it", MayHaveRun: true}
	}
	c.mu.Unlock()
	if !handed {
		c.end(reason, "the proxy is stopping")
	}
}

// leaveRun ends what a call has at the server, where it runs again elsewhere. A
// retry that still comes here is not told that the call is over. mu is held.
func (c *call) leaveRun() {
	if c.x.Position().Event == "" && c.task == nil && c.driver != byNobody && c.sure() {
		const why = "the call runs again"
		c.refuseInputs(why)
		c.x.Cancel(why)
	}
	c.surrender()
}

// transferable reports whether another replica can go on with the call. mu is
// held.
func (c *call) transferable() bool {
	return c.x != nil && !c.moving && (c.x.Position().Event != "" || c.task != nil || c.mayReplay(c.x.Session()))
}

// closeServers deletes the upstream sessions, or hands them over.
func (e *Engine) closeServers(ctx context.Context) {
	var closing sync.WaitGroup
	for _, u := range e.upstreams() {
		closing.Add(1)
		go func() {
			defer closing.Done()
			u.Server.Close(ctx)
		}()
	}
	closing.Wait()
}

// lastWord is how long telling the servers of the end of their sessions may take
// where Shutdown's context was cancelled before its time.
const lastWord = time.Second

// farewell is what Shutdown keeps of its time for telling the servers of the calls
// that are over, and then for deleting the upstream sessions, half of it each, unless
// a quarter of that time is less.
const farewell = 3 * time.Second

// Farewell is how much longer than the calls' grace period Shutdown's context has
// to last for them to have all of it.
func Farewell(grace time.Duration) time.Duration { return min(farewell, grace/3) }

// Report is what a replica tells of itself.
type Report struct {
	Leaving  bool `json:"leaving,omitempty"`
	Deserted bool `json:"deserted,omitempty"` // no client waits here, nor will one again
	Rounds   int  `json:"rounds"`             // in flight
	Calls    int  `json:"calls"`              // running or parked
	Parked   int  `json:"parked"`             // of them, waiting for their clients
	Released int  `json:"released"`           // parked ones whose streams were let go
	Sessions int  `json:"sessions"`           // with all upstreams
}

// inFlight is how many rounds of clients that are connected here are in
// progress.
func (e *Engine) inFlight() int { return int(e.rounds.Load() - e.remote.Load()) }

// Report returns the present figures.
func (e *Engine) Report() Report {
	r := Report{Leaving: e.leaving.Load(), Deserted: e.deserted.Load(), Rounds: e.inFlight()}
	r.Calls, r.Parked, r.Released = e.calls.count()
	for _, u := range e.upstreams() {
		r.Sessions += u.Server.Sessions()
	}
	return r
}
