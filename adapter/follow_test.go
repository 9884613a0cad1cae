package adapter

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

func TestFollowing(t *testing.T) {
	r := newRig(t)
	v, handle, steps := r.follows(time.Hour)
	steps <- "p1"
	v.hear(t, "p1")
	steps <- "?a"
	v.hear(t, "?elicitation-1")
	if got := r.stands(handle); got != "input_required 0" {
		t.Errorf("stands %s", got)
	}
	r.play(answerOf(handle, posted("elicitation-1", "a", "A")))
	steps <- "p2"
	v.hear(t, "p2")
	steps <- "="
	v.hear(t, "=A")
	v.close()
	if got := r.stands(handle); got != "completed 0" {
		t.Errorf("stands %s", got)
	}
	for range 2 { // the outcome may be asked for again
		v := r.mustBegin(ofFollower(mcp.MethodResume, handle))
		v.hear(t, "=A")
		v.close()
	}
	r.play(answerOf(handle, posted("elicitation-1", "a", "A"))) // it has been taken
}

// Who is quick is answered at once: there is nothing to come back for.
func TestQuickCallIsNotFollowed(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("t", func(c *rawserver.Call) { c.Progress(1, 2); c.Text("done") })
	v := r.mustBegin(toolCall("t").followed(time.Hour).with(func(q *query) { q.token = "" }))
	v.hear(t, "=done")
	v.close()
}

// What the client has not been told is told once, and in order.
func TestFollowerComesBack(t *testing.T) {
	r := newRig(t)
	v, handle, steps := r.follows(time.Hour)
	steps <- "p1"
	v.hear(t, "p1")
	ask := func() { // so that p1 is known to be told
		if _, err := v.Next(time.Now().Add(time.Millisecond)); !errors.Is(err, ErrDeadline) {
			t.Fatal(err)
		}
	}
	ask()
	v.leave()
	for _, step := range []string{"p2", "p3", "?a"} {
		steps <- step
	}
	eventually(t, "the question", func() bool { return r.stands(handle) == "input_required 3" })
	v = r.mustBegin(ofFollower(mcp.MethodResume, handle))
	v.hear(t, "p2 p3")
	v.Gone() // p3 may not have gone out
	v.close()
	v = r.mustBegin(ofFollower(mcp.MethodResume, handle))
	v.hear(t, "p3 ?elicitation-1")
	ask()
	v.close()
	v = r.mustBegin(ofFollower(mcp.MethodResume, handle))
	v.hear(t, "?elicitation-1") // until it is answered
	r.play(answerOf(handle, posted("elicitation-1", "a", "A")))
	r.play(answerOf(handle, posted("elicitation-1", "a", "B"))) // twice: the first counts
	v.close()
	steps <- "="
	eventually(t, "the end", func() bool { return r.stands(handle) == "completed 0" })
	v = r.mustBegin(ofFollower(mcp.MethodResume, handle))
	v.hear(t, "=A")
	v.close()
	if n := r.raw.ToolCalls("t"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

// More than is kept is told as a gap.
func TestFollowerIsToldOfOverflow(t *testing.T) {
	for name, test := range map[string]struct {
		change change
		want   string
	}{
		"by number": {func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxUndelivered = 2 }, "-3 p4 p5 ?elicitation-1"},
		"by bytes":  {func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxUndeliveredBytes = 1 }, "-5 ?elicitation-1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, test.change)
			v, handle, steps := r.follows(time.Hour)
			if _, err := v.Next(time.Now().Add(time.Millisecond)); !errors.Is(err, ErrDeadline) {
				t.Fatal(err)
			}
			v.close()
			for _, step := range []string{"p1", "p2", "p3", "p4", "p5", "?a"} {
				steps <- step
			}
			eventually(t, "the question", func() bool { return r.stands(handle) == "input_required 6" })
			v = r.mustBegin(ofFollower(mcp.MethodResume, handle))
			v.hear(t, test.want)
			r.play(ofFollower(mcp.MethodCancel, handle))
			v.hear(t, "end")
			v.close()
		})
	}
}

