package legacy

import (
	"context"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Transport returns what the session is spoken over; never TransportAuto.
func (s *Session) Transport() Transport {
	switch {
	case s.server.settings.Transport == TransportStdio:
		return TransportStdio
	case s.channel != nil:
		return TransportSSE
	}
	return TransportStreamable
}

// HasID reports whether the server gave the session an id.
func (s *Session) HasID() bool { return s.id != "" }

// Listens reports whether the server has opened the session's GET stream.
func (s *Session) Listens() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stands != nil && !s.server.noStream.Load()
}

// Manner is how a server answers requests: each with a stream of its own or with
// a JSON body, and whether its streams can be resumed.
type Manner struct{ Streams, EventIDs bool }

// Inquire is Request, and tells in what manner the server has answered.
func (s *Session) Inquire(ctx context.Context, creds Credentials, method string, params []byte) ([]byte, Manner, error) {
	answer := &answer{}
	x := s.Prepare(s.server.NextID(), answer, creds, false, false, mcp.LevelNone)
	s.entry.hold(s)
	defer x.Finish()
	x.SetMessage(jsonrpc.AppendRequest(Text(), x.AppendID(nil), method, params))
	if err := x.Send(ctx, true); err != nil {
		return nil, Manner{}, err
	}
	stop := context.AfterFunc(ctx, x.Abort)
	defer stop()
	for !x.Run(ctx) { // a question inside a request of our own is routed as any other
	}
	if err := ctx.Err(); err != nil && !x.Ended() {
		x.Cancel("timed out")
		return nil, Manner{}, err
	}
	return answer.result, Manner{Streams: x.phase == phaseSSE, EventIDs: x.Position().Event != ""}, answer.err
}
