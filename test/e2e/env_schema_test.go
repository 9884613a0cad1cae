package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
	"github.com/holdfast-mcp/holdfast/test/schema"
)

// schemas are the protocol's own, or nil: see TestWireIsHeldAgainstTheSchemas.
var schemas *schema.Set

const schemaVariable = "HOLDFAST_SCHEMA_DIR"

func loadSchemas() (err error) {
	if dir := os.Getenv(schemaVariable); dir != "" {
		schemas, err = schema.Load(dir)
	}
	return err
}

// TestWireIsHeldAgainstTheSchemas says what the run checks of each message: it
// is skipped, and says how to have it, where the run checks nothing.
func TestWireIsHeldAgainstTheSchemas(t *testing.T) {
	if schemas == nil {
		t.Skipf("no message of this run is held against the protocol's JSON schemas, which are no part of this project: "+
			"`make schemas` takes them out of the conformance suite's package, and %s names a folder of one's own", schemaVariable)
	}
	if missing := schemas.Missing(); len(missing) > 0 {
		t.Logf("there is no schema of %s in %s: messages of these are not checked", strings.Join(missing, ", "), os.Getenv(schemaVariable))
	}
	oddPeer(t, "what is not valid has to be seen")
	server := newServer(t, rawserver.Settings{Version: "2025-11-25"}) // there are folders without the schema of 2024-11-05
	server.Tool("odd", func(c *rawserver.Call) { c.Result(`{"content":"no array"}`) })
	server.Handle("completion/complete", func(c *rawserver.Call) { c.Result(`{"completion":{"values":[]}}`) })
	h := Start(t, Options{Upstream: to(server)})
	h.Send(t, CallTool("odd", nil)).Completes(t)
	if n := len(takeBreaches(t)); n != 1 {
		t.Errorf("%d breaches seen in what the client got, want 1", n)
	}
	h.Send(t, Request("completion/complete", map[string]any{"ref": map[string]any{}})).Completes(t)
	checkHeard(t, server)
	if n := len(takeBreaches(t)); n != 1 {
		t.Errorf("%d breaches seen in what the server got, want 1", n)
	}
}

// breaches are what was wrong on the wire and no test has reported yet.
var breaches struct {
	sync.Mutex
	count map[string]int // of messages checked, by revision and sender
	of    map[testing.TB][]string
}

// notSchematic are tests about peers that do not keep to the schemas.
var notSchematic sync.Map

// oddPeer says that what a test's client or server says is not valid on purpose,
// and why what Holdfast passes on of it is not either.
func oddPeer(t testing.TB, why string) {
	t.Helper()
	if why == "" {
		t.Fatal("oddPeer: why?")
	}
	notSchematic.Store(t.Name(), why)
}

func isOdd(t testing.TB) bool { return marked(t, &notSchematic) }

// valid holds a message that Holdfast sent against the schema. What is wrong is
// reported at the end of the test, or, where it has ended, of the run.
func valid(t testing.TB, revision string, from schema.Side, message []byte, answered schema.Request) {
	if schemas == nil || !schemas.Has(revision) {
		return
	}
	err := schemas.Check(revision, from, message, answered)
	breaches.Lock()
	defer breaches.Unlock()
	if breaches.of == nil {
		breaches.count, breaches.of = map[string]int{}, map[testing.TB][]string{}
	}
	breaches.count[revision+" "+string(from)]++
	if err != nil {
		breaches.of[t] = append(breaches.of[t], fmt.Sprintf("%v\n%.2000s", err, message))
	}
}

// schematic reports at the end of a test what was wrong on its wires.
func schematic(t testing.TB) {
	t.Cleanup(func() {
		list := takeBreaches(t)
		if isOdd(t) {
			return
		}
		for _, breach := range list {
			t.Errorf("a message on the wire is not valid: %s", breach)
		}
	})
}

func takeBreaches(t testing.TB) []string {
	breaches.Lock()
	defer breaches.Unlock()
	list := breaches.of[t]
	delete(breaches.of, t)
	return list
}

// wiresWereValid reports what was wrong after the tests that it came from had
// ended, and how much was checked.
func wiresWereValid() error {
	if schemas == nil {
		return nil
	}
	for t, list := range breaches.of {
		if isOdd(t) {
			continue
		}
		for _, breach := range list {
			return fmt.Errorf("a message on the wire is not valid, in %s: %s", t.Name(), breach)
		}
	}
	for _, revision := range schema.Revisions {
		for _, from := range []schema.Side{schema.Client, schema.Server} {
			if n := breaches.count[revision+" "+string(from)]; n > 0 {
				fmt.Fprintf(os.Stderr, "held against the schema of %s: %d messages of a %s\n", revision, n, strings.ToLower(string(from)))
			}
		}
	}
	return nil
}

// heardIsValid checks all that Holdfast sent to a server, once the test is over.
func heardIsValid(t testing.TB, server *rawserver.Server) {
	if schemas == nil {
		return
	}
	schematic(t)
	t.Cleanup(func() { checkHeard(t, server) })
}

