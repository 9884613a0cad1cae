package legacy

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Peers are the other replicas, as a Server sees them.
type Peers interface {
	// Self is this replica.
	Self() string
	// Live returns the other replicas that are known to live. It is cheap, and
	// does not block.
	Live() []string
	// Confirmed reports whether this replica holds its lease. While it does not,
	// others may use its sessions whom it does not hear.
	Confirmed() bool
	// Missing reports whether another replica may live that is not heard of, and
	// may use a session all the same.
	Missing() bool
	// Request asks a replica, whose Server.Answer answers; for a session to be
	// opened, or a place in a queue, that may take as long as Settings.OpenTimeout
	// or QueueTimeout. An error: it has not answered. When ctx ends, so does that of
	// Answer.
	Request(ctx context.Context, replica string, body []byte) ([]byte, error)
	// Tell sends a message for a replica's Server.Hear, in order, and may lose it.
	// It does not block.
	Tell(replica string, body []byte)
}

// askTime bounds a question whose answer needs nothing but a look.
const askTime = time.Second

// heard is a message of a peer that waits to be acted on.
type heard struct {
	from string
	body []byte
	done chan<- struct{} // closed once it was acted on; or nil
}

// hearings bounds the messages of peers that wait.
const hearings = 4096

// reply is what one peer answered.
type reply struct {
	from string
	parcel
}

// live returns the other replicas, none without peers.
func (s *Server) live() []string {
	if s.settings.Peers == nil {
		return nil
	}
	return s.settings.Peers.Live()
}

// reach reports whether another replica may have to do with the session.
func (s *Session) reach() bool { return s.id != "" && len(s.server.live()) > 0 }

// ask asks one peer.
func (s *Server) ask(ctx context.Context, replica string, p *parcel) (parcel, error) {
	body, err := s.settings.Peers.Request(ctx, replica, p.append(nil))
	if err != nil {
		return parcel{}, err
	}
	answer, err := readParcel(body)
	if err != nil {
		s.noisy.Warn().Err(err).Str("upstream", s.settings.Name).Str("replica", replica).Msg("answer of another replica ignored")
	}
	return answer, err
}

// askAll asks all live peers at once. Who does not answer within askTime does
// not count.
func (s *Server) askAll(ctx context.Context, p *parcel) []reply {
	replies, _ := s.askEach(ctx, p)
	return replies
}

// askEach is askAll, and reports whether each peer that lives has answered.
func (s *Server) askEach(ctx context.Context, p *parcel) (replies []reply, complete bool) {
	live := s.live()
	if len(live) == 0 {
		return nil, true
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var mu sync.Mutex
	var silent []string
	var asking sync.WaitGroup
	for _, replica := range live {
		asking.Go(func() {
			answer, err := s.ask(ctx, replica, p)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				silent = append(silent, replica)
			case answer.kind != sayUnknown:
				replies = append(replies, reply{replica, answer})
			}
		})
	}
	asking.Wait()
	now := s.live()
	complete = !slices.ContainsFunc(silent, func(replica string) bool { return slices.Contains(now, replica) })
	slices.SortFunc(replies, func(a, b reply) int { return slices.Index(live, a.from) - slices.Index(live, b.from) })
	return replies, complete
}

// tellAll tells all live peers.
func (s *Server) tellAll(p *parcel) {
	live := s.live()
	if len(live) == 0 {
		return
	}
	body := p.append(nil)
	for _, replica := range live {
		s.settings.Peers.Tell(replica, body)
	}
}

// assure tells all live peers, and returns once they have heard, or do not
// answer.
func (s *Server) assure(ctx context.Context, p *parcel) {
	s.askAll(ctx, &parcel{kind: askHeed, raw: p.append(nil)})
}

func (s *Server) tell(replica string, p *parcel) { s.settings.Peers.Tell(replica, p.append(nil)) }

// PeersChanged says that the set of live replicas has changed. It does not
// block.
func (s *Server) PeersChanged() {
	select {
	case s.stir <- struct{}{}:
	default:
	}
}

// Hear takes a message that a peer has told. It does not block: what cannot wait
// is dropped.
func (s *Server) Hear(from string, body []byte) {
	select {
	case s.hearing <- heard{from: from, body: slices.Clone(body)}:
	default:
		s.noisy.Warn().Str("upstream", s.settings.Name).Str("replica", from).Msg("message of another replica dropped: too many wait")
	}
}

// hear acts on what peers tell, in order, until the Server is closed.
func (s *Server) hear() {
	defer s.wg.Done()
	for {
		select {
		case <-s.ctx.Done():
			return
		case h := <-s.hearing:
			p, err := readParcel(h.body)
			if err != nil {
				s.misunderstood(h.from, err)
				continue
			}
			s.heed(h.from, &p)
			if h.done != nil {
				close(h.done)
			}
		}
	}
}

