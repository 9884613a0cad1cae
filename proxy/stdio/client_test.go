package stdio

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/proxy/downstream"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
const patience = 10 * time.Second

// front is a Server on in-memory pipes, with a real engine in front of a
// rawserver, and the client at its other end.
type front struct {
	t      *testing.T
	raw    *rawserver.Server
	engine *adapter.Engine
	server *Server
	write  *io.PipeWriter
	read   *io.PipeReader
	lines  chan string // what the server wrote; closed at its end
	ended  chan struct{}
	err    error // what Serve returned, once ended is closed
}

type change func(*Settings)

// open starts a front that ends with the test, cleanly.
func open(t *testing.T, changes ...change) *front {
	t.Helper()
	f := idle(t, changes...)
	go func() {
		defer close(f.lines)
		for scanner := newScanner(f.read); scanner.Scan(); {
			f.lines <- scanner.Text()
		}
	}()
	return f
}

func newScanner(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 8<<20)
	return s
}

// idle is a front whose client does not read.
func idle(t *testing.T, changes ...change) *front {
	t.Helper()
	settings := Settings{Upstream: "up", Principal: "me", MaxLine: 1 << 20, MaxDepth: 32, MaxRequests: 64, WriteTimeout: patience}
	for _, c := range changes {
		c(&settings)
	}
	raw := rawserver.New(t, rawserver.Settings{})
	upstream, err := legacy.NewServer(legacy.Settings{
		Name: "up", URL: raw.URL,
		ConnectTimeout: patience, WriteTimeout: patience, PostTimeout: patience, OpenTimeout: patience, StreamWait: patience,
		MaxMessage: 4 << 20, MaxLine: 4 << 20, MaxDepth: 100, MaxIdleConns: 100, IdleConnTTL: time.Minute,
		RetryMin: time.Millisecond, RetryMax: 10 * time.Millisecond, MaxResumes: 3,
		MaxSessions: 100, MaxPerKey: 10, IdleTTL: time.Hour, Queue: 100, QueueTimeout: patience,
		CancelWait: 2 * time.Second, MaxOrphans: 4, OrphanTTL: time.Hour, ToolsTTL: time.Hour, ClientName: "holdfast", ClientVersion: "test", IDPrefix: "r1",
	}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ring, err := state.NewRing(state.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	engine := adapter.NewEngine(adapter.Settings{
		Replica: "r1", Timeout: time.Minute, MaxDuration: time.Hour, Gather: 5 * time.Millisecond, ParkTTL: time.Hour,
		OutcomeTTL: time.Hour, MaxOutcomeBytes: 1 << 20, MaxCalls: 1000, MaxParked: 1000, MaxParkedPerPrincipal: 1000,
		MaxRounds: 20, MaxInputs: 8, MaxState: 4096, Buffer: 16, BufferBytes: 1 << 20,
		MaxListeners: 10, MaxListenersPerPrincipal: 10, MaxURIs: 10,
	}, []adapter.Upstream{{Name: "up", Endpoints: []adapter.Endpoint{{Server: upstream, Protocol: adapter.ProtocolLegacy}}}}, ring, zerolog.Nop(), nil)

	in, write := io.Pipe()
	read, out := io.Pipe()
	f := &front{
		t: t, raw: raw, engine: engine, write: write, read: read,
		lines: make(chan string, 1024), ended: make(chan struct{}),
		server: New(settings, downstream.Behind(engine), in, out, zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.InfoLevel)),
	}
	go func() {
		defer close(f.ended)
		f.err = f.server.Serve()
	}()
	t.Cleanup(func() { f.shutdown(patience) })
	return f
}

// shutdown ends engine and server, as a process does. More than once is fine.
func (f *front) shutdown(within time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = f.server.Shutdown(ctx)
	}()
	f.engine.Shutdown(ctx)
	<-ended
	<-f.ended
	return err
}

func (f *front) send(text string) {
	f.t.Helper()
	if _, err := io.WriteString(f.write, text+"\n"); err != nil {
		f.t.Fatalf("write %.100s: %v", text, err)
	}
}

// message is what the server writes.
type message struct {
	text   string
	ID     json.RawMessage
	Method string
	Params struct {
		ProgressToken, RequestID json.RawMessage
		Progress                 float64
		Meta                     struct {
			Subscription json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
		} `json:"_meta"`
	}
	Result *struct {
		ResultType        string
		Content           []struct{ Text string }
		RequestState      string
		InputRequests     map[string]json.RawMessage
		SupportedVersions []string
	}
	Error *struct {
		Code    int
		Message string
		Data    struct {
			Reason    string
			Supported []string
		}
	}
}

// next returns the next message of the server.
func (f *front) next() message {
	f.t.Helper()
	select {
	case text, ok := <-f.lines:
		if !ok {
			f.t.Fatal("the output has ended")
		}
		m := message{text: text}
		if err := json.Unmarshal([]byte(text), &m); err != nil || !strings.HasPrefix(text, `{"jsonrpc":"2.0"`) {
			f.t.Fatalf("%q is no message: %v", text, err)
		}
		return m
	case <-time.After(patience):
		f.t.Fatal("the server says nothing")
	}
	return message{}
}

// text is what a tool said.
func (m message) said(t *testing.T) string {
	t.Helper()
	if m.Result == nil || m.Result.ResultType != "complete" || len(m.Result.Content) != 1 {
		t.Fatalf("got %s, want a result", m.text)
	}
	return m.Result.Content[0].Text
}

// fails checks an error.
func (m message) fails(t *testing.T, id string, code int, reason string) {
	t.Helper()
	if m.Error == nil || string(m.ID) != id || m.Error.Code != code || m.Error.Data.Reason != reason {
		t.Fatalf("got %s, want id %s, code %d and reason %q", m.text, id, code, reason)
	}
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`

func rpc(id, method, params string) string {
	if params != "" {
		params += ","
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s%s}}`, id, method, params, meta)
}

func call(id, tool string) string { return rpc(id, "tools/call", `"name":"`+tool+`"`) }

// withToken adds a progress token to a request.
func withToken(text, token string) string {
	return strings.Replace(text, `"_meta":{`, `"_meta":{"progressToken":`+token+`,`, 1)
}

func cancel(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
}

// gate is what tools wait for.
type gate chan struct{}

func newGate(t *testing.T) gate {
	g := make(gate)
	t.Cleanup(g.open)
	return g
}

func (g gate) open() {
	select {
	case <-g:
	default:
		close(g)
	}
}

func (g gate) holding(c *rawserver.Call) {
	select {
	case <-g:
		c.Text("held")
	case <-c.Context().Done():
	}
}

func saying(c *rawserver.Call) { c.Text("said") }

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
	}
}

var errAny = errors.New("any error")
