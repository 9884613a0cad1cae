package e2e

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

const visitError = `{"elicitations":[{"mode":"url","elicitationId":"e-1","url":"https://example.com/a","message":"Sign in"}]}`

var consent = map[string]any{"action": "accept"}

// TestVisitCompleted: a client that has consented waits in its round while the
// server says that the visit is still to be done, and goes on as soon as
// notifications/elicitation/complete says that it is over. Spec 2025-11-25,
// client/elicitation, "Completion Notifications for URL Mode Elicitation".
func TestVisitCompleted(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	var visited atomic.Bool
	refused := make(chan struct{}, 8)
	server.Tool("authorize", func(c *rawserver.Call) {
		if visited.Load() {
			c.Text("authorized")
			return
		}
		c.Error(-32042, "URL elicitation required", visitError)
		refused <- struct{}{}
	})
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("authorize", nil))
	first.Asks(t, "elicitation-1")
	<-refused
	if !oneStream(t) {
		server.WaitHTTP("GET", 1)
	}
	replies := make(chan *Reply, 1)
	go func() { replies <- h.Retry(t, first, Answers{"elicitation-1": consent}) }()
	<-refused // sent anew, and too early
	server.Session().Notify("notifications/elicitation/complete", `{"elicitationId":"unknown"}`)
	select {
	case r := <-replies:
		t.Fatalf("the client was answered before its visit was over: %s", r.Body)
	case <-time.After(100 * time.Millisecond):
	}
	visited.Store(true)
	began := time.Now()
	server.Session().Notify("notifications/elicitation/complete", `{"elicitationId":"e-1"}`)
	reply := <-replies
	if got := reply.Text(t); got != "authorized" {
		t.Errorf("got %q", got)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the call went on after %v", took)
	}
	if strings.Contains(string(reply.Body)+string(first.Body), "e-1") {
		t.Errorf("the client got an elicitationId: %s %s", first.Body, reply.Body)
	}
	if n := server.ToolCalls("authorize"); n != 3 {
		t.Errorf("the tool was called %d times, want 3", n)
	}
}

// TestVisitCompletedWhileAsked: a question in URL mode in the middle of a call
// needs no answer of the client any more when the server says that the visit is
// over.
func TestVisitCompletedWhileAsked(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	answered := make(chan rawserver.Answer, 1)
	server.Tool("authorize", func(c *rawserver.Call) {
		q := c.Start("elicitation/create", `{"mode":"url","elicitationId":"e-1","url":"https://example.com/a","message":"Sign in"}`)
		a := q.Wait()
		answered <- a
		c.Text("authorized: " + a.Action())
	})
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("authorize", nil))
	first.Asks(t, "elicitation-1")
	if params := string(first.Inputs["elicitation-1"].Params); strings.Contains(params, "elicitationId") || !strings.Contains(params, `"mode":"url"`) {
		t.Errorf("the client was asked %s", params)
	}
	if !oneStream(t) {
		server.WaitHTTP("GET", 1)
	}
	server.Session().Notify("notifications/elicitation/complete", `{"elicitationId":"e-1"}`)
	if a := <-answered; string(a.Result) != `{"action":"accept"}` {
		t.Errorf("the server got %s", a.Result)
	}
	reply := h.Retry(t, first, nil)
	if got := reply.Text(t); got != "authorized: accept" {
		t.Errorf("got %q", got)
	}
	if n := len(server.Responses()); n != 1 {
		t.Errorf("the server got %d answers, want 1", n)
	}
}

