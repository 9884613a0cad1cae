package adapter

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// lasting is the query of a client that takes a handle for an answer, at once.
func (q query) lasting() query {
	return q.with(func(q *query) { q.after, q.lasts = time.Millisecond, time.Hour })
}

// forever is a tool that has no result.
func forever(c *rawserver.Call) { <-c.Context().Done() }

// held declares a tool that is done when the channel is closed.
func held(raw *rawserver.Server, tool string) (release chan struct{}) {
	release = make(chan struct{})
	raw.Tool(tool, func(c *rawserver.Call) { <-release; c.Text("done") })
	return release
}

// about is a query about the call that an outcome gave the handle of.
func about(method string, o *Outcome) query { return query{method: method, state: string(o.State)} }

// handle checks that a call lasts.
func (o *Outcome) handle(t *testing.T) *Outcome {
	t.Helper()
	if o.Standing == nil || o.Standing.Status != mcp.TaskWorking || string(o.State) != string(o.Standing.Handle) || len(o.State) == 0 || len(o.State) > maxHandle {
		t.Fatalf("the call does not last: %+v", o)
	}
	return o
}

// until looks at a call until it stands so.
func (r *rig) until(o *Outcome, want mcp.TaskStatus) *Outcome {
	r.t.Helper()
	v := r.mustBegin(about(methodWatch, o))
	defer v.close()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		ev, err := v.Next(end)
		switch {
		case err != nil:
			r.t.Fatal(err)
		case ev.Standing != nil && ev.Standing.Standing.Status == want:
			return ev.Standing.clone()
		case ev.Standing != nil && ev.Standing.Standing.Status.Ended():
			r.t.Fatalf("the call is %v, not %v: %s, %v", ev.Standing.Standing.Status, want, ev.Standing.Error, ev.Standing.Standing.Failure)
		case ev.Outcome != nil:
			r.t.Fatalf("the call ended: %+v", ev.Outcome)
		}
	}
	r.t.Fatalf("the call did not come to be %v", want)
	return nil
}

func TestCallLasts(t *testing.T) {
	r := newRig(t)
	release := held(r.raw, "slow")
	begun := r.play(toolCall("slow").lasting()).handle(t)
	if got := r.play(about(mcp.MethodTaskGet, begun)); got.Standing.Status != mcp.TaskWorking || got.State != nil || string(got.Standing.Handle) != string(begun.State) {
		t.Errorf("stands %+v", got.Standing)
	}
	close(release)
	if got := r.until(begun, mcp.TaskCompleted).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	for range 2 { // it is kept
		if got := r.play(about(mcp.MethodTaskGet, begun)).text(t); got != "done" {
			t.Errorf("got %q", got)
		}
	}
	if n := r.raw.Count(mcp.NotifyCancelled); n != 0 {
		t.Errorf("%d cancellations", n)
	}
}

// A client that has its answer in time is given it, and one that takes no handle
// waits.
func TestCallDoesNotLast(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("fast", func(c *rawserver.Call) { c.Text("fast") })
	if got := r.play(toolCall("fast").with(func(q *query) { q.after, q.lasts = time.Hour, time.Hour })).text(t); got != "fast" {
		t.Errorf("got %q", got)
	}
	r.raw.Handle("resources/read", func(c *rawserver.Call) { c.Result(`{"contents":[]}`) })
	if got := r.play(query{method: mcp.MethodResourcesRead, params: `"uri":"a:b"`}.lasting()); got.Standing != nil {
		t.Errorf("a resource came as %+v", got.Standing)
	}
}

// A call that asks before it lasts asks its client at once, and lasts then.
func TestCallAsksBeforeItLasts(t *testing.T) {
	r := newRig(t)
	release := make(chan struct{})
	r.raw.Tool("ask", func(c *rawserver.Call) {
		name := c.Ask(mcp.MethodElicit, askFor("name")).Content("name")
		<-release
		c.Text(name)
	})
	q := toolCall("ask").with(func(q *query) { q.after, q.lasts = 100*time.Millisecond, time.Hour })
	first := r.play(q)
	if got := first.asked(t); got != "elicitation-1" || first.Standing != nil {
		t.Fatalf("asked %q, %+v", got, first.Standing)
	}
	begun := r.play(q.retry(first, accept("elicitation-1", "name", "Ada"))).handle(t)
	again := r.play(q.retry(first, accept("elicitation-1", "name", "Ada"))).handle(t)
	if string(again.State) != string(begun.State) {
		t.Error("the retry that came twice has another handle")
	}
	close(release)
	if got := r.until(begun, mcp.TaskCompleted).text(t); got != "Ada" {
		t.Errorf("got %q", got)
	}
}

