package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// levelsOf are the levels of the log messages in an answer.
func levelsOf(r *Reply) (levels []string) {
	for _, n := range r.Notifications("notifications/message") {
		levels = append(levels, strings.Trim(string(at(n.Params, "level")), `"`))
	}
	return levels
}

// everyLevel logs at every level, as servers do that know no level.
func everyLevel(c *rawserver.Call) {
	for _, level := range []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"} {
		c.Log(level, "x")
	}
}

// TestLevels: the server is told the most verbose level that a live call wants,
// and less when that call has ended; each request gets what it asked for.
func TestLevels(t *testing.T) {
	onlyStreamable(t, "calls share the level of their session")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	hold := newGate(t)
	server.Tool("hold", func(c *rawserver.Call) {
		everyLevel(c)
		hold.holding(c)
	})
	server.Tool("log", func(c *rawserver.Call) {
		everyLevel(c)
		c.Text("logged")
	})
	h := Start(t, Options{Upstream: to(server)})
	none := h.Send(t, CallTool("log", nil))
	if got := levelsOf(none); len(got) != 0 {
		t.Errorf("a request without logLevel got %v", got)
	}
	if got := server.Levels(); len(got) != 0 {
		t.Errorf("the server was told %v, but nobody wants log messages", got)
	}
	long := h.Open(t, CallTool("hold", nil, Level("warning")))
	server.Wait("the tool", func() bool { return server.ToolCalls("hold") == 1 })
	if got := server.Levels(); !slices.Equal(got, []string{"warning"}) {
		t.Fatalf("the server was told %v before the call, want warning", got)
	}
	critical := h.Send(t, CallTool("log", nil, Level("critical")))
	if got := levelsOf(critical); !slices.Equal(got, []string{"critical", "alert", "emergency"}) {
		t.Errorf("a request at critical got %v", got)
	}
	if got := server.Levels(); !slices.Equal(got, []string{"warning"}) {
		t.Errorf("the server was told %v, want what the most verbose call wants", got)
	}
	debug := h.Send(t, CallTool("log", nil, Level("debug")))
	if got := levelsOf(debug); len(got) != 8 {
		t.Errorf("a request at debug got %v", got)
	}
	if got := server.Levels(); !slices.Equal(got[:2], []string{"warning", "debug"}) {
		t.Errorf("the server was told %v, want warning, debug", got)
	}
	none = h.Send(t, CallTool("log", nil))
	if got := levelsOf(none); len(got) != 0 {
		t.Errorf("a request without logLevel got %v", got)
	}
	server.WaitCount("logging/setLevel", 3) // lowered, once debug is wanted no more
	hold.open()
	if got := levelsOf(long.Reply()); !slices.Equal(got, []string{"warning", "error", "critical", "alert", "emergency"}) {
		t.Errorf("a request at warning got %v", got)
	}
	server.WaitCount("logging/setLevel", 4)
	if got := server.Levels(); !slices.Equal(got, []string{"warning", "debug", "warning", "emergency"}) {
		t.Errorf("the server was told %v, want warning, debug, warning, emergency", got)
	}
}

// TestLevelOfRetry: a retry may want more than the first round did.
func TestLevelOfRetry(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("greet", func(c *rawserver.Call) {
		everyLevel(c)
		name := c.Ask("elicitation/create", askName).Content("name")
		levels := server.Levels() // when the answer came
		everyLevel(c)
		c.Text(name + " " + strings.Join(levels, ","))
	})
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("greet", nil))
	first.Asks(t, "elicitation-1")
	if got := levelsOf(first); len(got) != 0 {
		t.Errorf("a request without logLevel got %v", got)
	}
	last := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}, Level("notice"))
	if got := last.Text(t); got != "Ada notice" {
		t.Errorf("got %q: the server should have been told of the level before the answer", got)
	}
	if got := levelsOf(last); len(got) != 6 || got[0] != "notice" {
		t.Errorf("a retry at notice got %v", got)
	}
}

// TestLevelUnsupported: a server without logging is not told, and one that
// refuses a level serves the call all the same.
func TestLevelUnsupported(t *testing.T) {
	t.Parallel()
	without := newServer(t, rawserver.Settings{Capabilities: `{"tools":{}}`})
	without.Tool("say", saying)
	h := Start(t, Options{Upstream: to(without)})
	h.Send(t, CallTool("say", nil, Level("debug"))).Completes(t)
	if n := without.Count("logging/setLevel"); n != 0 {
		t.Errorf("a server without logging was told a level %d times", n)
	}
	refusing := newServer(t, rawserver.Settings{})
	refusing.Tool("say", saying)
	refusing.Handle("logging/setLevel", func(c *rawserver.Call) { c.Error(-32603, "no", "") })
	h = Start(t, Options{Upstream: to(refusing)})
	h.Send(t, CallTool("say", nil, Level("debug"))).Completes(t)
}

// TestLogOnGETStream: many servers send all log messages there. They belong to
// the only call in flight; with several nobody can tell.
func TestLogOnGETStream(t *testing.T) {
	onlyStreamable(t, "there is a stream beside those of calls")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("log", func(c *rawserver.Call) {
		c.Session.Notify("notifications/message", `{"level":"info","data":"stray"}`)
		c.Session.Push("ping", "").Wait() // it has been read
		c.Text("logged")
	})
	hold := newGate(t)
	server.Tool("hold", hold.holding)
	h := Start(t, Options{Upstream: to(server)})
	if got := levelsOf(h.Send(t, CallTool("log", nil, Level("info")))); !slices.Equal(got, []string{"info"}) {
		t.Errorf("the only call in flight got %v, want the log message", got)
	}
	if got := levelsOf(h.Send(t, CallTool("log", nil, Level("error")))); len(got) != 0 {
		t.Errorf("a request at error got %v", got)
	}
	other := h.Open(t, CallTool("hold", nil, Level("debug")))
	server.Wait("the tool", func() bool { return server.ToolCalls("hold") == 1 })
	if got := levelsOf(h.Send(t, CallTool("log", nil, Level("debug")))); len(got) != 0 {
		t.Errorf("one of two calls got %v, which may be the other's", got)
	}
	hold.open()
	if got := levelsOf(other.Reply()); len(got) != 0 {
		t.Errorf("one of two calls got %v, which may be the other's", got)
	}
}
