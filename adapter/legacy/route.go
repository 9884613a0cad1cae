package legacy

import (
	"bytes"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Orphan is an input request that came while no call was in flight that it
// could belong to. It waits for the session's next eligible call.
type Orphan struct {
	ID     []byte // raw
	Method string
	Params []byte // raw, or nil
	until  time.Time
}

func (o Orphan) refusal(why string) []byte {
	return jsonrpc.AppendError(getText(256), o.ID, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: why})
}

// route gives a message to whom it belongs. x is the exchange on whose stream
// it came, nil for the GET stream.
func (s *Session) route(x *Exchange, m *jsonrpc.Message, borrowed bool) {
	switch {
	case m.IsResponse():
		if y := s.find(m.ID); y != nil {
			y.respond(m, borrowed && y == x)
			if y != x {
				y.Abort() // its own stream has nothing more to say, and may never end
			}
		}
	case m.IsRequest():
		s.routeRequest(x, m, borrowed)
	default:
		s.routeNotification(x, m, borrowed)
	}
}

// find returns the exchange that a raw request id or progress token names.
func (s *Session) find(id []byte) *Exchange {
	n, ok := s.server.parseID(id)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[n]
}

func (s *Session) routeRequest(x *Exchange, m *jsonrpc.Message, borrowed bool) {
	switch m.Method {
	case mcp.MethodPing:
		s.enqueue(s.housekeeping(), jsonrpc.AppendResult(getText(64), m.ID, []byte("{}")))
	case mcp.MethodElicit, mcp.MethodCreateMessage, mcp.MethodRootsList:
		if x != nil && x.askable {
			x.sink.Receive(m, borrowed)
			return
		}
		s.attribute(x, m)
	default:
		s.refuse(m, jsonrpc.CodeMethodNotFound, "the client has no method "+m.Method)
	}
}

// attribute finds the call that an input request belongs to which came on no
// eligible call's own stream. The official TypeScript SDK's plain elicitInput
// and createMessage push on the GET stream. With one candidate it is clear
// whose the question is; with several it is refused, never guessed; with none
// it waits for the next eligible call.
func (s *Session) attribute(x *Exchange, m *jsonrpc.Message) {
	if !s.caps.Admits(m.Method, m.Params) {
		s.refuse(m, jsonrpc.CodeMethodNotFound, "the client did not declare the capability for "+m.Method)
		return
	}
	s.mu.Lock()
	var only *Exchange
	candidates := 0
	for _, y := range s.calls {
		if y.eligible && y != x {
			only = y
			candidates++
		}
	}
	if candidates == 0 {
		kept := len(s.orphans) < s.server.settings.MaxOrphans
		if kept {
			s.orphans = append(s.orphans, Orphan{
				ID: bytes.Clone(m.ID), Method: m.Method, Params: bytes.Clone(m.Params),
				until: time.Now().Add(s.server.settings.OrphanTTL),
			})
		}
		s.mu.Unlock()
		if !kept {
			s.refuse(m, jsonrpc.CodeInternal, "too many requests wait for a call of the client")
		}
		return
	}
	s.mu.Unlock()
	if x == nil {
		s.server.learnPush()
	}
	if candidates > 1 {
		s.server.noisy.Warn().Str("upstream", s.server.settings.Name).Str("method", m.Method).Int("calls", candidates).
			Msg("input request refused: it came on the GET stream while several calls of the session were in flight")
		s.refuse(m, jsonrpc.CodeInternal,
			"several calls of this session are in flight, and the request does not say which it belongs to: send it on the call's own stream")
		return
	}
	only.sink.Receive(m, false)
}

// HasOrphans reports whether input requests wait for an eligible call.
func (s *Session) HasOrphans() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.orphans) > 0
}

// TakeOrphans returns the input requests that waited for an eligible call.
func (s *Session) TakeOrphans() []Orphan {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.orphans
	s.orphans = nil
	return taken
}

// expireOrphans refuses what waited for too long.
func (s *Session) expireOrphans(now time.Time) {
	s.mu.Lock()
	var late []Orphan
	kept := s.orphans[:0]
	for _, o := range s.orphans {
		if now.After(o.until) {
			late = append(late, o)
		} else {
			kept = append(kept, o)
		}
	}
	s.orphans = kept
	creds := s.creds
	s.mu.Unlock()
	for _, o := range late {
		s.enqueue(creds, o.refusal("no call of the client came that could carry the request"))
	}
}

func (s *Session) refuse(m *jsonrpc.Message, code int, why string) {
	s.enqueue(s.housekeeping(), jsonrpc.AppendError(getText(256), m.ID, &jsonrpc.Error{Code: code, Message: why}))
}

func (s *Session) housekeeping() Credentials {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.creds
}

func (s *Session) routeNotification(x *Exchange, m *jsonrpc.Message, borrowed bool) {
	switch m.Method {
	case mcp.NotifyProgress:
		if y := s.find(jsonrpc.Get(m.Params, mcp.MetaProgressToken)); y != nil {
			y.sink.Receive(m, borrowed && y == x)
		}
	case mcp.NotifyMessage:
		if x != nil {
			x.sink.Receive(m, borrowed)
		} else if y := s.soleLogger(); y != nil {
			y.sink.Receive(m, false)
		}
	case mcp.NotifyCancelled:
		s.withdrawn(m)
	case mcp.NotifyToolsChanged, mcp.NotifyPromptsChanged, mcp.NotifyResourcesChanged, mcp.NotifyResourceUpdated:
		if m.Method == mcp.NotifyToolsChanged {
			s.entry.forgetTools()
		}
		s.notify(m)
	}
}

// soleLogger returns the call that a log message on the GET stream can be
// about: many servers send all of them there. With several calls in flight
// nobody can tell, and a message on another request's stream is forbidden
// (spec 2026-07-28, server/utilities/logging).
func (s *Session) soleLogger() *Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) != 1 {
		return nil
	}
	for _, y := range s.calls {
		return y
	}
	return nil
}

// withdrawn: the server no longer wants an answer. Only the call that holds
// the question knows it; the others take no notice.
func (s *Session) withdrawn(m *jsonrpc.Message) {
	id := jsonrpc.Get(m.Params, "requestId")
	if id == nil {
		return
	}
	s.mu.Lock()
	var sinks []Sink
	for _, y := range s.calls {
		if y.eligible {
			sinks = append(sinks, y.sink)
		}
	}
	for i, o := range s.orphans {
		if bytes.Equal(o.ID, id) {
			s.orphans = append(s.orphans[:i], s.orphans[i+1:]...)
			break
		}
	}
	s.mu.Unlock()
	for _, sink := range sinks {
		sink.Receive(m, false)
	}
}
