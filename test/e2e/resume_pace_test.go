package e2e

import (
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// TestResumePace: a server that sends one event and closes, again and again, is
// not asked to go on faster than upstream.retry_min, although every event shows
// that it is alive.
func TestResumePace(t *testing.T) {
	onlyStreamable(t, "only event ids let a stream go on")
	t.Parallel()
	const (
		pause = 50 * time.Millisecond
		times = 5
	)
	server := newServer(t, rawserver.Settings{})
	server.Tool("leave", func(c *rawserver.Call) {
		for n := 1; n <= times; n++ {
			c.Log("info", "x")
			c.HangUp()
			if !c.WaitResumed(n) {
				return
			}
		}
		c.Text("done")
	})
	h := Start(t, Options{Upstream: to(server), Config: "upstream: {retry_min: " + pause.String() + ", retry_max: 1s}"})
	if got := h.Send(t, CallTool("leave", nil)).Text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	list := resumes(server)
	if len(list) != times {
		t.Fatalf("the stream was gone on with %d times, want %d", len(list), times)
	}
	paced(t, list, pause)
}

// TestStandingStreamPace: the same on the session's GET stream.
func TestStandingStreamPace(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	const (
		pause = 50 * time.Millisecond
		times = 4
	)
	server := newServer(t, rawserver.Settings{})
	server.Hook(func(x *rawserver.Exchange) bool {
		get := x.R.Method == "GET"
		if get {
			x.Reply(200, "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n", "Content-Type", "text/event-stream")
		}
		return get
	})
	h := Start(t, Options{Upstream: to(server), Config: "upstream: {retry_min: " + pause.String() + ", retry_max: 1s}"})
	h.Send(t, Request("tools/list", nil)).Completes(t)
	server.WaitHTTP("GET", times)
	h.Stop()
	paced(t, sent(server, "GET")[:times], pause) // at the end another replica may take the session over
}

// paced checks that each request came a pause after the one before.
func paced(t *testing.T, list []*rawserver.Record, pause time.Duration) {
	t.Helper()
	for i := 1; i < len(list); i++ {
		if got := list[i].At.Sub(list[i-1].At); got < pause {
			t.Errorf("attempt %d came %v after the one before, want at least upstream.retry_min of %v", i+1, got, pause)
		}
	}
}
