package legacy

import (
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Where a session has one stream for everything, or the server asks on the GET
// stream, what a server asks for a call
// that was cancelled cannot be told from what it asks for the next one. A server
// that was told of the cancellation should stop, and then says nothing more: spec
// 2025-11-25, basic/utilities/cancellation, "Behavior Requirements". So the next
// call that may be asked something waits for a while, or until the cancelled one is
// answered after all. A server that asks meanwhile goes on with what is cancelled:
// its session takes no further such calls.

// awaitLate keeps eligible calls off the session for a while after one has ended
// without a response.
func (s *Session) awaitLate(x *Exchange) {
	e := s.entry
	e.mu.Lock()
	s.ended++
	e.mu.Unlock()
	s.whenLate(x, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		s.ended--
		e.handOn(s)
	})
}

// holdLate is awaitLate where the server asks on the GET stream: the cancelled call
// keeps its place meanwhile, which may be one that another replica has given.
func (s *Session) holdLate(x *Exchange) {
	e := s.entry
	e.mu.Lock()
	s.held++
	e.mu.Unlock()
	s.whenLate(x, func() {
		e.mu.Lock()
		s.held--
		e.mu.Unlock()
		e.release(s, true)
	})
}

// whenLate does something once the server has had its time to stop, or has
// answered after all.
func (s *Session) whenLate(x *Exchange, over func()) {
	answered := make(chan struct{})
	s.mu.Lock()
	if s.late == nil {
		s.late = make(map[uint64]chan struct{})
	}
	s.late[x.id] = answered
	s.mu.Unlock()
	s.server.background(func() {
		t := time.NewTimer(min(s.server.settings.CancelWait, s.server.settings.QueueTimeout/2))
		defer t.Stop()
		select {
		case <-answered:
		case <-t.C:
		case <-s.server.ctx.Done():
		}
		s.mu.Lock()
		delete(s.late, x.id)
		s.mu.Unlock()
		over()
	})
}

// answeredLate notes the response to a call that has ended without one.
func (s *Session) answeredLate(id []byte) {
	n, ok := s.server.parseID(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if answered := s.late[n]; ok && answered != nil {
		close(answered)
		delete(s.late, n)
	}
}

// asksLate reports whether a question that no call in flight has asked is most
// likely that of one which has ended. Which roots there are depends on no call.
func (s *Session) asksLate(method string) bool {
	if method == mcp.MethodRootsList {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.late) > 0
}

// soonFree reports whether a session will be free in a moment, for which no call
// waits yet: only calls that have ended are on it. mu is held.
func (e *entry) soonFree() bool {
	n := 0
	for _, s := range e.sessions {
		if s.eligible == s.held && s.ended+s.held > 0 {
			n++
		}
	}
	return n > len(e.waiters)
}
