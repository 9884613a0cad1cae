package adapter

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A lasting call is looked at, answered, watched and cancelled at any replica.
func TestLastingCallAtAnotherReplica(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3)
	ready := make(chan struct{})
	f.raw.Tool("ask", func(c *rawserver.Call) {
		<-ready
		c.Text(c.Ask(mcp.MethodElicit, askFor("a")).Content("a"))
	})
	begun := f.rigs[0].play(toolCall("ask").lasting()).handle(t)
	if o := f.rigs[1].served(about(mcp.MethodTaskGet, begun), ServedForwarded); o.Standing.Status != mcp.TaskWorking {
		t.Errorf("stands %+v", o.Standing)
	}
	close(ready)
	o := f.rigs[1].until(begun, mcp.TaskInputRequired)
	f.rigs[2].play(about(mcp.MethodTaskUpdate, begun).with(func(q *query) { q.responses = accept(o.Inputs[0].Key, "a", "A") }))
	if got := f.rigs[2].until(begun, mcp.TaskCompleted).text(t); got != "A" {
		t.Errorf("got %q", got)
	}
	f.raw.Tool("slow", forever)
	begun = f.rigs[0].play(toolCall("slow").lasting()).handle(t)
	f.rigs[1].play(about(mcp.MethodTaskCancel, begun))
	var refusal *Refusal
	if o := f.rigs[2].until(begun, mcp.TaskCancelled); !errors.As(o.Standing.Failure, &refusal) || refusal.Detail != "the task was cancelled" {
		t.Errorf("cancelled with %v", o.Standing.Failure)
	}
}

// What a lasting call has come to outlives its owner.
func TestOutcomeOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3)
	release := held(f.raw, "works")
	f.raw.Tool("fails", func(c *rawserver.Call) { <-release; c.Error(-32000, "no", "") })
	f.raw.Tool("slow", forever)
	owner := f.rigs[0]
	works := owner.play(toolCall("works").lasting()).handle(t)
	fails := owner.play(toolCall("fails").lasting()).handle(t)
	cancelled := owner.play(toolCall("slow").lasting()).handle(t)
	close(release)
	owner.until(works, mcp.TaskCompleted)
	owner.until(fails, mcp.TaskFailed)
	owner.play(about(mcp.MethodTaskCancel, cancelled))
	for _, o := range []*Outcome{works, fails, cancelled} { // each has gone to one of the others
		id := owner.callOf(o)
		eventually(t, "the copy", func() bool { return f.rigs[1].calls.get(id) != nil || f.rigs[2].calls.get(id) != nil })
	}
	f.lose(owner)
	for _, r := range f.rigs[1:] {
		if got := r.play(about(mcp.MethodTaskGet, works)).text(t); got != "done" {
			t.Errorf("got %q", got)
		}
		if o := r.play(about(mcp.MethodTaskGet, fails)); o.Standing.Status != mcp.TaskFailed || string(o.Error) != `{"code":-32000,"message":"no"}` {
			t.Errorf("stands %+v, %s", o.Standing, o.Error)
		}
		if o := r.play(about(mcp.MethodTaskGet, cancelled)); o.Standing.Status != mcp.TaskCancelled {
			t.Errorf("stands %+v", o.Standing)
		}
		r.play(about(mcp.MethodTaskCancel, works))
	}
}

