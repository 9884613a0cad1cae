package load

import (
	"fmt"
	"strconv"

	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// Manner is how a modern client talks.
type Manner struct {
	// Mute clients declare no capability: they cannot be asked anything.
	Mute bool
	// Tasks is for clients that declare the extension: a call may become a task.
	Tasks bool
	// Token tells a client's requests over HTTP apart from those of others.
	Token string
}

// meta is what every modern request carries. Spec 2026-07-28, basic/index,
// "_meta", "Per-request protocol fields".
func (m Manner) meta() string {
	capabilities := `{"elicitation":{"form":{}}}`
	switch {
	case m.Mute:
		capabilities = `{}`
	case m.Tasks:
		capabilities = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	}
	return `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},` +
		`"io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
}

// carrier brings a client's requests to where they are answered.
type carrier interface {
	// message sends a request and returns the one message that answers it, valid
	// until the next request.
	message(request []byte) ([]byte, error)
	Close()
}

// headers makes the head of a request, up to the length of its body.
type headers func(method, name string) string

// lineHeaders is for lines, which have none.
func lineHeaders(string, string) string { return "" }

// modernHeaders are those of requests to an endpoint. Spec 2026-07-28,
// basic/transports/streamable-http, "Request Metadata".
func (m Manner) modernHeaders(addr, path string) headers {
	return func(method, name string) string { return m.modernHead(addr, path, method, name) }
}

func (m Manner) modernHead(addr, path, method, name string) string {
	headers := "POST " + path + " HTTP/1.1\r\nHost: " + addr + "\r\nContent-Type: application/json\r\n" +
		"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: " + method + "\r\n"
	if name != "" {
		headers += "Mcp-Name: " + name + "\r\n"
	}
	if m.Token != "" {
		headers += "Authorization: Bearer " + m.Token + "\r\n"
	}
	return headers
}

// modernCall is the body of a call; what a retry adds comes before the meta.
func modernCall(tool, meta string) string {
	return `{"jsonrpc":"2.0","id":` + idMark + `,"method":"tools/call","params":{"name":"` + tool +
		`","arguments":{"text":"bench-` + textMark + `"},` + meta + `}}`
}

// Modern is one client of the revision 2026-07-28.
type Modern struct {
	via            carrier
	echo, discover *request
	asking         [tools]asking
	body, text     []byte // of a retry
	answer         int    // bytes of the last one's answer
	id             uint64
}

// tool is one that asks.
type tool byte

const (
	ask tool = iota
	large
	meet
	tools
)

// String is the name that the server knows.
func (t tool) String() string { return [...]string{"ask", "large", "meet"}[t] }

// asking is what is sent to a tool that asks: the call, and what its retry is
// made of.
type asking struct {
	call          *request
	headers       string
	before, after []byte // what a retry adds stands between them
}

func newAsking(head headers, t tool, meta string) asking {
	a := asking{headers: head("tools/call", t.String())}
	body := modernCall(t.String(), meta)
	a.call = newRequest(a.headers, body)
	cut := len(body) - len(meta) - len("}}")
	a.before, a.after = []byte(body[:cut]), []byte(body[cut:])
	return a
}

// NewModern returns the client of a slot, which talks to the endpoint path at addr.
func NewModern(addr, path string, slot int) *Modern {
	return NewModernAs(Manner{}, addr, path, slot)
}

// NewModernAs is NewModern for a client with manners of its own.
func NewModernAs(manner Manner, addr, path string, slot int) *Modern {
	return newModern(NewConn(addr), manner.modernHeaders(addr, path), manner.meta(), slot)
}

// NewModernOn returns the client of a slot on pipes, which all slots may share.
func NewModernOn(l *Lines, manner Manner, slot int) *Modern {
	return newModern(caller{l, slot}, lineHeaders, manner.meta(), slot)
}

func newModern(via carrier, head headers, meta string, slot int) *Modern {
	m := &Modern{
		via:      via,
		echo:     newRequest(head("tools/call", "echo"), modernCall("echo", meta)),
		discover: newRequest(head("server/discover", ""), `{"jsonrpc":"2.0","id":`+idMark+`,"method":"server/discover","params":{`+meta+`}}`),
		id:       first + uint64(slot)*perSlot,
	}
	for t := range tools {
		m.asking[t] = newAsking(head, t, meta)
	}
	return m
}

// Close closes the client's connection; pipes stay open.
func (m *Modern) Close() { m.via.Close() }

// next is a new JSON-RPC id.
func (m *Modern) next() uint64 {
	m.id++
	return m.id
}

// Discover asks what is served, to see whether it is.
func (m *Modern) Discover() error {
	body, err := m.via.message(m.discover.with(m.next(), 0))
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
	body, err := m.via.message(m.echo.with(id, id))
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
	tool   tool
	number call
	key    string // of the input request
	state  string // raw
}

// Park calls the tool ask and returns the call that waits for an answer.
func (m *Modern) Park() (Parked, error) { return m.park(ask) }

// ParkLarge is Park for a call whose result has [wire.LargeSize] bytes.
func (m *Modern) ParkLarge() (Parked, error) { return m.park(large) }

// ParkMeeting is Park for a call that waits, when it has its answer, until
// others have theirs.
func (m *Modern) ParkMeeting() (Parked, error) { return m.park(meet) }

func (m *Modern) park(t tool) (Parked, error) {
	id := m.next()
	body, err := m.via.message(m.asking[t].call.with(id, id))
	if err != nil {
		return Parked{}, err
	}
	key, state := required(body)
	if key == nil || state == nil {
		return Parked{}, fmt.Errorf("%w: no input required: %s", ErrAnswer, excerpt(body))
	}
	return Parked{tool: t, number: call(id), key: string(key), state: string(state)}, nil
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
	a := &m.asking[p.tool]
	put(a.before, a.call.id-a.call.body, m.next())
	put(a.before, a.call.at-a.call.body, uint64(p.number))
	body := append(m.body[:0], a.before...)
	body = append(body, `"inputResponses":{"`...)
	body = append(body, p.key...)
	body = append(body, `":`...)
	body = p.number.appendAnswer(body)
	body = append(body, `},"requestState":`...)
	body = append(body, p.state...)
	body = append(body, ',')
	body = append(body, a.after...)
	m.body = body

	m.text = appendMessage(m.text[:0], a.headers, body)
	answer, err := m.via.message(m.text)
	if err != nil {
		return err
	}
	m.answer = len(answer)
	result := wire.Get(answer, "result")
	more := 0
	if p.tool == large {
		more = wire.LargeSize
	}
	if string(wire.Get(result, "resultType")) != `"complete"` || !p.number.asked(resultText(result), more) {
		return fmt.Errorf("%w: %s", ErrAnswer, excerpt(answer))
	}
	return nil
}

// Sizes returns how long the JSON of the last retry and of its answer were.
func (m *Modern) Sizes() (retry, answer int) { return len(m.body), m.answer }

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
