package adapter

import (
	"errors"
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
			got := r.raw.Received(tt.q.method)
			if len(got) != tt.times {
				t.Fatalf("the server got it %d times, want %d", len(got), tt.times)
			}
			if tt.times == 2 && string(got[0].ID) == string(got[1].ID) { // spec 2025-11-25, basic, "Requests"
				t.Errorf("it came twice with the id %s", got[0].ID)
			}
		})
	}
}

// While the server cannot be reached for the second time, the client is told that
// the first one may have run.
func TestFirstRequestAgainWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, noEventIDs, replaying(ReplayAlways))
	breaks := make(chan struct{})
	r.raw.Tool("tool", func(c *rawserver.Call) {
		c.Progress(1, 2)
		<-breaks
		c.Cut()
	})
	v := r.mustBegin(toolCall("tool").with(func(q *query) { q.token = `"p"` }))
	end := v.goes()
	r.raw.WaitCount(mcp.MethodToolsCall, 1)
	eventually(t, "the call to last", func() bool { return len(r.calls.all()) == 1 })
	server := r.upstreams()["up"].Server
	nowhere, err := legacy.NewServer(legacySettings("up", "http://127.0.0.1:1/mcp"), r.log)
	if err != nil {
		t.Fatal(err)
	}
	c := r.calls.all()[0]
	use := func(s *legacy.Server) {
		c.mu.Lock()
		defer c.mu.Unlock()
		r.upstreams()["up"].Server = s
	}
	use(nowhere)
	close(breaks)
	got := endOf(t, end)
	use(server)
	nowhere.Close(t.Context())
	var refusal *Refusal
	if !errors.As(got.err, &refusal) || refusal.Reason != ReasonUpstreamDown || !refusal.MayHaveRun {
		t.Errorf("got %s, want that the server is down and the call may have run", got.describe())
	}
}

// A retry whose client has not heard the answer comes again after the call has
// ended with its next question open: it is told of that end, and not that its
// state is old, of which it has no newer one.
func TestRetryAgainAfterTheEnd(t *testing.T) {
	t.Parallel()
	breaks := make(chan struct{})
	r := newRig(t, noEventIDs)
	r.raw.Tool("tool", askOnce(func(c *rawserver.Call) {
		c.Start(mcp.MethodElicit, askFor("b"))
		<-breaks
		c.Cut()
	}))
	q := toolCall("tool")
	o := r.play(q)
	retry := q.retry(o, accept("elicitation-1", "a", "x"))
	second := r.play(retry)
	close(breaks)
	c := r.calls.get(r.tokenOf(o))
	eventually(t, "the call to end", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.phase == done
	})
	if refusal := r.refused(retry, ReasonUpstreamLost); !refusal.MayHaveRun {
		t.Error("it may have run, and the client is not told")
	}
	r.refused(q.retry(second, accept("elicitation-2", "b", "y")), ReasonUpstreamLost)
}
