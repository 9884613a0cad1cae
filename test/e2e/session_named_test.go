package e2e

import (
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// TestHandshakeUnusable: a server that names a session, but whose answer to
// initialize is of no use, is told that the session is over: it would stay
// behind there. Spec 2025-11-25, basic/transports, "Session Management".
func TestHandshakeUnusable(t *testing.T) {
	onlyStreamable(t, "it is answered in HTTP")
	t.Parallel()
	const json, stream = "application/json", "text/event-stream"
	for name, test := range map[string]struct{ kind, body string }{
		"no JSON":              {json, `{"jsonrpc":"2.0","id":`},
		"an empty body":        {json, ``},
		"another's answer":     {json, `{"jsonrpc":"2.0","id":"nobody","result":{}}`},
		"no object":            {json, `{"jsonrpc":"2.0","id":ID,"result":[]}`},
		"no version":           {json, `{"jsonrpc":"2.0","id":ID,"result":{}}`},
		"an error":             {json, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"no"}}`},
		"a stream, no JSON":    {stream, "data: {]\n\n"},
		"a stream, no answer":  {stream, ": nothing\n\n"},
		"neither of the types": {"text/html", `<p>no</p>`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			server.Once(rawserver.ForMethod("initialize"), func(x *rawserver.Exchange) {
				body := strings.ReplaceAll(test.body, "ID", string(x.Record.Messages[0].ID))
				x.Reply(200, body, "Content-Type", test.kind, "Mcp-Session-Id", "odd")
			})
			h := Start(t, Options{Upstream: to(server)})
			reply := h.Send(t, Request("tools/list", nil))
			if reply.Error == nil {
				t.Errorf("got HTTP %d %s, want an error", reply.Status, reply.Body)
			}
			server.WaitHTTP("DELETE", 1)
			for _, r := range sent(server, "DELETE") {
				if got := sessionOf(r); got != "odd" {
					t.Errorf("DELETE names session %q, want odd", got)
				}
			}
			reaches(t, h, "holdfast_upstream_sessions", 0)
			h.Send(t, Request("tools/list", nil)).Completes(t) // the next one is better
		})
	}
}
