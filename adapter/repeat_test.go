package adapter

import (
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A first request whose answer is lost, with a server that may have run it, is
// sent again where that is harmless: by its method, by what the server says of
// the tool, or because the operator says so.
func TestFirstRequestAgain(t *testing.T) {
	t.Parallel()
	prompt := query{method: mcp.MethodPromptsGet, params: `"name":"p"`}
	for _, tt := range []struct {
		name   string
		replay Replay
		q      query
		times  int
	}{
		{"a prompt", ReplaySafe, prompt, 2},
		{"a prompt, never", ReplayNever, prompt, 1},
		{"a tool", ReplaySafe, toolCall("any"), 1},
		{"a tool, always", ReplayAlways, toolCall("any"), 2},
		{"a read-only tool", ReplaySafe, toolCall("look"), 2},
		{"an idempotent tool", ReplaySafe, toolCall("put"), 2},
		{"a read-only tool, never", ReplayNever, toolCall("look"), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(s *Settings, _ *legacy.Settings, raw *rawserver.Settings) {
				s.Replay, raw.NoEventIDs = tt.replay, true
			})
			times := 0
			lost := func(c *rawserver.Call) {
				if times++; times == 1 {
					c.Cut()
					return
				}
				c.Result(`{"content":[{"type":"text","text":"done"}],"messages":[]}`)
			}
			r.raw.Handle(mcp.MethodPromptsGet, lost)
			r.raw.Tool("any", lost)
			r.raw.Declare("look", `{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, lost)
			r.raw.Declare("put", `{"name":"put","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}}`, lost)
			if tt.times == 2 {
				r.play(tt.q)
			} else if refusal := r.refused(tt.q, ReasonUpstreamLost); !refusal.MayHaveRun {
				t.Error("it may have run, and the client is not told")
			}
			if n := r.raw.Count(tt.q.method); n != tt.times {
				t.Errorf("the server got it %d times, want %d", n, tt.times)
			}
		})
	}
}
