package adapter

import (
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// Replicas that all stop at once do not wait for each other: nobody comes back to
// what is parked, and the server is told so. What runs has its time.
func TestDrainOfAllAtOnce(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3, noEventIDs)
	f.raw.Tool("greet", greet)
	gate := make(chan struct{})
	f.raw.Tool("slow", func(c *rawserver.Call) {
		<-gate
		c.Text("done")
	})
	for _, r := range f.rigs[:2] {
		r.play(toolCall("greet"))
	}
	running := f.rigs[1].mustBegin(toolCall("slow")).goes()
	f.raw.WaitCount(mcp.MethodToolsCall, 3)
	var stopped []<-chan struct{}
	for _, r := range f.rigs {
		r.Leave()
	}
	for _, r := range f.rigs {
		stopped = append(stopped, f.drain(r, time.Hour))
	}
	select { // for longer than calls are waited for that are let go
	case r := <-running:
		t.Errorf("the call that runs was let go: %s", r.describe())
	case <-time.After(shortCall + shortCall/2):
	}
	close(gate)
	if r := endOf(t, running); r.err != nil || r.text(t) != "done" {
		t.Error(r.describe())
	}
	for _, s := range stopped {
		awaitStop(t, s)
	}
	f.raw.WaitCount(mcp.NotifyCancelled, 2)
}

// As long as a replica that stops as well has rounds of clients in progress, it
// may bring one to a parked call.
func TestDrainWaitsForTheRoundsOfOthers(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, noEventIDs)
	f.raw.Tool("greet", greet)
	owner, other := f.rigs[0], f.rigs[1]
	q := toolCall("greet")
	retry := q.retry(owner.play(q), accept("elicitation-1", "name", "Ada"))
	owner.port().unplug() // for less than anybody would notice
	end := other.mustBegin(retry).goes()
	stopped := []<-chan struct{}{f.drain(other, time.Hour), f.drain(owner, time.Hour)}
	eventually(t, "the owner to wait", owner.lingers)
	owner.port().plug()
	if r := endOf(t, end); r.err != nil || r.asked(t) != "elicitation-2" {
		t.Error(r.describe())
	}
	for _, s := range stopped {
		awaitStop(t, s)
	}
}

// A replica that is silent has not left: it may come back with the client of a
// parked call.
func TestDrainWaitsForTheSilent(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, noEventIDs)
	f.raw.Tool("greet", greet)
	owner, other := f.rigs[0], f.rigs[1]
	q := toolCall("greet")
	first := owner.play(q)
	other.port().unplug()
	f.giveUp()
	stopped := f.drain(owner, time.Hour)
	eventually(t, "the owner to wait", owner.lingers)
	other.port().plug()
	second := other.served(q.retry(first, accept("elicitation-1", "name", "Ada")), ServedForwarded)
	if got := other.served(q.retry(second, accept("elicitation-2", "title", "Dr")), ServedForwarded).text(t); got != "Dr Ada" {
		t.Errorf("got %q", got)
	}
	awaitStop(t, stopped)
}

// lingers reports whether the replica stops, and waits for others to bring rounds.
func (r *rig) lingers() bool {
	r.calls.mu.Lock()
	defer r.calls.mu.Unlock()
	return r.deserted.Load() && r.calls.idle != nil
}