// A task of the server's outlives the replica that had it; its questions come
// again with keys that were not there before.
func TestLastingTaskOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, withTasks)
	f.raw.TaskTool("ask", 100, func(task *rawserver.Task) {
		task.Start(mcp.MethodElicit, askFor("a"))
		task.Forsaken()
		if task.Start(mcp.MethodElicit, askFor("a")).Wait().Content("a") == "A" {
			task.Text("done")
		}
	})
	begun := f.rigs[0].play(toolCall("ask").lasting()).handle(t)
	before := f.rigs[0].until(begun, mcp.TaskInputRequired)
	f.lose(f.rigs[0])
	o := f.rigs[1].until(begun, mcp.TaskInputRequired)
	if before.Inputs[0].Key == o.Inputs[0].Key {
		t.Errorf("asked under the key %q once more", o.Inputs[0].Key)
	}
	f.rigs[1].play(about(mcp.MethodTaskUpdate, begun).with(func(q *query) { q.responses = accept(o.Inputs[0].Key, "a", "A") }))
	if got := f.rigs[1].until(begun, mcp.TaskCompleted).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	if n := f.raw.ToolCalls("ask"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

// What the client can be asked it has said with the call: who looks after the call at
// another replica may declare less, or other things.
func TestTakenOverTaskAsksWhatItsClientDeclared(t *testing.T) {
	t.Parallel()
	const tasks = `"extensions":{"` + mcp.ExtensionTasks + `":{}}`
	for name, declared := range map[string]string{"nothing": `{` + tasks + `}`, "the same": `{"elicitation":{},` + tasks + `}`, "other": `{"elicitation":{"url":{}},"sampling":{},` + tasks + `}`} {
		f := newReplicas(t, 2, withTasks)
		f.raw.TaskTool("ask", 100, func(task *rawserver.Task) {
			task.Start(mcp.MethodElicit, askFor("a"))
			task.Forsaken()
			task.Text(task.Ask(mcp.MethodElicit, askFor("a")).Content("a"))
		})
		caps := func(raw string) func(*query) { return func(q *query) { q.caps = raw } }
		begun := f.rigs[0].play(toolCall("ask").lasting().with(caps(`{"elicitation":{},` + tasks + `}`))).handle(t)
		f.rigs[0].until(begun, mcp.TaskInputRequired)
		f.lose(f.rigs[0])
		f.rigs[1].play(about(mcp.MethodTaskGet, begun).with(caps(declared))) // which takes it over
		o := f.rigs[1].until(begun, mcp.TaskInputRequired)
		c := f.rigs[1].calls.get(f.rigs[1].callOf(begun))
		c.mu.Lock()
		if got := *c.caps(); got != (mcp.Capabilities{Raw: got.Raw, Form: true}) {
			t.Errorf("declared %s: the call has %+v", name, got)
		}
		c.mu.Unlock()
		f.rigs[1].play(about(mcp.MethodTaskUpdate, begun).with(func(q *query) { q.responses = accept(o.Inputs[0].Key, "a", "A") }))
		if got := f.rigs[1].until(begun, mcp.TaskCompleted).text(t); got != "A" {
			t.Errorf("declared %s: got %q", name, got)
		}
	}
}

// So does a call whose stream can go on.
func TestLastingStreamOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	release := make(chan struct{})
	f.raw.Tool("slow", func(c *rawserver.Call) {
		c.Progress(1, 2)
		<-release
		c.Text("done")
	})
	v := f.rigs[0].mustBegin(toolCall("slow").with(func(q *query) { q.after, q.lasts, q.token = time.Second, time.Hour, `"p"` }))
	begun, _, err := v.finish()
	if err != nil {
		t.Fatal(err)
	}
	begun.handle(t)
	f.lose(f.rigs[0])
	if o := f.rigs[1].play(about(mcp.MethodTaskGet, begun)); o.Standing.Status != mcp.TaskWorking {
		t.Errorf("stands %+v, %v", o.Standing, o.Standing.Failure)
	}
	close(release)
	if got := f.rigs[1].until(begun, mcp.TaskCompleted).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	if n := f.raw.ToolCalls("slow"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

// What nobody can go on with has failed, with the reason.
func TestLostLastingCallHasFailed(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, noEventIDs)
	f.raw.Tool("slow", forever)
	begun := f.rigs[0].play(toolCall("slow").lasting()).handle(t)
	f.lose(f.rigs[0])
	o := f.rigs[1].play(about(mcp.MethodTaskGet, begun)) // at once: it never works again
	var refusal *Refusal
	if !errors.As(o.Standing.Failure, &refusal) || refusal.Reason != ReasonCallLost || !refusal.MayHaveRun {
		t.Errorf("failed with %v", o.Standing.Failure)
	}
	if o := f.rigs[1].play(about(mcp.MethodTaskGet, begun)); o.Standing.Status != mcp.TaskFailed {
		t.Errorf("stands %+v", o.Standing)
	}
}

// A replica that stops leaves its lasting calls to the others.
func TestDrainLeavesLastingCalls(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, withTasks)
	release := make(chan struct{})
	f.raw.TaskTool("task", 100, func(task *rawserver.Task) { <-release; task.Text("done") })
	f.raw.Tool("plain", func(c *rawserver.Call) { c.Text("plain") })
	begun := f.rigs[0].play(toolCall("task").lasting()).handle(t)
	awaitStop(t, f.drain(f.rigs[0], 5*time.Second))
	if o := f.rigs[1].play(about(mcp.MethodTaskGet, begun)); o.Standing.Status != mcp.TaskWorking {
		t.Errorf("stands %+v, %v", o.Standing, o.Standing.Failure)
	}
	close(release)
	if got := f.rigs[1].until(begun, mcp.TaskCompleted).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	if got := f.raw.Cancelled(); len(got) != 0 {
		t.Errorf("the server was told that %s is cancelled", got)
	}
}

