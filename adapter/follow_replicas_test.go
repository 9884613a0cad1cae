package adapter

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// nothing drives the round for a moment in which it must have nothing to tell.
func (v *visit) nothing(t *testing.T) {
	t.Helper()
	if ev, err := v.Next(time.Now().Add(30 * time.Millisecond)); !errors.Is(err, ErrDeadline) {
		t.Fatalf("told %+v, %v", ev, err)
	}
}

// confirms waits until the owner knows that all was told that a round was given.
func (r *rig) confirms(handle string) {
	r.t.Helper()
	c := r.calls.get(r.callOf(&Outcome{State: []byte(handle)}))
	eventually(r.t, "the confirmation", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		round := c.lasting.following.round
		return round != nil && len(round.unsure) == 0
	})
}

// unfollowed waits until the owner knows that nobody follows.
func (r *rig) unfollowed(handle string) {
	r.t.Helper()
	c := r.calls.get(r.callOf(&Outcome{State: []byte(handle)}))
	eventually(r.t, "the end of the round", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.lasting.following.round == nil
	})
}

// A call is followed, answered, looked at and cancelled at any replica; what its
// client was told is told once, wherever it comes back.
func TestFollowingAtAnotherReplica(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3)
	v, handle, steps := f.rigs[0].follows(time.Hour)
	v.nothing(t)
	v.leave()
	steps <- "p1"
	steps <- "p2"
	eventually(t, "what waits", func() bool { return f.rigs[1].stands(handle) == "working 2" })
	v = f.rigs[1].mustBegin(ofFollower(mcp.MethodResume, handle))
	v.hear(t, "p1 p2")
	v.nothing(t)
	f.rigs[0].confirms(handle)
	steps <- "p3"
	v.hear(t, "p3") // and its client is gone before it has gone out
	v.leave()
	f.rigs[0].unfollowed(handle)
	steps <- "?a"
	v = f.rigs[2].mustBegin(ofFollower(mcp.MethodResume, handle))
	v.hear(t, "p3 ?elicitation-1")
	f.rigs[1].play(answerOf(handle, posted("elicitation-1", "a", "A")))
	w := f.rigs[1].mustBegin(ofFollower(mcp.MethodResume, handle)) // the newest follows
	w.nothing(t)
	v.hear(t, "end")
	v.close()
	for _, step := range []string{"p4", "p5", "p6", "p7", "p8", "p9", "="} { // more than the window
		steps <- step
	}
	w.hear(t, "p4 p5 p6 p7 p8 p9 =A")
	w.close()
	if n := f.raw.ToolCalls("t"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
	v, handle = f.rigs[0].handleFirst(toolCall("t").followed(time.Hour))
	f.rigs[2].play(ofFollower(mcp.MethodCancel, handle))
	v.hear(t, "end")
	v.close()
	f.raw.WaitCount(mcp.NotifyCancelled, 1)
	if got := f.rigs[1].stands(handle); got != "cancelled 0" {
		t.Errorf("stands %s", got)
	}
	v = f.rigs[1].mustBegin(ofFollower(mcp.MethodResume, handle))
	v.hear(t, "!"+string(ReasonCallLost))
	v.close()
}

// A first round that goes to the replica which keeps the session is followed
// there.
func TestFollowingThroughTheHome(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3, oneStream)
	steps := make(chan string, 16)
	f.raw.Tool("t", stepwise(steps))
	q := toolCall("t").followed(time.Hour)
	home, others := f.keeper(q)
	v, handle := others[0].handleFirst(q)
	steps <- "p1"
	v.hear(t, "p1")
	v.nothing(t)
	home.confirms(handle)
	v.leave()
	steps <- "?a"
	v = others[1].mustBegin(ofFollower(mcp.MethodResume, handle))
	v.hear(t, "?elicitation-1")
	others[0].play(answerOf(handle, posted("elicitation-1", "a", "A")))
	steps <- "p2"
	steps <- "="
	v.hear(t, "p2 =A")
	v.close()
}

