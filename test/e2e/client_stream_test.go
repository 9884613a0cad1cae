package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// gated starts a server whose tool "wait" waits for the gate, and says when it
// runs.
func gated(t *testing.T) (server *rawserver.Server, running chan *rawserver.Call, gate chan struct{}) {
	t.Helper()
	server = newServer(t, rawserver.Settings{})
	running, gate = make(chan *rawserver.Call, 100), newGate(t)
	server.Tool("wait", func(c *rawserver.Call) {
		running <- c
		select {
		case <-gate:
			c.Text("waited")
		case <-c.Context().Done():
		}
	})
	return server, running, gate
}

// receive waits for what must come over a channel.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	select {
	case v := <-from:
		return v
	case <-ctx.Done():
		t.Fatalf("no %s within %v", what, patience)
		panic("unreachable")
	}
}

func TestSilenceBecomesAStream(t *testing.T) {
	t.Parallel()
	server, running, gate := gated(t)
	h := Start(t, Options{Upstream: to(server), Config: "stream: {after: 50ms, keepalive: 20ms}"})
	stream := h.Open(t, CallTool("wait", nil))
	receive(t, "call", running)
	status, header := stream.Header()
	if status != http.StatusOK || header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HTTP %d %s", status, header.Get("Content-Type"))
	}
	if got := header.Get("X-Accel-Buffering"); got != "no" {
		t.Errorf("X-Accel-Buffering: %q, want no", got)
	}
	if got := header.Get("Cache-Control"); got != "no-cache" {
		t.Errorf("Cache-Control: %q, want no-cache", got)
	}
	for range 3 {
		stream.Comment()
	}
	close(gate)
	if got := stream.Reply().Text(t); got != "waited" {
		t.Errorf("got %q", got)
	}
	if _, err := stream.Frame(); !errors.Is(err, io.EOF) {
		t.Errorf("after the final message: %v, want the end", err)
	}
}

func TestOutcomeThatComesFirstIsJSON(t *testing.T) {
	t.Parallel()
	server, running, gate := gated(t)
	h := Start(t, Options{Upstream: to(server), Config: "stream: {after: 10m}"})
	stream := h.Open(t, CallTool("wait", nil))
	receive(t, "call", running)
	close(gate)
	reply := stream.Reply()
	reply.Text(t)
	if reply.SSE() || reply.Header.Get("Content-Type") != "application/json" {
		t.Errorf("Content-Type is %s, want application/json", reply.Header.Get("Content-Type"))
	}
}

// An error that comes late is the last event of the stream.
func TestErrorOnAStream(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("fail", func(c *rawserver.Call) {
		c.Progress(1, 2)
		c.Error(-32099, "no luck", "")
	})
	h := Start(t, Options{Upstream: to(server)})
	reply := h.Send(t, CallTool("fail", nil, Progress("p")))
	if !reply.SSE() {
		t.Error("progress came, but no stream")
	}
	reply.Fails(t, http.StatusOK, -32099, "")
}

func TestProgress(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	started, gate := make(chan struct{}, 10), newGate(t)
	server.Tool("work", func(c *rawserver.Call) {
		started <- struct{}{}
		<-gate
		if c.Token() != nil {
			c.Notify("notifications/progress", `{"progressToken":`+string(c.Token())+`,"progress":0.50,"total":2,"message":"`+c.Argument("who")+`","other":[1]}`)
		}
		c.Text(c.Argument("who"))
	})
	h := Start(t, Options{Upstream: to(server), Config: "stream: {after: 10m}"})
	// Tokens are unique per client, if at all: they must not meet upstream.
	streams := map[string]*Stream{}
	for who, token := range map[string]any{"a": "token", "b": "token", "c": 7, "d": nil, "e": json.RawMessage("-0"), "f": ""} {
		m := CallTool("work", map[string]any{"who": who})
		if token != nil {
			Progress(token)(m)
		}
		streams[who] = h.Open(t, m)
	}
	for range streams {
		receive(t, "call", started)
	}
	seen := map[string]bool{}
	for _, m := range server.Received("tools/call") {
		var params struct {
			Meta struct {
				ProgressToken json.RawMessage `json:"progressToken"`
			} `json:"_meta"`
		}
		if err := json.Unmarshal(m.Params, &params); err != nil {
			t.Fatal(err)
		}
		if token := string(params.Meta.ProgressToken); token != "" && seen[token] {
			t.Errorf("two calls have the token %s at the server", token)
		} else {
			seen[token] = true
		}
		if seen["id"+string(m.ID)] {
			t.Errorf("two calls have the id %s at the server", m.ID)
		}
		seen["id"+string(m.ID)] = true
	}
	close(gate)
	for who, token := range map[string]string{"a": `"token"`, "b": `"token"`, "c": `7`, "e": `-0`, "f": `""`} {
		reply := streams[who].Reply()
		list := reply.Notifications("notifications/progress")
		if len(list) != 1 {
			t.Fatalf("%s got %d progress notifications: %s", who, len(list), reply.Body)
		}
		same(t, "progress of "+who, parse(t, list[0].Params), `{"progressToken":`+token+`,"progress":0.50,"total":2,"message":"`+who+`","other":[1]}`)
		if got := reply.Text(t); got != who {
			t.Errorf("%s got the result of %s", who, got)
		}
	}
	if reply := streams["d"].Reply(); len(reply.Messages) != 1 {
		t.Errorf("a call without a token got progress: %s", reply.Body)
	}
}

