package adapter

import (
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
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