func checkHeard(t testing.TB, server *rawserver.Server) {
	for _, r := range server.Records() {
		for i, m := range r.Messages {
			revision := r.Version
			if m.Method == "server/discover" {
				revision = modern // the question for the server's era
			}
			var answered schema.Request
			if q := r.Answers[i]; q != nil {
				answered = schema.Request{Method: q.Method, Task: at(json.RawMessage(q.Params), "task") != nil}
			}
			valid(t, revision, schema.Client, m.Raw, answered)
		}
	}
}

// wireTap has every answer of Holdfast's looked at while it is read.
type wireTap struct {
	t    testing.TB
	next http.RoundTripper
}

func (w wireTap) RoundTrip(request *http.Request) (*http.Response, error) {
	var asked Envelope
	if request.GetBody != nil {
		if body, err := request.GetBody(); err == nil {
			text, _ := io.ReadAll(body)      // it is in memory
			_ = json.Unmarshal(text, &asked) // or it is no request
		}
	}
	response, err := w.next.RoundTrip(request)
	if err == nil && request.Method == http.MethodPost { // others are to the admin listener, or to be refused
		kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
		response.Body = &tapped{ReadCloser: response.Body, t: w.t, method: asked.Method, foreign: isForeign(request.Header, &asked),
			events: kind == "text/event-stream", json: kind == "application/json",
			passed: response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden}
	}
	return response, err
}

func (w wireTap) CloseIdleConnections() {
	w.next.(interface{ CloseIdleConnections() }).CloseIdleConnections()
}

// tapped is the body of an answer.
type tapped struct {
	io.ReadCloser
	t       testing.TB
	method  string // of the request
	foreign bool   // to a request of a proposal's dialect
	events  bool   // it is a stream of them
	json    bool
	passed  bool // of a status whose body may be the upstream's own
	text    []byte
}

func (b *tapped) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.text = append(b.text, p[:n]...); b.events {
		for {
			line, rest, whole := bytes.Cut(b.text, []byte("\n"))
			if !whole {
				break
			}
			b.text = rest
			if data, is := bytes.CutPrefix(line, []byte("data:")); is { // of one line each
				b.look(bytes.TrimSpace(data))
			}
		}
	}
	if err == io.EOF && b.json {
		text := bytes.TrimSpace(b.text)
		if len(text) > 0 && !(b.passed && !bytes.Contains(text, []byte(`"jsonrpc"`))) {
			b.look(text)
		}
		b.json = false
	}
	return n, err
}

func (b *tapped) look(message []byte) {
	if told := envelope(message); told.Error != nil || !b.foreign && !isExtended(b.method, told) {
		valid(b.t, modern, schema.Server, message, schema.Request{Method: b.method})
	}
}

// isForeign reports whether a request is of a proposal's dialect, whose answers the
// schema does not know, but for errors: by its header, or by its form.
func isForeign(h http.Header, asked *Envelope) bool {
	switch h.Get("Holdfast-Dialect") {
	case "", "mrtr", "tasks":
	default:
		return true
	}
	meta := at(asked.Params, "_meta")
	return at(meta, "io.modelcontextprotocol/protocolVersion") == nil || strings.HasPrefix(asked.Method, "requests/") ||
		at(at(meta, "io.modelcontextprotocol/clientCapabilities"), "resumableRequests") != nil
}

// isExtended reports whether a message is of the tasks extension, which has no
// schema.
func isExtended(asked string, told Envelope) bool {
	return strings.HasPrefix(asked, "tasks/") || told.Method == "notifications/tasks" || string(at(told.Result, "resultType")) == `"task"`
}

func envelope(message []byte) (m Envelope) {
	_ = json.Unmarshal(message, &m) // which valid says, too
	return m
}

// dialogue is a client's side of standard input and output, where answers find
// their requests by their ids.
type dialogue struct {
	t testing.TB

	mu    sync.Mutex
	asked map[string]string // methods, by raw id
}

func newDialogue(t testing.TB) *dialogue {
	schematic(t)
	return &dialogue{t: t, asked: map[string]string{}}
}

func (d *dialogue) asks(message []byte) {
	var m Envelope
	_ = json.Unmarshal(message, &m) // what is no request has no answer
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[string(m.ID)] = m.Method
}

func (d *dialogue) hears(message []byte) {
	m := envelope(message)
	d.mu.Lock()
	method := d.asked[string(m.ID)]
	d.mu.Unlock()
	if m.Error != nil || !isExtended(method, m) {
		valid(d.t, modern, schema.Server, message, schema.Request{Method: method})
	}
}

// overheard has all that the SDK's client reads looked at.
func overheard(t testing.TB, transport sdk.Transport) sdk.Transport {
	return &sdk.LoggingTransport{Transport: transport, Writer: newDialogue(t)}
}

// Write takes a line of the SDK's log of its messages.
func (d *dialogue) Write(line []byte) (int, error) {
	if message, sent := bytes.CutPrefix(line, []byte("write: ")); sent {
		d.asks(bytes.TrimSpace(message))
	} else if message, read := bytes.CutPrefix(line, []byte("read: ")); read {
		d.hears(bytes.TrimSpace(message))
	}
	return len(line), nil
}
