package load

import (
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// Resumable is one client of the dialect resumable (SEP-975), which loses the
// stream of each call and goes on with it later.
type Resumable struct {
	addr       string
	headers    string
	call       *request
	conn, post *Conn // what is resumed; the responses, because a stream fills its connection
	body, text []byte
	held       []byte
	id         uint64
}

// NewResumable returns the client of a slot, which talks to the endpoint path at
// addr.
func NewResumable(addr, path string, slot int) *Resumable {
	r := &Resumable{
		addr: addr, conn: NewConn(addr), post: NewConn(addr), id: first + uint64(slot)*perSlot,
		headers: "POST " + path + " HTTP/1.1\r\nHost: " + addr + "\r\nContent-Type: application/json\r\n" +
			"Accept: application/json, text/event-stream\r\nHoldfast-Dialect: resumable\r\n",
	}
	r.call = newRequest(r.headers, legacyCall("later"))
	return r
}

// Close closes the client's connections.
func (r *Resumable) Close() {
	r.conn.Close()
	r.post.Close()
}

// Left is a call whose client is away.
type Left struct {
	number call // and the request's id
	token  string
}

// Leave calls the tool later, and closes the connection once it has the token to
// come back with.
func (r *Resumable) Leave() (Left, error) {
	r.id++
	c := NewConn(r.addr)
	defer c.Close()
	if err := c.send(r.call.with(r.id, r.id)); err != nil {
		return Left{}, err
	}
	if err := c.streams(); err != nil {
		return Left{}, err
	}
	policy, room, err := c.event(r.held)
	r.held = room
	if err != nil {
		return Left{}, err
	}
	token := wire.Text(wire.Get(policy, "params", "resumeToken"))
	if string(wire.Get(policy, "method")) != `"notifications/requests/resumePolicy"` || len(token) == 0 {
		return Left{}, fmt.Errorf("%w: no token: %s", ErrAnswer, excerpt(policy))
	}
	return Left{number: call(r.id), token: string(token)}, nil
}

// Finish goes on with a call, answers the question that was asked meanwhile, and
// reads the result.
func (r *Resumable) Finish(l Left) error {
	err := r.finish(l)
	if err != nil {
		r.conn.Close() // the stream may go on
	}
	return err
}

func (r *Resumable) finish(l Left) error {
	r.body = fmt.Appendf(r.body[:0], `{"jsonrpc":"2.0","id":%d,"method":"requests/resume","params":{"resumeToken":"%s"}}`, l.number, l.token)
	r.text = appendMessage(r.text[:0], r.headers, r.body)
	if err := r.conn.send(r.text); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	if err := r.conn.streams(); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	question, err := r.event()
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	id := wire.Get(question, "id")
	if string(wire.Get(question, "method")) != `"elicitation/create"` || id == nil {
		return fmt.Errorf("%w: no question: %s", ErrAnswer, excerpt(question))
	}
	r.body = append(append(r.body[:0], `{"jsonrpc":"2.0","id":`...), id...)
	r.body = append(l.number.appendAnswer(append(r.body, `,"result":`...)), '}')
	r.text = appendMessage(r.text[:0], r.headers, r.body)
	if err := r.post.accepted(r.text); err != nil {
		return fmt.Errorf("post response: %w", err)
	}
	message, err := r.event()
	if err != nil {
		return fmt.Errorf("read result: %w", err)
	}
	if !l.number.asked(resultText(wire.Get(message, "result")), 0) {
		return fmt.Errorf("%w: %s", ErrAnswer, excerpt(message))
	}
	if message, err = r.event(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: after the result: %s, %v", ErrAnswer, excerpt(message), err)
	}
	return nil
}

func (r *Resumable) event() (data []byte, err error) {
	data, r.held, err = r.conn.event(r.held)
	return data, err
}
