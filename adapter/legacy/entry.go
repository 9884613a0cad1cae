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
	waiters  []chan *Session
	shutDown bool
}

// opening is a primary session that several calls wait for.
type opening struct {
	done    chan struct{}
	session *Session
	err     error
	creds   Credentials
	asHome  bool // this replica is the key's home
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
		if !alone || s.eligible == 0 && !s.spent {
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
			s, retry, err := e.primary(ctx, creds, asHome)
			if !retry {
				return s, false, err
			}
			continue
		}
		if !asHome && e.away() {
			e.mu.Unlock()
			if s, err := e.place(ctx, creds); s != nil || err != nil {
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
		if behind && e.room() {
			e.wakeFirst()
		}
		if behind || !e.room() || !e.server.reserve() {
			if lent != nil {
				e.takeBackLater(lent)
			}
			s, err := e.wait(ctx)
			if s != nil || err != nil {
				return s, false, err
			}
			waited = true
			continue
		}
		if lent != nil && !checked {
			checked = true
			e.mu.Unlock()
			e.takeBack(ctx, lent)
			e.server.sessions.Add(-1)
			continue
		}
		e.opening++
		e.mu.Unlock()
		s, err := e.server.open(ctx, e, creds)
		if err != nil {
			e.server.sessions.Add(-1)
		}
		e.mu.Lock()
		e.opening--
		if err == nil {
			e.lend(s, eligible)
			err = e.add(s)
		}
		if err != nil {
			e.wakeFirst()
		}
		e.mu.Unlock()
		return s, false, err
	}
}

// room reports whether an eligible call may open one more session, as far as the
// key's other sessions go, and sessions.max was at the moment. mu is held.
func (e *entry) room() bool {
	set := e.server.settings
	return !set.QueueEligible && len(e.sessions)+e.opening < set.MaxPerKey && int(e.server.sessions.Load()) < set.MaxSessions
}

// wakeFirst has the call that waits longest look again: there may be room for a
// new session. mu is held.
func (e *entry) wakeFirst() {
	if len(e.waiters) > 0 {
		turn := e.waiters[0]
		e.waiters = e.waiters[1:]
		turn <- nil
	}
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
// called with mu held and returns without. retry says to look again.
func (e *entry) primary(ctx context.Context, creds Credentials, asHome bool) (s *Session, retry bool, err error) {
	// The home opens it for a peer also while this replica waits for a peer that
	// it takes for the home: the two may wait for each other.
	slot := &e.first
	if asHome = e.shares() && (asHome || !e.away()); asHome {
		slot = &e.homing
	}
	o := *slot
	if o == nil {
		if !e.server.reserve() && !e.server.evict() {
			e.mu.Unlock()
			return nil, false, fmt.Errorf("%w: sessions.max is reached", ErrFull)
		}
		o = &opening{done: make(chan struct{}), creds: creds, asHome: asHome}
		*slot = o
		e.opening++
		e.mu.Unlock()
		e.server.background(func() { e.openPrimary(o, slot) })
	} else {
		e.mu.Unlock()
	}
	select {
	case <-o.done:
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	var status *StatusError
	if o.err != nil && asStatus(o.err, &status) && status.Unauthorized() && !slices.Equal(o.creds.Lasting(), creds.Lasting()) {
		return nil, true, nil // it was another caller's credentials that the server refused
	}
	if o.err != nil {
		return nil, false, o.err
	}
	return nil, true, nil
}

func (e *entry) openPrimary(o *opening, slot **opening) {
	ctx, cancel := context.WithTimeout(e.server.ctx, e.server.settings.OpenTimeout)
	defer cancel()
	s, err := e.openFor(ctx, o)
	e.mu.Lock()
	e.opening--
	*slot = nil
	if err == nil && s != nil {
		err = e.settle(s)
	}
	o.session, o.err = s, err
	e.mu.Unlock()
	if s == nil {
		e.server.sessions.Add(-1)
	}
	if err != nil {
		e.server.complain(err)
	}
	close(o.done)
	e.tend()
}

// wait queues for a session without an eligible call, first come, first
// served. It is called with mu held and returns without. A nil session and
// error say to look again.
func (e *entry) wait(ctx context.Context) (*Session, error) {
	set := e.server.settings
	if len(e.waiters) >= set.Queue {
		e.mu.Unlock()
		return nil, fmt.Errorf("%w: sessions.queue is full", ErrFull)
	}
	turn := make(chan *Session, 1)
	e.waiters = append(e.waiters, turn)
	waiting := len(e.waiters)
	e.mu.Unlock()
	e.server.log.Debug().Str("upstream", set.Name).Int("waiting", waiting).Msg("call waits for a session")
	timer := time.NewTimer(set.QueueTimeout)
	defer timer.Stop()
	var err error
	select {
	case s := <-turn:
		return s, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("%w within sessions.queue_timeout", ErrFull)
	}
	e.mu.Lock()
	if i := slices.Index(e.waiters, turn); i >= 0 {
		e.waiters = slices.Delete(e.waiters, i, i+1)
		e.mu.Unlock()
		return nil, err
	}
	e.mu.Unlock()
	if s := <-turn; s != nil { // it was lent at the same moment
		e.release(s, true)
		return nil, err
	}
	e.mu.Lock()
	e.wakeFirst()
	e.mu.Unlock()
	return nil, err
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
	if s.eligible == 0 && !s.spent && len(e.waiters) > 0 && slices.Contains(e.sessions, s) {
		turn := e.waiters[0]
		e.waiters = e.waiters[1:]
		e.lend(s, true)
		turn <- s
	}
	if (e.key.Ephemeral || s.spent) && s.users == 0 && e.remove(s) {
		e.server.background(func() { e.server.end(s) })
	}
	return news
}

// spend takes a session of a shared key out of the pool when an eligible call on
// it has ended without a response: what the server asks late would find the next
// call alone, which may be another principal's. Calls in flight go on, and the
// session ends with the last.
func (e *entry) spend(s *Session) {
	e.mu.Lock()
	was := s.spent
	s.spent = true
	e.mu.Unlock()
	if was {
		return
	}
	waiters := e.unpool(s)
	e.server.background(func() { // the caller may hold what a listener needs
		s.endListeners(ErrSessionGone)
		if s.reach() {
			e.server.tellAll(&parcel{kind: tellDrain, id: s.id})
		}
	})
	for _, turn := range waiters {
		turn <- nil
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
	for _, turn := range waiters {
		turn <- nil // look again: there may be room for a new one
	}
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
	for _, turn := range waiters {
		turn <- nil
	}
	return sessions
}
