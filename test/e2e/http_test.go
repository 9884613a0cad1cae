package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// Target is where requests go: one replica, or what stands before several.
type Target struct{ URL string }

// Everything that a client can declare, and nothing.
const (
	AllCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`
	NoCapabilities  = `{}`
)

const (
	modern = "2026-07-28"

	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLevel        = "io.modelcontextprotocol/logLevel"
	metaServer       = "io.modelcontextprotocol/serverInfo"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// Message is a modern request that is complete and right, for a test to change
// what it is about. The zero value is not usable; see Request.
type Message struct {
	ID     any // any JSON value; of Request, a number that no other has
	Method string
	Params map[string]any // with _meta
	// Header is the HTTP header. Mcp-Method and the rest follow the body when the
	// message is made, not when it is changed.
	Header http.Header
}

var lastID atomic.Int64

// Request makes a message. The client declares every capability, and has a
// clientInfo of its own for each test that asks for it (see Client).
func Request(method string, params map[string]any, changes ...func(*Message)) *Message {
	m := &Message{ID: lastID.Add(1), Method: method, Params: map[string]any{}, Header: http.Header{}}
	maps.Copy(m.Params, params)
	m.Params["_meta"] = map[string]any{
		metaVersion:      modern,
		metaClient:       map[string]any{"name": "e2e", "version": "1"},
		metaCapabilities: json.RawMessage(AllCapabilities),
	}
	m.Header.Set("Content-Type", "application/json")
	m.Header.Set("Accept", "application/json, text/event-stream")
	m.Header.Set("MCP-Protocol-Version", modern)
	m.Header.Set("Mcp-Method", method)
	switch method {
	case "tools/call", "prompts/get":
		if name, ok := params["name"].(string); ok {
			m.Header.Set("Mcp-Name", name)
		}
	case "resources/read":
		if uri, ok := params["uri"].(string); ok {
			m.Header.Set("Mcp-Name", uri)
		}
	}
	for _, change := range changes {
		change(m)
	}
	return m
}

// CallTool makes a tools/call.
func CallTool(name string, arguments map[string]any, changes ...func(*Message)) *Message {
	params := map[string]any{"name": name}
	if arguments != nil {
		params["arguments"] = arguments
	}
	return Request("tools/call", params, changes...)
}

// Meta sets a member of _meta; nil takes it away.
func Meta(name string, value any) func(*Message) {
	return func(m *Message) {
		meta := m.Params["_meta"].(map[string]any)
		if value == nil {
			delete(meta, name)
		} else {
			meta[name] = value
		}
	}
}

// Param sets a member of params; nil takes it away.
func Param(name string, value any) func(*Message) {
	return func(m *Message) {
		if value == nil {
			delete(m.Params, name)
		} else {
			m.Params[name] = value
		}
	}
}

// Caps declares capabilities, as JSON.
func Caps(capabilities string) func(*Message) {
	return Meta(metaCapabilities, json.RawMessage(capabilities))
}

// Client names the client: callers without credentials share sessions by it.
func Client(name string) func(*Message) {
	return Meta(metaClient, map[string]any{"name": name, "version": "1"})
}

// Level asks for log messages.
func Level(level string) func(*Message) { return Meta(metaLevel, level) }

// Progress asks for progress under a token, a string or a number.
func Progress(token any) func(*Message) { return Meta("progressToken", token) }

// Header sets a header field; "" takes it away.
func Header(name, value string) func(*Message) {
	return func(m *Message) {
		if value == "" {
			m.Header.Del(name)
		} else {
			m.Header.Set(name, value)
		}
	}
}

// Bearer authorizes with a token.
func Bearer(token string) func(*Message) { return Header("Authorization", "Bearer "+token) }

// ID sets the request's id.
func ID(id any) func(*Message) { return func(m *Message) { m.ID = id } }

// Body is the message as it is sent.
func (m *Message) Body() string {
	body := map[string]any{"jsonrpc": "2.0", "id": m.ID, "method": m.Method, "params": m.Params}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // the test's own mistake
	}
	return string(text)
}

// Copy is the same request once more, changed.
func (m *Message) Copy(changes ...func(*Message)) *Message {
	c := &Message{ID: m.ID, Method: m.Method, Params: maps.Clone(m.Params), Header: m.Header.Clone()}
	if meta, ok := m.Params["_meta"].(map[string]any); ok {
		c.Params["_meta"] = maps.Clone(meta)
	}
	for _, change := range changes {
		change(c)
	}
	return c
}

// Answers are input responses, by key.
type Answers map[string]any

// Accept is an elicitation's answer: pairs of names and values.
func Accept(pairs ...any) map[string]any {
	content := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		content[pairs[i].(string)] = pairs[i+1]
	}
	return map[string]any{"action": "accept", "content": content}
}

// Said is a sampling's answer.
func Said(text string) map[string]any {
	return map[string]any{"role": "assistant", "model": "m", "stopReason": "endTurn", "content": map[string]any{"type": "text", "text": text}}
}

// Roots is the answer to roots/list.
func Roots(uris ...string) map[string]any {
	roots := []any{}
	for _, uri := range uris {
		roots = append(roots, map[string]any{"uri": uri})
	}
	return map[string]any{"roots": roots}
}

// RetryOf makes the next round's request: the same one with another id, the
// state of the reply, and answers.
func RetryOf(r *Reply, answers Answers, changes ...func(*Message)) *Message {
	m := r.Request.Copy(ID(lastID.Add(1)), Param("requestState", r.State), Param("inputResponses", nil))
	if answers != nil {
		m.Params["inputResponses"] = answers
	}
	for _, change := range changes {
		change(m)
	}
	return m
}

// newClient makes an HTTP client whose connections end with the test. Where
// there are several replicas, each request has a connection of its own, and
// reaches the next replica.
func newClient(t testing.TB) *http.Client {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100, DisableKeepAlives: mode != modeOne}
	t.Cleanup(transport.CloseIdleConnections)
	var way http.RoundTripper = transport
	if schemas != nil {
		schematic(t)
		way = wireTap{t, transport}
	}
	return &http.Client{Transport: way, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Post sends any body and reads the whole answer.
func Post(t testing.TB, url, body string, header http.Header) *Reply {
	t.Helper()
	return Do(t, http.MethodPost, url, body, header)
}

// Do is Post with another HTTP method. "Host" in the header is the request's.
func Do(t testing.TB, method, url, body string, header http.Header) *Reply {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header.Clone()
	if host := header.Get("Host"); host != "" {
		request.Host = host
	}
	response, err := newClient(t).Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	return readReply(t, response)
}

// Send sends a request and reads the whole answer.
func (g Target) Send(t testing.TB, m *Message) *Reply {
	t.Helper()
	reply := Post(t, g.URL, m.Body(), m.Header)
	reply.Request = m
	return reply
}

// Retry sends the next round of a call.
func (g Target) Retry(t testing.TB, r *Reply, answers Answers, changes ...func(*Message)) *Reply {
	t.Helper()
	return g.Send(t, RetryOf(r, answers, changes...))
}

// readReply reads an answer to its end.
func readReply(t testing.TB, response *http.Response) *Reply {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("read the answer: %v", err)
	}
	r := &Reply{Status: response.StatusCode, Header: response.Header, Body: body}
	if r.SSE() {
		r.readFrames(t)
		return r
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") && len(bytes.TrimSpace(body)) > 0 {
		var e Envelope
		err := json.Unmarshal(body, &e)
		switch passed := r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden; {
		case err == nil:
			e.Raw = body
			r.Messages = []Envelope{e}
		case !passed: // those two are the upstream's, in its own words
			t.Fatalf("the body is no JSON-RPC message: %v\n%s", err, body)
		}
	}
	r.take(t)
	return r
}