// TestMultiSelect: lists of choices, with titles and without, are checked against
// what was asked.
func TestMultiSelect(t *testing.T) {
	t.Parallel()
	onlyNewest(t, "several values in an answer")
	server := newServer(t, rawserver.Settings{})
	server.Tool("choose", func(c *rawserver.Call) {
		a := c.Ask("elicitation/create", `{"message":"Choose","requestedSchema":{"type":"object","properties":{`+
			`"plain":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["a","b","c"]},"default":["a"]},`+
			`"titled":{"type":"array","items":{"anyOf":[{"const":"x","title":"X"},{"const":"y","title":"Y"}]}}},"required":["plain"]}}`)
		c.Text(string(a.Result))
	})
	h := Start(t, Options{Upstream: to(server)})
	reply := h.Send(t, CallTool("choose", nil))
	for _, wrong := range []map[string]any{
		Accept("plain", []string{}), Accept("plain", []string{"a", "b", "c"}), Accept("plain", []string{"d"}), Accept("plain", "a"),
		Accept("plain", []string{"a"}, "titled", []string{"X"}),
	} {
		reply = h.Retry(t, reply, Answers{"elicitation-1": wrong})
		reply.Asks(t, "elicitation-1")
	}
	reply = h.Retry(t, reply, Answers{"elicitation-1": Accept("plain", []string{"a", "c"}, "titled", []string{"y"})})
	if got := reply.Text(t); !strings.Contains(got, `"plain":["a","c"]`) || !strings.Contains(got, `"titled":["y"]`) {
		t.Errorf("the server got %s", got)
	}
}

// TestSamplingWithTools: tools go to the client, and its use of them to the
// server; a client that has not declared them is told what it lacks.
func TestSamplingWithTools(t *testing.T) {
	t.Parallel()
	onlyNewest(t, "tools in sampling")
	server := newServer(t, rawserver.Settings{})
	server.Tool("sample", func(c *rawserver.Call) {
		a := c.Ask("sampling/createMessage", `{"messages":[{"role":"user","content":{"type":"text","text":"?"}}],"maxTokens":9,`+
			`"tools":[{"name":"sum","inputSchema":{"type":"object"}}],"toolChoice":{"mode":"auto"}}`)
		c.Text(string(a.Result))
	})
	h := Start(t, Options{Upstream: to(server)})
	h.Send(t, CallTool("sample", nil)).Fails(t, 400, -32021, "missing_capability")
	first := h.Send(t, CallTool("sample", nil, Caps(`{"sampling":{"tools":{}}}`)))
	first.Asks(t, "sampling-1")
	if params := string(first.Inputs["sampling-1"].Params); !strings.Contains(params, `"toolChoice":{"mode":"auto"}`) || !strings.Contains(params, `"name":"sum"`) {
		t.Errorf("the client was asked %s", params)
	}
	use := map[string]any{"role": "assistant", "model": "m", "stopReason": "toolUse", "content": []any{
		map[string]any{"type": "tool_use", "id": "1", "name": "sum", "input": map[string]any{"a": 1}},
		map[string]any{"type": "tool_use", "id": "2", "name": "sum", "input": map[string]any{"a": 2}},
	}}
	got := h.Retry(t, first, Answers{"sampling-1": use}).Text(t)
	if strings.Count(got, `"type":"tool_use"`) != 2 || !strings.Contains(got, `"stopReason":"toolUse"`) {
		t.Errorf("the server got %s", got)
	}
}

// TestTaskThroughTheProxy: a tool that demands it runs as a task, asks, parks,
// and ends as any other call.
func TestTaskThroughTheProxy(t *testing.T) {
	t.Parallel()
	onlyNewest(t, "tasks")
	server := newServer(t, rawserver.Settings{Capabilities: rawserver.TaskCapabilities})
	server.TaskTool("research", 100, func(task *rawserver.Task) {
		task.Status("working", true)
		a := task.Ask("elicitation/create", `{"message":"Which?","requestedSchema":{"type":"object","properties":{"which":{"type":"string"}}}}`)
		task.Text("about " + a.Content("which"))
	})
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("research", nil))
	first.Asks(t, "elicitation-1")
	reply := h.Retry(t, first, Answers{"elicitation-1": Accept("which", "clocks")})
	if got := reply.Text(t); got != "about clocks" {
		t.Errorf("got %q", got)
	}
	if body := string(first.Body) + string(reply.Body); strings.Contains(body, "task") {
		t.Errorf("the client learns of the task: %s", body)
	}
}
