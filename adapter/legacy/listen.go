package legacy

import (
	"context"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Listener is told of a session's list changes and resource updates.
type Listener interface {
	// Notify takes a notification, valid until it returns. It must not block.
	Notify(m *jsonrpc.Message)
	// Missed says that notifications may have been lost: the GET stream broke, and
	// the server cannot go on where it was. It must not block.
	Missed()
	// End says that the session is over, and why. Nothing follows.
	End(err error)
}

// topic is one resource that somebody listens to. Legacy servers count no
// references: the first listener subscribes, the last one unsubscribes.
type topic struct {
	listeners map[Listener]struct{}
	turn      chan struct{} // a mutex that a context can give up: one request at a time
	active    bool          // the server was asked, for this replica or another; changed with turn, read with Session.mu too
}

// Listen adds a listener to a session that Acquire lent; Unlisten gives the
// session back. It reports false when the session is over already.
func (s *Session) Listen(l Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || s.closed {
		return false
	}
	if s.listeners == nil {
		s.listeners = make(map[Listener]struct{})
	}
	s.listeners[l] = struct{}{}
	return true
}

// Unlisten removes a listener and gives the session back.
func (s *Session) Unlisten(l Listener) {
	s.mu.Lock()
	delete(s.listeners, l)
	s.mu.Unlock()
	s.entry.release(s, false)
}

// Subscribe subscribes a listener to a resource. Spec 2025-11-25,
// server/resources, "Subscriptions".
func (s *Session) Subscribe(ctx context.Context, creds Credentials, l Listener, uri string) error {
	s.mu.Lock()
	t := s.topics[uri]
	if t == nil {
		t = &topic{listeners: make(map[Listener]struct{}), turn: make(chan struct{}, 1)}
		if s.topics == nil {
			s.topics = make(map[string]*topic)
		}
		s.topics[uri] = t
	}
	t.listeners[l] = struct{}{}
	s.mu.Unlock()
	err := s.settleTopic(ctx, creds, uri, t)
	if err != nil {
		s.mu.Lock()
		s.leave(l, uri, t)
		s.mu.Unlock()
	}
	return err
}

// Unsubscribe takes a listener off a resource.
func (s *Session) Unsubscribe(ctx context.Context, creds Credentials, l Listener, uri string) error {
	s.mu.Lock()
	t := s.topics[uri]
	if t == nil {
		s.mu.Unlock()
		return nil
	}
	delete(t.listeners, l)
	s.mu.Unlock()
	err := s.settleTopic(ctx, creds, uri, t)
	s.mu.Lock()
	s.leave(l, uri, t)
	s.mu.Unlock()
	return err
}

// leave must be called with mu held.
func (s *Session) leave(l Listener, uri string, t *topic) {
	delete(t.listeners, l)
	if len(t.listeners) == 0 && s.topics[uri] == t {
		delete(s.topics, uri)
	}
}

// settleTopic asks the server for what the topic's listeners now need.
func (s *Session) settleTopic(ctx context.Context, creds Credentials, uri string, t *topic) error {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-t.turn }()
	s.mu.Lock()
	want := len(t.listeners) > 0
	over := s.gone || s.closed
	s.mu.Unlock()
	if want == t.active || over && !want {
		return nil
	}
	listens, subscribed := s.topicElsewhere(ctx, uri)
	if !want && listens || want && subscribed {
		s.setActive(t, want)
		return nil
	}
	method := mcp.MethodSubscribe
	if !want {
		method = mcp.MethodUnsubscribe
	}
	params := append(jsonrpc.AppendQuote([]byte(`{"uri":`), uri), '}')
	if _, err := s.Request(ctx, creds, method, params); err != nil {
		return err
	}
	s.setActive(t, want)
	if want {
		return nil
	}
	if listens, _ := s.topicElsewhere(ctx, uri); listens { // it came in between, and has lost its subscription
		_, err := s.Request(ctx, creds, mcp.MethodSubscribe, params)
		return err
	}
	return nil
}

func (s *Session) setActive(t *topic, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.active = on
}

// notify gives a notification to the listeners that it concerns.
func (s *Session) notify(m *jsonrpc.Message) {
	s.mu.Lock()
	listeners := make([]Listener, 0, len(s.listeners))
	for l := range s.listeners {
		listeners = append(listeners, l)
	}
	s.mu.Unlock()
	for _, l := range listeners {
		l.Notify(m)
	}
}

// missed tells all listeners, wherever they are, that there may have been
// notifications.
func (s *Session) missed() {
	s.missedHere()
	if s.reach() {
		s.server.tellAll(&parcel{kind: tellMissed, id: s.id})
	}
}

func (s *Session) missedHere() {
	s.mu.Lock()
	listeners := make([]Listener, 0, len(s.listeners))
	for l := range s.listeners {
		listeners = append(listeners, l)
	}
	s.mu.Unlock()
	s.entry.forgetTools()
	for _, l := range listeners {
		l.Missed()
	}
}

func (s *Session) endListeners(err error) {
	s.mu.Lock()
	listeners := make([]Listener, 0, len(s.listeners))
	for l := range s.listeners {
		listeners = append(listeners, l)
	}
	clear(s.listeners)
	s.mu.Unlock()
	for _, l := range listeners {
		l.End(err)
	}
}
