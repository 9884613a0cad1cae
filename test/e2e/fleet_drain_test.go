package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// comesBack checks an answer that tells the client to come back with a request
// state, and asks nothing. The key inputRequests must be there: the Go SDK
// would take the answer for final without it.
func comesBack(t testing.TB, reply *Reply) {
	t.Helper()
	reply.Asks(t)
	if got := string(at(reply.Result, "inputRequests")); got != "{}" {
		t.Errorf("inputRequests is %q, want {}", got)
	}
}

// TestDrainParked: a call that is parked at a replica that stops goes on at
// another, while the old one still lives, and after.
func TestDrainParked(t *testing.T) {
	onlyStreamable(t, "a session of one stream ends with the replica that keeps it")
	t.Parallel()
	server := asking(t)
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty + "shutdown: {grace: 10s}"})
	var parked []*Reply
	for range 2 {
		first := h.Replica(0).Send(t, CallTool("greet", nil))
		first.Asks(t, "elicitation-1")
		parked = append(parked, first)
	}
	h.Replica(0).Signal(syscall.SIGTERM)
	h.Replica(0).Logs.Wait(t, `"message":"stopping"`)
	if got := h.Replica(1).Retry(t, parked[0], ada).Text(t); got != "greet Ada" {
		t.Errorf("while it stops: got %q", got)
	}
	h.Replica(0).ends(t)
	if got := h.Replica(2).Retry(t, parked[1], ada).Text(t); got != "greet Ada" {
		t.Errorf("after it stopped: got %q", got)
	}
	if n := server.ToolCalls("greet"); n != 2 {
		t.Errorf("the tool was called %d times for 2 calls", n)
	}
	if n := len(server.Responses()); n != 2 {
		t.Errorf("the server got %d answers, want 2", n)
	}
	if n := len(server.Cancelled()); n != 0 {
		t.Errorf("%d calls were cancelled", n)
	}
}

// TestDrainLetsGo: a call that runs at a replica that stops is let go: its
// client comes back elsewhere, and gets the result.
func TestDrainLetsGo(t *testing.T) {
	onlyStreamable(t, "only event ids let a stream go on")
	t.Parallel()
	for name, settings := range map[string]rawserver.Settings{
		"event ids":    {Prime: true},
		"no event ids": {NoEventIDs: true}, // the old one answers as long as it lingers
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, settings)
			hold := newGate(t)
			server.Tool("hold", hold.holding)
			h := StartFleet(t, Options{Upstream: to(server), Config: hasty + "shutdown: {grace: 15s}\nstream: {after: 10m}"})
			call := h.Replica(0).Open(t, CallTool("hold", map[string]any{"say": "x"}))
			server.WaitCount("tools/call", 1)
			h.Replica(0).Signal(syscall.SIGTERM)
			reply := call.Reply()
			comesBack(t, reply)
			again := h.Open(t, RetryOf(reply, nil))
			hold.open()
			last := again.Reply()
			for last.Type == "input_required" {
				comesBack(t, last)
				last = h.Retry(t, last, nil)
			}
			if got := last.Text(t); got != "said x" {
				t.Errorf("got %q", got)
			}
			if n := server.ToolCalls("hold"); n != 1 {
				t.Errorf("the tool was called %d times, want once", n)
			}
			if n := len(server.Cancelled()); n != 0 {
				t.Errorf("%d calls were cancelled", n)
			}
			h.Replica(0).ends(t)
		})
	}
}

// TestDrainOthers: a method that may not be let go gets its result within
// shutdown.grace.
func TestDrainOthers(t *testing.T) {
	onlyStreamable(t, "only event ids let a stream go on")
	t.Parallel()
	server := newServer(t, rawserver.Settings{Prime: true})
	hold := newGate(t)
	server.Handle("prompts/list", func(c *rawserver.Call) {
		<-hold
		c.Result(`{"prompts":[]}`)
	})
	server.Tool("hold", hold.holding)
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty + "stream: {after: 10m}"})
	list := h.Replica(0).Open(t, Request("prompts/list", nil))
	server.WaitCount("prompts/list", 1)
	call := h.Replica(0).Open(t, CallTool("hold", nil))
	server.WaitCount("tools/call", 1)
	h.Replica(0).Signal(syscall.SIGTERM)
	last := call.Reply()
	comesBack(t, last) // so that all has been let go that may be
	if list.Answered() {
		t.Fatal("the list was answered before the server did")
	}
	hold.open()
	list.Reply().Completes(t)
	for last.Type == "input_required" {
		last = h.Retry(t, last, nil)
	}
	last.Completes(t)
	h.Replica(0).ends(t)
}

