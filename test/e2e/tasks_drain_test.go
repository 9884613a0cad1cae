package e2e

import (
	"syscall"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// The replica stops that the client of a call is connected to which may become a
// task: the client is told to come back, which leads to the same call.
func TestCallThatMayLastLetGo(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	gate := newGate(t)
	called := make(chan struct{})
	server.Tool("slow", func(c *rawserver.Call) { close(called); <-gate; c.Text("done") })
	h := StartFleet(t, Options{Upstream: to(server), Config: "dialects: {tasks: {after: 1h}}\n"})
	stream := h.Replica(0).Open(t, CallTool("slow", nil, Caps(withTasks)))
	receive(t, "the call", called)
	h.Replica(0).Signal(syscall.SIGTERM)
	first := stream.Reply()
	if first.Type != "input_required" || first.State == "" {
		t.Fatalf("the client is told %s", first.Body)
	}
	gate.open()
	if got := h.Replica(1).Retry(t, first, nil, Caps(withTasks)).Text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	h.Replica(0).ends(t)
	if n := server.ToolCalls("slow"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

// A replica that stops ends a task that nobody can go on with: it has failed,
// whoever is asked, and the reason is told.
func TestTaskEndsWhereItsReplicaStops(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{NoEventIDs: true})
	cancelled := make(chan struct{})
	server.Tool("plain", func(c *rawserver.Call) { <-c.Cancelled(); close(cancelled) })
	h := StartFleet(t, Options{Upstream: to(server), Config: "shutdown: {grace: 1s}\n" + tasksSoon})
	task := create(t, h.Replica(0).Target, "plain")
	if oneStream(t) {
		h.keeperFirst(t)
	}
	h.Replica(0).Signal(syscall.SIGTERM)
	receive(t, "the cancellation", cancelled)
	h.Replica(0).ends(t)
	for i := 1; i < h.Size(); i++ {
		got := awaitTask(t, h.Replica(i).Target, task, "failed")
		failure, _ := got["error"].(map[string]any)
		data, _ := failure["data"].(map[string]any)
		if reason := data["reason"]; reason != "call_lost" {
			t.Errorf("replica %d: the task is %v", i, got)
		}
	}
	if n := server.ToolCalls("plain"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}
