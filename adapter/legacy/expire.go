package legacy

import (
	"context"
	"slices"
	"time"
)

// expire ends idle sessions, refuses old orphans, lowers log levels, and takes
// an entry without sessions off the books.
func (e *entry) expire(now time.Time) {
	set := e.server.settings
	var idle, live, asked []*Session
	e.mu.Lock()
	over := func(s *Session, ttl time.Duration) bool {
		if s.users > 0 || now.Sub(s.lastUse) <= ttl {
			live = append(live, s)
			return false
		}
		if (s.reach() || e.server.missing(s)) && s.holds() { // peers may use it
			if !s.ending {
				asked = append(asked, s)
			}
			s.ending = true
			return false
		}
		idle = append(idle, s)
		return true
	}
	kept := e.sessions[:0]
	for i, s := range e.sessions {
		ttl := set.IdleTTL
		if i > 0 {
			ttl = min(ttl, overflowTTL) // overflow serves a burst
		}
		if !over(s, ttl) {
			kept = append(kept, s)
		}
	}
	clear(e.sessions[len(kept):])
	e.sessions = kept
	e.adopted = slices.DeleteFunc(e.adopted, func(s *Session) bool { return over(s, s.adoptedTTL()) })
	empty := len(kept) == 0 && len(e.adopted) == 0 && e.opening == 0 && len(e.waiters) == 0
	if empty {
		e.shutDown = true
	}
	var lower []*Session
	for _, s := range live {
		if (s.holds() || !s.reach()) && now.Sub(s.lowered) > lowerPause && s.levelLong() {
			s.lowered = now
			lower = append(lower, s)
		}
	}
	e.mu.Unlock()
	for _, s := range idle {
		e.server.background(func() { e.server.end(s) })
	}
	for _, s := range asked {
		e.server.background(func() { e.endUnused(s) })
	}
	for _, s := range live {
		s.expireOrphans(now)
	}
	for _, s := range lower {
		e.server.background(func() {
			ctx, cancel := context.WithTimeout(e.server.ctx, set.PostTimeout)
			defer cancel()
			if err := s.lowerLevel(ctx); err != nil {
				e.server.log.Debug().Err(err).Str("upstream", set.Name).Msg("log level not lowered")
			}
		})
	}
	if empty {
		e.server.mu.Lock()
		if e.server.entries[e.text] == e {
			delete(e.server.entries, e.text)
		}
		e.server.mu.Unlock()
	}
}

// adoptedTTL is how long a session stays without a use that serves no new calls.
// entry.mu is held.
func (s *Session) adoptedTTL() time.Duration {
	ttl := s.server.settings.IdleTTL
	if !s.kept {
		ttl = min(ttl, overflowTTL)
	}
	return ttl
}

// endUnused ends an idle session that this replica holds, unless peers use it.
func (e *entry) endUnused(s *Session) {
	ctx, cancel := context.WithTimeout(e.server.ctx, e.server.settings.PostTimeout)
	defer cancel()
	replies := e.server.askAll(ctx, &parcel{kind: askUsing, id: s.id})
	used := slices.ContainsFunc(replies, func(r reply) bool { return r.kind == sayUsing && r.flag })
	e.mu.Lock()
	s.ending = false
	if used || s.users > 0 || e.server.missing(s) {
		s.lastUse = time.Now()
		e.mu.Unlock()
		return
	}
	here := e.remove(s)
	e.mu.Unlock()
	if here {
		s.close(ctx, true)
		e.server.vacate()
	}
}

// lowerPause is the time between two attempts to lower a session's log level:
// calls of other replicas may keep it up.
const lowerPause = 5 * time.Second

// overflowTTL is how long a session beyond the primary stays without a use.
const overflowTTL = time.Minute

// idleSession takes an unused session off the entry, or returns nil.
func (e *entry) idleSession() *Session {
	if !e.mu.TryLock() { // the caller may hold another entry's lock
		return nil
	}
	defer e.mu.Unlock()
	for _, list := range [...][]*Session{e.adopted, e.sessions} {
		for _, s := range list {
			if s.users == 0 {
				e.remove(s)
				return s
			}
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
			s.background(func() { s.close(session) })
			return true
		}
	}
	return false
}

// end closes a session that is off its entry's books, and gives its place back.
func (s *Server) end(session *Session) {
	s.close(session)
	s.vacate()
}

// close is end for a session whose place another one has.
func (s *Server) close(session *Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.settings.PostTimeout)
	defer cancel()
	session.close(ctx, !s.endElsewhere(ctx, session))
}
