package adapter

import (
	"net/http"
	"slices"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// greet asks for a name, and then, unless told otherwise, for a title.
func greet(c *rawserver.Call) {
	name := c.Ask(mcp.MethodElicit, askFor("name"))
	title := c.Ask(mcp.MethodElicit, askFor("title"))
	c.Text(title.Content("title") + " " + name.Content("name"))
}

func TestCallIsAnsweredAtOnce(t *testing.T) {
	for _, json := range []bool{true, false} {
		r := newRig(t, func(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) { raw.JSON = json })
		r.raw.Tool("echo", func(c *rawserver.Call) { c.Text(c.Argument("text")) })
		for _, text := range []string{"first, with a session to open", "second"} {
			q := toolCall("echo")
			q.params += `,"arguments":{"text":"` + text + `"}`
			if got := r.play(q).text(t); got != text {
				t.Errorf("got %q, want %q", got, text)
			}
		}
		if n := r.calls.parkedCalls() + len(r.calls.named); n != 0 {
			t.Errorf("%d calls are on the books that were answered at once", n)
		}
	}
}

func TestCallParksAndResumes(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("greet", greet)
	q := toolCall("greet")
	first := r.play(q)
	if got := first.asked(t); got != "elicitation-1" {
		t.Fatalf("asked %q", got)
	}
	second := r.play(q.retry(first, accept("elicitation-1", "name", "Ada")))
	if got := second.asked(t); got != "elicitation-2" {
		t.Fatalf("asked %q", got)
	}
	last := r.play(q.retry(second, accept("elicitation-2", "title", "Dr")))
	if got := last.text(t); got != "Dr Ada" {
		t.Errorf("got %q", got)
	}
	if n := len(r.raw.Responses()); n != 2 {
		t.Errorf("the server got %d answers, want 2", n)
	}
}

func TestMissingCapability(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("greet", greet)
	q := toolCall("greet")
	for _, caps := range []string{`{}`, `{"sampling":{}}`, `{"elicitation":{"url":{}}}`} {
		q.caps = caps
		before := len(r.raw.Responses())
		refusal := r.refused(q, ReasonMissingCapability)
		if got := string(refusal.Required); got != `{"elicitation":{"form":{}}}` {
			t.Errorf("%s: required is %s", caps, got)
		}
		r.raw.Wait("the server to be told", func() bool { return len(r.raw.Responses()) > before })
		if m := r.raw.Responses()[before]; m.Error == nil {
			t.Errorf("%s: the server was told %s", caps, m.Result)
		}
	}
}

func TestProgressAndLogMessages(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("chatty", func(c *rawserver.Call) {
		c.Progress(1, 2)
		c.Log("debug", "fine")
		c.Log("warning", "hm")
		c.Log("nonsense", "?")
		c.Text("done")
	})
	told := func(q query) []string {
		t.Helper()
		o, told, err := r.mustBegin(q).finish()
		if err != nil || o.text(t) != "done" {
			t.Fatal(o, err)
		}
		return told
	}
	if got := told(toolCall("chatty")); len(got) != 0 {
		t.Errorf("a client that asked for nothing was told %q", got)
	}
	got := told(toolCall("chatty").with(func(q *query) { q.token, q.level = `"mine"`, mcp.LevelInfo }))
	want := []string{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mine","progress":1,"total":2}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"hm"}}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	if got := r.raw.Levels(); !slices.Equal(got, []string{"info"}) {
		t.Errorf("levels set: %v", got)
	}
}

// What met no session has not run, and is sent again; once.
func TestSessionThatIsGone(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("echo", func(c *rawserver.Call) { c.Text("done") })
	r.play(toolCall("echo"))
	r.raw.Session().Expire()
	if got := r.play(toolCall("echo")).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	if n := r.raw.Count(mcp.MethodInitialize); n != 2 {
		t.Errorf("%d handshakes, want 2", n)
	}
	r.raw.Hook(func(x *rawserver.Exchange) bool {
		if x.Record.Method() != mcp.MethodToolsCall {
			return false
		}
		x.Reply(http.StatusNotFound, "no session")
		return true
	})
	before := r.raw.ToolCalls("echo")
	if refusal := r.refused(toolCall("echo"), ReasonUpstreamLost); refusal.MayHaveRun {
		t.Error("it is said that the call may have run")
	}
	if n := r.raw.ToolCalls("echo") - before; n != 2 {
		t.Errorf("the request was sent %d times, want twice", n)
	}
}
