package legacy

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// lendTo lends the key's session to a peer, opening it where there is none; with
// askPlace also a place for an eligible call, which waits for one as a call of
// this replica would. Whoever is asked acts as the home, whatever it thinks
// itself: what follows from two views of the live replicas is put right later.
func (s *Server) lendTo(ctx context.Context, from string, p *parcel) (parcel, error) {
	e, err := s.entry(p.key)
	if err != nil {
		return parcel{kind: sayLater}, nil
	}
	e.forgetGone(p.gone)
	for {
		if !e.shares() {
			return parcel{kind: sayNoIDs, flag: !s.Lends()}, nil
		}
		if p.id != "" { // a place on this very session, for a call that stands there
			return e.lendNamed(from, p.id), nil
		}
		session, again, err := e.acquire(ctx, p.kind == askPlace, slices.Clone(p.creds), true)
		if again {
			if e, err = s.entry(p.key); err != nil {
				return parcel{kind: sayLater}, nil
			}
			continue
		}
		if err != nil {
			return parcel{kind: sayRefused, err: err, flag: err == errCrowded}, nil
		}
		if session.id == "" || ctx.Err() != nil { // nobody waits for the answer any more
			session.Return(p.kind == askPlace)
			return parcel{kind: sayNoIDs, flag: !s.Lends()}, nil
		}
		answer := session.describe()
		if p.kind == askPlace {
			e.mu.Lock()
			session.grant(from)
			e.mu.Unlock()
		} else {
			session.Return(false)
		}
		return answer, nil
	}
}

// refused returns the error of a replica that has lent nothing.
func (p *parcel) refused() error {
	if p.flag {
		return crowdedThere{p.err}
	}
	return p.err
}

// lendNamed gives a peer a place on a session however many eligible calls are on
// it.
func (e *entry) lendNamed(from, id string) parcel {
	e.mu.Lock()
	defer e.mu.Unlock()
	session := e.named(id)
	if session == nil {
		return parcel{kind: sayNone}
	}
	e.lend(session, true)
	session.grant(from)
	return parcel{kind: sayYes}
}

// forgetGone drops a session that the server no longer knows, says a peer.
func (e *entry) forgetGone(id string) {
	if id == "" {
		return
	}
	e.mu.Lock()
	session := e.named(id)
	e.mu.Unlock()
	if session != nil {
		session.markGone()
	}
}

// describe says what a peer needs to use the session.
func (s *Session) describe() parcel {
	s.entry.mu.Lock()
	defer s.entry.mu.Unlock()
	return s.described()
}

// described is describe with entry.mu held.
func (s *Session) described() parcel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return parcel{
		kind: sayHave, id: s.id, version: s.info.Version, info: s.info.raw, holder: s.holder,
		level: s.level, pushes: s.server.pushes.Load(), number: uint64(len(s.orphans) + len(s.noted)),
		life: s.life, freed: s.freed,
	}
}

// tellWhatWeHave answers a home that is about to open the key's session.
func (s *Server) tellWhatWeHave(p *parcel) (parcel, error) {
	e := s.existing(p.key)
	if e == nil {
		return parcel{kind: sayNone}, nil
	}
	if !s.Lends() {
		if e.keeps() {
			return parcel{kind: sayYes}, nil
		}
		return parcel{kind: sayNone}, nil
	}
	e.forgetGone(p.gone)
	e.mu.Lock()
	session := e.primarySession()
	if session == nil || session.id == "" || !e.shares() {
		e.mu.Unlock()
		return parcel{kind: sayNone}, nil
	}
	defer e.mu.Unlock()
	session.places = session.own() // the home counts them from here on
	answer := session.described()
	answer.eligible = uint64(session.places)
	return answer, nil
}