func TestSubscriptionHearsOfCallsElsewhere(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	release := held(f.raw, "slow")
	begun := f.rigs[0].play(toolCall("slow").lasting()).handle(t)
	v := f.rigs[1].mustBegin(query{method: mcp.MethodListen, params: `"notifications":{"taskIds":["` + string(begun.State) + `"]}`})
	defer v.close()
	ev, err := v.Next(time.Now().Add(10 * time.Second))
	if err != nil || !strings.Contains(string(ev.Notification), "taskIds") {
		t.Fatalf("acknowledged with %s, %v", ev.Notification, err)
	}
	for want := range 2 {
		ev, err := v.Next(time.Now().Add(10 * time.Second))
		if err != nil || ev.Standing == nil {
			t.Fatalf("heard %+v, %v", ev, err)
		}
		if got := ev.Standing.Standing.Status; want == 0 && got != mcp.TaskWorking || want == 1 && got != mcp.TaskCompleted {
			t.Errorf("heard of %v", got)
		}
		if want == 0 {
			close(release)
		}
	}
}

// callOf is the call that an outcome is of.
func (r *rig) callOf(o *Outcome) [16]byte {
	t, err := r.ring.Open(o.State, r.settings.MaxState)
	if err != nil {
		r.t.Fatal(err)
	}
	return t.Call
}

// What a replica that stops cannot leave to the others has failed, and they say
// so.
func TestDrainEndsLastingCalls(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, noEventIDs)
	f.raw.Tool("slow", forever)
	begun := f.rigs[0].play(toolCall("slow").lasting()).handle(t)
	awaitStop(t, f.drain(f.rigs[0], 2*time.Second))
	o := f.rigs[1].until(begun, mcp.TaskFailed)
	var refusal *Refusal
	if !errors.As(o.Standing.Failure, &refusal) || refusal.Reason != ReasonCallLost || refusal.RetryAfter != 0 {
		t.Errorf("failed with %v", o.Standing.Failure)
	}
	eventually(t, "the server to be told", func() bool { return len(f.raw.Cancelled()) == 1 })
}

// Neither does a key come again that the server hints.
func TestHintedKeyOfATaskComesOnce(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, withTasks)
	f.raw.TaskTool("ask", 100, func(task *rawserver.Task) {
		task.Ask(mcp.MethodElicit, hinted("name", "a"))
		task.Forsaken()
		task.Text(task.Ask(mcp.MethodElicit, hinted("name", "b")).Content("b"))
	})
	begun := f.rigs[0].play(toolCall("ask").lasting()).handle(t)
	o := f.rigs[0].until(begun, mcp.TaskInputRequired)
	if o.Inputs[0].Key != "name" {
		t.Errorf("asked under the key %q", o.Inputs[0].Key)
	}
	f.rigs[0].play(about(mcp.MethodTaskUpdate, begun).with(func(q *query) { q.responses = accept("name", "a", "A") }))
	eventually(t, "the answer", func() bool { return len(f.posted()) == 1 })
	f.lose(f.rigs[0])
	if o = f.rigs[1].until(begun, mcp.TaskInputRequired); o.Inputs[0].Key == "name" || !strings.HasPrefix(o.Inputs[0].Key, "name-") {
		t.Errorf("asked under the key %q", o.Inputs[0].Key)
	}
	f.rigs[1].play(about(mcp.MethodTaskUpdate, begun).with(func(q *query) { q.responses = accept(o.Inputs[0].Key, "b", "B") }))
	if got := f.rigs[1].until(begun, mcp.TaskCompleted).text(t); got != "B" {
		t.Errorf("got %q", got)
	}
}

// A client that is let go at once, or given a handle, waits for the server to say
// where the call's stream can be gone on with, for a moment.
func TestLetGoWaitsForThePlaceOfTheStream(t *testing.T) {
	r := newRig(t, primed)
	r.raw.Tool("slow", func(c *rawserver.Call) { <-c.Cancelled() })
	check := func(what string, o *Outcome) {
		t.Helper()
		if token, err := r.ring.Open(o.State, r.settings.MaxState); err != nil || token.Position.Event == "" {
			t.Errorf("%s has the position %+v (%v)", what, token.Position, err)
		}
	}
	begun := r.play(toolCall("slow").with(func(q *query) { q.after, q.lasts = time.Nanosecond, time.Hour })).handle(t)
	check("the handle", begun)
	r.play(about(mcp.MethodTaskCancel, begun))
	q := toolCall("slow").with(func(q *query) { q.hold = time.Nanosecond })
	o := r.play(q)
	check("the request state", o)
	v := r.mustBegin(q.retry(o, "").with(func(q *query) { q.hold = time.Hour }))
	v.leave()
}

