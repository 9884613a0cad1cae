package legacy

import (
	"context"
	"time"
)

// standing is a session's GET stream, from when it is asked for.
type standing struct {
	stop     context.CancelFunc
	answered chan struct{} // closed once the server has answered for the first time
	begun    time.Time
	done     chan struct{} // closed when it has ended
}

// startListening opens the GET stream, unless it stands or the session is over.
// It begins behind an event, where one is known; a blind start may have missed
// something. What it returns is closed once the server has answered for the
// first time.
func (s *Session) startListening(creds Credentials, event []byte, blind bool) (answered chan struct{}) {
	answered = make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.gone || s.stands != nil || s.channel != nil || s.server.noStream.Load() {
		close(answered)
		return answered
	}
	ctx, stop := context.WithCancel(s.server.ctx)
	g := &standing{stop: stop, answered: answered, begun: time.Now(), done: make(chan struct{})}
	s.stands = g
	st := &stream{session: s}
	st.setLastID(event)
	go func() {
		defer close(g.done)
		defer stop()
		s.listen(ctx, st, creds, blind, answered)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.event = st.lastID
		if s.stands == g {
			s.stands = nil
		}
	}()
	return answered
}

// stopListening ends the GET stream and does not wait for its end.
func (s *Session) stopListening() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stands != nil {
		s.stands.stop()
	}
}

// awaitStream waits for the answer to a GET that was just sent, so that it does
// not overtake what comes after it, on another connection: some servers answer
// only with the first event, so that there is a bound.
func (s *Session) awaitStream(ctx context.Context) {
	s.mu.Lock()
	g := s.stands
	s.mu.Unlock()
	if g == nil {
		return
	}
	bound := time.NewTimer(time.Until(g.begun.Add(s.server.settings.StreamWait)))
	defer bound.Stop()
	select {
	case <-g.answered:
	case <-bound.C:
	case <-ctx.Done():
	}
}

// unhold ends the GET stream, and returns its last event id, or nil.
func (s *Session) unhold() []byte {
	s.mu.Lock()
	g := s.stands
	s.mu.Unlock()
	if g != nil {
		g.stop()
		<-g.done
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	event := s.event
	s.event = nil
	return event
}
