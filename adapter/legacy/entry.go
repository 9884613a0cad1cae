package legacy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// entry holds the sessions of one key. The first is the primary: a stateful
// server should see one session per principal. Only eligible calls that need a
// session each, because the server does not say which call its question
// belongs to, overflow to more.
type entry struct {
	server *Server
	key    Key
	text   string
	digest uint64 // which replica is its home is found by

	tools tools

	mu       sync.Mutex
	sessions []*Session
	adopted  []*Session // which Adopt made: calls that began elsewhere are on them, and no others
	opening  int        // sessions being opened
	first    *opening   // the primary that is being opened, or nil
	homing   *opening   // likewise, by this replica as its home, where sessions are shared
	gone     string     // the id of a session that the server does not know any more, or ""
	tending  bool       // tend is at work
	taking   bool       // so is takeBackLater
	waiters  []*waiter
	shutDown bool
}

// opening is a primary session that several calls wait for.
type opening struct {
	done    chan struct{}
	session *Session
	err     error
	creds   Credentials
	asHome  bool // this replica is the key's home

	// Guarded by entry.mu.
	turn    *turn              // to get room for it, or nil: it has its place
	callers int                // who wait for it
	leave   context.CancelFunc // gives up the turn
}

// try lends a session that is free at once, or returns nil.
func (e *entry) try(eligible bool) *Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	if eligible && e.passedOver() != nil {
		return nil
	}
	return e.pick(eligible, false)
}

// pick must be called with mu held.
func (e *entry) pick(eligible, asHome bool) *Session {
	if e.shutDown || len(e.sessions) == 0 || len(e.waiters) > 0 && eligible {
		return nil
	}
	alone := eligible && (e.key.Shared || e.server.pushes.Load())
	if alone && (!asHome && e.away() || e.uncounted()) {
		return nil // the home gives the places out, once it knows what there are
	}
	for _, s := range e.sessions {
		if !alone || s.eligible == 0 && s.ended == 0 && !s.spent {
			e.lend(s, eligible)
			return s
		}
	}
	return nil
}

// lend must be called with mu held.
func (e *entry) lend(s *Session, eligible bool) {
	s.users++
	if eligible {
		s.eligible++
	}
}

// acquire lends a session. asHome says that it is for a peer that takes this
// replica for the key's home. again says that the entry is of no more use.
func (e *entry) acquire(ctx context.Context, eligible bool, creds Credentials, asHome bool) (s *Session, again bool, err error) {
	began, place := time.Now(), false // a place for a new session is reserved
	defer func() {
		if place {
			e.server.vacate()
		}
	}()
	for checked, waited := false, false; ; {
		e.mu.Lock()
		if e.shutDown {
			e.mu.Unlock()
			return nil, true, nil
		}
		if s := e.passedOver(); s != nil && eligible && !checked {
			checked = true
			e.mu.Unlock()
			e.takeBack(ctx, s)
			continue
		}
		if s := e.pick(eligible, asHome); s != nil {
			e.mu.Unlock()
			return s, false, nil
		}
		if len(e.sessions) == 0 {
			s, retry, err := e.primary(ctx, creds, asHome, began)
			if !retry {
				return s, false, err
			}
			continue
		}
		if !asHome && e.away() {
			e.mu.Unlock()
			if s, err := e.place(ctx, creds, began); s != nil || err != nil {
				return s, false, err
			}
			continue
		}
		if e.uncounted() {
			s := e.primarySession()
			e.mu.Unlock()
			e.countCalls(ctx, s)
			continue
		}
		// Eligible, and every session has an eligible call already.
		lent := e.lentOut()
		behind := len(e.waiters) > 0 && !waited
		if place && !e.room() {
			place = false
			e.server.vacate()
		}
		if place = place || !behind && e.room() && e.server.reserve(); behind || !e.room() || !place {
			if lent != nil {
				e.takeBackLater(lent)
			}
			given, err := e.wait(ctx, began)
			if given.session != nil || err != nil {
				return given.session, false, err
			}
			place = place || given.place
			waited = true
			continue
		}
		if lent != nil && !checked {
			checked = true
			e.mu.Unlock()
			e.takeBack(ctx, lent)
			continue
		}
		e.opening++
		e.mu.Unlock()
		s, err := e.server.open(ctx, e, creds)
		place = err != nil
		e.mu.Lock()
		e.opening--
		if err == nil {
			e.lend(s, eligible)
			err = e.add(s)
		}
		if err != nil {
			e.give(chance{}) // there may be room for another one
		}
		e.mu.Unlock()
		return s, false, err
	}
}