// TestDrainOfAll: replicas that all stop at once do not wait for each other with
// parked calls, to which nobody comes back. The servers are told.
func TestDrainOfAll(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]rawserver.Settings{"event ids": {}, "no event ids": {NoEventIDs: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, settings)
			server.Tool("greet", func(c *rawserver.Call) { c.Ask("elicitation/create", question("name")) })
			h := StartFleet(t, Options{Upstream: to(server), Config: "shutdown: {grace: 10m}"})
			for i := range h.Size() {
				h.Replica(i).Send(t, CallTool("greet", nil)).Asks(t, "elicitation-1")
			}
			h.Stop() // all at once; and they have to end long before their grace is over
			server.WaitCount("notifications/cancelled", h.Size())
		})
	}
}

// TestDrainSession: the session outlives the replica that opened it, and what
// arrives on it reaches the calls of the others.
func TestDrainSession(t *testing.T) {
	onlyStreamable(t, "a session of one stream ends with the replica that keeps it")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("push", pushing)
	server.Tool("say", saying)
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty})
	for range h.Size() {
		h.Send(t, CallTool("say", nil)).Completes(t)
	}
	for i := range h.Size() - 1 { // whichever is its home, it moves
		h.Replica(i).Stop()
		last := h.Replica(h.Size() - 1)
		last.waitPeers(t, h.Size()-2-i)
		first := last.Send(t, CallTool("push", map[string]any{"from": "1"}))
		first.Asks(t, "elicitation-1")
		if got := last.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Text(t); got != "Hello Ada from 1" {
			t.Errorf("got %q", got)
		}
	}
	if n := server.HTTPCount("DELETE"); n != 0 {
		t.Errorf("%d DELETE, but a replica is left", n)
	}
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
	h.Stop()
	if n := server.HTTPCount("DELETE"); n != 1 {
		t.Errorf("%d DELETE, want 1, with the last replica", n)
	}
}

// TestShutdownDelay: for shutdown.delay a replica that was told to stop is not
// ready, but takes new calls: load balancers need a while to notice.
func TestShutdownDelay(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	h := Start(t, Options{Upstream: to(server), Config: "shutdown: {delay: 2s}"}).One() // shutting down is of each replica
	begun := time.Now()
	h.Signal(syscall.SIGTERM)
	if code, reasons := waitReady(t, h, "not ready"); code != http.StatusServiceUnavailable || len(reasons) == 0 {
		t.Errorf("/readyz: HTTP %d %q, want 503, and why", code, reasons)
	}
	if got := h.Send(t, CallTool("say", map[string]any{"say": "x"})).Text(t); got != "said x" {
		t.Errorf("got %q", got)
	}
	h.ends(t)
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("it stopped after %v, want at least the delay of 2s", took)
	}
}

// TestMaxHold: calls.max_hold is for clients behind load balancers with short
// time-outs. Their requests are answered in time, and the result comes to the
// one that is there when it does.
func TestMaxHold(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	hold := newGate(t)
	server.Tool("hold", func(c *rawserver.Call) {
		c.Progress(1, 2)
		hold.holding(c)
	})
	server.Handle("prompts/list", func(c *rawserver.Call) {
		<-hold
		c.Result(`{"prompts":[]}`)
	})
	h := Start(t, Options{Upstream: to(server), Config: "calls: {max_hold: 200ms}"})
	list := h.Open(t, Request("prompts/list", nil)) // may not be told to come back
	reply := h.Send(t, CallTool("hold", map[string]any{"say": "x"}, Progress("p")))
	states := map[string]bool{}
	for range 4 {
		comesBack(t, reply)
		if states[reply.State] {
			t.Error("two rounds have the same requestState")
		}
		states[reply.State] = true
		begun := time.Now()
		reply = h.Retry(t, reply, nil)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("a request was held for %v, with a max_hold of 200ms", took)
		}
	}
	hold.open()
	for reply.Type == "input_required" {
		comesBack(t, reply)
		reply = h.Retry(t, reply, nil)
	}
	if got := reply.Text(t); got != "said x" {
		t.Errorf("got %q", got)
	}
	list.Reply().Completes(t)
	if n := server.ToolCalls("hold"); n != 1 {
		t.Errorf("the tool was called %d times, want once", n)
	}
	if n := len(server.Cancelled()); n != 0 {
		t.Errorf("%d calls were cancelled", n)
	}
}

