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
		y := s.find(m.ID)
		if y == nil {
			s.answeredLate(m.ID)
			s.forward(m.ID, m)
			return
		}
		y.respond(m, borrowed && y == x)
		if y != x {
			y.Abort() // its own stream has nothing more to say, and may never end
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok {
		if x := s.calls[n]; x != nil && x.foreign() == "" {
			return x
		}
	}
	if len(s.foreign) == 0 || len(id) < 2 || id[0] != '"' {
		return nil
	}
	return s.foreign[string(id[1:len(id)-1])]
}

func (s *Session) routeRequest(x *Exchange, m *jsonrpc.Message, borrowed bool) {
	switch m.Method {
	case mcp.MethodPing:
		s.enqueue(s.Housekeeping(), jsonrpc.AppendResult(getText(64), m.ID, []byte("{}")))
	case mcp.MethodElicit, mcp.MethodCreateMessage, mcp.MethodRootsList:
		if x != nil && x.askable {
			x.sink.Receive(m, borrowed)
			return
		}
		s.attribute(x, m)
	case mcp.MethodTaskGet, mcp.MethodTaskResult, mcp.MethodTaskCancel:
		s.routeTask(m)
	default:
		s.refuse(m, jsonrpc.CodeMethodNotFound, "the client has no method "+m.Method)
	}
}

// attribute finds the call that an input request belongs to which came on no
// eligible call's own stream. The official TypeScript SDK's plain elicitInput
// and createMessage push on the GET stream. With one candidate it is clear
// whose the question is; with several it is refused, never guessed; with none
// it waits for the next eligible call. On the one stream of a channel the only
// call in flight that can be asked anything has asked, declared or not.
func (s *Session) attribute(x *Exchange, m *jsonrpc.Message) {
	if !s.caps.Admits(m.Method, m.Params) {
		if only := s.onlyAskable(); x == nil && s.channel != nil && only != nil {
			only.sink.Receive(m, false) // whose client is told what it lacks
			return
		}
		s.refuse(m, jsonrpc.CodeMethodNotFound, "the client did not declare the capability for "+m.Method)
		return
	}
	switch {
	case !s.reach():
		only, candidates := s.candidate(true, x)
		s.decide(x, m, only, nil, candidates, s.asksLate(m.Method))
	case x == nil:
		s.attributeAmong(x, m) // in order with what follows on the GET stream
	default:
		s.attributeLater(x, m)
	}
}

// onlyAskable returns the one call in flight that may be asked something, whatever
// its client declared; nil where there are several, or none.
func (s *Session) onlyAskable() (only *Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.calls {
		if !x.askable {
			continue
		}
		if only != nil {
			return nil
		}
		only = x
	}
	return only
}

// decide gives an input request to the one call that it can be for, of this
// replica or of a peer. late says that one has ended which it may be for.
func (s *Session) decide(x *Exchange, m *jsonrpc.Message, only *Exchange, there *reply, candidates int, late bool) {
	if candidates == 0 && late {
		s.refuse(m, jsonrpc.CodeInternal, "the call that the request could belong to has ended")
		s.entry.spend(s)
		return
	}
	if candidates == 0 {
		if !s.keepOrphan(x, m) { // a call came meanwhile
			s.attribute(x, m)
		}
		return
	}
	if x == nil {
		s.server.learnPush()
	}
	switch {
	case candidates > 1:
		s.server.noisy.Warn().Str("upstream", s.server.settings.Name).Str("method", m.Method).Int("calls", candidates).
			Msg("input request refused: it came on the GET stream while several calls of the session were in flight")
		s.refuse(m, jsonrpc.CodeInternal,
			"several calls of this session are in flight, and the request does not say which it belongs to: send it on the call's own stream")
	case only != nil:
		only.sink.Receive(m, false)
	default:
		s.pass(there, m)
	}
}

// HasOrphans reports whether input requests wait for an eligible call.
func (s *Session) HasOrphans() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.orphans) > 0 || len(s.noted) > 0
}

// TakeOrphans returns the input requests that waited for an eligible call, also
// those that wait at other replicas, which it asks for them for at most a second
// unless FetchOrphans has.
func (s *Session) TakeOrphans() []Orphan {
	s.mu.Lock()
	elsewhere := len(s.noted) > 0
	s.mu.Unlock()
	if elsewhere {
		s.FetchOrphans(s.server.ctx)
	}
	return s.takeOrphans()
}

func (s *Session) takeOrphans() []Orphan {
	s.mu.Lock()
	taken := s.orphans
	s.orphans = nil
	s.mu.Unlock()
	if len(taken) > 0 {
		s.tellOrphans(0)
	}
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
	s.enqueue(s.Housekeeping(), jsonrpc.AppendError(getText(256), m.ID, &jsonrpc.Error{Code: code, Message: why}))
}

// Housekeeping returns the credentials that last used the session: for what is
// told to the server when no client is there.
func (s *Session) Housekeeping() Credentials {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.creds
}

func (s *Session) routeNotification(x *Exchange, m *jsonrpc.Message, borrowed bool) {
	switch m.Method {
	case mcp.NotifyProgress:
		token := jsonrpc.Get(m.Params, mcp.MetaProgressToken)
		if y := s.find(token); y != nil {
			y.sink.Receive(m, borrowed && y == x)
		} else {
			s.forward(token, m)
		}
	case mcp.NotifyMessage:
		switch {
		case x != nil:
			x.sink.Receive(m, borrowed)
		case s.reach():
			s.logAmong(m)
		default:
			if y, n := s.candidate(false, nil); n == 1 {
				y.sink.Receive(m, false)
			}
		}
	case mcp.NotifyCancelled:
		s.withdrawnHere(m)
		s.tellNote(m)
	case mcp.NotifyTaskStatus, mcp.NotifyElicitationCompleted:
		s.spread(m)
		s.tellNote(m)
	case mcp.NotifyToolsChanged, mcp.NotifyPromptsChanged, mcp.NotifyResourcesChanged, mcp.NotifyResourceUpdated:
		if m.Method == mcp.NotifyToolsChanged {
			s.entry.forgetTools()
		}
		s.notify(m)
		s.tellNote(m)
	}
}

// withdrawnHere: the server no longer wants an answer. Only the call that holds
// the question knows it; the others take no notice.
func (s *Session) withdrawnHere(m *jsonrpc.Message) {
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