// One round follows: the newest.
func TestNewestFollows(t *testing.T) {
	r := newRig(t)
	first, handle, steps := r.follows(time.Hour)
	steps <- "p1"
	first.hear(t, "p1") // and hangs: nobody knows whether that has arrived
	second := r.mustBegin(ofFollower(mcp.MethodResume, handle))
	second.hear(t, "p1")
	first.hear(t, "end")
	first.close()
	third := r.mustBegin(ofFollower(mcp.MethodResume, handle))
	second.leave()
	steps <- "="
	third.hear(t, "p1 =")
	third.close()
}

// A client that does not come back in time has its call cancelled; a word of it is
// enough to wait longer.
func TestFollowerStaysAway(t *testing.T) {
	r := newRig(t)
	v, handle, _ := r.follows(time.Second)
	if _, err := v.Next(time.Now().Add(1200 * time.Millisecond)); !errors.Is(err, ErrDeadline) { // while it is here, nothing ends
		t.Fatal(err)
	}
	v.close()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for range 5 {
		<-tick.C
		if got := r.stands(handle); got != "working 0" {
			t.Fatalf("stands %s", got)
		}
	}
	r.raw.WaitCount(mcp.NotifyCancelled, 1)
	if got := r.stands(handle); got != "failed 0" {
		t.Errorf("stands %s", got)
	}
	if r.refused(ofFollower(mcp.MethodResume, handle), ReasonStateExpired).MayHaveRun != true {
		t.Error("the call has run")
	}
}

// A question ends with its call, and the server is told.
func TestFollowerStaysAwayFromAQuestion(t *testing.T) {
	r := newRig(t)
	answered := make(chan string, 1)
	r.raw.Tool("t", func(c *rawserver.Call) {
		answered <- string(c.Ask(mcp.MethodElicit, askFor("a")).Result)
	})
	v, handle := r.handleFirst(toolCall("t").followed(time.Second))
	v.hear(t, "?elicitation-1")
	v.close()
	if got := <-answered; got != `{"action":"cancel"}` {
		t.Errorf("the server was answered %s", got)
	}
	eventually(t, "the end", func() bool { return r.stands(handle) == "failed 0" })
}

// Before the client has its handle it has nothing to come back with.
func TestFollowerLeavesTooSoon(t *testing.T) {
	r := newRig(t)
	begun := make(chan struct{})
	r.raw.Tool("t", func(c *rawserver.Call) { close(begun); <-c.Cancelled() })
	v := r.mustBegin(toolCall("t").followed(time.Hour))
	<-begun
	v.leave()
	r.raw.WaitCount(mcp.NotifyCancelled, 1)
}

// A client that comes with its handle has it, even where it left before that was
// known to be told: it is not told it again, nor taken for one that has nothing to
// come back with when its next connection breaks as well.
func TestFollowerLeavesAtOnce(t *testing.T) {
	for name, between := range map[string]func(r *rig, handle string){
		"and loses its next connection": func(r *rig, handle string) {
			v := r.mustBegin(ofFollower(mcp.MethodResume, handle))
			v.leave()
		},
		"and asks how it stands": func(r *rig, handle string) {
			if got := r.stands(handle); got != "working 0" {
				r.t.Errorf("stands %s", got)
			}
		},
		"and comes back": func(*rig, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			v, handle, steps := r.follows(time.Hour)
			v.leave()
			between(r, handle)
			v = r.mustBegin(ofFollower(mcp.MethodResume, handle))
			steps <- "?a"
			v.hear(t, "?elicitation-1")
			r.play(answerOf(handle, posted("elicitation-1", "a", "A")))
			steps <- "="
			v.hear(t, "=A")
			v.close()
			if n := r.raw.Count(mcp.NotifyCancelled); n != 0 {
				t.Errorf("the server was told %d times that the call is cancelled", n)
			}
		})
	}
}

// So does a stream that hangs, and ends when a newer one is there already.
func TestHandleIsNotHandedInTwice(t *testing.T) {
	r := newRig(t)
	first, handle, steps := r.follows(time.Hour)
	second := r.mustBegin(ofFollower(mcp.MethodResume, handle))
	first.leave()
	steps <- "p1"
	second.hear(t, "p1")
	r.play(ofFollower(mcp.MethodCancel, handle))
	second.close()
}

