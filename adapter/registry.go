package adapter

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"
)

// registry knows the calls that a request state can name, and those that have
// goroutines of their own. A call that is answered at once is never in it.
type registry struct {
	settings Settings

	mu        sync.Mutex
	named     map[[16]byte]*call // parked at least once, until forgotten
	live      map[*call]struct{} // not done
	parked    int
	perCaller map[principal]int
	lasting   int // calls that last, and are not done
	lastingOf map[principal]int
	kept      list.List // done calls whose outcomes are kept, oldest first
	owed      int       // of them, those that no round has been told yet
	keptBytes int64
	shelfOf   map[principal]*shelf // of the kept ones
	shelves   shelves
	late      []*call       // dropped, and to be forgotten once they are not busy
	idle      chan struct{} // closed when no running call is left, or nil
	whether   func() bool   // what wait asks, without mu: no parked one either, and every outcome told?
	waitsAll  bool          // its last answer

	stock stock // of what the clients of lasting calls are yet to be told

	released         map[[16]byte]*record
	releasedQueue    releasedQueue
	lapsing          int                   // released calls that are over, and of which the server is being told
	away, awayBefore map[[16]byte]struct{} // calls that go on elsewhere: the newer and the older ones
}

func (r *registry) init(s Settings) {
	r.settings = s
	r.named = make(map[[16]byte]*call)
	r.live = make(map[*call]struct{})
	r.perCaller = make(map[principal]int)
	r.lastingOf = make(map[principal]int)
	r.shelfOf = make(map[principal]*shelf)
	r.released = make(map[[16]byte]*record)
	r.away = make(map[[16]byte]struct{})
	r.stock.init(s.MaxUndeliveredOverall)
}

// watch remembers a call that lasts, for Shutdown.
func (r *registry) watch(c *call) {
	r.mu.Lock()
	r.live[c] = struct{}{}
	r.mu.Unlock()
}

// park counts a call that is about to park, and makes it findable. The error
// says which limit is reached.
func (r *registry) park(c *call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.parkLocked(c)
}

// adopt is park for a call that was another replica's, unless there is a call
// of its id already, which it returns.
func (r *registry) adopt(c *call) (other *call, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.named[c.id]; other != nil {
		return other, nil
	}
	if err := r.parkLocked(c); err != nil {
		return nil, err
	}
	if c.lasting != nil {
		r.endureLocked(c)
		r.stockUp(c)
	}
	if rec := r.released[c.id]; rec != nil { // it came from elsewhere just now
		r.unput(c.id, rec)
		rec.session.Return(false)
	}
	return nil, nil
}

// parkLocked must be called with mu held.
func (r *registry) parkLocked(c *call) error {
	switch {
	case r.parked >= r.settings.MaxParked:
		return &Refusal{Reason: ReasonOverload, Detail: "too many calls wait for their clients (calls.max_parked)", RetryAfter: 10 * time.Second, MayHaveRun: true}
	case r.perCaller[caller(&c.key)] >= r.settings.MaxParkedPerPrincipal:
		return &Refusal{Reason: ReasonQuota, Detail: "too many calls of this caller wait for answers (calls.max_parked_per_principal)", RetryAfter: 10 * time.Second, MayHaveRun: true}
	}
	r.parked++
	r.perCaller[caller(&c.key)]++
	r.named[c.id] = c
	r.live[c] = struct{}{}
	r.check()
	return nil
}

// unpark undoes park's counting; the call stays findable.
func (r *registry) unpark(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unparkLocked(c)
}

// unparkLocked must be called with mu held.
func (r *registry) unparkLocked(c *call) {
	r.parked--
	if r.perCaller[caller(&c.key)]--; r.perCaller[caller(&c.key)] == 0 {
		delete(r.perCaller, caller(&c.key))
	}
}

func (r *registry) get(id [16]byte) *call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.named[id]
}

// leave takes a call that is done off the live ones.
func (r *registry) leave(c *call) {
	r.mu.Lock()
	delete(r.live, c)
	r.check()
	r.mu.Unlock()
}

// keep holds a done call's outcome for retries that come twice, and lets the
// oldest go of the callers who have the most where they are too many bytes. c.mu is
// held.
func (r *registry) keep(c *call, bytes int64) {
	r.mu.Lock()
	c.keptBytes, c.keptUntil = bytes, c.until
	c.keptAt = r.kept.PushBack(c)
	if c.owed = c.result != nil && c.lasting == nil && !slices.ContainsFunc(c.rounds, (*callRound).expectant); c.owed {
		r.owed++
	}
	r.keptBytes += bytes
	r.shelve(c)
	var old []*call
	for r.keptBytes > r.settings.MaxOutcomeBytes && r.kept.Len() > 0 {
		o := r.shelves[0].items.Front().Value.(*call)
		old = append(old, o)
		r.drop(o)
	}
	r.mu.Unlock()
	for _, o := range old {
		switch {
		case o == c: // its rounds are told the outcome all the same
		case o.mu.TryLock():
			o.forget()
			o.mu.Unlock()
		default: // no waiting for a lock under a lock
			r.mu.Lock()
			r.late = append(r.late, o)
			r.mu.Unlock()
		}
	}
}

// keeps reports whether the outcome of a call that is done is kept.
func (r *registry) keeps(c *call) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return c.keptAt != nil
}

// forgetLate forgets the calls that were busy when their outcomes gave way.
func (r *registry) forgetLate() {
	r.mu.Lock()
	late := r.late
	r.late = nil
	r.mu.Unlock()
	for _, c := range late {
		c.mu.Lock()
		c.forget()
		c.mu.Unlock()
	}
}

