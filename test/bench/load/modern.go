package load

import (
	"fmt"
	"strconv"

	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// meta is what every modern request carries. Spec 2026-07-28, basic/index,
// "_meta", "Per-request protocol fields".
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`

// modernHeaders is the head of a modern request up to the length of its body.
// Spec 2026-07-28, basic/transports/streamable-http, "Request Metadata".
func modernHeaders(addr, path, method, name string) string {
	headers := "POST " + path + " HTTP/1.1\r\nHost: " + addr + "\r\nContent-Type: application/json\r\n" +
		"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: " + method + "\r\n"
	if name != "" {
		headers += "Mcp-Name: " + name + "\r\n"
	}
	return headers
}

// modernCall is the body of a call; what a retry adds comes before the meta.
func modernCall(tool, added string) string {
	return `{"jsonrpc":"2.0","id":` + idMark + `,"method":"tools/call","params":{"name":"` + tool +
		`","arguments":{"text":"bench-` + textMark + `"},` + added + meta + `}}`
}

// Modern is one client of the revision 2026-07-28.
type Modern struct {
	conn      *Conn
	echo, ask *request
	discover  *request
	retry     struct {
		headers string
		before  []byte // the body up to what a retry adds
		after   []byte
		body    []byte
		text    []byte
	}
	id uint64
}

// NewModern returns the client of a slot, which talks to the endpoint path at addr.
func NewModern(addr, path string, slot int) *Modern {
	m := &Modern{
		conn:     NewConn(addr),
		echo:     newRequest(modernHeaders(addr, path, "tools/call", "echo"), modernCall("echo", "")),
		ask:      newRequest(modernHeaders(addr, path, "tools/call", "ask"), modernCall("ask", "")),
		discover: newRequest(modernHeaders(addr, path, "server/discover", ""), `{"jsonrpc":"2.0","id":`+idMark+`,"method":"server/discover","params":{`+meta+`}}`),
		id:       first + uint64(slot)*perSlot,
	}
	m.retry.headers = modernHeaders(addr, path, "tools/call", "ask")
	body := m.ask.text[m.ask.body:]
	cut := len(body) - len(meta) - len("}}")
	m.retry.before = append([]byte(nil), body[:cut]...)
	m.retry.after = append([]byte(nil), body[cut:]...)
	return m
}

// Close closes the client's connection.
func (m *Modern) Close() { m.conn.Close() }

// next is a new JSON-RPC id.
func (m *Modern) next() uint64 {
	m.id++
	return m.id
}

// Discover asks what is served, to see whether it is.
func (m *Modern) Discover() error {
	body, err := m.conn.message(m.discover.with(m.next(), 0))
	if err != nil {
		return err
	}
	if wire.Get(body, "result", "supportedVersions") == nil {
		return fmt.Errorf("%w: %s", ErrAnswer, excerpt(body))
	}
	return nil
}

// Echo calls the tool echo once.
func (m *Modern) Echo() error {
	id := m.next()
	body, err := m.conn.message(m.echo.with(id, id))
	if err != nil {
		return err
	}
	result := wire.Get(body, "result")
	if string(wire.Get(result, "resultType")) != `"complete"` || !call(id).echoed(resultText(result)) {
		return fmt.Errorf("%w: %s", ErrAnswer, excerpt(body))
	}
	return nil
}

// Parked is a call that waits for its client.
type Parked struct {
	number call
	key    string // of the input request
	state  string // raw
}

// Park calls the tool ask and returns the call that waits for an answer.
func (m *Modern) Park() (Parked, error) {
	id := m.next()
	body, err := m.conn.message(m.ask.with(id, id))
	if err != nil {
		return Parked{}, err
	}
	key, state := required(body)
	if key == nil || state == nil {
		return Parked{}, fmt.Errorf("%w: no input required: %s", ErrAnswer, excerpt(body))
	}
	return Parked{number: call(id), key: string(key), state: string(state)}, nil
}

// required returns the key of the one elicitation of an input_required result
// and the raw request state.
func required(body []byte) (key, state []byte) {
	result := wire.Get(body, "result")
	if string(wire.Get(result, "resultType")) != `"input_required"` {
		return nil, nil
	}
	asked := wire.Object(wire.Get(result, "inputRequests"))
	if !asked.Next() || string(wire.Get(asked.Value, "method")) != `"elicitation/create"` {
		return nil, nil
	}
	if state = wire.Get(result, "requestState"); len(state) == 0 || state[0] != '"' {
		return nil, nil
	}
	return asked.Name, state
}

// Resume brings a parked call the answer that it waits for: the same request
// once more, with the answer and the request state as it came. Spec 2026-07-28,
// basic/patterns/mrtr, "Client Requirements".
func (m *Modern) Resume(p Parked) error {
	put(m.retry.before, m.ask.id-m.ask.body, m.next())
	put(m.retry.before, m.ask.at-m.ask.body, uint64(p.number))
	body := append(m.retry.body[:0], m.retry.before...)
	body = append(body, `"inputResponses":{"`...)
	body = append(body, p.key...)
	body = append(body, `":`...)
	body = p.number.appendAnswer(body)
	body = append(body, `},"requestState":`...)
	body = append(body, p.state...)
	body = append(body, ',')
	body = append(body, m.retry.after...)
	m.retry.body = body

	text := append(m.retry.text[:0], m.retry.headers...)
	text = wire.AppendLength(text, len(body))
	m.retry.text = append(text, body...)

	answer, err := m.conn.message(m.retry.text)
	if err != nil {
		return err
	}
	result := wire.Get(answer, "result")
	if string(wire.Get(result, "resultType")) != `"complete"` || !p.number.asked(resultText(result)) {
		return fmt.Errorf("%w: %s", ErrAnswer, excerpt(answer))
	}
	return nil
}

// Ask calls the tool ask and answers its question: two rounds.
func (m *Modern) Ask() error {
	p, err := m.Park()
	if err != nil {
		return fmt.Errorf("first round: %w", err)
	}
	if err := m.Resume(p); err != nil {
		return fmt.Errorf("second round of call %s: %w", strconv.FormatUint(uint64(p.number), 10), err)
	}
	return nil
}