func TestLastingCallAsks(t *testing.T) {
	for name, change := range map[string]change{"plain": func(*Settings, *legacy.Settings, *rawserver.Settings) {}, "task": withTasks} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, change)
			ready := make(chan struct{})
			if name == "task" {
				r.raw.TaskTool("ask", 100, func(task *rawserver.Task) {
					task.Status("input_required", false)
					a, b := task.Start(mcp.MethodElicit, askFor("a")), task.Start(mcp.MethodElicit, askFor("b"))
					task.Text(a.Wait().Content("a") + b.Wait().Content("b") + task.Ask(mcp.MethodElicit, askFor("c")).Content("c"))
				})
				close(ready)
			} else {
				r.raw.Tool("ask", func(c *rawserver.Call) {
					<-ready
					a, b := c.Start(mcp.MethodElicit, askFor("a")), c.Start(mcp.MethodElicit, askFor("b"))
					c.Text(a.Wait().Content("a") + b.Wait().Content("b") + c.Ask(mcp.MethodElicit, askFor("c")).Content("c"))
				})
			}
			begun := r.play(toolCall("ask").lasting()).handle(t)
			if name == "plain" {
				close(ready)
			}
			var o *Outcome
			for o = r.until(begun, mcp.TaskInputRequired); len(o.Inputs) < 2; o = r.play(about(mcp.MethodTaskGet, begun)) {
			}
			// One answer does not fit, the other does, a third is for nobody.
			keys := map[string]string{}
			for _, in := range o.Inputs {
				for _, name := range []string{"a", "b"} {
					if strings.Contains(string(in.Params), `"`+name+`"`) {
						keys[name] = in.Key
					}
				}
			}
			update := about(mcp.MethodTaskUpdate, begun)
			update.responses = `{"` + keys["a"] + `":{"action":"accept","content":{"a":7}},"` + keys["b"] + `":{"action":"accept","content":{"b":"B"}},"no":{}}`
			if got := r.play(update); string(got.Result) != "{}" || got.Standing == nil || string(got.Standing.Handle) != string(begun.State) {
				t.Errorf("acknowledged with %+v", got)
			}
			o = r.play(about(mcp.MethodTaskGet, begun))
			if len(o.Inputs) != 1 || o.Inputs[0].Key == keys["a"] || o.Inputs[0].Key == keys["b"] {
				t.Fatalf("asked %+v after %v", o.Inputs, keys)
			}
			update.responses = accept(o.Inputs[0].Key, "a", "A")
			r.play(update)
			for o = r.until(begun, mcp.TaskInputRequired); !strings.Contains(string(o.Inputs[0].Params), `"c"`); o = r.until(begun, mcp.TaskInputRequired) {
			}
			update.responses = accept(o.Inputs[0].Key, "c", "C")
			r.play(update)
			if got := r.until(begun, mcp.TaskCompleted).text(t); got != "ABC" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestLastingCallIsCancelled(t *testing.T) {
	for name, change := range map[string]change{"plain": func(*Settings, *legacy.Settings, *rawserver.Settings) {}, "task": withTasks} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, change)
			arrived, told := make(chan struct{}), make(chan struct{})
			if name == "task" {
				r.raw.TaskTool("slow", 100, func(task *rawserver.Task) { close(arrived); task.AwaitCancel(); close(told) })
			} else {
				r.raw.Tool("slow", func(c *rawserver.Call) { close(arrived); <-c.Context().Done(); close(told) })
			}
			begun := r.play(toolCall("slow").lasting()).handle(t)
			<-arrived
			for range 2 {
				if got := r.play(about(mcp.MethodTaskCancel, begun)); string(got.Result) != "{}" {
					t.Errorf("acknowledged with %+v", got)
				}
			}
			r.until(begun, mcp.TaskCancelled)
			<-told
		})
	}
}

func TestLastingCallFails(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.Timeout = 2 * handleSoon })
	release := make(chan struct{})
	r.raw.Tool("fails", func(c *rawserver.Call) { <-release; c.Error(-32000, "no", "") })
	r.raw.Tool("silent", forever)
	begun := r.play(toolCall("fails").lasting()).handle(t)
	close(release)
	if o := r.until(begun, mcp.TaskFailed); string(o.Error) != `{"code":-32000,"message":"no"}` || o.Standing.Failure != nil {
		t.Errorf("failed with %s, %v", o.Error, o.Standing.Failure)
	}
	begun = r.play(toolCall("silent").lasting()).handle(t)
	var refusal *Refusal
	if o := r.until(begun, mcp.TaskFailed); !errors.As(o.Standing.Failure, &refusal) || refusal.Reason != ReasonCallTimeout {
		t.Errorf("failed with %s, %v", o.Error, o.Standing.Failure)
	}
}

