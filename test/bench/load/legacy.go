package load

import (
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// Legacy is one client of the revision 2025-11-25, with a session of its own.
type Legacy struct {
	conn, post *Conn // the calls; the answers, because a call's stream fills its connection
	session    string
	echo, ask  *request
	headers    string
	text       []byte
	held       []byte
	id         uint64
}

// NewLegacy opens a session for a slot's client with the server whose endpoint
// is path at addr.
func NewLegacy(addr, path string, slot int) (*Legacy, error) {
	l := &Legacy{conn: NewConn(addr), post: NewConn(addr), id: first + uint64(slot)*perSlot}
	if err := l.initialize(addr, path); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Legacy) initialize(addr, path string) error {
	headers := "POST " + path + " HTTP/1.1\r\nHost: " + addr + "\r\nContent-Type: application/json\r\n" +
		"Accept: application/json, text/event-stream\r\n"
	hello := newRequest(headers, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{"elicitation":{"form":{}}},"clientInfo":{"name":"bench","version":"1.0.0"}}}`)
	if err := l.conn.send(hello.text); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	l.session = string(l.conn.head.Session)
	body, err := l.conn.body()
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if l.session == "" || wire.Get(body, "result") == nil {
		return fmt.Errorf("initialize: %w: session %q, %s", ErrAnswer, l.session, excerpt(body))
	}
	l.headers = headers + "MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: " + l.session + "\r\n"
	l.echo = newRequest(l.headers, legacyCall("echo"))
	l.ask = newRequest(l.headers, legacyCall("ask"))
	if err := l.post.accepted(newRequest(l.headers, `{"jsonrpc":"2.0","method":"notifications/initialized"}`).text); err != nil {
		return fmt.Errorf("initialized: %w", err)
	}
	return nil
}

func legacyCall(tool string) string {
	return `{"jsonrpc":"2.0","id":` + idMark + `,"method":"tools/call","params":{"name":"` + tool +
		`","arguments":{"text":"bench-` + textMark + `"}}}`
}

// Close closes the client's connections, and leaves the session to the server.
func (l *Legacy) Close() {
	l.conn.Close()
	l.post.Close()
}

// Echo calls the tool echo once.
func (l *Legacy) Echo() error {
	l.id++
	body, err := l.conn.message(l.echo.with(l.id, l.id))
	if err != nil {
		return err
	}
	if !call(l.id).echoed(resultText(wire.Get(body, "result"))) {
		return fmt.Errorf("%w: %s", ErrAnswer, excerpt(body))
	}
	return nil
}

// Ask calls the tool ask, posts the answer to its question, and reads the
// result: as many rounds as the same call of a modern client has.
func (l *Legacy) Ask() error {
	l.id++
	number := call(l.id)
	if err := l.conn.send(l.ask.with(l.id, l.id)); err != nil {
		return err
	}
	question, err := l.asked()
	if err != nil {
		return err
	}
	id := wire.Get(question, "id")
	if string(wire.Get(question, "method")) != `"elicitation/create"` || id == nil {
		return l.conn.fail("call", fmt.Errorf("%w: no question: %s", ErrAnswer, excerpt(question)))
	}
	if err := l.answer(number, id); err != nil {
		return l.conn.fail("post answer", err)
	}
	message, err := l.last()
	if err != nil {
		return err
	}
	if !number.asked(resultText(wire.Get(message, "result")), 0) {
		return l.conn.fail("call", fmt.Errorf("%w: %s", ErrAnswer, excerpt(message)))
	}
	return nil
}

// asked returns the first message of the stream that answers a call.
func (l *Legacy) asked() ([]byte, error) {
	if err := l.conn.streams(); err != nil {
		return nil, err
	}
	return l.event()
}

// last returns the message that ends the stream.
func (l *Legacy) last() ([]byte, error) {
	message, err := l.event()
	if err != nil {
		return nil, err
	}
	l.text = append(l.text[:0], message...)
	if message, err = l.event(); !errors.Is(err, io.EOF) {
		return nil, l.conn.fail("call", fmt.Errorf("%w: after the result: %s, %v", ErrAnswer, excerpt(message), err))
	}
	return l.text, nil
}

func (l *Legacy) event() (data []byte, err error) {
	data, l.held, err = l.conn.event(l.held)
	return data, err
}

// answer posts the answer to the question with a raw id.
func (l *Legacy) answer(number call, id []byte) error {
	const begin, middle, end = `{"jsonrpc":"2.0","id":`, `,"result":`, `}`
	var room [64]byte
	answer := number.appendAnswer(room[:0])
	text := append(l.text[:0], l.headers...)
	text = wire.AppendLength(text, len(begin)+len(id)+len(middle)+len(answer)+len(end))
	text = append(text, begin...)
	text = append(text, id...)
	text = append(text, middle...)
	text = append(text, answer...)
	text = append(text, end...)
	l.text = text
	return l.post.accepted(text)
}
