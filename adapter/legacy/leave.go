package legacy

import (
	"context"
	"slices"
	"sort"
)

// endElsewhere reports whether the session is left to other replicas: one of
// them holds it, or uses it and takes it over, or may without this one knowing.
func (s *Server) endElsewhere(ctx context.Context, session *Session) bool {
	if s.settings.Peers != nil && session.id != "" && !session.isGone() && !s.settings.Peers.Confirmed() {
		return true
	}
	if !session.reach() || session.isGone() {
		return false
	}
	replies := s.askAll(ctx, &parcel{kind: askUsing, id: session.id})
	used := false
	for _, r := range replies {
		if r.kind != sayUsing {
			continue
		}
		if r.holder == r.from {
			return true
		}
		used = used || r.flag
	}
	session.entry.mu.Lock()
	holds, kept := session.holds(), session.users > session.elsewhere()
	session.entry.mu.Unlock()
	if !used && !kept {
		return false
	}
	if holds {
		return s.handAway(ctx, session) || used
	}
	return used
}

// handAway gives a session to whichever peer takes it: the next home first.
func (s *Server) handAway(ctx context.Context, session *Session) bool {
	e := session.entry
	live := slices.Clone(s.live())
	sort.Slice(live, func(i, j int) bool { return rank(e.digest, live[i]) > rank(e.digest, live[j]) })
	question := e.offering(session, session.unhold(), true)
	question.closing = true
	for _, replica := range live {
		if answer, err := s.ask(ctx, replica, question); err == nil && answer.kind == sayTaken {
			return true
		}
	}
	return false
}

func (s *Session) isGone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}