// copied waits for the copy of what a lasting call has come to at another replica than
// the given one, and returns which that is, and which it is not.
func (f *replicas) copied(o *Outcome, from *rig, lost ...*rig) (has, other *rig) {
	f.t.Helper()
	id := from.callOf(o)
	eventually(f.t, "the copy", func() bool {
		has, other = nil, nil
		for _, r := range f.rigs {
			switch {
			case r == from || slices.Contains(lost, r):
			case r.calls.get(id) != nil:
				has = r
			default:
				other = r
			}
		}
		return has != nil
	})
	return has, other
}

// Of an outcome there are two while two replicas live: where one dies, whichever, the
// other makes a new copy.
func TestCopyIsRenewed(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 4, noEventIDs)
	release := held(f.raw, "works")
	owner := f.rigs[0]
	works := owner.play(toolCall("works").lasting()).handle(t)
	close(release)
	owner.until(works, mcp.TaskCompleted)
	first, _ := f.copied(works, owner)
	f.lose(first)
	second, _ := f.copied(works, owner, first)
	f.lose(owner)
	third, _ := f.copied(works, second, first, owner)
	f.lose(second)
	if got := third.until(works, mcp.TaskCompleted).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
}

// Replicas that stop give their outcomes away also where a call that cannot be let go
// takes all of their time.
func TestOutcomeOutlivesARollingRestart(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3, noEventIDs)
	release := held(f.raw, "works")
	f.raw.Tool("slow", forever)
	works := f.rigs[0].play(toolCall("works").lasting()).handle(t)
	close(release)
	f.rigs[0].until(works, mcp.TaskCompleted)
	has, other := f.copied(works, f.rigs[0])
	for _, r := range []*rig{f.rigs[0], has} {
		r.play(toolCall("slow").lasting()).handle(t)
		awaitStop(t, f.drain(r, 2*time.Second))
	}
	if got := other.until(works, mcp.TaskCompleted).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
}

