package legacy

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// tend looks after the key's session where the set of replicas has changed: the
// home takes a session that nobody holds, and who holds one that is no longer
// its own offers it. It runs once at a time.
func (e *entry) tend() {
	e.mu.Lock()
	s := e.toTend()
	due := s != nil && !e.tending
	if due {
		e.tending = true
	}
	e.mu.Unlock()
	if !due {
		return
	}
	e.server.background(func() {
		ctx, cancel := context.WithTimeout(e.server.ctx, e.server.settings.OpenTimeout)
		defer cancel()
		e.look(ctx, s)
		e.mu.Lock()
		e.tending = false
		e.mu.Unlock()
	})
}

// toTend returns the session that tend has something to do about, or nil. mu is
// held.
func (e *entry) toTend() *Session {
	if e.shutDown || !e.shares() {
		return nil
	}
	s := e.primarySession()
	for _, left := range e.adopted {
		switch {
		case left.apart && left.users > 0 && left.orphaned():
			return left
		case s == nil && !left.apart:
			s = left
		}
	}
	if s == nil || s.id == "" {
		return nil
	}
	live, self, home := e.server.live(), e.server.settings.Peers.Self(), e.home()
	held := s.holder == self || slices.Contains(live, s.holder)
	switch {
	case home == self && (!held || s.adopted):
	case home == self && len(s.remote) > 0 && time.Since(s.granted) > recountAfter:
	case home != self && s.holder == self && (s.users == 0 && time.Since(s.refused) > offerPause || s.offered != home):
	case home != self && !held && s.offered != home:
	default:
		return nil
	}
	return s
}

func (e *entry) look(ctx context.Context, s *Session) {
	self, home := e.server.settings.Peers.Self(), e.home()
	e.mu.Lock()
	holds, users, known, apart := s.holder == self, s.users, s.offered == home, s.apart
	held := holds || slices.Contains(e.server.live(), s.holder)
	e.mu.Unlock()
	switch {
	case apart:
		e.holdOrphaned(ctx, s)
	case home == self && (!held || s.adopted):
		e.claim(ctx, s)
	case home == self:
		e.recount(ctx)
	case holds && users == 0 && known:
		e.handOver(ctx, s, home)
	default:
		e.offer(ctx, s, home)
	}
}

// claim makes this replica, the key's home, the holder of a session that nobody
// holds.
func (e *entry) claim(ctx context.Context, s *Session) {
	e.mu.Lock()
	orphaned := s.orphaned()
	e.mu.Unlock()
	if orphaned {
		// One that has left has handed it over, or ended it: the news may be on
		// its way.
		if !wait.Pause(ctx, claimPause) {
			return
		}
		e.mu.Lock()
		due := e.toTend() == s && e.home() == e.server.settings.Peers.Self()
		e.mu.Unlock()
		if !due {
			return
		}
	}
	replies := e.server.askAll(ctx, &parcel{kind: askHave, key: &e.key})
	e.mu.Lock()
	var other string // the session that the peers share
	for _, r := range replies {
		if r.kind != sayHave || r.holder != r.from {
			continue
		}
		if r.id == s.id {
			s.holder = r.from
		} else if s.adopted {
			other = r.id
		}
	}
	s.count(replies)
	if s.adopted && other == "" && e.primarySession() == nil {
		e.promote(s)
	} else if s.adopted {
		s.apart = true
	}
	held := s.adopted || slices.Contains(e.server.live(), s.holder)
	e.mu.Unlock()
	if !held {
		s.hold(nil)
	}
}

// claimPause is how long a home waits before it takes a session whose holder has
// gone.
const claimPause = 200 * time.Millisecond

// orphaned reports whether the replica that held the session is gone. entry.mu
// is held.
func (s *Session) orphaned() bool {
	return s.holder != "" && s.holder != s.server.settings.Peers.Self() && !slices.Contains(s.server.live(), s.holder)
}

// holdOrphaned opens the GET stream of a session that takes no new calls and has
// one of this replica: what its server asks there, somebody must hear.
func (e *entry) holdOrphaned(ctx context.Context, s *Session) {
	for _, r := range e.server.askAll(ctx, &parcel{kind: askUsing, id: s.id}) {
		if r.kind == sayUsing && r.holder == r.from {
			e.mu.Lock()
			s.holder = r.from
			e.mu.Unlock()
			return
		}
	}
	s.hold(nil)
}

// offer tells the home of a session that it may not know, or that lost against
// another while its calls go on here.
func (e *entry) offer(ctx context.Context, s *Session, home string) {
	answer, err := e.server.ask(ctx, home, e.offering(s, nil, false))
	if err != nil || answer.kind == sayLater {
		return // the janitor comes again
	}
	e.mu.Lock()
	s.offered = home
	if answer.kind == sayUnknown {
		s.refused = time.Now()
	}
	e.mu.Unlock()
	switch answer.kind {
	case sayLost:
		e.lose(s)
	case sayTaken:
		e.mu.Lock()
		if s.adopted && e.primarySession() == nil {
			e.promote(s)
		}
		e.mu.Unlock()
	}
}