func TestFollowerCancels(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("t", func(c *rawserver.Call) { <-c.Cancelled() })
	v, handle := r.handleFirst(toolCall("t").followed(time.Hour))
	for range 2 { // it may come twice
		r.play(ofFollower(mcp.MethodCancel, handle))
	}
	v.hear(t, "end")
	v.close()
	r.raw.WaitCount(mcp.NotifyCancelled, 1)
	if got := r.stands(handle); got != "cancelled 0" {
		t.Errorf("stands %s", got)
	}
	v = r.mustBegin(ofFollower(mcp.MethodResume, handle)) // it comes too late, and is told so
	v.hear(t, "!"+string(ReasonCallLost))
	v.close()
}

// A handle is good for its caller, its request and its dialect only.
func TestHandleOfAFollower(t *testing.T) {
	r := newRig(t)
	steps := make(chan string, 16)
	r.raw.Tool("t", stepwise(steps))
	r.raw.Tool("slow", func(c *rawserver.Call) { <-c.Cancelled() })
	v, handle := r.handleFirst(toolCall("t").followed(time.Hour))
	task := r.play(toolCall("slow").lasting()).handle(t)
	for _, method := range []string{mcp.MethodResume, mcp.MethodStatus, mcp.MethodCancel, mcp.MethodAnswer} {
		q := ofFollower(method, handle).with(func(q *query) { q.responses, q.wrapped = `{}`, true })
		r.refused(q.with(func(q *query) { q.auth = "Bearer other" }), ReasonStateForeign)
		r.refused(q.with(func(q *query) { q.state = strings.Repeat("A", 200) }), ReasonStateInvalid)
		r.refused(q.with(func(q *query) { q.state = string(task.State) }), ReasonStateForeign)
		if method != mcp.MethodAnswer {
			r.refused(q.with(func(q *query) { q.original = `"1"` }), ReasonStateForeign)
		}
	}
	r.refused(about(mcp.MethodTaskGet, &Outcome{State: []byte(handle)}), ReasonStateForeign)
	r.refused(answerOf(handle, posted("elicitation-1", "a", "A")), ReasonStateStale) // nothing was asked
	r.play(about(mcp.MethodTaskCancel, task))
	steps <- "="
	v.hear(t, "=")
	v.close()
}

// An answer that does not fit is asked for again, and an error is one.
func TestFollowerAnswers(t *testing.T) {
	r := newRig(t)
	got := make(chan string, 2)
	r.raw.Tool("t", func(c *rawserver.Call) {
		a, b := c.Start(mcp.MethodElicit, askFor("a")), c.Start(mcp.MethodElicit, askFor("b"))
		got <- a.Wait().Content("a")
		answer := b.Wait()
		got <- answer.Error.Message
		c.Text("done")
	})
	v, handle := r.handleFirst(toolCall("t").followed(time.Hour))
	v.hear(t, "?elicitation-1 ?elicitation-2")
	r.play(answerOf(handle, `{"elicitation-1":{"result":{"action":"accept","content":{"a":5}}}}`))
	v.hear(t, "?elicitation-3")
	r.play(answerOf(handle, posted("elicitation-3", "a", "A")))
	r.play(answerOf(handle, `{"elicitation-2":{"error":{"code":-1,"message":"no"}}}`))
	if a, b := <-got, <-got; a != "A" || b != "no" {
		t.Errorf("the server got %s, %s", a, b)
	}
	v.hear(t, "=done")
	v.close()
}

// Too many of them are refused before anything is sent.
func TestTooManyFollow(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxLasting = 1 })
	v, _, steps := r.follows(time.Hour)
	r.refused(toolCall("t").followed(time.Hour), ReasonOverload)
	steps <- "="
	v.hear(t, "=")
	v.close()
	if n := r.raw.ToolCalls("t"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

// A stream may end before its call: the client comes back (calls.max_hold).
func TestFollowerIsLetGo(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxHold = 200 * time.Millisecond })
	v, handle, steps := r.follows(time.Hour)
	v.hear(t, "end")
	v.close()
	steps <- "="
	eventually(t, "the end", func() bool { return r.stands(handle) == "completed 0" })
	v = r.mustBegin(ofFollower(mcp.MethodResume, handle))
	v.hear(t, "=")
	v.close()
}

