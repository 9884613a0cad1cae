package e2e

import (
	"fmt"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// TestManyHops: many forwarded rounds at a time, none of which is lost.
func TestManyHops(t *testing.T) {
	t.Parallel()
	many := 200
	if oneStream(t) {
		many = 20 // of which each has a session of its own
	}
	server := newServer(t, rawserver.Settings{})
	gate := newGate(t)
	server.Tool("slow", func(c *rawserver.Call) {
		name := c.Ask("elicitation/create", question("name")).Content("name")
		<-gate
		c.Text(c.Argument("call") + " " + name)
	})
	h := StartFleet(t, Options{Upstream: to(server), Config: "stream: {after: 10m}"})
	parked := make([]*Reply, many)
	for i := range parked {
		parked[i] = h.Replica(0).Send(t, CallTool("slow", map[string]any{"call": fmt.Sprint(i)}))
		parked[i].Asks(t, "elicitation-1")
	}
	streams := make([]*Stream, many)
	for i, first := range parked {
		streams[i] = h.Replica(1+i%2).Open(t, RetryOf(first, Answers{"elicitation-1": Accept("name", fmt.Sprint("n", i))}))
	}
	h.WaitMetric(t, "holdfast_rounds_in_flight", float64(many)) // each where its client is
	server.Wait("all answers", func() bool { return len(server.Responses()) == many })
	gate.open()
	for i, s := range streams {
		if got, want := s.Reply().Text(t), fmt.Sprintf("%d n%d", i, i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if n := server.ToolCalls("slow"); n != many {
		t.Errorf("the tool was called %d times for %d calls", n, many)
	}
	if n := len(server.Responses()); n != many {
		t.Errorf("the server got %d answers to %d questions", n, many)
	}
	if n := h.Rounds(t, "forwarded"); n < float64(many) || n > float64(many) && !oneStream(t) { // there first rounds are, too
		t.Errorf("%v rounds were forwarded, want %d", n, many)
	}
}