// handOver gives a session that this replica holds to its home, GET stream and
// all.
func (e *entry) handOver(ctx context.Context, s *Session, home string) {
	if e.server.pushes.Load() {
		for _, r := range e.server.askAll(ctx, &parcel{kind: askUsing, id: s.id}) {
			if r.eligible > 0 { // its question may come at any moment
				e.notNow(s)
				return
			}
		}
	}
	event := s.unhold()
	question := e.offering(s, event, true)
	question.orphans = s.packOrphans()
	answer, err := e.server.ask(ctx, home, question)
	if err != nil || answer.kind != sayTaken {
		s.unpackOrphans(question.orphans)
	}
	switch {
	case err == nil && answer.kind == sayTaken:
		e.mu.Lock()
		if s.holds() {
			s.holder = home
		}
		e.mu.Unlock()
	case err == nil && answer.kind == sayLost:
		s.hold(event)
		e.lose(s)
	default:
		e.notNow(s)
		s.hold(event)
	}
}

// notNow: the home does not take the session over.
func (e *entry) notNow(s *Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.refused = time.Now()
}

// offerPause is the time between two attempts to hand a session over.
const offerPause = 5 * time.Second

// offering is the question that offers a session. handing: with its GET stream.
func (e *entry) offering(s *Session, event []byte, handing bool) *parcel {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := s.described()
	p.kind, p.key, p.event, p.flag = askYours, &e.key, event, !handing
	s.mu.Lock()
	s.stamp(&p)
	s.mu.Unlock()
	p.eligible = uint64(s.own())
	s.places = s.own()
	if !handing && s.holder != e.server.settings.Peers.Self() && !slices.Contains(e.server.live(), s.holder) {
		p.holder = ""
	}
	return &p
}

// takeOffered answers a peer that offers a session.
func (s *Server) takeOffered(from string, p *parcel) (parcel, error) {
	e, err := s.entry(p.key)
	if err != nil || !p.closing && (!e.shares() || e.away()) {
		return parcel{kind: sayLater, closing: err != nil}, nil
	}
	handing := !p.flag
	reserved := s.reserve()
	e.mu.Lock()
	session := e.named(p.id)
	lost := false
	switch primary := e.primarySession(); {
	case e.shutDown, session == nil && (!reserved || e.first != nil || e.homing != nil || p.id == e.gone || s.isGone(p.id)):
		e.mu.Unlock()
		if reserved {
			s.vacate()
		}
		return parcel{kind: sayLater, closing: s.closing()}, nil
	case session != nil:
		session.takeCredentials(p)
		if session.adopted && primary == nil && !session.apart {
			e.promote(session)
		}
	case primary != nil && !p.closing:
		lost = true
	default:
		session, err = e.borrowed(p, from, p.ownCreds())
		if err != nil {
			break
		}
		session.apart = primary != nil || !e.shares()
		session.adopted, session.kept = session.apart, p.closing
		s.register(session)
		if session.apart { // the loser's holder ends: its calls go on, and no new ones come
			e.adopted = append(e.adopted, session)
		} else {
			e.sessions = slices.Insert(e.sessions, 0, session)
		}
		reserved = false
	}
	if session != nil && err == nil {
		session.count([]reply{{from, parcel{kind: sayHave, id: p.id, eligible: p.eligible, life: p.life, freed: p.freed}}})
		if handing { // from here on: this replica may end before the stream stands
			session.holder = s.settings.Peers.Self()
		}
	}
	e.mu.Unlock()
	if reserved {
		s.vacate()
	}
	switch {
	case err != nil:
		return parcel{kind: sayLater}, err
	case lost:
		return parcel{kind: sayLost}, nil
	}
	if s.isGone(p.id) { // a peer has said so since
		session.forget()
	}
	session.unpackOrphans(p.orphans)
	if handing {
		session.hold(p.event)
	} else {
		e.tend()
	}
	return parcel{kind: sayTaken}, nil
}

// ownCreds are the credentials without the text that they were read from.
func (p *parcel) ownCreds() Credentials { return slices.Clone(p.creds) }

// lose: another session is the key's. This one takes no new calls, here and
// elsewhere.
func (e *entry) lose(s *Session) {
	e.server.log.Info().Str("upstream", e.server.settings.Name).
		Msg("another replica has a session for the same caller: this one takes no new calls")
	e.drain(s)
	e.server.tellAll(&parcel{kind: tellDrain, id: s.id})
}

// drain takes a session out of the pool, on which calls go on.
func (e *entry) drain(s *Session) {
	lookAgainAll(e.unpool(s))
	s.endListeners(ErrSessionGone) // they go to the other session
}

// unpool is drain, but for those who wait for a session, whom it returns, and
// those who listen on this one.
func (e *entry) unpool(s *Session) (waiters []*waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if here := e.remove(s); here {
		s.adopted, s.apart = true, true
		e.adopted = append(e.adopted, s)
	}
	waiters, e.waiters = e.waiters, nil
	return waiters
}

// heldBy: a peer has opened the session's GET stream. Where this replica has one
// too, one of them keeps it, the home before others.
func (s *Server) heldBy(session *Session, from string) {
	e := session.entry
	e.mu.Lock()
	both := session.holds()
	self, home := s.settings.Peers.Self(), e.home()
	if both && (home == self || home != from && self < from) {
		e.mu.Unlock()
		s.tell(from, &parcel{kind: tellHeld, id: session.id})
		return
	}
	session.holder, session.offered, session.drained = from, "", false
	e.mu.Unlock()
	session.mu.Lock()
	session.told = nil
	session.mu.Unlock()
	if both {
		s.background(func() { session.unhold() })
	}
}

// hold opens the session's GET stream here, from an event on where one is known,
// and tells the peers.
func (s *Session) hold(event []byte) {
	s.entry.mu.Lock()
	s.holder = s.server.settings.Peers.Self()
	s.entry.mu.Unlock()
	s.startListening(s.Housekeeping(), event, len(event) == 0)
	s.server.tellAll(&parcel{kind: tellHeld, id: s.id})
}