// existing returns a key's entry, or nil.
func (s *Server) existing(key *Key) *entry {
	text := key.appendText(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[string(text)]
}

// use tells the holder what this replica has to do with the session.
func (s *Session) use() parcel {
	e := s.entry
	e.mu.Lock()
	defer e.mu.Unlock()
	answer := parcel{kind: sayUsing, holder: s.holder, eligible: uint64(s.own()), life: s.life, freed: s.freed, closing: s.spent}
	// A session that takes no new calls is used only while it is; the others may
	// be used again at any time.
	answer.flag = s.users > s.elsewhere() || !s.adopted && time.Since(s.lastUse) < e.server.settings.IdleTTL
	s.mu.Lock()
	defer s.mu.Unlock()
	answer.level = s.wantLevel()
	s.stamp(&answer)
	return answer
}

// candidates says how many calls of this replica a message of a peer could be
// for, and which, where there is one. Where there is none, a question waits at
// the peer if it is for nobody else: that is noted at once, since the next call
// here may be faster than the news.
func (s *Session) candidates(from string, eligible bool) parcel {
	s.mu.Lock()
	x, n := s.candidateLocked(eligible, nil)
	if n == 0 && eligible {
		s.note(from)
	}
	late := len(s.late) > 0
	s.mu.Unlock()
	answer := parcel{kind: sayWho, number: uint64(n), flag: late}
	if n == 1 {
		answer.request = x.Position().Request
	}
	return answer
}

// candidate counts the calls that a message could be for, and returns one. A
// request of our own is none.
func (s *Session) candidate(eligible bool, not *Exchange) (only *Exchange, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.candidateLocked(eligible, not)
}

// candidateLocked is candidate with mu held.
func (s *Session) candidateLocked(eligible bool, not *Exchange) (only *Exchange, n int) {
	for _, y := range s.calls {
		if _, ours := y.sink.(*answer); !ours && y != not && (y.eligible || !eligible) {
			only = y
			n++
		}
	}
	return only, n
}

// giveOrphans hands the questions over that wait for a call, also those that
// this replica knows to wait at others.
func (s *Session) giveOrphans(ctx context.Context) parcel {
	s.FetchOrphans(ctx)
	return parcel{kind: sayOrphans, orphans: s.takeOrphans()}
}

func (s *Session) listensTo(uri string) parcel {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.topics[uri]; t != nil && len(t.listeners) > 0 {
		return parcel{kind: sayYes, flag: t.active}
	}
	return parcel{kind: sayNone}
}

// topicElsewhere reports whether a listener of another replica needs a resource's
// subscription, and whether the server was asked for it.
func (s *Session) topicElsewhere(ctx context.Context, uri string) (listens, subscribed bool) {
	if !s.reach() {
		return false, false
	}
	for _, r := range s.server.askAll(ctx, &parcel{kind: askTopic, id: s.id, uri: uri}) {
		listens = listens || r.kind == sayYes
		subscribed = subscribed || r.kind == sayYes && r.flag
	}
	return listens, subscribed
}

// levelElsewhere returns the most verbose level that live calls of other
// replicas want.
func (s *Session) levelElsewhere(ctx context.Context) (want mcp.Level) {
	if !s.reach() {
		return mcp.LevelNone
	}
	for _, r := range s.server.askAll(ctx, &parcel{kind: askUsing, id: s.id}) {
		want = moreVerbose(want, r.level)
	}
	return want
}

func moreVerbose(a, b mcp.Level) mcp.Level {
	if a == mcp.LevelNone || b != mcp.LevelNone && b < a {
		return b
	}
	return a
}

// appendMessage writes a message as it came.
func appendMessage(dst []byte, m *jsonrpc.Message) []byte {
	switch {
	case m.Result != nil:
		return jsonrpc.AppendResult(dst, m.ID, m.Result)
	case m.Error != nil:
		dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), m.ID...)
		dst = append(append(dst, `,"error":`...), m.Error...)
		return append(dst, '}')
	}
	return jsonrpc.AppendRequest(dst, m.ID, m.Method, m.Params)
}