// So is a tool that the server runs as a task of its own.
func TestTaskIsFollowed(t *testing.T) {
	r := newRig(t, withTasks)
	r.raw.TaskTool("t", 100, func(task *rawserver.Task) {
		task.Text(task.Ask(mcp.MethodElicit, askFor("a")).Content("a"))
	})
	v, handle := r.handleFirst(toolCall("t").followed(time.Hour))
	if token, err := r.ring.Open([]byte(handle), r.settings.MaxState); err != nil || token.Task == "" {
		t.Errorf("the handle does not know the task: %+v, %v", token, err)
	}
	v.hear(t, "?elicitation-1")
	r.play(answerOf(handle, posted("elicitation-1", "a", "A")))
	v.hear(t, "=A")
	v.close()
}

// Prompts and resources are followed as well.
func TestPromptIsFollowed(t *testing.T) {
	r := newRig(t)
	r.raw.Handle(mcp.MethodPromptsGet, func(c *rawserver.Call) {
		c.Result(`{"content":[{"text":"` + c.Ask(mcp.MethodElicit, askFor("a")).Content("a") + `"}]}`)
	})
	v, handle := r.handleFirst(query{method: mcp.MethodPromptsGet, params: `"name":"x"`}.followed(time.Hour))
	v.hear(t, "?elicitation-1")
	r.play(answerOf(handle, posted("elicitation-1", "a", "A")))
	v.hear(t, "=A")
	v.close()
}

// A token outlives what there is to tell by it. Who comes with that of a call that has
// ended is told, while it is good, that nothing is kept any more, and then that it has
// expired: never that it is none.
func TestTokenOfAnEndedCallExpires(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) {
		s.OutcomeTTL, s.ParkTTL = 50*time.Millisecond, 2*time.Second
	})
	steps := make(chan string, 16)
	r.raw.Tool("t", stepwise(steps))
	resumes := func(q query) (*Refusal, error) {
		v, err := r.begin(q)
		if err == nil {
			_, _, err = v.finish()
		}
		var refusal *Refusal
		if err != nil && !errors.As(err, &refusal) {
			t.Fatal(err)
		}
		return refusal, err
	}
	// A call that its client follows, which is told the end.
	v, handle := r.handleFirst(toolCall("t").followed(time.Second).with(func(q *query) { q.lasts = 3 * time.Second }))
	steps <- "="
	v.hear(t, "=")
	v.close()
	// And one whose client was let go with a request state, and does not come back
	// before the end.
	let := toolCall("t").with(func(q *query) { q.hold = time.Millisecond })
	o := r.play(let)
	c := r.calls.get(r.callOf(o))
	steps <- "="
	eventually(t, "the end", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.phase == done
	})
	look := time.NewTicker(20 * time.Millisecond) // nothing happens when a token expires, in whole seconds
	defer look.Stop()
	for name, q := range map[string]query{"followed": ofFollower(mcp.MethodResume, handle), "let go": let.retry(o, "")} {
		told := map[Reason]bool{}
		for end := time.Now().Add(20 * time.Second); !told[ReasonStateExpired]; <-look.C {
			refusal, err := resumes(q)
			switch {
			case time.Now().After(end):
				t.Fatalf("%s: it has not expired: %v", name, err)
			case err == nil && len(told) == 0: // the outcome is still kept
			case err == nil:
				t.Fatalf("%s: there is an outcome again", name)
			case refusal.Reason == ReasonCallLost && refusal.MayHaveRun:
			case refusal.Reason == ReasonStateExpired && strings.Contains(refusal.Detail, "has expired"):
			default:
				t.Fatalf("%s: told %v", name, refusal)
			}
			if err != nil {
				told[refusal.Reason] = true
			}
		}
		if !told[ReasonCallLost] && name == "followed" {
			t.Errorf("%s: told %v", name, told)
		}
		if refusal, _ := resumes(q); refusal == nil || refusal.Reason != ReasonStateExpired {
			t.Errorf("%s: told %v once it had expired", name, refusal)
		}
	}
}