// The time of a lasting call is over: the server is told, and the client no more.
func TestLastingCallExpires(t *testing.T) {
	r := newRig(t)
	told := make(chan struct{})
	r.raw.Tool("slow", func(c *rawserver.Call) { <-c.Context().Done(); close(told) })
	begun := r.play(toolCall("slow").with(func(q *query) { q.after, q.lasts = time.Millisecond, 300*time.Millisecond })).handle(t)
	<-told
	if o := r.until(begun, mcp.TaskFailed); o.Standing.Failure == nil {
		t.Errorf("ended as %+v", o.Standing)
	}
	for end := time.Now().Add(10 * time.Second); ; {
		v, err := r.begin(about(mcp.MethodTaskGet, begun))
		var refusal *Refusal
		if errors.As(err, &refusal) && refusal.Reason == ReasonStateExpired {
			break
		}
		if err == nil {
			v.close()
		}
		if time.Now().After(end) {
			t.Fatalf("the handle has not expired: %v", err)
		}
	}
}

func TestHandleOfAnother(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("slow", forever)
	r.raw.Tool("ask", func(c *rawserver.Call) { c.Ask(mcp.MethodElicit, askFor("a")) })
	begun := r.play(toolCall("slow").lasting().with(func(q *query) { q.auth = "Bearer a" })).handle(t)
	parked := r.play(toolCall("ask"))
	r.refused(about(mcp.MethodTaskGet, begun), ReasonStateForeign)
	r.refused(about(mcp.MethodTaskGet, parked), ReasonStateInvalid)
	r.refused(toolCall("slow").retry(begun, "{}").with(func(q *query) { q.auth = "Bearer a" }), ReasonStateInvalid)
	r.refused(query{method: mcp.MethodTaskCancel, state: "nonsense"}, ReasonStateInvalid)
	r.play(about(mcp.MethodTaskCancel, begun).with(func(q *query) { q.auth = "Bearer a" }))
}

// A call lasts no longer than there is room for: then its client waits.
func TestTooManyLastingCalls(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxLastingPerPrincipal = 1 })
	r.raw.Tool("slow", forever)
	release := held(r.raw, "wait")
	begun := r.play(toolCall("slow").lasting()).handle(t)
	v := r.mustBegin(toolCall("wait").lasting())
	if ev, err := v.Next(time.Now().Add(100 * time.Millisecond)); !errors.Is(err, ErrDeadline) {
		t.Errorf("got %+v, %v", ev, err)
	}
	close(release)
	if o, _, err := v.finish(); err != nil || o.text(t) != "done" {
		t.Errorf("got %v, %v", o, err)
	}
	r.play(about(mcp.MethodTaskCancel, begun))
}

