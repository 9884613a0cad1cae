package adapter

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// The server ended the request: the retry sends it anew, on the session that
// the caller has, whatever became of the first request's memory.
func TestURLElicitationRequired(t *testing.T) {
	r := newRig(t)
	visited := false
	r.raw.Tool("pay", func(c *rawserver.Call) {
		if !visited {
			visited = true
			c.Error(-32042, "visit first", `{"elicitations":[{"mode":"url","elicitationId":"7","url":"https://pay.example","message":"Pay"}]}`)
			return
		}
		c.Text("paid with " + c.Argument("card"))
	})
	r.raw.Tool("other", func(c *rawserver.Call) { c.Text("done") })
	r.play(toolCall("other")) // there is a session
	q := toolCall("pay")
	q.params += `,"arguments":{"card":"gold"}`
	o := r.play(q)
	if got := o.asked(t); got != "elicitation-1" {
		t.Fatalf("asked %q", got)
	}
	if got := string(o.Inputs[0].Params); got != `{"mode":"url","url":"https://pay.example","message":"Pay"}` {
		t.Errorf("asked %s", got)
	}
	if got := r.play(q.retry(o, `{"elicitation-1":{"action":"accept"}}`)).text(t); got != "paid with gold" {
		t.Errorf("got %q", got)
	}
	for _, m := range r.raw.Received(mcp.MethodInitialize) {
		if info := jsonrpc.Get(m.Params, "clientInfo"); string(info) != `{"name":"client","version":"1"}` {
			t.Errorf("a session was opened for the client %s", info)
		}
	}
	if n := r.raw.Count(mcp.MethodInitialize); n != 1 {
		t.Errorf("%d sessions were opened for one caller, want 1", n)
	}
	if n := len(r.raw.Cancelled()); n != 0 {
		t.Errorf("%d requests were cancelled that the server had ended", n)
	}
}

func TestURLElicitationThatNobodyCanVisit(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("none", func(c *rawserver.Call) { c.Error(-32042, "visit first", `{"elicitations":[]}`) })
	r.raw.Tool("pay", func(c *rawserver.Call) {
		c.Error(-32042, "visit first", `{"elicitations":[{"url":"https://pay.example","message":"Pay"}]}`)
	})
	r.refused(toolCall("none"), ReasonUpstreamReply)
	r.refused(toolCall("pay").with(func(q *query) { q.caps = `{"elicitation":{}}` }), ReasonMissingCapability)
}

// A server that wants a URL visited first is sent the request anew, which the
// client does not send again.
func TestLastingCallVisits(t *testing.T) {
	r := newRig(t)
	ready := make(chan struct{})
	var times atomic.Int32
	r.raw.Tool("visit", func(c *rawserver.Call) {
		if times.Add(1) == 1 {
			<-ready
			c.Error(-32042, "first", `{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://example.com/","message":"m"}]}`)
			return
		}
		c.Text("visited " + c.Argument("what"))
	})
	q := query{method: mcp.MethodToolsCall, params: `"name":"visit","arguments":{"what":"it"}`}.lasting()
	begun := r.play(q).handle(t)
	close(ready)
	o := r.until(begun, mcp.TaskInputRequired)
	r.play(about(mcp.MethodTaskUpdate, begun).with(func(q *query) { q.responses = `{"` + o.Inputs[0].Key + `":{"action":"accept"}}` }))
	if got := r.until(begun, mcp.TaskCompleted).text(t); got != "visited it" {
		t.Errorf("got %q", got)
	}
}

// What was too large to be kept is not sent again after a visit: the call ends and
// says why.
func TestLastingCallIsTooLargeToSendAgain(t *testing.T) {
	big := func(r *rig) query {
		return query{method: mcp.MethodToolsCall, params: `"name":"visit","arguments":{"what":"` + strings.Repeat("x", r.settings.MaxState) + `"}`}
	}
	want := func(t *testing.T, refusal *Refusal, times *atomic.Int32) {
		t.Helper()
		if refusal == nil || refusal.Reason != ReasonCallLost || !strings.Contains(refusal.Detail, "state.max_bytes") || times.Load() != 1 {
			t.Errorf("ended with %v after %d calls", refusal, times.Load())
		}
	}
	t.Run("task", func(t *testing.T) {
		r := newRig(t)
		ready, times := make(chan struct{}), new(atomic.Int32)
		r.raw.Tool("visit", visitFirst(ready, times))
		begun := r.play(big(r).lasting()).handle(t)
		close(ready)
		var refusal *Refusal
		errors.As(r.until(begun, mcp.TaskFailed).Standing.Failure, &refusal)
		want(t, refusal, times)
	})
	t.Run("followed, and asked before it lasts", func(t *testing.T) {
		r := newRig(t, func(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) { raw.NoEventIDs = true })
		ready, times := make(chan struct{}), new(atomic.Int32)
		close(ready)
		r.raw.Tool("visit", visitFirst(ready, times))
		v, handle := r.handleFirst(big(r).followed(time.Hour))
		defer v.close()
		v.hear(t, "?elicitation-1")
		r.play(answerOf(handle, `{"elicitation-1":{"result":{"action":"accept"}}}`))
		ev, err := v.Next(time.Now().Add(20 * time.Second))
		var refusal *Refusal
		if !errors.As(err, &refusal) {
			t.Errorf("heard %+v, %v", ev, err)
		}
		want(t, refusal, times)
	})
}