// drop must be called with mu held.
func (r *registry) drop(c *call) {
	if c.keptAt != nil {
		r.kept.Remove(c.keptAt)
		r.unshelve(c)
		r.keptBytes -= c.keptBytes
		c.keptAt = nil
		r.toldLocked(c)
	}
	delete(r.named, c.id)
}

// expectant reports whether the round is to be told the call's outcome: one that
// was let go has an answer already. call.mu is held.
func (r *callRound) expectant() bool { return !r.gone && r.outcome == nil && r.err == nil }

// told: a round has been told the outcome of a call that is kept.
func (r *registry) told(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.toldLocked(c)
	r.check()
}

// toldLocked must be called with mu held.
func (r *registry) toldLocked(c *call) {
	if c.owed {
		c.owed = false
		r.owed--
	}
}

// expire forgets the outcomes that have been kept long enough, once a second,
// until ctx ends. A timer for each would cost more than the outcomes.
func (e *Engine) expire() {
	r := &e.calls
	tick := time.NewTicker(min(time.Second, max(r.settings.OutcomeTTL/4, time.Millisecond)))
	defer tick.Stop()
	var live []string
	for {
		select {
		case <-e.ctx.Done():
			return
		case now := <-tick.C:
			for _, c := range r.over(now) {
				r.forget(c)
			}
			r.forgetLate()
			e.expireReleased(now)
			live = e.copyAnew(live)
		}
	}
}

func (r *registry) over(now time.Time) []*call {
	r.mu.Lock()
	defer r.mu.Unlock()
	var over []*call
	for e := r.kept.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*call); now.After(c.keptUntil) {
			over = append(over, c)
		}
	}
	return over
}

// forget drops a call whose outcome has been kept long enough.
func (r *registry) forget(c *call) {
	r.mu.Lock()
	r.drop(c)
	r.mu.Unlock()
	c.mu.Lock()
	c.forget()
	c.mu.Unlock()
}

func (r *registry) all() []*call {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := make([]*call, 0, len(r.live))
	for c := range r.live {
		calls = append(calls, c)
	}
	return calls
}

func (r *registry) count() (calls, parked, released int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.live), r.parked, len(r.released)
}

func (r *registry) parkedCalls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.parked
}

// releasedCalls is how many count against calls.max_released.
func (r *registry) releasedCalls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.released) + r.lapsing
}

// check must be called with mu held.
func (r *registry) check() {
	if r.idle != nil && r.resting() {
		close(r.idle)
		r.idle = nil
	}
}

// resting must be called with mu held.
func (r *registry) resting() bool {
	if r.waitsAll {
		return len(r.live) == 0 && r.owed == 0
	}
	return len(r.live) <= r.parked
}

// look has wait look again.
func (r *registry) look() {
	r.mu.Lock()
	all, waiting := r.whether, r.idle != nil
	r.mu.Unlock()
	if !waiting {
		return
	}
	waitsAll := all != nil && all()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waitsAll = waitsAll
	r.check()
}

// waitPoll is how often wait looks whether all says something else.
const waitPoll = 50 * time.Millisecond

// wait returns once no call runs any more, or ctx ends. While all says so, it
// waits for the parked ones and for outcomes that nobody was told, too. all asks the
// bus, and is asked without mu, which every call needs.
func (r *registry) wait(ctx context.Context, all func() bool) {
	waitsAll := all != nil && all()
	r.mu.Lock()
	r.whether, r.waitsAll = all, waitsAll
	if r.resting() {
		r.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	r.idle = idle
	r.mu.Unlock()
	look := time.NewTicker(waitPoll)
	defer look.Stop()
	for {
		select {
		case <-idle:
			return
		case <-ctx.Done():
			return
		case <-look.C:
			r.look()
		}
	}
}

// close forgets all outcomes.
func (r *registry) close() {
	r.mu.Lock()
	var kept []*call
	for e := r.kept.Front(); e != nil; e = e.Next() {
		kept = append(kept, e.Value.(*call))
	}
	r.mu.Unlock()
	for _, c := range kept {
		r.forget(c)
	}
	r.forgetLate()
}

// settle is the end of a call: it comes off the books, or is kept for a retry
// that comes twice. mu is held.
func (c *call) settle(was phase) {
	r := &c.engine.calls
	if was == parked {
		r.unpark(c)
	}
	defer r.leave(c) // after keep: Shutdown looks whether an outcome is still owed
	if c.timer != nil {
		c.timer.Stop()
	}
	c.unwatchTask()
	c.unexpect()
	if c.lasting != nil {
		r.relent(c)
		c.lasting.original = nil
	} else if c.round == 0 {
		return
	}
	until := time.Now().Add(r.settings.OutcomeTTL)
	if was != parked || until.After(c.until) {
		c.until = until
	}
	switch l := c.lasting; {
	case l == nil:
	case l.following != nil:
		c.until = time.Now().Add(l.following.away)
	case l.until.After(c.until):
		c.until = l.until
	}
	r.keep(c, c.size())
	c.dropUntold()
	c.copyOutcome()
	c.early, c.stat, c.names, c.inputs, c.creds, c.stop = responses{}, nil, nil, nil, nil, nil
	c.transcript, c.known, c.carried, c.estate, c.fallback, c.withdrawn = nil, nil, nil, nil, nil, nil
}

// callOverhead is about what a kept call takes beside its result.
const callOverhead = 1024

func notKept() error {
	return &Refusal{Reason: ReasonCallLost, Detail: "the call ended, and its outcome is no longer kept", MayHaveRun: true}
}

// forget lets go of the outcome. mu is held.
func (c *call) forget() {
	c.forgotten = true
	c.closeBacklog()
	c.result, c.err = nil, notKept() // for rounds that have joined and not been told yet
}