// TestReleased: with calls.release_after a parked call's stream is closed, and
// its retry, wherever it comes to, goes on with it.
func TestReleased(t *testing.T) {
	onlyStreamable(t, "only event ids let a stream go on")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	gone := make(chan struct{}, 10)
	server.Tool("ask", func(c *rawserver.Call) {
		q := c.Start("elicitation/create", question("name"))
		select {
		case <-c.Gone():
			gone <- struct{}{}
		case <-c.Context().Done():
			return
		}
		c.Text("Hello " + q.Wait().Content("name"))
	})
	h := Start(t, Options{Upstream: to(server), Config: "calls: {release_after: 50ms}"})
	const calls = 4
	var parked [calls]*Reply
	for i := range parked {
		parked[i] = h.Send(t, CallTool("ask", nil))
		parked[i].Asks(t, "elicitation-1")
	}
	for range parked {
		receive(t, "end of a stream", gone)
	}
	reaches(t, h, "holdfast_calls_released", calls)
	if n := gauge(t, h, "holdfast_calls_parked"); n != 0 {
		t.Errorf("%v calls are parked, want none of those that were let go", n)
	}
	for _, first := range parked {
		h.Send(t, Request("prompts/list", nil)).Completes(t) // so that retries do not come to their owners in turn
		last := h.Retry(t, first, ada)
		if got := last.Text(t); got != "Hello Ada" {
			t.Errorf("got %q", got)
		}
		sameOutcome(t, last, h.Retry(t, first, ada))
	}
	reaches(t, h, "holdfast_calls_released", 0)
	if n := server.ToolCalls("ask"); n != calls {
		t.Errorf("the tool was called %d times for %d calls", n, calls)
	}
	if n := len(server.Responses()); n != calls {
		t.Errorf("the server got %d answers to %d questions", n, calls)
	}
	if n := len(server.Cancelled()); n != 0 {
		t.Errorf("%d calls were cancelled", n)
	}
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d sessions, want 1: released calls keep theirs open", n)
	}
}

// TestReleasedExpires: the server is told of a released call whose client does
// not come back.
func TestReleasedExpires(t *testing.T) {
	onlyStreamable(t, "only event ids let a stream go on")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	told := make(chan rawserver.Answer, 1)
	server.Tool("ask", func(c *rawserver.Call) {
		told <- c.Ask("elicitation/create", question("name"))
		<-c.Context().Done()
	})
	h := Start(t, Options{Upstream: to(server), Config: "calls: {release_after: 20ms, park_ttl: 1s}"})
	first := h.Send(t, CallTool("ask", nil))
	first.Asks(t, "elicitation-1")
	if answer := receive(t, "answer", told); answer.Action() != "cancel" {
		t.Errorf("the elicitation was answered %s, want cancel", answer.Result)
	}
	server.WaitCount("notifications/cancelled", 1)
	reply := h.Retry(t, first, ada)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for reply.Error != nil && reply.Error.Reason() == "call_lost" { // until the second is over to which request states are rounded
		<-again.C
		reply = h.Retry(t, first, ada)
	}
	reply.Fails(t, http.StatusBadRequest, -32602, "state_expired")
	if got := strings.Join(sessionsOf(server, "notifications/cancelled"), " "); got != "session-1" {
		t.Errorf("the cancellation came on %q", got)
	}
}