// The owner dies: another replica goes on with the stream, and what was kept comes
// from the server once more.
func TestFollowedStreamOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, primed)
	v, handle, steps := f.rigs[0].follows(time.Hour)
	v.nothing(t)
	v.leave()
	steps <- "p1"
	steps <- "?a"
	eventually(t, "the question", func() bool { return f.rigs[0].stands(handle) == "input_required 2" })
	f.lose(f.rigs[0])
	// Its question comes again under another id.
	f.rigs[1].refused(answerOf(handle, posted("elicitation-1", "a", "A")), ReasonStateStale)
	v = f.rigs[1].mustBegin(ofFollower(mcp.MethodResume, handle))
	v.hear(t, "p1")
	key := v.hears(t)[1:]
	if key == "elicitation-1" {
		t.Errorf("asked under the key %s once more", key)
	}
	f.rigs[1].play(answerOf(handle, posted(key, "a", "A")))
	steps <- "p2"
	steps <- "="
	v.hear(t, "p2 =A")
	v.close()
	if n := f.raw.ToolCalls("t"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

// endlessAtFirst follows a call at the first replica that ends when it runs again.
func (f *replicas) endlessAtFirst() (v *visit, handle string) {
	first := make(chan struct{}, 1)
	first <- struct{}{}
	f.raw.Tool("t", func(c *rawserver.Call) {
		select {
		case <-first:
			<-c.Context().Done()
		default:
			c.Progress(1, 2)
			c.Text(c.Argument("a"))
		}
	})
	return f.rigs[0].handleFirst(toolCall("t").followed(time.Hour).with(func(q *query) { q.params += `,"arguments":{"a":"A"}` }))
}

// Where the server cannot go on, the call runs again if that is harmless: the
// handle carries its request.
func TestFollowedCallRunsAgain(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, noEventIDs, replaying(ReplayAlways))
	v, handle := f.endlessAtFirst()
	v.nothing(t)
	f.lose(f.rigs[0])
	w := f.rigs[1].mustBegin(ofFollower(mcp.MethodResume, handle))
	w.hear(t, "p1 =A")
	w.close()
	v.Gone()
	v.close()
}

// So it is where its replica stops, and has waited for its end as long as it may.
func TestFollowedCallRunsAgainAfterADrain(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, noEventIDs, replaying(ReplayAlways))
	v, handle := f.endlessAtFirst()
	v.nothing(t)
	v.Gone()
	v.close()
	w := f.rigs[1].mustBegin(ofFollower(mcp.MethodResume, handle)) // it waits at the one that stops
	w.nothing(t)
	stopped := f.drain(f.rigs[0], 2*time.Second)
	w.hear(t, "p1 =A")
	w.close()
	awaitStop(t, stopped)
	f.raw.WaitCount(mcp.NotifyCancelled, 1)
}

// Where it is not, the client is told.
func TestFollowedCallIsLost(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, func(s *Settings, _ *legacy.Settings, raw *rawserver.Settings) {
		s.Replay = ReplayNever
		raw.NoEventIDs = true
	})
	f.raw.Tool("t", forever)
	v, handle := f.rigs[0].handleFirst(toolCall("t").followed(time.Hour))
	f.lose(f.rigs[0])
	eventually(t, "the end", func() bool { return f.rigs[1].stands(handle) == "failed 0" })
	w := f.rigs[1].mustBegin(ofFollower(mcp.MethodResume, handle))
	w.hear(t, "!call_lost")
	w.close()
	v.leave()
}