// hearInTurn acts on a message that a peer has asked to heed, after those that
// it told before. It reports whether it did.
func (s *Server) hearInTurn(ctx context.Context, from string, body []byte) bool {
	done := make(chan struct{})
	select {
	case s.hearing <- heard{from, slices.Clone(body), done}:
	case <-ctx.Done():
		return false
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// misunderstood: a replica of another version, or a broken one.
func (s *Server) misunderstood(from string, err error) {
	s.noisy.Warn().Err(err).Str("upstream", s.settings.Name).Str("replica", from).Msg("message of another replica not understood")
}

// heed acts on what a peer has told.
func (s *Server) heed(from string, p *parcel) {
	if p.kind == tellPushes {
		s.pushes.Store(true)
		return
	}
	if p.kind == tellGone {
		s.noteGone(p.id)
	}
	session := s.known(p.id)
	if session == nil {
		return
	}
	switch p.kind {
	case tellMessage:
		session.hearMessage(p)
	case tellNote:
		session.hearNote(p)
	case tellMissed:
		session.missedHere()
	case tellDrain:
		session.entry.drain(session)
		session.leaveTo(from)
	case tellOrphans:
		session.noteOrphans(from, int(p.number))
	case tellFree:
		if p.closing { // first: the place is nobody's any more
			session.entry.drain(session)
		}
		session.entry.free(session, from, p.life, p.freed)
	case tellPlaced:
		session.entry.placed(session, from, p.life, p.freed)
	case tellGone:
		session.forget()
	case tellCreds:
		session.hearCredentials(p)
	case tellLevel:
		session.mu.Lock()
		session.level = p.level
		session.mu.Unlock()
	case tellHeld:
		s.heldBy(session, from)
	}
}

// Answer answers a question of a peer. It returns when it has the answer, or ctx
// ends.
func (s *Server) Answer(ctx context.Context, from string, body []byte) []byte {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return s.lastWord(body).append(nil)
	}
	s.wg.Add(1) // before Close, which waits
	s.mu.Unlock()
	defer s.wg.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	p, err := readParcel(body)
	answer := parcel{kind: sayUnknown}
	if err == nil {
		answer, err = s.answer(ctx, from, &p)
	}
	if err != nil {
		s.misunderstood(from, err)
	}
	return answer.append(nil)
}

func (s *Server) answer(ctx context.Context, from string, p *parcel) (parcel, error) {
	switch p.kind {
	case askLend, askPlace:
		return s.lendTo(ctx, from, p)
	case askHave:
		return s.tellWhatWeHave(p)
	case askYours:
		return s.takeOffered(from, p)
	case askHeed:
		told, err := readParcel(p.raw)
		if err != nil {
			return parcel{kind: sayUnknown}, err
		}
		if told.kind == tellMessage {
			if !s.hearInTurn(ctx, from, p.raw) {
				return parcel{kind: sayUnknown}, nil
			}
			return parcel{kind: sayYes}, nil
		}
		s.heed(from, &told)
		return parcel{kind: sayYes}, nil
	case askInfo:
		answer := parcel{kind: sayNone}
		if info := s.info.Load(); info != nil && info.Version == p.version {
			answer = parcel{kind: sayHave, info: info.raw}
		}
		return answer, nil
	}
	session := s.known(p.id)
	switch p.kind {
	case askUsing, askWho, askOrphans, askTopic:
		if session == nil {
			return parcel{kind: sayNone}, nil
		}
	}
	switch p.kind {
	case askUsing:
		return session.use(), nil
	case askWho:
		return session.candidates(from, p.flag), nil
	case askOrphans:
		return session.giveOrphans(ctx), nil
	case askTopic:
		return session.listensTo(p.uri), nil
	}
	return parcel{kind: sayUnknown}, errKind
}

// register makes a session known by its id, to what peers tell of it.
func (s *Server) register(session *Session) {
	if s.settings.Peers == nil || session.id == "" {
		return
	}
	s.knownMu.Lock()
	defer s.knownMu.Unlock()
	if s.byID[session.id] == nil {
		s.byID[session.id] = session
	}
}

func (s *Server) unregister(session *Session) {
	if s.settings.Peers == nil {
		return
	}
	s.knownMu.Lock()
	defer s.knownMu.Unlock()
	if s.byID[session.id] == session {
		delete(s.byID, session.id)
	}
}

// Bounds of what is remembered of sessions that are gone: a request state may
// bring an id again, and the server may use it again once it was restarted.
const (
	maxGone = 4096
	goneFor = time.Minute
)

// noteGone remembers that the server does not know a session any more.
func (s *Server) noteGone(id string) {
	if s.settings.Peers == nil || id == "" {
		return
	}
	now := time.Now()
	s.knownMu.Lock()
	defer s.knownMu.Unlock()
	if len(s.goneIDs) >= maxGone {
		maps.DeleteFunc(s.goneIDs, func(_ string, at time.Time) bool { return now.Sub(at) > goneFor })
	}
	if s.goneIDs == nil || len(s.goneIDs) >= maxGone {
		s.goneIDs = make(map[string]time.Time)
	}
	s.goneIDs[id] = now
}

// isGone reports whether the server has said lately that it does not know a
// session.
func (s *Server) isGone(id string) bool {
	s.knownMu.Lock()
	defer s.knownMu.Unlock()
	at, noted := s.goneIDs[id]
	return noted && time.Since(at) <= goneFor
}

// known returns the session with an id, or nil.
func (s *Server) known(id string) *Session {
	s.knownMu.Lock()
	defer s.knownMu.Unlock()
	return s.byID[id]
}
