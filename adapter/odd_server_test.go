package adapter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A server may answer on another stream than the call's own and leave that one
// open: the call holds on to nothing of it, and Shutdown does not wait for it.
func TestResponseOnAnotherStreamEndsTheCallsOwn(t *testing.T) {
	r := newRig(t)
	streaming, gone := make(chan struct{}), make(chan struct{})
	r.raw.Tool("elsewhere", func(c *rawserver.Call) {
		c.Progress(1, 2)
		<-streaming
		c.Session.Send(c.ResultText(`{"content":[{"type":"text","text":"done"}]}`))
		<-c.Gone()
		close(gone)
	})
	v := r.mustBegin(toolCall("elsewhere").with(func(q *query) { q.token = `"mine"` }))
	if ev, err := v.Next(time.Now().Add(10 * time.Second)); err != nil || ev.Notification == nil {
		t.Fatal(ev, err)
	}
	close(streaming)
	o, _, err := v.finish()
	if err != nil || o.text(t) != "done" {
		t.Fatal(o, err)
	}
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Fatal("the call is over, and its stream is still open")
	}
}

// A result that is no object is of no use, but its tool has run.
func TestResultThatIsNoObject(t *testing.T) {
	for _, result := range []string{`[]`, `null`, `"{}"`, `7`} {
		r := newRig(t)
		r.raw.Tool("odd", func(c *rawserver.Call) { c.Send(c.ResultText(result)) })
		if refusal := r.refused(toolCall("odd"), ReasonUpstreamReply); !refusal.MayHaveRun {
			t.Errorf("the result %s: %v, want that it may have run", result, refusal)
		}
	}
}

// A server that does not answer logging/setLevel serves the call all the same.
func TestLogLevelThatIsNotAnswered(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("echo", func(c *rawserver.Call) { c.Text("done") })
	r.raw.Once(rawserver.ForMethod(mcp.MethodSetLevel), func(x *rawserver.Exchange) { x.Silence() })
	o, _, err := r.mustBegin(toolCall("echo").with(func(q *query) { q.level = mcp.LevelDebug })).finish()
	if err != nil || o.text(t) != "done" {
		t.Fatal(o, err)
	}
}

// The keys of a call are remembered, so that it may not be asked without end.
func TestQuestionsOfOneCallAreBounded(t *testing.T) {
	r := newRig(t)
	refused := make(chan int, 1)
	r.raw.Tool("flood", func(c *rawserver.Call) {
		n := 0
		for i := range maxNames + 2 {
			if !c.Ask(mcp.MethodElicit, hinted(fmt.Sprint("key-", i), "a")).OK() {
				n++
			}
		}
		refused <- n
		c.Text("done")
	})
	var early strings.Builder
	for i := range maxNames + 2 {
		fmt.Fprintf(&early, `,"key-%d":{"action":"decline"}`, i)
	}
	o, _, err := r.mustBegin(toolCall("flood").with(func(q *query) { q.responses = "{" + early.String()[1:] + "}" })).finish()
	if err != nil || o.text(t) != "done" {
		t.Fatal(o, err)
	}
	if n := <-refused; n != 2 {
		t.Errorf("%d questions were refused, want 2", n)
	}
}
