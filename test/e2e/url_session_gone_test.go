package e2e

import (
	"sync/atomic"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// TestURLElicitationSessionGone: after -32042 the call is sent anew. Where the
// server has forgotten the session by then, that has not run: it is sent on a
// new session.
func TestURLElicitationSessionGone(t *testing.T) {
	onlyStreamable(t, "a session is gone when its stream is, elsewhere")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	visited := newGate(t)
	var ran atomic.Int64
	server.Tool("authorize", func(c *rawserver.Call) {
		select {
		case <-visited:
			ran.Add(1)
			c.Text("authorized")
		default:
			c.Error(-32042, "URL elicitation required", `{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://example.com/a","message":"One"}]}`)
		}
	})
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("authorize", nil))
	first.Asks(t, "elicitation-1")
	server.WaitHTTP("GET", 1)
	visited.open()
	// The GET stream must not tell the proxy first: only the call meets the 404.
	server.Once(rawserver.ForMethod("tools/call"), func(x *rawserver.Exchange) {
		server.Session().Expire()
		x.Reply(404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`, "Content-Type", "application/json")
	})
	reply := h.Retry(t, first, Answers{"elicitation-1": map[string]any{"action": "accept"}})
	if got := reply.Text(t); got != "authorized" {
		t.Errorf("got %q", got)
	}
	if n := ran.Load(); n != 1 {
		t.Errorf("the tool ran %d times, want once", n)
	}
	got := sessionsOf(server, "tools/call")
	if len(got) != 3 || got[0] != got[1] || got[2] == got[1] {
		t.Errorf("the call was sent on the sessions %q, want two on the first and one on another", got)
	}
}