// room reports whether an eligible call may open one more session, as far as the
// key's other sessions go. mu is held.
func (e *entry) room() bool {
	set := e.server.settings
	return !set.QueueEligible && len(e.sessions)+e.opening < set.MaxPerKey && !e.soonFree()
}

// add must be called with mu held. It fails when the entry was shut meanwhile.
func (e *entry) add(s *Session) error {
	if e.shutDown {
		e.server.background(func() { e.server.end(s) })
		return ErrClosed
	}
	if why := s.whyLost(); why != nil { // nobody takes it off the books any more
		e.server.background(func() { e.server.end(s) })
		return why
	}
	e.server.register(s)
	e.sessions = append(e.sessions, s)
	return nil
}

// primary opens the key's first session, once however many calls wait. It is
// called with mu held and returns without. retry says to look again. Where there
// is no room for it, it waits for its turn, but not for a peer.
func (e *entry) primary(ctx context.Context, creds Credentials, asHome bool, began time.Time) (s *Session, retry bool, err error) {
	set, forPeer := e.server.settings, asHome
	// The home opens it for a peer also while this replica waits for a peer that
	// it takes for the home: the two may wait for each other.
	slot := &e.first
	if asHome = e.shares() && (asHome || !e.away()); asHome {
		slot = &e.homing
	}
	o := *slot
	switch {
	case o == nil && forPeer:
		if !e.server.reserve() && !e.server.evict() {
			err = errCrowded
		}
		o = &opening{}
	case o == nil:
		o = &opening{}
		o.turn, err = e.server.room()
	case o.turn != nil && forPeer:
		err = errCrowded
	case o.turn != nil && o.callers >= set.Queue:
		err = fmt.Errorf("%w: sessions.max is reached, and sessions.queue is full", ErrFull)
	}
	if err != nil {
		e.mu.Unlock()
		return nil, false, err
	}
	if o.callers++; o.done == nil {
		o.done, o.creds, o.asHome = make(chan struct{}), creds, asHome
		*slot = o
		e.opening++
		turns, leave := context.WithCancel(e.server.ctx)
		o.leave = leave
		e.server.background(func() {
			defer leave()
			e.openPrimary(turns, o, slot)
		})
	}
	e.mu.Unlock()
	select {
	case <-o.done:
	case <-ctx.Done():
		e.mu.Lock()
		if o.callers--; o.callers == 0 {
			o.leave() // which an opening that has begun does not mind
			if s := e.primarySession(); s != nil {
				e.yield(s)
			}
		}
		e.mu.Unlock()
		return nil, false, ctx.Err()
	}
	if o.turn != nil && time.Since(began) < set.QueueTimeout {
		return nil, true, nil // it was not this call's time that is over
	}
	var status *StatusError
	if o.err != nil && asStatus(o.err, &status) && status.Unauthorized() && !slices.Equal(o.creds.Lasting(), creds.Lasting()) {
		return nil, true, nil // it was another caller's credentials that the server refused
	}
	if e.server.comesAgain(ctx, began, o.err) {
		return nil, true, nil
	}
	if o.err != nil {
		return nil, false, o.err
	}
	return nil, true, nil
}

func (e *entry) openPrimary(turns context.Context, o *opening, slot **opening) {
	var s *Session
	var err error
	placed := true
	if o.turn != nil {
		err = e.server.awaitRoom(turns, o.turn)
		placed = err == nil
	}
	e.mu.Lock()
	if placed {
		o.turn = nil
	}
	if err == nil && e.shutDown {
		err = ErrClosed
	}
	e.mu.Unlock()
	if err == nil {
		ctx, cancel := context.WithTimeout(e.server.ctx, e.server.settings.OpenTimeout)
		defer cancel()
		s, err = e.openFor(ctx, o)
	}
	e.mu.Lock()
	e.opening--
	*slot = nil
	if err == nil && s != nil {
		err = e.settle(s)
	}
	if err == nil && s != nil && o.callers == 0 {
		e.yield(s)
	}
	o.session, o.err = s, err
	e.mu.Unlock()
	if s == nil && placed {
		e.server.vacate()
	}
	if err != nil {
		e.server.complain(err)
	}
	close(o.done)
	e.tend()
}

