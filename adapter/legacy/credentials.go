package legacy

import (
	"slices"
	"time"
)

// The holder of a session that others use asks the server for things without a
// client: the GET stream, the DELETE. The credentials for that are those that
// used the session last, on whatever replica.

// unused returns the milliseconds since the session was used. entry.mu is held.
func (s *Session) unused() uint64 {
	if s.users > s.elsewhere() {
		return 0
	}
	return s.idle()
}

// idle returns the milliseconds since a use of the session ended. entry.mu is
// held.
func (s *Session) idle() uint64 { return uint64(max(time.Since(s.lastUse).Milliseconds(), 0)) }

// tellCredentials tells the holders of the key's sessions which credentials used
// them last here, where these are new: once in a while, since they may change
// with every request.
func (e *entry) tellCredentials() {
	set := e.server.settings
	if set.Peers == nil {
		return
	}
	live := e.server.live()
	e.mu.Lock()
	var told []string
	var news []*parcel
	for _, list := range [...][]*Session{e.sessions, e.adopted} {
		for _, s := range list {
			if s.holds() || !slices.Contains(live, s.holder) {
				continue
			}
			s.mu.Lock()
			if !slices.Equal(s.creds, s.told) {
				s.told = s.creds
				told = append(told, s.holder)
				news = append(news, &parcel{kind: tellCreds, id: s.id, creds: s.creds, age: s.unused()})
			}
			s.mu.Unlock()
		}
	}
	e.mu.Unlock()
	for i, p := range news {
		e.server.tell(told[i], p)
	}
}

// hearCredentials takes the credentials that used the session at a peer, unless
// it was used here since.
func (s *Session) hearCredentials(p *parcel) {
	s.entry.mu.Lock()
	defer s.entry.mu.Unlock()
	s.takeCredentials(p.ownCreds(), p.age)
}

// takeCredentials is hearCredentials with entry.mu held.
func (s *Session) takeCredentials(creds Credentials, age uint64) {
	if s.idle() <= age {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.creds = creds
}
