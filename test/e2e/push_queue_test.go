package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// queued waits until so many calls have come to the queue of a session: to that
// of the replica that gives its places out, whichever took the call.
func queued(t *testing.T, h *Holdfast, calls int) {
	t.Helper()
	h.Logs.WaitNth(t, calls, `"message":"call waits for a session"`)
}

// TestPushedQueue: with sessions.eligible: queue, calls that may be asked wait
// for the one session, first come, first served; others do not wait.
func TestPushedQueue(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("push", pushing)
	server.Handle("prompts/list", func(c *rawserver.Call) { c.Result(`{"prompts":[]}`) })
	h := Start(t, pushes(server, "sessions: {eligible: queue}"))
	holder := h.Send(t, CallTool("push", map[string]any{"from": "0"}))
	holder.Asks(t, "elicitation-1")
	const waiting = 5
	var streams [waiting]*Stream
	for i := range streams {
		streams[i] = h.Open(t, CallTool("push", map[string]any{"from": fmt.Sprint(i + 1)}))
		queued(t, h, i+1) // it has come before the next one
	}
	h.Send(t, Request("prompts/list", nil)).Completes(t)
	h.Send(t, Request("tools/list", nil)).Completes(t)
	if n := server.Count("tools/call"); n != 1 {
		t.Fatalf("%d calls reached the server, want the first to be alone", n)
	}
	h.Retry(t, holder, Answers{"elicitation-1": Accept("name", "Ada")}).Completes(t)
	for i, s := range streams {
		first := s.Reply()
		first.Asks(t, "elicitation-1")
		last := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")})
		if got, want := last.Text(t), fmt.Sprintf("Hello Ada from %d", i+1); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	var order string
	for _, m := range server.Received("tools/call") {
		order += string(at(m.Params, "arguments", "from"))
	}
	if want := `"0""1""2""3""4""5"`; order != want {
		t.Errorf("the calls came in the order %s, want %s", order, want)
	}
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
}

// TestQueueLeft: a call whose client has gone gives up its place in the queue.
func TestQueueLeft(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("push", pushing)
	h := Start(t, pushes(server, "sessions: {eligible: queue}"))
	holder := h.Send(t, CallTool("push", map[string]any{"from": "0"}))
	holder.Asks(t, "elicitation-1")
	leaver := h.Open(t, CallTool("push", map[string]any{"from": "leaver"}))
	queued(t, h, 1)
	patient := h.Open(t, CallTool("push", map[string]any{"from": "patient"}))
	queued(t, h, 2)
	leaver.Close()
	reaches(t, h, "holdfast_rounds_in_flight", 1)
	h.Retry(t, holder, Answers{"elicitation-1": Accept("name", "Ada")}).Completes(t)
	first := patient.Reply()
	first.Asks(t, "elicitation-1")
	h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Completes(t)
	if n := server.Count("tools/call"); n != 2 {
		t.Errorf("%d calls reached the server, want 2", n)
	}
}

// TestQueueLimits: the queue has an end, and waiting in it too.
func TestQueueLimits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config  string
		waiting int // calls that may wait
		late    bool
	}{
		"queue":                      {config: "sessions: {eligible: queue, queue: 2}", waiting: 2},
		"queue_timeout":              {config: "sessions: {eligible: queue, queue_timeout: 50ms}", late: true},
		"max_per_key, queue":         {config: "sessions: {max_per_key: 1, queue: 1}", waiting: 1},
		"max_per_key, queue_timeout": {config: "sessions: {max_per_key: 1, queue_timeout: 50ms}", late: true},
		"max, queue_timeout":         {config: "sessions: {max: 1, queue_timeout: 50ms}", late: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			server.Tool("push", pushing)
			all := Start(t, pushes(server, test.config))
			h := all.One() // the limits are of each replica
			holder := h.Send(t, CallTool("push", map[string]any{"from": "0"}))
			holder.Asks(t, "elicitation-1")
			var streams []*Stream
			for i := range test.waiting {
				streams = append(streams, h.Open(t, CallTool("push", map[string]any{"from": "w"})))
				queued(t, all, i+1)
			}
			refused := h.Send(t, CallTool("push", map[string]any{"from": "x"}))
			refused.Fails(t, http.StatusServiceUnavailable, -32603, "overload")
			if refused.Header.Get("Retry-After") == "" || mayHaveRun(t, refused) {
				t.Errorf("the refusal should say when to try again, and that nothing has run: %v %s", refused.Header, refused.Body)
			}
			h.Retry(t, holder, Answers{"elicitation-1": Accept("name", "Ada")}).Completes(t)
			for _, s := range streams {
				first := s.Reply()
				first.Asks(t, "elicitation-1")
				h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Completes(t)
			}
			if n, want := server.Count("tools/call"), 1+test.waiting; n != want {
				t.Errorf("%d calls reached the server, want %d", n, want)
			}
		})
	}
}

// TestMaxPerKey: calls overflow up to sessions.max_per_key, and wait from then
// on.
func TestMaxPerKey(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("push", pushing)
	all := Start(t, pushes(server, "sessions: {max_per_key: 2}"))
	h := all.One() // sessions.max_per_key is of each replica
	a := h.Send(t, CallTool("push", map[string]any{"from": "a"}))
	b := h.Send(t, CallTool("push", map[string]any{"from": "b"}))
	waiting := h.Open(t, CallTool("push", map[string]any{"from": "c"}))
	queued(t, all, 1)
	if n := server.Count("tools/call"); n != 2 {
		t.Fatalf("%d calls reached the server, want 2", n)
	}
	h.Retry(t, b, Answers{"elicitation-1": Accept("name", "Ada")}).Completes(t)
	c := waiting.Reply()
	c.Asks(t, "elicitation-1")
	for _, r := range []*Reply{a, c} {
		h.Retry(t, r, Answers{"elicitation-1": Accept("name", "Ada")}).Completes(t)
	}
	if got := sessionsOf(server, "tools/call"); distinct(got) != 2 || got[2] != got[1] {
		t.Errorf("the calls went to %q, want two sessions, the third call on the one that was free first", got)
	}
}
