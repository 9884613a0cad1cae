package adapter

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// While keys are rotated a replica may get answers that it cannot open yet. That
// is no word of the client: the call goes on, and so does the round once the key
// is there.
func TestAnswerOfAnUnknownKeyCancelsNothing(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 0)
	old, next := state.NewKey(), state.NewKey()
	var rings [2]*state.Ring
	for i, id := range []string{"r1", "r2"} {
		var err error
		if rings[i], err = state.NewRing(old); err != nil {
			t.Fatal(err)
		}
		f.add(id, rings[i])
	}
	replace := func(r *state.Ring, keys ...state.Key) {
		if err := r.Replace(keys...); err != nil {
			t.Fatal(err)
		}
	}
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	retry := q.retry(f.rigs[0].play(q), accept("elicitation-1", "name", "Ada"))
	replace(rings[0], next, old)
	end := f.rigs[1].mustBegin(retry).goes()
	eventually(t, "an answer that is not understood", func() bool { return f.rigs[1].strange.Load() != 0 })
	replace(rings[1], old, next)
	if r := endOf(t, end); r.err != nil || r.asked(t) != "elicitation-2" {
		t.Error(r.describe())
	}
	if n := len(f.raw.Cancelled()); n != 0 {
		t.Error("the call was cancelled")
	}
	if n := len(f.raw.Responses()); n != 1 {
		t.Errorf("the server got %d answers, want 1", n)
	}
}

// A replica that stops lets go of a forwarded round only when the owner has it:
// the answers in it do not come a second time.
func TestDrainKeepsARoundThatHasNotArrived(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	retry := q.retry(f.rigs[0].play(q), accept("elicitation-1", "name", "Ada"))
	f.rigs[0].port().unplug()
	end := f.rigs[1].mustBegin(retry).goes()
	stopped := f.drain(f.rigs[1], 10*lanPatience)
	eventually(t, "the others to be let go", f.rigs[1].letting.Load)
	select {
	case r := <-end:
		t.Errorf("let go at once: %s", r.describe())
	default:
	}
	f.rigs[0].port().plug()
	r := endOf(t, end)
	if r.err != nil || r.State == nil {
		t.Fatal(r.describe())
	}
	f.raw.Wait("the answer", func() bool { return len(f.raw.Responses()) == 1 })
	awaitStop(t, stopped)
	if n := len(f.raw.Cancelled()); n != 0 {
		t.Error("the call was cancelled")
	}
}

// A replica that stops and lets go of a forwarded round does not say that its
// client has gone.
func TestDrainOfTheReplicaThatForwards(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3)
	gate := make(chan struct{})
	f.raw.Tool("slow", askOnce(func(c *rawserver.Call) {
		select {
		case <-gate:
			c.Text("done")
		case <-c.Context().Done():
		}
	}))
	q := toolCall("slow")
	retry := q.retry(f.rigs[0].play(q), accept("elicitation-1", "a", "x"))
	end := f.rigs[1].mustBegin(retry).goes()
	f.raw.Wait("the answer", func() bool { return len(f.raw.Responses()) == 1 })
	stopped := f.drain(f.rigs[1], 10*lanPatience)
	r := endOf(t, end)
	if r.err != nil || r.State == nil || len(r.Inputs) != 0 {
		t.Fatal(r.describe())
	}
	eventually(t, "the owner to know", func() bool { return f.rigs[0].waiting() == 0 })
	awaitStop(t, stopped)
	again := f.rigs[2].mustBegin(q.retry(r.Outcome, "")).goes()
	eventually(t, "the retry at the owner", func() bool { return f.rigs[0].waiting() == 1 })
	close(gate)
	if r := endOf(t, again); r.err != nil || r.text(t) != "done" {
		t.Error(r.describe())
	}
	if n := len(f.raw.Cancelled()); n != 0 {
		t.Errorf("%d cancellations", n)
	}
}

// An answer that does not fit the bus is refused at once: it would not fit the
// next time either.
func TestAnswerTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 1)
	r := &forwardRound{hop: hop{engine: f.rigs[0].Engine, ctx: t.Context()}}
	_, err := r.read(&script{end: ErrTooLarge}, time.Now().Add(time.Hour))
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Reason != ReasonUpstreamReply || !refusal.MayHaveRun {
		t.Errorf("got %v, want upstream_reply of a call that may have run", err)
	}
}
