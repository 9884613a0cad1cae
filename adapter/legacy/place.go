package legacy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// Where the server pushes its questions on the GET stream, a session can have
// one eligible call, on whatever replica: the home gives the places out. What
// peers have of them is counted there as if they were calls of its own. Once
// given, a place is told free, or is free when its replica is gone; that a
// message about it was lost is found out by asking.

// own returns the eligible calls of this replica. entry.mu is held.
func (s *Session) own() int { return s.eligible - s.elsewhere() }

// elsewhere returns the eligible calls of other replicas. entry.mu is held.
func (s *Session) elsewhere() (n int) {
	for _, m := range s.remote {
		n += m
	}
	return n
}

// grant counts a place that was lent as a peer's. entry.mu is held.
func (s *Session) grant(replica string) {
	if s.remote == nil {
		s.remote = make(map[string]int)
	}
	s.remote[replica]++
	s.granted = time.Now()
}

// place asks the home for a session with a place for an eligible call, again where
// there is no room for one at the moment. A nil
// session and error say to look again: this replica is the home, or there is
// none.
func (e *entry) place(ctx context.Context, creds Credentials, began time.Time) (*Session, error) {
	s := e.server
	silent := time.Time{} // since when no home has answered
	for pause := lookAgain; e.away(); pause = min(2*pause, 8*lookAgain) {
		home := e.home()
		e.mu.Lock()
		question := parcel{kind: askPlace, key: &e.key, creds: creds.Lasting(), gone: e.gone}
		e.mu.Unlock()
		answer, err := s.ask(ctx, home, &question)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil || answer.kind == sayLater || answer.kind == sayRefused && errors.Is(answer.err, ErrClosed):
		case answer.kind == sayRefused:
			if err := answer.refused(); !s.comesAgain(ctx, began, err) {
				return nil, err
			}
			continue
		case answer.kind == sayNoIDs:
			s.noIDs.Store(true)
			return nil, nil
		case answer.kind != sayHave || answer.id == "":
			return nil, fmt.Errorf("%w: replica %s does not know of places", ErrUnreachable, home)
		default:
			session, err := e.placedOn(&answer, home, creds)
			if err != nil && err != errSpent {
				s.tell(home, &parcel{kind: tellFree, id: answer.id})
			}
			if s.comesAgain(ctx, began, err) {
				continue
			}
			return session, err
		}
		if silent.IsZero() {
			silent = time.Now()
		}
		if time.Since(silent) > s.settings.OpenTimeout {
			return nil, fmt.Errorf("%w: replica %s, which keeps the session, does not answer", ErrUnreachable, home)
		}
		if !wait.Pause(ctx, pause) {
			return nil, ctx.Err()
		}
	}
	return nil, nil
}

// placedOn lends the session that the home has given a place on.
func (e *entry) placedOn(p *parcel, home string, creds Credentials) (*Session, error) {
	s := e.server
	for reserved := false; ; reserved = true {
		e.mu.Lock()
		session := e.named(p.id)
		if session != nil && p.number > 0 {
			session.mu.Lock()
			session.note(home)
			session.mu.Unlock()
		}
		if session == nil && reserved && !e.shutDown {
			var err error
			if session, err = e.borrowed(p, home, creds); err != nil {
				e.mu.Unlock()
				s.vacate()
				return nil, err
			}
			session.adopted, session.apart = true, true // its home lends it again where it is needed
			s.register(session)
			e.adopted = append(e.adopted, session)
			reserved = false
		}
		if session != nil {
			e.lend(session, true)
			session.places++
		}
		over := e.shutDown
		spent := session != nil && session.spent
		e.mu.Unlock()
		if reserved {
			s.vacate()
		}
		switch {
		case spent:
			e.release(session, true) // which tells the home so
			return nil, errSpent
		case session != nil:
			return session, nil
		case over:
			return nil, ErrClosed
		case !s.reserve() && !s.evict():
			return nil, errCrowded
		}
	}
}

// giveBack counts a place as given back, and returns what the home must be told
// of it, or nil. entry.mu is held.
func (s *Session) giveBack() *parcel {
	if s.places <= s.own() {
		return nil
	}
	s.places--
	s.freed++
	return &parcel{kind: tellFree, id: s.id, life: s.life, freed: s.freed, closing: s.spent}
}

// returned is how many places of a session another replica has given back, in
// the life that the session has there. Since it is a sum, it may be heard of in
// any order and any number of times.
type returned struct{ life, freed uint64 }