// What its owner no longer keeps is told from the copy, wherever it is asked for.
func TestOutcomeThatItsOwnerHasLost(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3, noEventIDs)
	release := held(f.raw, "works")
	owner := f.rigs[0]
	works := owner.play(toolCall("works").lasting()).handle(t)
	close(release)
	owner.until(works, mcp.TaskCompleted)
	has, _ := f.copied(works, owner)
	id := owner.callOf(works)
	owner.calls.forget(owner.calls.get(id)) // as calls.max_outcome_bytes has it
	for i, r := range f.rigs {
		if o := r.play(about(mcp.MethodTaskGet, works)); o.Standing.Status != mcp.TaskCompleted {
			t.Errorf("replica %d: %v, %v", i, o.Standing.Status, o.Standing.Failure)
		}
	}
	has.calls.forget(has.calls.get(id))
	for i, r := range f.rigs {
		if o := r.play(about(mcp.MethodTaskGet, works)); o.Standing.Status != mcp.TaskFailed {
			t.Errorf("replica %d: %v", i, o.Standing.Status)
		}
	}
	if n := f.raw.ToolCalls("works"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

// A replica that stops answers what is about a lasting call elsewhere with an error:
// no outcome of the kind has a request state.
func TestStoppingReplicaLetsGoOfRoundsAboutLastingCalls(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	f.raw.Tool("slow", forever)
	begun := f.rigs[0].play(toolCall("slow").lasting()).handle(t)
	v := f.rigs[1].mustBegin(about(mcp.MethodTaskResult, begun))
	stopped := f.drain(f.rigs[1], 4*time.Second)
	var refusal *Refusal
	if ev, err := v.Next(time.Now().Add(20 * time.Second)); !errors.As(err, &refusal) || refusal.Reason != ReasonShutdown || refusal.RetryAfter == 0 {
		t.Errorf("got %+v, %v", ev.Outcome, err)
	}
	v.close()
	awaitStop(t, stopped)
	for _, method := range []string{mcp.MethodTaskGet, mcp.MethodTaskUpdate, mcp.MethodTaskCancel, mcp.MethodStatus, mcp.MethodAnswer, mcp.MethodCancel} {
		r := &forwardRound{req: &Request{Method: method, RequestState: begun.State}}
		if ev, err := r.letGo(); !errors.As(err, &refusal) || ev.Outcome != nil {
			t.Errorf("%s: got %+v, %v", method, ev.Outcome, err)
		}
	}
}

// Where the owner dies in the moment after its call has ended, before anybody has a
// copy of what the client was told, the task has failed: it says so until its time is
// over, wherever it is asked for, and never that there is no such task.
func TestOutcomeWhoseOwnerDiesAtOnce(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3, noEventIDs)
	release := make(chan struct{})
	f.raw.Tool("works", func(c *rawserver.Call) { <-release; c.Text("done") })
	owner := f.rigs[0]
	const ttl = 2 * time.Second
	begun := owner.play(toolCall("works").with(func(q *query) { q.after, q.lasts = time.Millisecond, ttl })).handle(t)
	born := begun.Standing.Born
	owner.port().unplug() // so that no copy goes out
	close(release)
	owner.until(begun, mcp.TaskCompleted)
	f.die(owner)
	f.giveUp()
	over := map[*rig]bool{}
	look := time.NewTicker(20 * time.Millisecond) // nothing happens when a handle expires, in whole seconds
	defer look.Stop()
	for n := 0; len(over) < 2; n++ {
		if <-look.C; time.Since(born) > ttl+20*time.Second {
			t.Fatal("the handle has not expired")
		}
		for _, r := range f.rigs[1:] {
			v, err := r.begin(about(mcp.MethodTaskGet, begun))
			var o *Outcome
			if err == nil {
				o, _, err = v.finish()
			}
			var refusal *Refusal
			switch {
			case err == nil && o.Standing.Status == mcp.TaskFailed && !over[r]:
				if !errors.As(o.Standing.Failure, &refusal) || refusal.Reason != ReasonCallLost && refusal.Reason != ReasonStateExpired || !refusal.MayHaveRun {
					t.Fatalf("failed with %v", o.Standing.Failure)
				}
			case errors.As(err, &refusal) && refusal.Reason == ReasonStateExpired && n > 0 && time.Since(born) >= ttl:
				over[r] = true
			default:
				t.Fatalf("after %v the task is %+v, %v", time.Since(born), o, err)
			}
		}
	}
	if n := f.raw.ToolCalls("works"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

// Answers come in parts, and each part may come twice, also by another replica and
// with another answer: the first one counts.
func TestPartOfAnswersComesTwice(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	ready := make(chan struct{})
	f.raw.Tool("ask", func(c *rawserver.Call) {
		<-ready
		a, b := c.Start(mcp.MethodElicit, askFor("a")), c.Start(mcp.MethodElicit, askFor("b"))
		first := a.Wait().Content("a")
		c.Text(first + b.Wait().Content("b") + c.Ask(mcp.MethodElicit, askFor("c")).Content("c"))
	})
	begun := f.rigs[0].play(toolCall("ask").lasting()).handle(t)
	close(ready)
	var o *Outcome
	for o = f.rigs[0].until(begun, mcp.TaskInputRequired); len(o.Inputs) < 2; o = f.rigs[0].play(about(mcp.MethodTaskGet, begun)) {
	}
	keys := map[string]string{}
	for _, in := range o.Inputs {
		for _, name := range []string{"a", "b"} {
			if strings.Contains(string(in.Params), `"`+name+`"`) {
				keys[name] = in.Key
			}
		}
	}
	part := func(at int, name, value string) {
		t.Helper()
		o := f.rigs[at].play(about(mcp.MethodTaskUpdate, begun).with(func(q *query) { q.responses = accept(keys[name], name, value) }))
		if string(o.Result) != "{}" {
			t.Errorf("acknowledged with %s", o.Result)
		}
	}
	for at := range 2 {
		part(at, "a", "A-"[at:at+1])
		if o := f.rigs[at].play(about(mcp.MethodTaskGet, begun)); o.Standing.Status != mcp.TaskInputRequired || len(o.Inputs) != 1 || o.Inputs[0].Key != keys["b"] {
			t.Fatalf("stands %v, and asks %+v", o.Standing.Status, o.Inputs)
		}
	}
	part(1, "b", "B")
	part(0, "b", "-")
	part(1, "a", "-")
	for o = f.rigs[0].until(begun, mcp.TaskInputRequired); !strings.Contains(string(o.Inputs[0].Params), `"c"`); o = f.rigs[0].until(begun, mcp.TaskInputRequired) {
	}
	part(0, "b", "-") // while something else is asked
	keys["c"] = o.Inputs[0].Key
	part(0, "c", "C")
	part(1, "c", "-")
	if got := f.rigs[1].until(begun, mcp.TaskCompleted).text(t); got != "ABC" {
		t.Errorf("got %q", got)
	}
	part(0, "c", "-") // and when all is over
	if got := f.posted(); len(got) != 3 {
		t.Errorf("the server was answered %v", got)
	}
}
