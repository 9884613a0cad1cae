package legacy

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// The replicas share one session for each key, as a real client has one. Which
// replica is its home they agree on without a word: the one that a hash of key
// and replica puts first. The home opens the session and lends its id; the
// others use it and hold no GET stream. Who has the GET stream is the session's
// holder, which alone may delete it: mostly the home, and for a while another
// replica when the set of replicas has changed.

// shares reports whether the key's sessions are shared by all replicas.
func (e *entry) shares() bool {
	set := e.server.settings
	return set.Peers != nil && set.Affinity && !e.key.Ephemeral && !e.server.noIDs.Load() && e.server.Lends()
}

// home returns the key's home among the live replicas.
func (e *entry) home() string {
	return homeOf(e.digest, e.server.settings.Peers.Self(), e.server.live())
}

// homeOf returns the home of a key among a replica and the others that live.
func homeOf(digest uint64, self string, live []string) string {
	best, most := self, rank(digest, self)
	for _, replica := range live {
		if r := rank(digest, replica); r > most || r == most && replica > best {
			best, most = replica, r
		}
	}
	return best
}

// away reports whether another replica is the key's home.
func (e *entry) away() bool {
	return e.shares() && e.home() != e.server.settings.Peers.Self()
}

// digestKey hashes what all replicas know of a key.
func digestKey(upstream, text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(upstream))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

// rank is a replica's rank for a key: rendezvous hashing, so that a replica that
// comes or goes moves only the keys that it wins or had.
func rank(digest uint64, replica string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(replica))
	x := digest ^ h.Sum64()
	// FNV mixes its last bytes badly: the finalizer of MurmurHash3.
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// openFor opens the key's primary session, wherever that is done. A nil session
// without an error says that this replica has become the key's home.
func (e *entry) openFor(ctx context.Context, o *opening) (*Session, error) {
	switch {
	case !e.shares():
		session, err := e.server.open(ctx, e, o.creds)
		if err == nil && session.id != "" {
			e.server.noIDs.Store(false)
		}
		return session, err
	case o.asHome:
		return e.openAtHome(ctx, o.creds)
	}
	return e.borrow(ctx, o.creds)
}

// borrow asks the home for its session.
func (e *entry) borrow(ctx context.Context, creds Credentials) (*Session, error) {
	s := e.server
	e.mu.Lock()
	question := parcel{kind: askLend, key: &e.key, creds: creds.Lasting(), gone: e.gone}
	e.mu.Unlock()
	stale := 0
	for pause := lookAgain; ; pause = min(2*pause, 8*lookAgain) {
		if !e.away() {
			return nil, nil
		}
		home := e.home()
		answer, err := s.ask(ctx, home, &question)
		if err == nil {
			switch answer.kind {
			case sayHave:
				if stale < maxStale && s.isGone(answer.id) {
					stale++ // the home has not heard it yet
					break
				}
				return e.borrowed(&answer, home, creds)
			case sayRefused:
				if !errors.Is(answer.err, ErrClosed) {
					return nil, answer.refused()
				}
			case sayNoIDs, sayUnknown:
				if answer.kind == sayNoIDs {
					s.noIDs.Store(true)
				}
				return s.open(ctx, e, creds)
			}
		}
		// The home is gone, or about to go: soon another is.
		if !wait.Pause(ctx, pause) {
			return nil, fmt.Errorf("%w: replica %s, which keeps the session, does not answer", ErrUnreachable, home)
		}
	}
}

// lookAgain is the first pause before the live replicas are looked at again.
const lookAgain = 20 * time.Millisecond

// maxStale is how often a home is asked again that lends a session which is gone:
// a server that was restarted may have given out the same id once more.
const maxStale = 3

// borrowed makes the session that a peer lends. Its place is reserved.
func (e *entry) borrowed(p *parcel, from string, creds Credentials) (*Session, error) {
	s := e.server
	info := s.infoFor(p.version)
	if p.info != nil {
		var err error
		if info, err = s.infoOf(slices.Clone(p.info)); err != nil {
			return nil, err
		}
	}
	if p.pushes {
		s.pushes.Store(true)
	}
	session := s.foundSession(e, p.id, info, creds)
	session.level = p.level
	session.holder = p.holder
	if p.number > 0 {
		session.note(from) // nobody else knows the session yet
	}
	if p.holder == s.settings.Peers.Self() { // it was, in another life
		session.holder = ""
	}
	return session, nil
}