// A stream that breaks under a lasting call takes nobody's retry to be mended.
func TestLastingCallRunsAgain(t *testing.T) {
	r := newRig(t, noEventIDs)
	times := make(chan *rawserver.Call, 4)
	release := make(chan struct{})
	r.raw.Declare("safe", `{"name":"safe","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, func(c *rawserver.Call) {
		times <- c
		<-release
		c.Text("done")
	})
	begun := r.play(toolCall("safe").lasting()).handle(t)
	first := <-times
	first.Cut()
	<-times
	close(release)
	if got := r.until(begun, mcp.TaskCompleted).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
}

// An answer that the server refuses to take is asked for again, under another
// key.
func TestLastingCallKeepsWhatWasNotTaken(t *testing.T) {
	r := newRig(t)
	ready := make(chan struct{})
	r.raw.Tool("ask", func(c *rawserver.Call) {
		<-ready
		c.Text(c.Ask(mcp.MethodElicit, askFor("a")).Content("a"))
	})
	begun := r.play(toolCall("ask").lasting()).handle(t)
	var refused atomic.Bool
	r.raw.Hook(func(x *rawserver.Exchange) bool {
		answers := len(x.Record.Messages) == 1 && x.Record.Messages[0].Method == "" && refused.CompareAndSwap(false, true)
		if answers {
			x.Reply(401, "")
		}
		return answers
	})
	close(ready)
	first := r.until(begun, mcp.TaskInputRequired)
	update := about(mcp.MethodTaskUpdate, begun)
	r.play(update.with(func(q *query) { q.responses = accept(first.Inputs[0].Key, "a", "A") }))
	var again *Outcome
	eventually(t, "the question", func() bool {
		again = r.play(about(mcp.MethodTaskGet, begun))
		return len(again.Inputs) == 1 && refused.Load()
	})
	if again.Inputs[0].Key == first.Inputs[0].Key {
		t.Errorf("asked again under the key %q", again.Inputs[0].Key)
	}
	r.play(update.with(func(q *query) { q.responses = accept(again.Inputs[0].Key, "a", "B") }))
	if got := r.until(begun, mcp.TaskCompleted).text(t); got != "B" {
		t.Errorf("got %q", got)
	}
}

// A client that is told to come back (calls.max_hold) before it is told the handle
// waits no longer for that than one whose request is held.
func TestCallLastsAlthoughItsClientIsLetGo(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxHold = 50 * time.Millisecond })
	answered, release := make(chan struct{}), make(chan struct{})
	r.raw.Tool("slow", func(c *rawserver.Call) {
		<-answered
		a := c.Ask(mcp.MethodElicit, askFor("a")).Content("a")
		<-release
		c.Text(a)
	})
	const after = time.Second
	q := toolCall("slow").with(func(q *query) { q.after, q.lasts = after, time.Hour })
	o := r.play(q)
	if o.Standing != nil || len(o.Inputs) > 0 {
		t.Fatalf("was not told to come back: %+v", o)
	}
	close(answered)
	for len(o.Inputs) == 0 && o.Standing == nil {
		o = r.play(q.retry(o, ""))
	}
	o.asked(t)
	begun := time.Now()
	for responses := accept("elicitation-1", "a", "A"); o.Standing == nil; responses = "" {
		if o = r.play(q.retry(o, responses)); time.Since(begun) > 5*time.Second {
			close(release)
			t.Fatal("no handle comes")
		}
	}
	if took := time.Since(begun); took < after { // the time before the question does not count
		t.Errorf("the handle came after %v", took)
	}
	close(release)
	if got := r.until(o.handle(t), mcp.TaskCompleted).text(t); got != "A" {
		t.Errorf("got %q", got)
	}
}

// The time of a lasting call may be over while it asks.
func TestLastingCallExpiresWithAQuestion(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.ParkTTL = time.Hour })
	ready := make(chan struct{})
	r.raw.Tool("ask", func(c *rawserver.Call) { <-ready; c.Ask(mcp.MethodElicit, askFor("a")) })
	begun := r.play(toolCall("ask").with(func(q *query) { q.after, q.lasts = time.Millisecond, 1500*time.Millisecond })).handle(t)
	close(ready)
	r.until(begun, mcp.TaskInputRequired)
	var refusal *Refusal
	if o := r.until(begun, mcp.TaskFailed); !errors.As(o.Standing.Failure, &refusal) || refusal.Reason != ReasonStateExpired || !refusal.MayHaveRun || strings.Contains(refusal.Detail, "park_ttl") {
		t.Errorf("failed with %v", o.Standing.Failure)
	}
}

// With the call all answers end that are on their way, not only the last.
func TestLastingCallEndsWithAnswersOnTheirWay(t *testing.T) {
	r := newRig(t, func(_ *Settings, l *legacy.Settings, _ *rawserver.Settings) { l.PostTimeout = time.Minute })
	ready, gate := make(chan struct{}), make(chan struct{})
	r.raw.Tool("ask", func(c *rawserver.Call) {
		<-ready
		c.Start(mcp.MethodElicit, askFor("a"))
		c.Start(mcp.MethodElicit, askFor("b"))
		<-c.Context().Done()
	})
	r.raw.Hook(func(x *rawserver.Exchange) bool {
		if len(x.Record.Messages) == 1 && x.Record.Messages[0].Method == "" && x.Record.Messages[0].ID != nil {
			x.Hold(gate)
		}
		return false
	})
	defer close(gate)
	begun := r.play(toolCall("ask").lasting()).handle(t)
	close(ready)
	var o *Outcome
	for o = r.until(begun, mcp.TaskInputRequired); len(o.Inputs) < 2; o = r.play(about(mcp.MethodTaskGet, begun)) {
	}
	c := r.calls.get(r.callOf(begun))
	posting := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.posting
	}
	for i, in := range o.Inputs {
		name := string(rune('a' + i))
		r.play(about(mcp.MethodTaskUpdate, begun).with(func(q *query) { q.responses = accept(in.Key, name, "x") }))
	}
	if got := posting(); got != 2 {
		t.Fatalf("%d answers are on their way", got)
	}
	r.play(about(mcp.MethodTaskCancel, begun))
	eventually(t, "the end of both", func() bool { return posting() == 0 })
}
