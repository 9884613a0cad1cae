package legacy

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Adopt lends the session on which a call stands that began elsewhere, as
// Acquire lends one for a new call: the key's own where it has that id, however
// many eligible calls are on it, else one that is made without a handshake. The
// upstream need not know the id any more; who uses the session finds out. It
// returns ErrSessionGone where there is no id, ErrFull or ErrClosed.
func (s *Server) Adopt(ctx context.Context, key *Key, at Position, eligible bool, creds Credentials) (*Session, error) {
	if at.Session == "" {
		return nil, fmt.Errorf("%w: the server gives out no session ids", ErrSessionGone)
	}
	if !mcp.LegacyVersion(at.Version) {
		return nil, fmt.Errorf("%w: it speaks protocol version %.40q", ErrSessionGone, at.Version)
	}
	if s.isGone(at.Session) { // else new calls might be put on it, too
		return nil, ErrSessionGone
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	info := s.infoOfPeers(ctx, at.Version)
	for {
		e, err := s.entry(key)
		if err != nil {
			return nil, err
		}
		session, again, err := e.adopt(at, info, eligible, creds)
		if again {
			continue
		}
		if err == nil {
			if eligible && s.PushesOnGET() && e.away() { // no place was asked for: it stands there already
				e.mu.Lock()
				session.places++
				placed := parcel{kind: tellPlaced, id: session.id, life: session.life, freed: session.freed}
				e.mu.Unlock()
				s.tell(e.home(), &placed)
			}
			e.tend()
		}
		return session, err
	}
}

// adopt lends the session with an id. again says that the entry is of no more
// use.
func (e *entry) adopt(at Position, info *Info, eligible bool, creds Credentials) (s *Session, again bool, err error) {
	for reserved := false; ; reserved = true {
		e.mu.Lock()
		if s = e.named(at.Session); s == nil && reserved && !e.shutDown {
			s = e.server.foundSession(e, at.Session, info, creds)
			s.adopted = true
			e.server.register(s)
			e.adopted = append(e.adopted, s)
			reserved = false
		}
		if s != nil {
			e.lend(s, eligible)
		}
		over := e.shutDown
		e.mu.Unlock()
		if reserved { // it came to be meanwhile, or the entry ended
			e.server.vacate()
		}
		switch {
		case s != nil:
			return s, false, nil
		case over:
			return nil, true, nil
		case !e.server.reserve() && !e.server.evict():
			return nil, false, fmt.Errorf("%w: sessions.max is reached", ErrFull)
		}
	}
}

// named returns the entry's session with an id, or nil. mu is held.
func (e *entry) named(id string) *Session {
	for _, list := range [...][]*Session{e.sessions, e.adopted} {
		for _, s := range list {
			if s.id == id {
				return s
			}
		}
	}
	return nil
}

// foundSession makes a session of an id that another replica was given. The
// caller has reserved its place.
func (s *Server) foundSession(e *entry, id string, info *Info, creds Credentials) *Session {
	session := s.newSession(e, creds)
	session.id, session.info = id, info
	session.setHeads()
	return session
}

// infoFor returns what is known of a server on a session that speaks a version:
// what it said at the newest handshake, else nothing but the version.
func (s *Server) infoFor(version string) *Info {
	if info := s.info.Load(); info != nil && info.Version == version {
		return info
	}
	return &Info{Version: version, Revision: mcp.ParseRevision(version), Capabilities: []byte("{}")}
}

// infoOfPeers is infoFor, but asks the peers where this replica has seen no
// handshake.
func (s *Server) infoOfPeers(ctx context.Context, version string) *Info {
	info := s.infoFor(version)
	if info.raw != nil {
		return info
	}
	for _, r := range s.askAll(ctx, &parcel{kind: askInfo, version: version}) {
		if r.kind != sayHave || r.info == nil {
			continue
		}
		if told, err := s.infoOf(slices.Clone(r.info)); err == nil && told.Version == version {
			return told
		}
	}
	return info
}
