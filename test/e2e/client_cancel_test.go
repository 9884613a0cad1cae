package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// soon is how fast a client's leaving must reach the server.
const soon = time.Second

// cancelled waits until the server has been told that a call is cancelled.
func cancelled(t *testing.T, server *rawserver.Server, call *rawserver.Call, left time.Time) {
	t.Helper()
	receive(t, "cancellation", call.Cancelled())
	if took := time.Since(left); took > soon {
		t.Errorf("the server was told after %v, want %v at most", took, soon)
	}
	ids := server.Cancelled()
	if len(ids) != 1 || string(ids[0]) != string(call.ID) {
		t.Errorf("cancelled are %s, want the call's id %s alone", ids, call.ID)
	}
}

// basic/patterns/cancellation: closing the connection cancels.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{
		"before anything is written": "stream: {after: 10m}",
		"on a stream":                "stream: {after: 10ms}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, running, _ := gated(t)
			h := Start(t, Options{Upstream: to(server), Config: config})
			stream := h.Open(t, CallTool("wait", nil))
			call := receive(t, "call", running)
			if name == "on a stream" {
				stream.Comment()
			} else if stream.Answered() {
				t.Fatal("something was written already")
			}
			left := time.Now()
			stream.Close()
			cancelled(t, server, call, left)
			h.Logs.Wait(t, `"message":"request"`, `"method":"tools/call"`, `"status":0`)
			// The session is of further use.
			h.Send(t, Request("tools/list", nil)).Completes(t)
			if n := server.Count("initialize"); n != 1 {
				t.Errorf("%d sessions were opened, want 1", n)
			}
		})
	}
}

// A client that leaves while its session is being opened leaves nothing behind.
func TestDisconnectBeforeTheSessionStands(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	gate := newGate(t)
	server.Tool("work", func(c *rawserver.Call) { c.Text("worked") })
	server.Hold("initialize", gate) // and then it is answered
	h := Start(t, Options{Upstream: to(server), Config: "stream: {after: 10m}"})
	stream := h.Open(t, CallTool("work", nil))
	server.WaitCount("initialize", 1)
	stream.Close()
	h.Logs.Wait(t, `"message":"request"`, `"method":"tools/call"`, `"status":0`)
	close(gate)
	h.Send(t, Request("tools/list", nil)).Completes(t)
	if n := server.ToolCalls("work"); n != 0 {
		t.Errorf("the tool was called %d times for a client that had left", n)
	}
}

// The client leaves in a later round.
func TestDisconnectAfterAnAnswer(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	answered := make(chan *rawserver.Call, 1)
	server.Tool("ask", func(c *rawserver.Call) {
		c.Ask("elicitation/create", question("name"))
		answered <- c
		<-c.Context().Done()
	})
	h := Start(t, Options{Upstream: to(server), Config: "stream: {after: 10m}"})
	first := h.Send(t, CallTool("ask", nil))
	first.Asks(t, "elicitation-1")
	stream := h.Open(t, RetryOf(first, Answers{"elicitation-1": Accept("name", "Ada")}))
	call := receive(t, "answer", answered)
	left := time.Now()
	stream.Close()
	cancelled(t, server, call, left)
}

// Leaving after the answer has nothing to cancel.
func TestParkedCallOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) {
		c.Text(c.Ask("elicitation/create", question("name")).Content("name"))
	})
	h := Start(t, Options{Upstream: to(server), Config: "stream: {after: 1ms, keepalive: 10ms}"})
	first := h.Send(t, CallTool("ask", nil)) // closes its connection
	first.Asks(t, "elicitation-1")
	if got := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Text(t); got != "Ada" {
		t.Errorf("got %q", got)
	}
	if ids := server.Cancelled(); len(ids) != 0 {
		t.Errorf("%d calls were cancelled", len(ids))
	}
}

// question is a form elicitation for one required string.
func question(name string) string { return hinted(name, "") }

// hinted is a question with a hint for its key.
func hinted(name, key string) string {
	params := map[string]any{
		"message": name + "?",
		"requestedSchema": map[string]any{
			"type": "object", "required": []string{name},
			"properties": map[string]any{name: map[string]any{"type": "string"}},
		},
	}
	if key != "" {
		params["_meta"] = map[string]any{"dev.holdfast/key": key}
	}
	text, err := json.Marshal(params)
	if err != nil {
		panic(err) // the test's own mistake
	}
	return string(text)
}

// The client leaves while the server takes its time with the answer.
func TestDisconnectWhileTheAnswerIsOnItsWay(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	asking, taken := make(chan *rawserver.Call, 1), make(chan struct{}, 1)
	server.Tool("ask", func(c *rawserver.Call) {
		asking <- c
		c.Start("elicitation/create", question("name"))
		<-c.Context().Done()
	})
	server.Hook(func(x *rawserver.Exchange) bool {
		if x.Record.HTTP != "POST" || x.Record.Method() != "" {
			return false
		}
		taken <- struct{}{}
		x.Silence()
		return true
	})
	h := Start(t, Options{Upstream: to(server), Config: "stream: {after: 10m}"})
	first := h.Send(t, CallTool("ask", nil))
	first.Asks(t, "elicitation-1")
	call := receive(t, "call", asking)
	stream := h.Open(t, RetryOf(first, Answers{"elicitation-1": Accept("name", "Ada")}))
	receive(t, "answer", taken)
	left := time.Now()
	stream.Close()
	cancelled(t, server, call, left)
}
