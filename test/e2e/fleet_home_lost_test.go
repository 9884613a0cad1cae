package e2e

import (
	"net/http"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// TestHomeKilled: where a session has one stream for everything, first rounds run
// at its home. When that is killed, what is harmless by its annotations runs again
// at the next one; else the client is told.
func TestHomeKilled(t *testing.T) {
	t.Parallel()
	for name, transport := range map[string]rawserver.Transport{"HTTP+SSE": rawserver.SSE, "stdio": rawserver.Stdio} {
		for tool, annotations := range map[string]string{"look": `{"readOnlyHint":true}`, "put": `{"idempotentHint":true}`, "hold": `{"destructiveHint":true}`} {
			t.Run(name+"/"+tool, func(t *testing.T) {
				t.Parallel()
				server := newServer(t, rawserver.Settings{Transport: transport})
				hold := newGate(t)
				server.Declare(tool, `{"name":"`+tool+`","annotations":`+annotations+`,"inputSchema":{"type":"object"}}`, hold.holding)
				server.Tool("say", saying)
				h := StartFleet(t, Options{Upstream: to(server), Config: hasty + "stream: {after: 10m}"})
				h.Send(t, CallTool("say", nil)).Completes(t) // the home knows the tools by now
				h.keeperFirst(t)
				stream := h.Replica(1).Open(t, CallTool(tool, map[string]any{"say": "x"}))
				server.WaitCount("tools/call", 2)
				h.Replica(0).Kill()
				want := 2
				if tool == "hold" {
					stream.Reply().Fails(t, http.StatusOK, -32603, "call_lost")
					want = 1
				} else {
					server.WaitCount("tools/call", 3)
				}
				hold.open()
				if tool != "hold" {
					if got := stream.Reply().Text(t); got != "said x" {
						t.Errorf("got %q", got)
					}
				}
				if n := server.ToolCalls(tool); n != want {
					t.Errorf("the tool was called %d times, want %d", n, want)
				}
			})
		}
	}
}
