package adapter

import (
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// askAsTask asks a question as a task and returns the task's name.
func askAsTask(c *rawserver.Call, name string) string {
	a := c.Ask(mcp.MethodElicit, `{"task":{"ttl":60000},`+askFor(name)[1:])
	id, _ := jsonrpc.Unquote(jsonrpc.Get(jsonrpc.Get(a.Result, "task"), "taskId"))
	return id
}

func ofTask(id string) string { return `{"taskId":` + string(jsonrpc.AppendQuote(nil, id)) + `}` }

func statusOf(a rawserver.Answer) string {
	s, _ := jsonrpc.Unquote(jsonrpc.Get(a.Result, "status"))
	return s
}

// A server that asks as a task gets the task at once, and the answer when it
// comes for it: by asking for the status, or by waiting for the result.
func TestQuestionAsTask(t *testing.T) {
	r := newRig(t)
	seen := make(chan string, 8)
	r.raw.Tool("greet", func(c *rawserver.Call) {
		id := askAsTask(c, "name")
		seen <- statusOf(c.Ask(mcp.MethodTaskGet, ofTask(id)))
		name := c.Ask(mcp.MethodTaskResult, ofTask(id)) // waits
		seen <- statusOf(c.Ask(mcp.MethodTaskGet, ofTask(id)))
		if !strings.Contains(string(name.Result), `"`+mcp.MetaRelatedTask+`":{"taskId":"`+id+`"}`) {
			t.Errorf("the result is %s", name.Result)
		}
		again := c.Ask(mcp.MethodTaskResult, ofTask(id))
		if again.Content("name") != name.Content("name") {
			t.Errorf("got %s, and %s", name.Result, again.Result)
		}
		if a := c.Ask(mcp.MethodTaskCancel, ofTask(id)); a.Error == nil || a.Error.Code != -32602 {
			t.Errorf("a task that is over was cancelled: %s", a.Result)
		}
		if a := c.Ask(mcp.MethodTaskGet, ofTask("task:x.1")); a.Error == nil || a.Error.Code != -32602 {
			t.Errorf("a task that nobody knows: %s", a.Result)
		}
		c.Text("Hello " + name.Content("name"))
	})
	q := toolCall("greet")
	first := r.play(q)
	if got := first.asked(t); got != "elicitation-1" {
		t.Fatalf("asked %q", got)
	}
	before := <-seen
	if got := string(first.Inputs[0].Params); strings.Contains(got, "task") {
		t.Errorf("the client was asked %s", got)
	}
	if got := r.play(q.retry(first, accept("elicitation-1", "name", "Ada"))).text(t); got != "Hello Ada" {
		t.Errorf("got %q", got)
	}
	if after := <-seen; before != "input_required" || after != "completed" {
		t.Errorf("the task was %s, then %s", before, after)
	}
}

// A server that cancels its task no longer asks.
func TestQuestionAsTaskIsCancelled(t *testing.T) {
	r := newRig(t)
	parked := make(chan struct{})
	r.raw.Tool("greet", func(c *rawserver.Call) {
		id := askAsTask(c, "name")
		<-parked
		a := c.Ask(mcp.MethodTaskCancel, ofTask(id))
		c.Text(statusOf(a) + ", " + statusOf(c.Ask(mcp.MethodTaskGet, ofTask(id))))
	})
	q := toolCall("greet")
	first := r.play(q)
	close(parked)
	r.raw.Wait("the cancellation", func() bool { return len(r.raw.Responses()) >= 3 })
	if got := r.play(q.retry(first, accept("elicitation-1", "name", "Ada"))).text(t); got != "cancelled, cancelled" {
		t.Errorf("got %q", got)
	}
}

// An older server's task parameter means nothing: "Receivers that do not declare
// the task capability for a request type MUST process requests of that type
// normally".
func TestQuestionAsTaskOfAnOlderServer(t *testing.T) {
	r := newRig(t, func(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) { raw.Version = mcp.Version20250618 })
	r.raw.Tool("greet", func(c *rawserver.Call) {
		c.Text(c.Ask(mcp.MethodElicit, `{"task":{},`+askFor("name")[1:]).Content("name"))
	})
	q := toolCall("greet")
	if got := r.play(q.retry(r.play(q), accept("elicitation-1", "name", "Ada"))).text(t); got != "Ada" {
		t.Errorf("got %q", got)
	}
}

// The answer to a question that was asked as a task reaches the server also from
// the replica that has taken the call over.
func TestQuestionAsTaskIsTakenOver(t *testing.T) {
	f := newReplicas(t, 2)
	parked := make(chan struct{})
	f.raw.Tool("greet", func(c *rawserver.Call) {
		id := askAsTask(c, "name")
		<-parked
		c.Text("Hello " + c.Ask(mcp.MethodTaskResult, ofTask(id)).Content("name"))
	})
	q := toolCall("greet")
	first := f.rigs[0].play(q)
	f.die(f.rigs[0])
	f.giveUp()
	close(parked)
	if got := f.rigs[1].served(q.retry(first, accept("elicitation-1", "name", "Ada")), ServedTakenOver).text(t); got != "Hello Ada" {
		t.Errorf("got %q", got)
	}
}
