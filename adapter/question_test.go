package adapter

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// The official TypeScript SDK's plain elicitInput asks on the GET stream.
func TestQuestionOnTheGETStream(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("push", func(c *rawserver.Call) { c.Text(c.Push(mcp.MethodElicit, askFor("a")).Content("a")) })
	q := toolCall("push")
	for range 2 {
		o := r.play(q)
		if got := o.asked(t); got != "elicitation-1" {
			t.Fatalf("asked %q", got)
		}
		if got := r.play(q.retry(o, accept("elicitation-1", "a", "x"))).text(t); got != "x" {
			t.Errorf("got %q", got)
		}
	}
	if !r.upstreams()["up"].Server.PushesOnGET() {
		t.Error("it was not learned that the server asks on the GET stream")
	}
	if n := r.raw.Count(mcp.MethodInitialize); n != 1 {
		t.Errorf("%d sessions for calls one after the other, want 1", n)
	}
}

// A question may come on the GET stream when the call is on its session, but
// its request has not been sent yet.
func TestQuestionBeforeTheRequestIsSent(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("echo", func(c *rawserver.Call) { c.Text("done") })
	r.play(toolCall("echo"))
	arrived, gate := make(chan struct{}), make(chan struct{})
	r.raw.Once(rawserver.ForMethod(mcp.MethodSetLevel), func(x *rawserver.Exchange) {
		close(arrived)
		x.Hold(gate)
		x.Reply(http.StatusOK, `{"jsonrpc":"2.0","id":`+string(x.Record.Messages[0].ID)+`,"result":{}}`, "Content-Type", "application/json")
	})
	q := toolCall("echo").with(func(q *query) { q.level = mcp.LevelDebug })
	v := r.mustBegin(q)
	<-arrived
	question := r.raw.Session().Push(mcp.MethodElicit, askFor("a"))
	o, _, err := v.finish()
	if err != nil || o.asked(t) != "elicitation-1" {
		t.Fatal(o, err)
	}
	retry := r.mustBegin(q.retry(o, accept("elicitation-1", "a", "x")))
	ended := make(chan string, 1)
	go func() {
		o, _, err := retry.finish()
		if err != nil {
			ended <- err.Error()
			return
		}
		ended <- string(o.Result)
	}()
	close(gate)
	if got := question.Wait().Content("a"); got != "x" {
		t.Errorf("the server was told %q", got)
	}
	if got := <-ended; !strings.Contains(got, "done") {
		t.Errorf("the retry ended with %s", got)
	}
}

// The same, with the client away until the request has been sent.
func TestQuestionBeforeTheRequestIsSentIsParked(t *testing.T) {
	r := newRig(t)
	answered := make(chan struct{})
	r.raw.Tool("echo", func(c *rawserver.Call) { c.Text("done") })
	r.raw.Tool("wait", func(c *rawserver.Call) {
		select {
		case <-answered:
		case <-c.Context().Done():
		}
		c.Text("done")
	})
	r.play(toolCall("echo"))
	arrived, gate := make(chan struct{}), make(chan struct{})
	r.raw.Once(rawserver.ForMethod(mcp.MethodSetLevel), func(x *rawserver.Exchange) {
		close(arrived)
		x.Hold(gate)
		x.Reply(http.StatusOK, `{"jsonrpc":"2.0","id":`+string(x.Record.Messages[0].ID)+`,"result":{}}`, "Content-Type", "application/json")
	})
	q := toolCall("wait").with(func(q *query) { q.level = mcp.LevelDebug })
	v := r.mustBegin(q)
	<-arrived
	question := r.raw.Session().Push(mcp.MethodElicit, askFor("a"))
	o, _, err := v.finish()
	if err != nil || o.asked(t) != "elicitation-1" {
		t.Fatal(o, err)
	}
	close(gate)
	r.raw.Wait("the request", func() bool { return r.raw.ToolCalls("wait") == 1 })
	if n := r.calls.parkedCalls(); n != 1 {
		t.Errorf("%d calls are parked, want 1", n)
	}
	go func() {
		if question.Wait().Content("a") == "x" {
			close(answered)
		}
	}()
	if got := r.play(q.retry(o, accept("elicitation-1", "a", "x"))).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
}

// What the server asked outside any call waits for the next one that can be
// asked, and for none that is over.
func TestQuestionOutsideAnyCall(t *testing.T) {
	r := newRig(t)
	r.raw.Initialized(func(s *rawserver.Session) { s.Push(mcp.MethodRootsList, "") })
	r.raw.Tool("files", func(c *rawserver.Call) { c.Text("done") })
	// Not a call that can be asked.
	r.play(query{method: mcp.MethodToolsList})
	r.raw.Session().WaitListening()
	r.awaitOrphan()
	q := toolCall("files")
	o := r.play(q)
	if got := o.asked(t); got != "roots-1" {
		t.Fatalf("asked %q", got)
	}
	if n := r.raw.ToolCalls("files"); n != 0 {
		t.Error("the request did not wait for the answer")
	}
	if got := r.play(q.retry(o, `{"roots-1":{"roots":[]}}`)).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	responses := r.raw.Responses()
	if len(responses) != 1 || string(responses[0].Result) != `{"roots":[]}` {
		t.Errorf("the server was told %v", responses)
	}
}

// awaitOrphan returns once a question waits for the next eligible call.
func (r *rig) awaitOrphan() {
	r.t.Helper()
	eventually(r.t, "the question", func() bool {
		caps, _ := mcp.ParseCapabilities([]byte(allCapabilities))
		key := r.key(&Request{ClientInfo: []byte(`{"name":"client","version":"1"}`)}, caps)
		s := r.upstreams()["up"].Server.TryAcquire(&key, false)
		if s == nil {
			return false
		}
		defer s.Return(false)
		return s.HasOrphans()
	})
}

// A call that is over takes no question with it.
func TestQuestionOutsideAnyCallOutlivesACallThatIsOver(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("files", func(c *rawserver.Call) { c.Text("done") })
	arrived, gate := make(chan struct{}), make(chan struct{})
	r.raw.Once(rawserver.ForMethod(mcp.MethodToolsList), func(x *rawserver.Exchange) {
		close(arrived)
		x.Hold(gate)
		x.Reply(http.StatusOK, `{"jsonrpc":"2.0","id":`+string(x.Record.Messages[0].ID)+`,"result":{"tools":[]}}`, "Content-Type", "application/json")
	})
	q := toolCall("files")
	v := r.mustBegin(q)
	<-arrived
	r.raw.Session().Push(mcp.MethodRootsList, "")
	v.Gone()
	if _, _, err := v.finish(); !errors.Is(err, ErrGone) {
		t.Fatal(err)
	}
	close(gate)
	eventually(t, "the call to be off the books", func() bool { return len(r.calls.all()) == 0 })
	r.awaitOrphan()
	if got := r.play(q).asked(t); got != "roots-1" {
		t.Errorf("asked %q, want what the server asked before", got)
	}
}
