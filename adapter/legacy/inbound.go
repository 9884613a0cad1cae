package legacy

import (
	"bytes"
	"fmt"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

// take routes what a text of a session's channel says: a message, or an array of
// them. Of what is none, the call that it names is told; the rest is logged:
// servers print banners to their standard output.
//
// Hot: once per message.
func (s *Session) take(text []byte) {
	m, single, err := jsonrpc.ParseServerOne(text, s.server.settings.MaxDepth)
	if single && err == nil {
		s.routeOne(&m)
		return
	}
	if !single {
		s.takeAll(text)
		return
	}
	s.takeBroken(text, err)
}

func (s *Session) routeOne(m *jsonrpc.Message) {
	if m.IsResponse() {
		if s.answers++; s.answers == 2 { // the first is that to initialize
			s.server.restarts.served()
		}
	}
	s.route(nil, m, false)
}

// takeAll routes the messages of an array: revision 2025-03-26, basic/index,
// "Batching".
func (s *Session) takeAll(text []byte) {
	depth := s.server.settings.MaxDepth
	err := jsonrpc.ParseServer(text, depth, func(m jsonrpc.Message) error {
		s.routeOne(&m)
		return nil
	})
	if err == nil {
		return
	}
	if jsonrpc.Validate(text, jsonrpc.Lenient, depth) != nil {
		s.takeBroken(text, err)
		return
	}
	for c := jsonrpc.Array(text); c.Next(); {
		if _, single, err := jsonrpc.ParseServerOne(c.Value(), depth-1); !single || err != nil {
			s.takeBroken(c.Value(), err)
		}
	}
}

// takeBroken is for a text that is no message.
func (s *Session) takeBroken(text []byte, err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return
	}
	ends := namedEnds
	if x := s.namedBy(text[:min(len(text), ends)], text[max(0, len(text)-ends):]); x != nil {
		x.spoil(fmt.Errorf("%w: %w", ErrMalformed, err))
		return
	}
	line := s.server.noisy.Warn().Err(err).Str("upstream", s.server.settings.Name).Int("bytes", len(text))
	if !likeJSON(text) {
		line = line.Bytes("text", text[:min(len(text), maxShown)])
	}
	line.Msg("skipped what is no message")
}

// likeJSON reports whether a text may be of a message, which may say what a user
// has answered: no more of it is logged than its size.
func likeJSON(text []byte) bool {
	text = bytes.TrimLeft(text, "[ \t\r")
	return len(text) > 0 && (text[0] == '{' || text[0] == '"')
}

// maxShown bounds what is logged of a text that is no message.
const maxShown = 256

// namedEnds is how much of each end of a broken text is searched for an id.
const namedEnds = 512

// takeLong is for a message over the limit, of which both ends are left.
func (s *Session) takeLong(head, tail []byte, size int) {
	err := fmt.Errorf("%w: message of %d bytes is over the limit", ErrMalformed, size)
	if x := s.namedBy(head, tail); x != nil {
		x.spoil(err)
		return
	}
	s.server.noisy.Warn().Err(err).Str("upstream", s.server.settings.Name).Msg("skipped a message that names no call")
}

// namedBy returns the call of which a response is that is broken or cut, or nil.
// Some servers write the id first, some last: it is looked for at both ends, and
// believed only where it stands at the top of the message.
func (s *Session) namedBy(head, tail []byte) *Exchange {
	if jsonrpc.Get(head, "method") != nil {
		return nil // a request of the server's, with an id of its own
	}
	if x := s.find(jsonrpc.Get(head, "id")); x != nil {
		return x
	}
	at := bytes.LastIndex(tail, []byte(`"id"`))
	if at < 0 {
		return nil
	}
	last := append([]byte{'{'}, tail[at:]...)
	if jsonrpc.Validate(last, jsonrpc.Lenient, s.server.settings.MaxDepth) != nil {
		return nil // it belongs to something inside the message
	}
	return s.find(jsonrpc.Get(last, "id"))
}