// What a client that is away was not told outlives the call's owner, with the
// outcome.
func TestUndeliveredOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3)
	v, handle, steps := f.rigs[0].follows(time.Hour)
	v.nothing(t)
	v.close()
	for _, step := range []string{"p1", "p2", "="} {
		steps <- step
	}
	id := f.rigs[0].callOf(&Outcome{State: []byte(handle)})
	eventually(t, "the copy", func() bool { return f.rigs[1].calls.get(id) != nil || f.rigs[2].calls.get(id) != nil })
	f.lose(f.rigs[0])
	if got := f.rigs[2].stands(handle); got != "completed 2" {
		t.Errorf("stands %s", got)
	}
	v = f.rigs[1].mustBegin(ofFollower(mcp.MethodResume, handle))
	v.hear(t, "p1 p2 =")
	v.close()
}

// A replica that stops ends the streams of its clients, who go on elsewhere.
func TestFollowerOfAReplicaThatStops(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, primed)
	v, handle, steps := f.rigs[0].follows(time.Hour)
	heard := make(chan string, 1)
	go func() {
		heard <- v.hears(t)
		v.close()
	}()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		f.rigs[0].end()
		f.rigs[0].port().goodbye()
	}()
	if got := <-heard; got != "end" {
		t.Errorf("heard %s", got)
	}
	w := f.rigs[1].mustBegin(ofFollower(mcp.MethodResume, handle))
	steps <- "p1"
	w.hear(t, "p1")
	steps <- "="
	w.hear(t, "=")
	w.close()
	<-stopped
	if n := f.raw.ToolCalls("t"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

// What was told and answered does not come again where its replica stops, nor does
// what waits for the client get lost or out of order; open questions keep their ids.
func TestToldAndAnsweredOutliveADrain(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, primed)
	v, handle, steps := f.rigs[0].follows(time.Hour)
	steps <- "p1"
	v.hear(t, "p1")
	steps <- "?a"
	v.hear(t, "?elicitation-1")
	f.rigs[0].play(answerOf(handle, posted("elicitation-1", "a", "A")))
	steps <- "p2"
	v.hear(t, "p2")
	v.nothing(t)
	v.leave()
	f.rigs[0].unfollowed(handle)
	steps <- "p3"
	steps <- "?b"
	eventually(t, "what waits", func() bool { return f.rigs[0].stands(handle) == "input_required 2" })
	awaitStop(t, f.drain(f.rigs[0], 10*time.Second))
	f.rigs[1].play(answerOf(handle, posted("elicitation-1", "a", "A"))) // it was taken
	w := f.rigs[1].mustBegin(ofFollower(mcp.MethodResume, handle))
	w.hear(t, "p3 ?elicitation-2")
	f.rigs[1].play(answerOf(handle, posted("elicitation-2", "b", "B")))
	steps <- "p4"
	steps <- "?c"
	w.hear(t, "p4 ?elicitation-3")
	f.rigs[1].play(answerOf(handle, posted("elicitation-3", "c", "C")))
	steps <- "="
	w.hear(t, "=C")
	w.close()
	if n := len(f.posted()); n != 3 {
		t.Errorf("the server was answered %d times", n)
	}
}

// A client at another replica hears on, and nothing twice, when the replica stops
// that has the call.
func TestFollowingThroughADrain(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3, primed)
	v, handle, steps := f.rigs[0].follows(time.Hour)
	v.nothing(t)
	v.leave()
	v = f.rigs[1].mustBegin(ofFollower(mcp.MethodResume, handle))
	steps <- "p1"
	v.hear(t, "p1")
	steps <- "?a"
	v.hear(t, "?elicitation-1")
	f.rigs[2].play(answerOf(handle, posted("elicitation-1", "a", "A")))
	steps <- "p2"
	v.hear(t, "p2")
	stopped := f.drain(f.rigs[0], 10*time.Second)
	v.nothing(t)
	steps <- "p3"
	v.hear(t, "p3")
	steps <- "="
	v.hear(t, "=A")
	v.close()
	awaitStop(t, stopped)
}

