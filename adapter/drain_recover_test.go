package adapter

import (
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A replica that stops while it is about to take a call over tells the server
// nothing of it: the owner may still be at it, and another replica goes on with
// the round.
func TestDrainDuringATakeOver(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3, func(_ *Settings, l *legacy.Settings, _ *rawserver.Settings) {
		l.RetryMax, l.MaxResumes = time.Minute, 1000
	})
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	owner := f.rigs[0]
	first := owner.play(q)
	owner.port().unplug()
	f.giveUp()
	taker, other := f.rigs[1], f.rigs[2]
	if taker.taker(taker.tokenOf(first)) != taker.settings.Replica {
		taker, other = other, taker
	}
	f.raw.Hook(func(x *rawserver.Exchange) bool { // as while the owner's connection stands
		refuse := x.Record.Header.Get("Last-Event-ID") != "" && x.Record.Header.Get("X-Replica") == taker.settings.Replica
		if refuse {
			x.Reply(http.StatusConflict, "")
		}
		return refuse
	})
	end := taker.mustBegin(q.retry(first, accept("elicitation-1", "name", "Ada"))).goes()
	f.raw.Wait("the attempt to take over", func() bool { return len(f.resumptions(taker)) > 0 })
	stopped := f.drain(taker, 3*time.Second)
	r := endOf(t, end)
	if r.err != nil || r.asked(t) != "elicitation-2" {
		t.Fatal(r.describe())
	}
	awaitStop(t, stopped)
	if got := f.raw.Cancelled(); len(got) != 0 {
		t.Errorf("the server was told that %s is cancelled", got)
	}
	if got := other.play(q.retry(r.Outcome, accept("elicitation-2", "title", "Dr"))).text(t); got != "Dr Ada" {
		t.Errorf("got %q", got)
	}
}

// A parked call that may run again is left to the others by a replica that
// stops: a retry that still comes there, be it that of the round before, is not
// told that its state is old, or that the call is over.
func TestDrainLeavesWhatMayRunAgain(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, noEventIDs, replaying(ReplayAlways))
	f.raw.Tool("tool", confirmAll(func() []string { return []string{"A", "B"} }))
	q := toolCall("tool")
	owner, other := f.rigs[0], f.rigs[1]
	first := owner.play(q)
	retry := q.retry(first, accept("elicitation-1", "sure", "1"))
	owner.play(retry) // its client hears nothing of the answer
	owner.Leave()
	owner.calls.get(owner.tokenOf(first)).settleUp(true)
	f.raw.WaitCount("notifications/cancelled", 1)
	second := other.served(retry, ServedReplayed)
	if got := other.play(q.retry(second, accept(second.Inputs[0].Key, "sure", "2"))).text(t); got != "A=1 B=2" {
		t.Errorf("got %q", got)
	}
}

// A replica whose time is over closes the connections of its clients: that is
// no client which has gone, and cancels nothing at the owner.
func TestDrainThatCutsConnectionsOff(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	gate := make(chan struct{})
	f.raw.Tool("slow", askOnce(func(c *rawserver.Call) {
		<-gate
		c.Text("done")
	}))
	q := toolCall("slow")
	owner, other := f.rigs[0], f.rigs[1]
	retry := q.retry(owner.play(q), accept("elicitation-1", "a", "x"))
	v := other.mustBegin(retry)
	end := v.goes()
	f.raw.Wait("the answer", func() bool { return len(f.raw.Responses()) == 1 })
	other.cutAt.Store(time.Now().UnixNano())
	v.Gone()
	endOf(t, end)
	eventually(t, "the owner to hear of it", func() bool { return owner.waiting() == 0 })
	close(gate)
	if got := owner.play(retry).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	if got := f.raw.Cancelled(); len(got) != 0 {
		t.Errorf("the server was told that %s is cancelled", got)
	}
}
