package adapter

import (
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A call that was taken over is found by the request states of before, also
// where the replica that would take it now is another one.
func TestCallIsFoundWhereItWent(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	const calls = 6
	var firsts, seconds []*Outcome
	for range calls {
		firsts = append(firsts, f.rigs[0].play(q))
	}
	f.die(f.rigs[0])
	f.giveUp()
	for _, o := range firsts {
		seconds = append(seconds, f.rigs[1].served(q.retry(o, accept("elicitation-1", "name", "x")), ServedTakenOver))
	}
	f.add("r3", f.rigs[0].ring)
	f.add("r4", f.rigs[0].ring)
	f.giveUp() // they have never heard of r1
	for i, o := range firsts {
		again := f.rigs[2+i%2].served(q.retry(o, accept("elicitation-1", "name", "x")), ServedForwarded)
		if got := again.asked(t); got != "elicitation-2" {
			t.Errorf("asked %q", got)
		}
		last := f.rigs[3-i%2].served(q.retry(seconds[i], accept("elicitation-2", "title", "Dr")), ServedForwarded)
		if got := last.text(t); got != "Dr x" {
			t.Errorf("got %q", got)
		}
	}
	if n := len(f.posted()); n != 2*calls {
		t.Errorf("the server got %d answers, want %d", n, 2*calls)
	}
}

// The bus as a whole was away, after a call had been taken over from an owner
// that was cut off before: all have doubts about what is theirs, and not both
// give the call up.
func TestAllLoseTheirLeasesAtOnce(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3, noEventIDs, replaying(ReplayAlways))
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	first := f.rigs[0].play(q)
	f.rigs[0].port().unplug()
	f.giveUp()
	var taker *rig
	second := f.rigs[1].play(q.retry(first, accept("elicitation-1", "name", "Ada")))
	for _, r := range f.rigs[1:] {
		if r.calls.had(r.tokenOf(second)) != 0 {
			taker = r
		}
	}
	for _, r := range f.rigs[1:] {
		r.port().unplug()
	}
	f.giveUp()
	for _, r := range f.rigs {
		r.port().plug()
	}
	for _, r := range []*rig{f.rigs[1], f.rigs[2], f.rigs[0]} { // the late one is the last to ask
		eventually(t, "the leases", r.confirmed)
	}
	if f.rigs[0].calls.had(f.rigs[0].tokenOf(first)) != 0 {
		t.Error("the late owner has not given the call up")
	}
	if taker == nil || taker.calls.had(taker.tokenOf(second)) == 0 {
		t.Fatal("nobody has the call any more")
	}
	if got := f.rigs[0].served(q.retry(second, accept("elicitation-2", "title", "Dr")), ServedForwarded).text(t); got != "Dr Ada" {
		t.Errorf("got %q", got)
	}
	if n := f.raw.ToolCalls("greet"); n != 2 {
		t.Errorf("the tool ran %d times, want twice: once for the replay", n)
	}
}

// An owner that is back with a call of a round that is over gives it up to the
// newer request state, although who took it over is gone as well.
func TestOwnerOfAnOlderRound(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	first := f.rigs[0].play(q)
	f.rigs[0].port().unplug()
	f.giveUp()
	second := f.rigs[1].served(q.retry(first, accept("elicitation-1", "name", "Ada")), ServedTakenOver)
	f.die(f.rigs[1])
	f.giveUp()
	f.rigs[0].port().plug()
	f.giveUp()
	if got := f.rigs[0].served(q.retry(second, accept("elicitation-2", "title", "Dr")), ServedTakenOver).text(t); got != "Dr Ada" {
		t.Errorf("got %q", got)
	}
	if n := f.raw.ToolCalls("greet"); n != 1 {
		t.Errorf("the tool ran %d times, want once", n)
	}
}

// A round that serves a call which turns out to be another replica's goes on
// there.
func TestRoundWhoseCallIsElsewhere(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3)
	gate := make(chan struct{})
	f.raw.Tool("slow", askOnce(func(c *rawserver.Call) {
		<-gate
		c.Text("done")
	}))
	q := toolCall("slow")
	retry := q.retry(f.rigs[0].play(q), accept("elicitation-1", "a", "x"))
	f.rigs[0].port().unplug() // its calls may be taken over, but it lives
	f.giveUp()
	late := f.rigs[0].mustBegin(retry).goes()
	other := f.rigs[1].mustBegin(retry).goes()
	f.raw.Wait("the answer", func() bool { return len(f.posted()) == 1 })
	f.rigs[0].port().plug()
	close(gate)
	for _, end := range []<-chan result{late, other} {
		if r := endOf(t, end); r.err != nil || r.text(t) != "done" {
			t.Error(r.describe())
		}
	}
	if n := len(f.posted()); n != 1 {
		t.Errorf("the server got %d answers, want 1", n)
	}
}
