package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/proxy/downstream"
)

func TestMain(m *testing.M) {
	// fasthttp's clock for the Date header has no end, and its workers' cleaner
	// sleeps ten seconds before it notices its own.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// scripted is an engine whose rounds do what a test says.
type scripted struct {
	begin    func(req *adapter.Request) (*scriptedRound, error)
	metadata func(upstream, suffix string) (int, string, []byte, error)
	ready    func() (bool, []string)
}

func (e *scripted) Begin(req *adapter.Request) (*scriptedRound, error) { return e.begin(req) }

func (e *scripted) ProtectedResource(_ context.Context, upstream, suffix string) (int, string, []byte, error) {
	return e.metadata(upstream, suffix)
}

func (e *scripted) Ready(context.Context) (bool, []string) { return e.ready() }

// scriptedRound gives out what is sent on steps.
type scriptedRound struct {
	steps  chan any // adapter.Event or error
	gone   chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newRound(steps ...any) *scriptedRound {
	r := &scriptedRound{steps: make(chan any, 16), gone: make(chan struct{}), closed: make(chan struct{})}
	for _, step := range steps {
		r.steps <- step
	}
	return r
}

func (r *scriptedRound) Next(until time.Time) (adapter.Event, error) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-r.gone:
		return adapter.Event{}, adapter.ErrGone
	case step := <-r.steps:
		if err, ok := step.(error); ok {
			return adapter.Event{}, err
		}
		return step.(adapter.Event), nil
	case <-timer.C:
		return adapter.Event{}, adapter.ErrDeadline
	}
}

func (r *scriptedRound) Gone()  { r.once.Do(func() { close(r.gone) }) }
func (r *scriptedRound) Close() { close(r.closed) }

func result(text string) adapter.Event {
	return adapter.Event{Outcome: &adapter.Outcome{Method: "tools/call", Result: []byte(text)}}
}

func notification(text string) adapter.Event { return adapter.Event{Notification: []byte(text)} }

// answering is an engine each of whose rounds gives the same outcome.
func answering(o adapter.Outcome) *scripted {
	return &scripted{begin: func(req *adapter.Request) (*scriptedRound, error) {
		o := o
		o.Method = req.Method
		return newRound(adapter.Event{Outcome: &o}), nil
	}}
}

func failing(err error) *scripted {
	return &scripted{begin: func(*adapter.Request) (*scriptedRound, error) { return nil, err }}
}

// playing is an engine whose only round is r.
func playing(r *scriptedRound) *scripted {
	return &scripted{begin: func(*adapter.Request) (*scriptedRound, error) { return r, nil }}
}

const waitFor = 5 * time.Second

func settings() Settings {
	return Settings{
		Routes:  []Route{{Path: "/mcp", Upstream: "one"}},
		MaxBody: 4 << 20, MaxHeader: 16 << 10, MaxDepth: 64,
		ReadTimeout: 30 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		StreamAfter: waitFor, KeepAlive: waitFor,
	}
}

type running struct {
	*Server
	addr     string
	registry *prometheus.Registry
}

// start serves on a real socket until the test ends.
func start(t *testing.T, settings Settings, e *scripted) *running {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	s := New(settings, downstream.Behind(e), zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.InfoLevel), registry)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waitFor)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return &running{s, ln.Addr().String(), registry}
}

// client is one connection, used by hand.
type client struct {
	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
}

func (s *running) dial(t testing.TB) *client {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(2 * waitFor)); err != nil {
		t.Fatal(err)
	}
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, text); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads a whole answer.
func (c *client) answer() (*http.Response, string) {
	c.t.Helper()
	resp := c.head()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("read body: %v", err)
	}
	return resp, string(body)
}

// head reads an answer's header; its body can then be read as it comes.
func (c *client) head() *http.Response {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, &http.Request{Method: http.MethodPost})
	if err != nil {
		c.t.Fatalf("read answer: %v", err)
	}
	return resp
}

const (
	metaMember = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	callBody = `{"jsonrpc":"2.0","id":"c1","method":"tools/call","params":{"name":"add","arguments":{"a":1},` + metaMember + `}}`
)

func body(method, params string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` + params + `}}`
}

// headers of an ordinary call. A change is "Name: value", which replaces the
// field, "-Name", which takes it away, or "+Name: value", which adds one.
func headers(changes ...string) string {
	fields := []string{
		"Host: localhost", "Content-Type: application/json", "Accept: application/json, text/event-stream",
		"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: add",
	}
	for _, change := range changes {
		name, _, _ := strings.Cut(strings.TrimLeft(change, "+-"), ":")
		if change[0] == '+' {
			fields = append(fields, change[1:])
			continue
		}
		kept := fields[:0:0]
		for _, f := range fields {
			if have, _, _ := strings.Cut(f, ":"); !strings.EqualFold(have, name) {
				kept = append(kept, f)
			}
		}
		if fields = kept; change[0] != '-' {
			fields = append(fields, change)
		}
	}
	return strings.Join(fields, "\r\n") + "\r\n"
}

func post(body string, changes ...string) string {
	return fmt.Sprintf("POST /mcp HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", headers(changes...), len(body), body)
}

// rpcError is what a test looks at of a JSON-RPC error response.
type rpcError struct {
	ID    json.RawMessage
	Error struct {
		Code    int
		Message string
		Data    struct {
			Reason               string
			MayHaveRun           bool
			RequiredCapabilities json.RawMessage
		}
	}
}

func parseError(t testing.TB, text string) rpcError {
	t.Helper()
	var e rpcError
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatalf("body %q: %v", text, err)
	}
	return e
}

func await(t testing.TB, c <-chan struct{}, within time.Duration, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(within):
		t.Fatalf("%s did not happen within %v", what, within)
	}
}