// A task's answered questions are not asked again, nor does an open one change its
// key, where its replica stops.
func TestAnsweredTaskOutlivesADrain(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, primed)
	ready, end := make(chan struct{}), make(chan struct{})
	f.raw.Tool("t", func(c *rawserver.Call) {
		<-ready
		a := c.Ask(mcp.MethodElicit, askFor("a")).Content("a")
		<-end
		c.Text(a + c.Ask(mcp.MethodElicit, askFor("b")).Content("b"))
	})
	begun := f.rigs[0].play(toolCall("t").with(func(q *query) { q.after, q.lasts = 300*time.Millisecond, time.Hour })).handle(t)
	close(ready)
	asked := f.rigs[0].until(begun, mcp.TaskInputRequired).Inputs[0].Key
	f.rigs[0].play(about(mcp.MethodTaskUpdate, begun).with(func(q *query) { q.responses = accept(asked, "a", "A") }))
	eventually(t, "the answer", func() bool { return len(f.posted()) == 1 })
	awaitStop(t, f.drain(f.rigs[0], 10*time.Second))
	if o := f.rigs[1].play(about(mcp.MethodTaskGet, begun)); o.Standing.Status != mcp.TaskWorking {
		t.Errorf("it is %v: %+v", o.Standing.Status, o.Inputs)
	}
	close(end)
	o := f.rigs[1].until(begun, mcp.TaskInputRequired)
	if o.Inputs[0].Key != "elicitation-2" {
		t.Errorf("asked %+v", o.Inputs)
	}
	f.rigs[1].play(about(mcp.MethodTaskUpdate, begun).with(func(q *query) { q.responses = accept(o.Inputs[0].Key, "b", "B") }))
	if got := f.rigs[1].until(begun, mcp.TaskCompleted).text(t); got != "AB" {
		t.Errorf("the result is %q", got)
	}
}

// An outcome whose client had gone when it was told is kept for its return, here and
// elsewhere.
func TestOutcomeThatMayNotHaveArrived(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	v, handle, steps := f.rigs[0].follows(time.Hour)
	v.nothing(t)
	steps <- "="
	v.hear(t, "=")
	v.leave()
	id := f.rigs[0].callOf(&Outcome{State: []byte(handle)})
	eventually(t, "the copy", func() bool { return f.rigs[1].calls.get(id) != nil })
	f.lose(f.rigs[0])
	w := f.rigs[1].mustBegin(ofFollower(mcp.MethodResume, handle))
	w.hear(t, "=")
	w.close()
}

// A call that was handed over is cancelled when its client has been away for maxWait.
func TestHandedOverFollowerStaysAway(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, primed)
	v, handle, _ := f.rigs[0].follows(time.Second)
	v.nothing(t)
	id := f.rigs[0].callOf(&Outcome{State: []byte(handle)})
	stopped := f.drain(f.rigs[0], 10*time.Second)
	v.hear(t, "end")
	v.close()
	awaitStop(t, stopped)
	if f.rigs[1].calls.records()[id] == nil {
		t.Error("the call was not handed over")
	}
	f.raw.WaitCount(mcp.NotifyCancelled, 1)
}

// The question that comes with the handle comes again to who goes on with the call;
// where the server has named no place before it, nobody waits for it in vain.
func TestFollowedQuestionOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	for name, prime := range map[string]bool{"after a place": true, "first of all": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReplicas(t, 2, func(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) { raw.Prime = prime })
			steps := make(chan string, 16)
			steps <- "?a"
			f.raw.Tool("t", stepwise(steps))
			v, handle := f.rigs[0].handleFirst(toolCall("t").followed(time.Hour))
			v.hear(t, "?elicitation-1")
			v.leave()
			f.lose(f.rigs[0])
			v = f.rigs[1].mustBegin(ofFollower(mcp.MethodResume, handle))
			if !prime {
				v.hear(t, "!call_lost")
				v.close()
				return
			}
			f.rigs[1].play(answerOf(handle, posted(v.hears(t)[1:], "a", "A")))
			steps <- "="
			v.hear(t, "=A")
			v.close()
		})
	}
}