// openAtHome opens the key's session as its home: one that a peer has already,
// or a new one.
func (e *entry) openAtHome(ctx context.Context, creds Credentials) (*Session, error) {
	s := e.server
	e.mu.Lock()
	question := parcel{kind: askHave, key: &e.key, gone: e.gone}
	e.mu.Unlock()
	replies := s.askAll(ctx, &question)
	var found *reply
	for i := range replies {
		r := &replies[i]
		if r.kind == sayHave && r.id != "" && !s.isGone(r.id) && !e.spentHere(r.id) && (found == nil || found.holder != found.from && r.holder == r.from) {
			found = r
		}
	}
	if found != nil {
		session, err := e.borrowed(&found.parcel, found.from, creds)
		if err == nil {
			session.count(replies)
			session.counted = true
		}
		return session, err
	}
	e.mu.Lock()
	for _, left := range e.adopted {
		if !left.apart && left.id != e.gone && !s.isGone(left.id) { // of a replica that has died
			e.mu.Unlock()
			session := s.foundSession(e, left.id, left.info, creds)
			return session, nil
		}
	}
	e.mu.Unlock()
	session, err := s.open(ctx, e, creds)
	if err == nil {
		s.noIDs.Store(session.id == "")
	}
	return session, err
}

// errSpent is for a session that a peer lends which has not heard yet that it takes
// no more calls.
var errSpent = fmt.Errorf("%w: the session that another replica lends takes no more calls", ErrFull)

// spentHere reports whether a session is known to take no more calls.
func (e *entry) spentHere(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.named(id)
	return s != nil && s.spent
}

// count takes over what peers say of their eligible calls on the session. It is
// not on any book yet, or entry.mu is held.
func (s *Session) count(replies []reply) {
	for _, r := range replies {
		if r.kind != sayHave || r.id != s.id {
			continue
		}
		if r.life != 0 {
			s.seeReturned(r.from, returned{r.life, r.freed})
		}
		more := int(r.eligible) - s.remote[r.from]
		if more <= 0 {
			continue
		}
		if s.remote == nil {
			s.remote = make(map[string]int)
		}
		s.remote[r.from] += more
		s.users += more
		s.eligible += more
	}
}

// uncounted reports whether this replica has become the home of a session
// without knowing what calls of others are on it. mu is held.
func (e *entry) uncounted() bool {
	s := e.primarySession()
	return s != nil && !s.counted && e.shares()
}

// countCalls asks the peers for their calls on a session.
func (e *entry) countCalls(ctx context.Context, s *Session) {
	replies := e.server.askAll(ctx, &parcel{kind: askHave, key: &e.key})
	e.mu.Lock()
	defer e.mu.Unlock()
	s.count(replies)
	s.counted = true
}

// settle puts a primary session on the books that was opened or borrowed, unless
// the entry has got one meanwhile. mu is held.
func (e *entry) settle(s *Session) error {
	if e.shutDown {
		e.server.background(func() { e.server.end(s) })
		return ErrClosed
	}
	if why := s.whyLost(); why != nil { // nobody takes it off the books any more
		e.server.background(func() { e.server.end(s) })
		return why
	}
	if s.id != "" {
		if here := e.named(s.id); here != nil && here != s {
			e.server.vacate() // s has no stream, and nobody has used it
			if here.spent {
				return errSpent
			}
			e.promote(here)
			for replica, n := range s.remote {
				known := s.returned[replica]
				here.count([]reply{{replica, parcel{kind: sayHave, id: s.id, eligible: uint64(n), life: known.life, freed: known.freed}}})
			}
			here.holder = cmpHolder(here.holder, s.holder)
			return nil
		}
	}
	s.adopted = false
	e.gone = ""
	e.server.register(s)
	if s.opened && e.shares() && len(e.sessions) > 0 {
		e.sessions = append(e.sessions, s)
	} else {
		e.sessions = slices.Insert(e.sessions, 0, s)
	}
	return nil
}

// cmpHolder keeps what is known of a holder.
func cmpHolder(known, said string) string {
	if known != "" {
		return known
	}
	return said
}

// promote makes a session of the entry its primary, unless it has been dropped
// meanwhile. mu is held.
func (e *entry) promote(s *Session) {
	if !e.remove(s) {
		return
	}
	s.adopted, s.apart = false, false
	e.gone = ""
	e.sessions = slices.Insert(e.sessions, 0, s)
}

// primarySession returns the session that the key's calls share, or nil. mu is
// held.
func (e *entry) primarySession() *Session {
	if len(e.sessions) > 0 {
		return e.sessions[0]
	}
	return nil
}

// holds reports whether this replica has the session's GET stream. entry.mu is
// held.
func (s *Session) holds() bool {
	return s.server.settings.Peers == nil || s.id == "" || s.holder == s.server.settings.Peers.Self()
}
