package legacy

import (
	"context"
	"slices"
	"sync"
	"time"
)

// The holder of a session that others use asks the server for things without a
// client: the GET stream, the DELETE. The credentials for that are those that
// used the session last, on whatever replica.

// unused returns the milliseconds since the session's credentials were used.
// entry.mu is held.
func (s *Session) unused() uint64 {
	if s.users > s.elsewhere() {
		return 0
	}
	return uint64(max(time.Since(s.lastCreds()).Milliseconds(), 0))
}

// lastCreds is when a use of the session's credentials ended. entry.mu is held.
func (s *Session) lastCreds() time.Time {
	if s.peerUse.After(s.lastUse) {
		return s.peerUse
	}
	return s.lastUse
}

// tellCredentials tells the holders of the key's sessions which credentials used
// them last here, where these are new: once in a while, since they may change
// with every request.
func (e *entry) tellCredentials() {
	for _, n := range e.newCredentials() {
		e.server.tell(n.holder, n.parcel)
	}
}

// leaveCredentials tells all peers before this replica leaves: any of them may
// come to hold the sessions.
func (s *Server) leaveCredentials(ctx context.Context) {
	var telling sync.WaitGroup
	limit := make(chan struct{}, 64) // at a time
	for _, e := range s.all() {
		for _, n := range e.newCredentials() {
			limit <- struct{}{}
			telling.Go(func() {
				s.assure(ctx, n.parcel)
				<-limit
			})
		}
	}
	telling.Wait()
}

// credentialNews is for the holder of a session.
type credentialNews struct {
	holder string
	parcel *parcel
}

// newCredentials returns what holders elsewhere have not been told yet.
func (e *entry) newCredentials() (news []credentialNews) {
	if e.server.settings.Peers == nil {
		return nil
	}
	live := e.server.live()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, list := range [...][]*Session{e.sessions, e.adopted} {
		for _, s := range list {
			if s.holds() || !slices.Contains(live, s.holder) {
				continue
			}
			s.mu.Lock()
			if !slices.Equal(s.creds, s.told) {
				s.told = s.creds
				news = append(news, credentialNews{s.holder, &parcel{kind: tellCreds, id: s.id, creds: s.creds, age: s.unused()}})
			}
			s.mu.Unlock()
		}
	}
	return news
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
	used := time.Now().Add(-time.Duration(min(age, maxAge)) * time.Millisecond)
	if !used.After(s.lastCreds()) {
		return
	}
	s.peerUse = used
	s.mu.Lock()
	defer s.mu.Unlock()
	s.creds = creds
}

// maxAge bounds the milliseconds that a peer may say.
const maxAge = 1 << 40