// wait queues for a session without an eligible call, first come, first
// served, or for room for one more. It is called with mu held and returns without.
func (e *entry) wait(ctx context.Context, since time.Time) (chance, error) {
	set := e.server.settings
	if len(e.waiters) >= set.Queue {
		e.mu.Unlock()
		return chance{}, fmt.Errorf("%w: sessions.queue is full", ErrFull)
	}
	w := &waiter{since: since, chance: make(chan chance, 1)}
	room := e.room()
	at, _ := slices.BinarySearchFunc(e.waiters, w, func(a, b *waiter) int { return a.since.Compare(b.since) })
	e.waiters = slices.Insert(e.waiters, at, w)
	waiting := len(e.waiters)
	if room {
		if t := e.server.join(e); t == nil {
			e.give(chance{place: true})
		} else {
			defer e.server.crowd.quit(t)
		}
	}
	e.mu.Unlock()
	e.server.log.Debug().Str("upstream", set.Name).Int("waiting", waiting).Msg("call waits for a session")
	timer := time.NewTimer(set.QueueTimeout)
	defer timer.Stop()
	var err error
	select {
	case c := <-w.chance:
		return c, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("%w within sessions.queue_timeout", ErrFull)
	}
	e.mu.Lock()
	if i := slices.Index(e.waiters, w); i >= 0 {
		e.waiters = slices.Delete(e.waiters, i, i+1)
		e.mu.Unlock()
		return chance{}, err
	}
	e.mu.Unlock()
	switch c := <-w.chance; { // it was given something at the same moment
	case c.session != nil:
		e.release(c.session, true)
	case c.place:
		e.server.vacate()
	default:
		e.mu.Lock()
		e.give(c)
		e.mu.Unlock()
	}
	return chance{}, err
}

// hold keeps a session from expiring during a request of our own.
func (e *entry) hold(s *Session) {
	e.mu.Lock()
	s.users++
	e.mu.Unlock()
}

// release takes a session back and gives it to the call that waits longest.
func (e *entry) release(s *Session, eligible bool) {
	if news := e.take(s, eligible); news != nil && e.away() {
		e.server.tell(e.home(), news)
	}
}

// take is release, but for the news that a place is free which the home has
// lent.
func (e *entry) take(s *Session, eligible bool) (news *parcel) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.users--
	s.lastUse = time.Now()
	if eligible {
		s.eligible--
		if s.places > 0 {
			news = s.giveBack()
		}
	}
	e.handOn(s)
	if (e.key.Ephemeral || s.spent) && s.users == 0 && e.remove(s) {
		e.server.background(func() { e.server.end(s) })
		lookAgainAll(e.waiters) // there may be room for a new one
		e.waiters = nil
	}
	return news
}

// handOn gives a session on which no eligible call is to one that waits for it,
// or its place to another key. mu is held.
func (e *entry) handOn(s *Session) {
	if s.eligible > 0 || s.spent || !slices.Contains(e.sessions, s) || e.yield(s) {
		return
	}
	if s.ended == 0 && len(e.waiters) > 0 {
		e.lend(s, true)
		e.give(chance{session: s})
	}
}

// spend takes a session out of the pool when what the server asks late would find
// the next eligible call on it alone: of a shared key, where that may be another
// principal's, as soon as such a call has ended without a response. Calls in flight
// go on, and the session ends with the last.
func (e *entry) spend(s *Session) {
	e.mu.Lock()
	was := s.spent
	s.spent = true
	e.mu.Unlock()
	if was {
		return
	}
	waiters := e.unpool(s)
	e.mu.Lock()
	if s.users == 0 && e.remove(s) { // nobody is left to end it
		e.server.background(func() { e.server.end(s) })
	}
	e.mu.Unlock()
	e.server.background(func() { // the caller may hold what a listener needs
		s.endListeners(ErrSessionGone)
		if s.reach() {
			e.server.tellAll(&parcel{kind: tellDrain, id: s.id})
		}
	})
	lookAgainAll(waiters)
}

// lookAgainAll has calls that wait for a session look what there is now.
func lookAgainAll(waiters []*waiter) {
	for _, w := range waiters {
		w.chance <- chance{}
	}
}

// remove takes a session off the entry. It reports whether it was there. mu is
// held.
func (e *entry) remove(s *Session) bool {
	list := &e.sessions
	if s.adopted {
		list = &e.adopted
	}
	i := slices.Index(*list, s)
	if i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	}
	return i >= 0
}

// drop takes a session off the pool that the server no longer knows.
func (e *entry) drop(s *Session) {
	e.mu.Lock()
	here := e.remove(s)
	if here {
		e.gone = s.id
	}
	waiters := e.waiters
	e.waiters = nil
	shut := e.shutDown
	e.mu.Unlock()
	lookAgainAll(waiters) // there may be room for a new one
	if here && !shut {
		e.server.background(func() { e.server.end(s) })
	}
}

// shut makes the entry unusable and returns its sessions.
func (e *entry) shut() []*Session {
	e.mu.Lock()
	sessions, waiters := append(e.sessions, e.adopted...), e.waiters
	e.sessions, e.adopted, e.waiters, e.shutDown = nil, nil, nil, true
	e.mu.Unlock()
	lookAgainAll(waiters)
	return sessions
}