// The progress of a call goes out under the token of the round that waits.
func TestProgressOfALaterRound(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("work", func(c *rawserver.Call) {
		c.Progress(1, 3)
		c.Ask("elicitation/create", question("name"))
		c.Progress(2, 3)
		c.Ask("elicitation/create", question("colour"))
		c.Progress(3, 3)
		c.Text("done")
	})
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("work", nil, Progress("one")))
	first.Asks(t, "elicitation-1")
	second := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}, Progress("two"))
	second.Asks(t, "elicitation-2")
	last := h.Retry(t, second, Answers{"elicitation-2": Accept("colour", "red")}, Progress(3))
	last.Text(t)
	for i, want := range []string{`"one"`, `"two"`, `3`} {
		reply := []*Reply{first, second, last}[i]
		list := reply.Notifications("notifications/progress")
		if len(list) != 1 {
			t.Fatalf("round %d has %d progress notifications: %s", i+1, len(list), reply.Body)
		}
		params := parse(t, list[0].Params).(map[string]any)
		same(t, "token", params["progressToken"], want)
		if params["progress"] != float64(i+1) {
			t.Errorf("progress is %v in round %d", params["progress"], i+1)
		}
	}
}

var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// server/utilities/logging, "Per-request log level".
func TestLogLevels(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("chat", func(c *rawserver.Call) {
		for _, level := range levels {
			c.Log(level, "at "+level)
		}
		c.Text("done")
	})
	h := Start(t, Options{Upstream: to(server)})
	for i, level := range append([]string{""}, levels...) {
		m := CallTool("chat", nil)
		want := 0
		if level != "" {
			Level(level)(m)
			want = len(levels) - i + 1
		}
		reply := h.Send(t, m)
		reply.Text(t)
		list := reply.Notifications("notifications/message")
		if len(list) != want {
			t.Errorf("at %q: %d messages, want %d", level, len(list), want)
			continue
		}
		for j, message := range list {
			at := levels[len(levels)-want+j]
			same(t, "message", parse(t, message.Params), `{"level":"`+at+`","data":"at `+at+`"}`)
		}
		if len(reply.Messages) != want+1 {
			t.Errorf("the stream has more: %s", reply.Body)
		}
	}
}

// Calls that share a session hear each what they asked for.
func TestLogLevelsOfConcurrentCalls(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	started, gate := make(chan struct{}, 3), newGate(t)
	server.Tool("chat", func(c *rawserver.Call) {
		started <- struct{}{}
		<-gate
		c.Log("debug", c.Argument("who"))
		c.Log("error", c.Argument("who"))
		c.Text("done")
	})
	h := Start(t, Options{Upstream: to(server)})
	quiet := h.Open(t, CallTool("chat", map[string]any{"who": "quiet"}))
	errs := h.Open(t, CallTool("chat", map[string]any{"who": "errors"}, Level("error")))
	all := h.Open(t, CallTool("chat", map[string]any{"who": "all"}, Level("debug")))
	for range 3 {
		receive(t, "call", started)
	}
	close(gate)
	for _, test := range []struct {
		stream *Stream
		want   []string
	}{
		{quiet, nil},
		{errs, []string{`{"level":"error","data":"errors"}`}},
		{all, []string{`{"level":"debug","data":"all"}`, `{"level":"error","data":"all"}`}},
	} {
		reply := test.stream.Reply()
		list := reply.Notifications("notifications/message")
		if len(list) != len(test.want) {
			t.Errorf("got %d messages, want %d: %s", len(list), len(test.want), reply.Body)
			continue
		}
		for i, want := range test.want {
			same(t, "message", parse(t, list[i].Params), want)
		}
	}
	if n := len(server.Sessions()); n != 1 && !oneStream(t) {
		t.Errorf("%d sessions, want the calls to share one", n)
	}
}
