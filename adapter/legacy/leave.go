package legacy

import (
	"context"
	"slices"
	"sort"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// endElsewhere reports whether the session is left to other replicas: one of
// them holds it, or uses it and takes it over, or may without this one knowing.
func (s *Server) endElsewhere(ctx context.Context, session *Session) bool {
	if s.mayBeUsed(session) {
		return true
	}
	missing := s.missing(session)
	if !session.reach() || session.Gone() {
		return missing
	}
	question := parcel{kind: askUsing, id: session.id}
	replies, complete := s.askEach(ctx, &question)
	if !complete && wait.Pause(ctx, newsPause) { // who does not answer may have just left
		replies, complete = s.askEach(ctx, &question)
	}
	if !complete || s.mayBeUsed(session) { // no connection between the replicas
		return true
	}
	used := false
	for _, r := range replies {
		if r.kind != sayUsing {
			continue
		}
		if r.holder == r.from {
			return true
		}
		used = used || r.flag
		session.hearCredentials(&r.parcel)
	}
	if session.endsElsewhere(ctx) {
		return true
	}
	session.entry.mu.Lock()
	holds, kept := session.holds(), session.users > session.elsewhere()
	session.entry.mu.Unlock()
	if !used && !kept && !missing {
		return false
	}
	if holds {
		taken, stay := s.handAway(ctx, session)
		return taken || used && stay || missing
	}
	return used || missing
}

// missing reports whether a replica that is not heard of may use the session:
// when its own lease is over, its calls are taken over where their clients come
// back.
func (s *Server) missing(session *Session) bool {
	return s.settings.Peers != nil && session.id != "" && !session.Gone() && s.settings.Peers.Missing()
}

// newsPause is how long what a replica said before it left may be on its way.
const newsPause = 100 * time.Millisecond

// endsElsewhere reports whether another replica holds the session, which ends
// it or has done so.
func (s *Session) endsElsewhere(ctx context.Context) bool {
	for first := true; ; first = false {
		s.entry.mu.Lock()
		gone, drained, holder := s.orphaned(), s.drained, s.holder
		ours := holder == "" || s.holds()
		s.entry.mu.Unlock()
		switch {
		case ours:
			return false
		case drained || !gone:
			return true
		case !first || !wait.Pause(ctx, newsPause): // it has died
			return false
		}
	}
}

// leaveTo notes that a peer ends the session, if it is the one that holds it.
func (s *Session) leaveTo(replica string) {
	s.entry.mu.Lock()
	defer s.entry.mu.Unlock()
	s.drained = s.drained || s.holder == replica
}

// lastWord answers for a Server that is closed: who holds what, so that peers
// that end as well know what is left to them.
func (s *Server) lastWord(body []byte) *parcel {
	p, err := readParcel(body)
	if err != nil {
		return &parcel{kind: sayUnknown}
	}
	if p.kind != askUsing {
		return &parcel{kind: sayLater, closing: true}
	}
	session := s.known(p.id)
	if session == nil {
		return &parcel{kind: sayNone}
	}
	answer := session.use()
	answer.flag = false // no call comes any more
	return &answer
}

// mayBeUsed reports whether replicas that this one does not reach may use the
// session.
func (s *Server) mayBeUsed(session *Session) bool {
	return s.settings.Peers != nil && session.id != "" && !session.Gone() && !s.settings.Peers.Confirmed()
}

// handAway gives a session to whichever peer takes it: the next home first. stay
// says that one which does not will live on.
func (s *Server) handAway(ctx context.Context, session *Session) (taken, stay bool) {
	e := session.entry
	live := slices.Clone(s.live())
	sort.Slice(live, func(i, j int) bool { return rank(e.digest, live[i]) > rank(e.digest, live[j]) })
	event := session.unhold()
	e.mu.Lock()
	session.holder = "" // whoever takes it may ask before this replica knows
	e.mu.Unlock()
	question := e.offering(session, event, true)
	question.closing, question.orphans = true, session.packOrphans()
	for _, replica := range live {
		answer, err := s.ask(ctx, replica, question)
		if err == nil && answer.kind == sayTaken {
			e.mu.Lock()
			session.holder = replica
			e.mu.Unlock()
			return true, true
		}
		stay = stay || err == nil && !answer.closing
	}
	e.mu.Lock()
	session.holder = s.settings.Peers.Self()
	e.mu.Unlock()
	session.unpackOrphans(question.orphans)
	return false, stay
}

// Gone reports whether the server has said that it does not know the session.
func (s *Session) Gone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}