// seeReturned notes what another replica has given back, and returns how many of
// its places that makes free. entry.mu is held.
func (s *Session) seeReturned(replica string, now returned) int {
	if now.life == 0 { // an older replica counts nothing
		return min(1, s.remote[replica])
	}
	known := s.returned[replica]
	if now.life < known.life || now.life == known.life && now.freed <= known.freed {
		return 0
	}
	if s.returned == nil {
		s.returned = make(map[string]returned)
	}
	s.returned[replica] = now
	if now.life != known.life {
		known.freed = 0
	}
	return int(min(now.freed-known.freed, uint64(s.remote[replica])))
}

// free takes the places back that a peer has given back.
func (e *entry) free(s *Session, replica string, life, freed uint64) {
	e.mu.Lock()
	n := s.seeReturned(replica, returned{life, freed})
	for range n {
		s.dropRemote(replica)
	}
	e.mu.Unlock()
	for range n {
		e.release(s, true)
	}
}

// lentOut returns a session that only calls of other replicas keep from taking
// another one, or nil. mu is held.
func (e *entry) lentOut() *Session {
	for _, s := range e.sessions {
		if s.eligible > 0 && s.own() == 0 {
			return s
		}
	}
	return nil
}

// passedOver returns the primary session where an eligible call would get
// another one that is free, because of calls of other replicas on it, or nil.
// mu is held.
func (e *entry) passedOver() *Session {
	if len(e.waiters) > 0 || len(e.sessions) < 2 || !e.server.pushes.Load() {
		return nil // it gets none, or the primary: nothing may keep it from its turn
	}
	primary := e.sessions[0]
	if primary.eligible == 0 || primary.own() > 0 {
		return nil
	}
	for _, s := range e.sessions[1:] {
		if s.eligible == 0 {
			return primary
		}
	}
	return nil
}

// takeBackLater is takeBack for a call that waits: it queues first, since whoever
// comes while peers are asked must come after it. mu is held.
func (e *entry) takeBackLater(s *Session) {
	if e.taking {
		return
	}
	e.taking = true
	e.server.background(func() {
		e.takeBack(e.server.ctx, s)
		e.mu.Lock()
		e.taking = false
		e.mu.Unlock()
	})
}

// takeBack asks the replicas that have places on a session what they have given
// back of them: the client of a call that has ended may be faster than the news
// of its place, and calls one after the other are to share a session.
func (e *entry) takeBack(ctx context.Context, s *Session) {
	for _, r := range e.server.askAll(ctx, &parcel{kind: askUsing, id: s.id}) {
		if r.kind == sayUsing && r.life != 0 {
			if r.closing {
				e.drain(s)
			}
			e.free(s, r.from, r.life, r.freed)
		}
	}
}

// dropRemote takes one place of a replica off the count. entry.mu is held.
func (s *Session) dropRemote(replica string) {
	if s.remote[replica]--; s.remote[replica] <= 0 {
		delete(s.remote, replica)
	}
}

// placed counts an eligible call of a peer that needed no place.
func (e *entry) placed(s *Session, replica string, life, freed uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if life > s.returned[replica].life {
		s.seeReturned(replica, returned{life, freed})
	}
	e.lend(s, true)
	s.grant(replica)
}

// freeLost takes the places of replicas back that are gone; all of them where
// this replica is not the home any more, which has counted them itself.
func (e *entry) freeLost() {
	live := e.server.live()
	away := e.away()
	if away {
		live = nil
	}
	e.mu.Lock()
	var free []*Session
	for _, list := range [...][]*Session{e.sessions, e.adopted} {
		for _, s := range list {
			s.counted = s.counted && !away
			for replica, n := range s.remote {
				if !slices.Contains(live, replica) {
					delete(s.remote, replica)
					for range n {
						free = append(free, s)
					}
				}
			}
		}
	}
	e.mu.Unlock()
	for _, s := range free {
		if e.key.Shared && !away { // how its call has ended, nobody says
			e.spend(s)
		}
		e.release(s, true)
	}
}

// recount asks the replicas that have places whether they still use them: a
// message that one is free may have been lost.
func (e *entry) recount(ctx context.Context) {
	e.mu.Lock()
	var counted []*Session
	for _, s := range e.sessions {
		if len(s.remote) > 0 && time.Since(s.granted) > recountAfter {
			counted = append(counted, s)
		}
	}
	e.mu.Unlock()
	for _, s := range counted {
		asked := time.Now()
		for _, r := range e.server.askAll(ctx, &parcel{kind: askUsing, id: s.id}) {
			for {
				e.mu.Lock()
				lost := s.granted.Before(asked) && s.remote[r.from] > int(r.eligible)
				if lost {
					s.dropRemote(r.from)
				}
				e.mu.Unlock()
				if !lost {
					break
				}
				if e.key.Shared {
					e.spend(s)
				}
				e.release(s, true)
			}
		}
	}
}

// recountAfter is how long a place must have been out before it is asked for.
const recountAfter = 10 * time.Second
