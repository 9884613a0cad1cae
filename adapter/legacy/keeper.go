package legacy

import (
	"context"
	"errors"
	"slices"
	"time"
)

// A session of a channel serves the calls of one replica: nobody else hears what
// comes on it. Requests for it go there whole, first to its key's home.

// Lends reports whether other replicas can use the server's sessions, as far as
// is known: over HTTP+SSE each session has one stream, over stdio one process.
//
// Hot: once per request.
func (s *Server) Lends() bool {
	switch s.settings.Transport {
	case TransportSSE, TransportStdio:
		return false
	}
	return !s.overSSE.Load()
}

// MayKeep reports whether a request may have to go to another replica whole: the
// server's sessions cannot be lent, or it is not known yet whether they can.
//
// Hot: once per request.
func (s *Server) MayKeep() bool {
	return !s.Lends() || !s.Settled()
}

// Settled reports whether it is known how the server is spoken to.
func (s *Server) Settled() bool { return s.settings.Transport != TransportAuto || s.settled.Load() }

// settle learns from the home of a key how the server is spoken to, by having it
// open the session that is needed in any case. An error is the server's.
func (s *Server) settle(ctx context.Context, home string, key *Key, creds Credentials) error {
	for began := time.Now(); ; {
		err := s.settleOnce(ctx, home, key, creds)
		if err == nil || !s.comesAgain(ctx, began, err) {
			return err
		}
	}
}

func (s *Server) settleOnce(ctx context.Context, home string, key *Key, creds Credentials) error {
	if !s.reserve() && !s.evict() {
		return errCrowded
	}
	defer s.vacate() // where it is lent, it is reserved anew
	answer, err := s.ask(ctx, home, &parcel{kind: askLend, key: key, creds: creds.Lasting()})
	switch {
	case err != nil:
	case answer.kind == sayRefused && !errors.Is(answer.err, ErrClosed):
		return answer.refused()
	case answer.kind == sayNoIDs && answer.flag:
		s.speaks(TransportSSE)
		s.settled.Store(true)
	case answer.kind == sayNoIDs || answer.kind == sayHave:
		s.settled.Store(true)
	}
	return nil
}

// Keeper returns the replica that keeps the session of a key, or is to open it:
// one that has it already, also where it is no longer the key's home, else the
// home. "" is this one. past are replicas that take nothing new any more. It may
// ask the peers, which takes at most a second; or as long as a session takes to
// open, where it is not known yet how the server is spoken to: then an error says
// why it could not be opened.
func (s *Server) Keeper(ctx context.Context, key *Key, creds Credentials, past []string) (string, error) {
	set := s.settings
	if set.Peers == nil || !set.Affinity || key.Ephemeral || !s.MayKeep() {
		return "", nil
	}
	if e := s.existing(key); e != nil && e.keeps() {
		return "", nil
	}
	live := slices.DeleteFunc(slices.Clone(s.live()), func(replica string) bool { return slices.Contains(past, replica) })
	if len(live) == 0 {
		return "", nil
	}
	home := homeOf(digestKey(set.Name, string(key.appendText(nil))), set.Peers.Self(), live)
	if home != set.Peers.Self() && s.Lends() {
		if err := s.settle(ctx, home, key, creds); err != nil {
			return "", err
		}
	}
	switch {
	case s.Lends():
		return "", nil
	case home != set.Peers.Self():
		return home, nil
	}
	for _, r := range s.askAll(ctx, &parcel{kind: askHave, key: key}) {
		if r.kind == sayYes && slices.Contains(live, r.from) {
			return r.from, nil
		}
	}
	return "", nil
}

// keeps reports whether there is a session, or soon will be.
func (e *entry) keeps() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.sessions) > 0 || e.opening > 0
}
