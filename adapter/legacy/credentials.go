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

// lastCreds is when a use of the session's credentials ended. entry.mu is held.
func (s *Session) lastCreds() time.Time {
	if s.peerUse.After(s.lastUse) {
		return s.peerUse
	}
	return s.lastUse
}

// stamp adds the session's credentials, and when they were used, to what a peer
// is told. entry.mu and mu are held.
func (s *Session) stamp(p *parcel) {
	now, used := time.Now(), s.lastCreds()
	if s.users > s.elsewhere() {
		used = now
	}
	p.creds, p.used, p.age = s.creds, uint64(max(used.UnixNano(), 0)), uint64(max(now.Sub(used).Milliseconds(), 0))
}

// usedAt is when a peer's credentials were used, by this replica's clock. The
// peer's own is exact, if the two agree on what time it is.
func (p *parcel) usedAt() time.Time {
	about := time.Now().Add(-time.Duration(min(p.age, maxAge)) * time.Millisecond)
	if exact := time.Unix(0, int64(min(p.used, 1<<62))); about.Sub(exact).Abs() < time.Second {
		return exact
	}
	return about
}

// maxAge bounds the milliseconds that a peer may say.
const maxAge = 1 << 40

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
				p := &parcel{kind: tellCreds, id: s.id}
				s.stamp(p)
				news = append(news, credentialNews{s.holder, p})
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
	s.takeCredentials(p)
}

// takeCredentials is hearCredentials with entry.mu held.
func (s *Session) takeCredentials(p *parcel) {
	used := p.usedAt()
	if !used.After(s.lastCreds()) {
		return
	}
	s.peerUse = used
	s.mu.Lock()
	defer s.mu.Unlock()
	s.creds = p.ownCreds()
}
