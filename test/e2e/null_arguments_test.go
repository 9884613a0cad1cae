package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// TestNullArguments: the Go SDK writes arguments that nobody gave as null,
// which not every legacy server takes. They are left out.
func TestNullArguments(t *testing.T) {
	t.Parallel()
	server := asking(t)
	server.Handle("prompts/get", func(c *rawserver.Call) { c.Result(`{"messages":[]}`) })
	h := Start(t, Options{Upstream: to(server)})
	null := json.RawMessage("null")
	h.Send(t, Request("prompts/get", map[string]any{"name": "p", "arguments": null, "com.example": 1})).Completes(t)
	first := h.Send(t, CallTool("greet", nil, Param("arguments", null), Param("com.example", 1)))
	first.Asks(t, "elicitation-1")
	if got := h.Retry(t, first, ada).Text(t); got != "greet Ada" {
		t.Errorf("got %q", got)
	}
	for _, method := range []string{"prompts/get", "tools/call"} {
		list := server.Received(method)
		if len(list) != 1 {
			t.Fatalf("%s arrived %d times, want once", method, len(list))
		}
		if params := string(list[0].Params); strings.Contains(params, "arguments") || !strings.Contains(params, `"com.example":1`) {
			t.Errorf("%s has the params %s, want no arguments and all the rest", method, params)
		}
	}
}
