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

	tools tools

	mu       sync.Mutex
	sessions []*Session
	opening  int      // sessions being opened
	first    *opening // the primary that is being opened, or nil
	waiters  []chan *Session
	shutDown bool
}

// opening is a primary session that several calls wait for.
type opening struct {
	done    chan struct{}
	session *Session
	err     error
	creds   Credentials
}

// try lends a session that is free at once, or returns nil.
func (e *entry) try(eligible bool) *Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pick(eligible)
}

// pick must be called with mu held.
func (e *entry) pick(eligible bool) *Session {
	if e.shutDown || len(e.sessions) == 0 || len(e.waiters) > 0 && eligible {
		return nil
	}
	alone := eligible && e.server.pushes.Load()
	for _, s := range e.sessions {
		if !alone || s.eligible == 0 {
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

// acquire lends a session. again says that the entry is of no more use.
func (e *entry) acquire(ctx context.Context, eligible bool, creds Credentials) (s *Session, again bool, err error) {
	for {
		e.mu.Lock()
		if e.shutDown {
			e.mu.Unlock()
			return nil, true, nil
		}
		if s := e.pick(eligible); s != nil {
			e.mu.Unlock()
			return s, false, nil
		}
		if len(e.sessions) == 0 {
			s, retry, err := e.primary(ctx, eligible, creds)
			if !retry {
				return s, false, err
			}
			continue
		}
		// Eligible, and every session has an eligible call already.
		set := e.server.settings
		if set.QueueEligible || len(e.sessions)+e.opening >= set.MaxPerKey || !e.server.reserve() {
			s, err := e.wait(ctx)
			if s != nil || err != nil {
				return s, false, err
			}
			continue
		}
		e.opening++
		e.mu.Unlock()
		s, err := e.server.open(ctx, e, creds)
		e.mu.Lock()
		e.opening--
		if err == nil {
			e.lend(s, eligible)
			err = e.add(s)
		}
		e.mu.Unlock()
		return s, false, err
	}
}

// add must be called with mu held. It fails when the entry was shut meanwhile.
func (e *entry) add(s *Session) error {
	if e.shutDown {
		e.server.background(func() { e.server.end(s) })
		return ErrClosed
	}
	e.sessions = append(e.sessions, s)
	return nil
}

// primary opens the key's first session, once however many calls wait. It is
// called with mu held and returns without. retry says to look again.
func (e *entry) primary(ctx context.Context, eligible bool, creds Credentials) (s *Session, retry bool, err error) {
	o := e.first
	if o == nil {
		if !e.server.reserve() && !e.server.evict() {
			e.mu.Unlock()
			return nil, false, fmt.Errorf("%w: sessions.max is reached", ErrFull)
		}
		o = &opening{done: make(chan struct{}), creds: creds}
		e.first = o
		e.opening++
		e.mu.Unlock()
		e.server.background(func() { e.openPrimary(o) })
	} else {
		e.mu.Unlock()
	}
	select {
	case <-o.done:
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	var status *StatusError
	if o.err != nil && asStatus(o.err, &status) && status.Unauthorized() && !slices.Equal(o.creds, creds) {
		return nil, true, nil // it was another caller's credentials that the server refused
	}
	if o.err != nil {
		return nil, false, o.err
	}
	return nil, true, nil
}

func (e *entry) openPrimary(o *opening) {
	ctx, cancel := context.WithTimeout(e.server.ctx, e.server.settings.OpenTimeout)
	defer cancel()
	s, err := e.server.open(ctx, e, o.creds)
	e.mu.Lock()
	e.opening--
	e.first = nil
	if err == nil {
		err = e.add(s)
	}
	o.session, o.err = s, err
	e.mu.Unlock()
	if err != nil {
		e.server.complain(err)
	}
	close(o.done)
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
	e.mu.Unlock()
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
	}
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
	e.mu.Lock()
	defer e.mu.Unlock()
	s.users--
	s.lastUse = time.Now()
	if eligible {
		s.eligible--
	}
	if s.eligible == 0 && len(e.waiters) > 0 && slices.Contains(e.sessions, s) {
		turn := e.waiters[0]
		e.waiters = e.waiters[1:]
		e.lend(s, true)
		turn <- s
	}
	if e.key.Ephemeral && s.users == 0 {
		if i := slices.Index(e.sessions, s); i >= 0 {
			e.sessions = slices.Delete(e.sessions, i, i+1)
			e.server.background(func() { e.server.end(s) })
		}
	}
}

// drop takes a session off the pool that the server no longer knows.
func (e *entry) drop(s *Session) {
	e.mu.Lock()
	i := slices.Index(e.sessions, s)
	if i >= 0 {
		e.sessions = slices.Delete(e.sessions, i, i+1)
	}
	waiters := e.waiters
	e.waiters = nil
	shut := e.shutDown
	e.mu.Unlock()
	for _, turn := range waiters {
		turn <- nil // look again: there may be room for a new one
	}
	if i >= 0 && !shut {
		e.server.background(func() { e.server.end(s) })
	}
}

// expire ends idle sessions, refuses old orphans, lowers log levels, and takes
// an entry without sessions off the books.
func (e *entry) expire(now time.Time) {
	set := e.server.settings
	var idle, live []*Session
	e.mu.Lock()
	kept := e.sessions[:0]
	for i, s := range e.sessions {
		ttl := set.IdleTTL
		if i > 0 {
			ttl = min(ttl, overflowTTL) // overflow serves a burst
		}
		if s.users == 0 && now.Sub(s.lastUse) > ttl {
			idle = append(idle, s)
		} else {
			kept = append(kept, s)
			live = append(live, s)
		}
	}
	clear(e.sessions[len(kept):])
	e.sessions = kept
	empty := len(kept) == 0 && e.opening == 0 && len(e.waiters) == 0
	if empty {
		e.shutDown = true
	}
	e.mu.Unlock()
	for _, s := range idle {
		e.server.background(func() { e.server.end(s) })
	}
	for _, s := range live {
		s.expireOrphans(now)
		if s.levelLong() {
			e.server.background(func() {
				ctx, cancel := context.WithTimeout(e.server.ctx, set.PostTimeout)
				defer cancel()
				if err := s.lowerLevel(ctx); err != nil {
					e.server.log.Debug().Err(err).Str("upstream", set.Name).Msg("log level not lowered")
				}
			})
		}
	}
	if empty {
		e.server.mu.Lock()
		if e.server.entries[e.text] == e {
			delete(e.server.entries, e.text)
		}
		e.server.mu.Unlock()
	}
}

// overflowTTL is how long a session beyond the primary stays without a use.
const overflowTTL = time.Minute

// shut makes the entry unusable and returns its sessions.
func (e *entry) shut() []*Session {
	e.mu.Lock()
	sessions, waiters := e.sessions, e.waiters
	e.sessions, e.waiters, e.shutDown = nil, nil, true
	e.mu.Unlock()
	for _, turn := range waiters {
		turn <- nil
	}
	return sessions
}

// idleSession takes an unused session off the entry, or returns nil.
func (e *entry) idleSession() *Session {
	if !e.mu.TryLock() { // the caller may hold another entry's lock
		return nil
	}
	defer e.mu.Unlock()
	for i, s := range e.sessions {
		if s.users == 0 {
			e.sessions = slices.Delete(e.sessions, i, i+1)
			return s
		}
	}
	return nil
}

// reserve takes a place for a session that is about to be opened. It reports
// false when sessions.max is reached.
func (s *Server) reserve() bool {
	for {
		n := s.sessions.Load()
		if int(n) >= s.settings.MaxSessions {
			return false
		}
		if s.sessions.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// evict ends one unused session, whose place the caller takes over. It reports
// false when every session is in use.
func (s *Server) evict() bool {
	for _, e := range s.all() {
		if session := e.idleSession(); session != nil {
			s.background(func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.settings.PostTimeout)
				defer cancel()
				session.close(ctx)
			})
			return true
		}
	}
	return false
}

// end closes a session that is off its entry's books.
func (s *Server) end(session *Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.settings.PostTimeout)
	defer cancel()
	session.close(ctx)
	s.sessions.Add(-1)
}
