package load

import (
	"bytes"

	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// Relay brings the calls of modern clients to a legacy server, one at a time, on
// a session of its own. It does the least that an adapter has to do, for what
// this package's own clients send, and checks nothing.
type Relay struct {
	legacy   *Legacy
	body     []byte
	question []byte // the raw id of the one that waits for its answer
}

// NewRelay opens a session with the server whose endpoint is path at addr.
func NewRelay(addr, path string) (*Relay, error) {
	l, err := NewLegacy(addr, path, 0)
	if err != nil {
		return nil, err
	}
	return &Relay{legacy: l}, nil
}

// Close closes the relay's connections.
func (r *Relay) Close() { r.legacy.Close() }

// Call sends a call and returns its result, or the params of what the server
// asks first; [Relay.Answer] goes on then. Both are valid until the next call.
func (r *Relay) Call(request []byte) (result, params []byte, err error) {
	r.body = append(r.body[:0], request...)
	if at := bytes.Index(r.body, []byte(`,"_meta":`)); at >= 0 {
		r.body = append(r.body[:at], "}}"...)
	}
	l := r.legacy
	l.text = appendMessage(l.text[:0], l.headers, r.body)
	if err := l.conn.send(l.text); err != nil {
		return nil, nil, err
	}
	if !l.conn.head.SSE {
		body, err := l.conn.body()
		return wire.Get(body, "result"), nil, err
	}
	message, err := l.asked()
	if err != nil {
		return nil, nil, err
	}
	r.question = append(r.question[:0], wire.Get(message, "id")...)
	return nil, wire.Get(message, "params"), nil
}

// Answer posts the answer to what was asked, and returns the call's result.
func (r *Relay) Answer(answer []byte) (result []byte, err error) {
	l := r.legacy
	r.body = append(append(r.body[:0], `{"jsonrpc":"2.0","id":`...), r.question...)
	r.body = append(append(append(r.body, `,"result":`...), answer...), '}')
	l.text = appendMessage(l.text[:0], l.headers, r.body)
	if err := l.post.accepted(l.text); err != nil {
		return nil, err
	}
	message, err := l.last()
	return wire.Get(message, "result"), err
}
