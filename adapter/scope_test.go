package adapter

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

func scoped(scope Scope) change {
	return func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.Scope = scope }
}

func as(auth string) func(*query) { return func(q *query) { q.auth = auth } }

// TestScopeShared: principals share a session, but never while one of them can
// be asked something on it, and neither can go on with the other's call.
func TestScopeShared(t *testing.T) {
	r := newRig(t, scoped(ScopeShared))
	r.raw.Tool("ask", func(c *rawserver.Call) {
		c.Text(c.Ask(mcp.MethodElicit, askFor("name")).Content("name"))
	})
	list := query{method: mcp.MethodToolsList}
	r.play(list.with(as("Bearer a")))
	r.play(list.with(as("Bearer b")))
	if n := r.raw.Count(mcp.MethodInitialize); n != 1 {
		t.Fatalf("two principals have %d sessions, want one", n)
	}
	a := toolCall("ask").with(as("Bearer a"))
	b := toolCall("ask").with(as("Bearer b"))
	first := r.play(a)
	first.asked(t)
	second := r.play(b)
	second.asked(t)
	if n := r.raw.Count(mcp.MethodInitialize); n != 2 {
		t.Errorf("two principals that are asked at once have %d sessions, want two", n)
	}
	answer := accept("elicitation-1", "name", "x")
	r.refused(b.retry(first, answer), ReasonStateForeign)
	for _, q := range []query{a.retry(first, answer), b.retry(second, answer)} {
		if got := r.play(q).text(t); got != "x" {
			t.Errorf("got %q", got)
		}
	}
	r.play(list.with(as("Bearer c")))
	if n := r.raw.Count(mcp.MethodInitialize); n != 2 {
		t.Errorf("%d sessions, want the two that there were", n)
	}
}

// TestScopeSharedCountsCallers: a limit for one principal is not for all that
// share its session.
func TestScopeSharedCountsCallers(t *testing.T) {
	r := newRig(t, scoped(ScopeShared), func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxParkedPerPrincipal = 1 })
	r.raw.Tool("ask", func(c *rawserver.Call) { c.Ask(mcp.MethodElicit, askFor("name")) })
	r.play(toolCall("ask").with(as("Bearer a"))).asked(t)
	r.play(toolCall("ask").with(as("Bearer b"))).asked(t)
	r.refused(toolCall("ask").with(as("Bearer a")), ReasonQuota)
}

// TestScopeCall: every call has a session of its own, which ends with it, and
// its rounds stay on it.
func TestScopeCall(t *testing.T) {
	r := newRig(t, scoped(ScopeCall))
	r.raw.Tool("ask", func(c *rawserver.Call) {
		c.Text(c.Ask(mcp.MethodElicit, askFor("name")).Content("name"))
	})
	call := toolCall("ask").with(as("Bearer a"))
	first, second := r.play(call), r.play(call)
	for _, o := range []*Outcome{first, second} {
		o.asked(t)
		if got := r.play(call.retry(o, accept("elicitation-1", "name", "x"))).text(t); got != "x" {
			t.Errorf("got %q", got)
		}
	}
	if n := r.raw.Count(mcp.MethodInitialize); n != 2 {
		t.Errorf("two calls have %d sessions, want two", n)
	}
	r.raw.Wait("both sessions to end", func() bool { return len(r.raw.Sessions()) == 0 })
}

// TestScopeSharedLateQuestion: what the server asks for a principal's call after
// that was cancelled is put to no call of another's, on the one stream that all
// have.
func TestScopeSharedLateQuestion(t *testing.T) {
	r := newRig(t, scoped(ScopeShared), oneStream)
	left := make(chan *rawserver.Call, 1)
	r.raw.Tool("leave", func(c *rawserver.Call) { left <- c })
	gate, listed := make(chan struct{}), make(chan struct{})
	open := sync.OnceFunc(func() { close(gate); close(listed) })
	defer open()
	r.raw.Tool("work", func(c *rawserver.Call) {
		<-gate
		c.Text("done")
	})
	r.raw.Hold(mcp.MethodPromptsList, listed) // of a call that keeps the session
	list := r.mustBegin(query{method: mcp.MethodPromptsList}.with(as("Bearer c")))
	first := r.mustBegin(toolCall("leave").with(as("Bearer a")))
	var late *rawserver.Call
	for late == nil {
		_, _ = first.Next(time.Now().Add(10 * time.Millisecond))
		select {
		case late = <-left:
		default:
		}
	}
	first.Gone()
	first.close()
	r.raw.Wait("the cancellation", func() bool { return len(r.raw.Cancelled()) == 1 })
	refusals := func() (n int) {
		for _, m := range r.raw.Responses() {
			if m.Error != nil {
				n++
			}
		}
		return n
	}
	late.Start(mcp.MethodElicit, askFor("secret"))
	r.raw.Wait("the question to be refused", func() bool { return refusals() == 1 })
	second := r.mustBegin(toolCall("work").with(as("Bearer b")))
	_, _ = second.Next(time.Now().Add(10 * time.Millisecond))
	r.raw.Wait("the other's call", func() bool { return r.raw.ToolCalls("work") == 1 })
	late.Start(mcp.MethodElicit, askFor("secret"))
	r.raw.Wait("the question to be refused", func() bool { return refusals() == 2 })
	open()
	o, _, err := second.finish()
	if err != nil {
		t.Fatal(err)
	}
	if got := o.text(t); got != "done" {
		t.Errorf("the other's call came to %q", got)
	}
	if _, _, err := list.finish(); err != nil {
		t.Error(err)
	}
}

// leaving begins a call of a tool that never answers, and lets its client go once
// the server has it.
func (r *rig) leaving(t *testing.T) *rawserver.Call {
	t.Helper()
	left := make(chan *rawserver.Call, 1)
	r.raw.Tool("leave", func(c *rawserver.Call) { left <- c })
	v := r.mustBegin(toolCall("leave"))
	var late *rawserver.Call
	for late == nil {
		_, _ = v.Next(time.Now().Add(10 * time.Millisecond))
		select {
		case late = <-left:
		default:
		}
	}
	v.Gone()
	v.close()
	r.raw.Wait("the cancellation", func() bool { return len(r.raw.Cancelled()) == 1 })
	return late
}

// TestLateQuestion: what the server asks for a call after that was cancelled is not
// put to the caller's next call on the one stream, which has a new session then.
func TestLateQuestion(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneStream)
	r.raw.Tool("ask", func(c *rawserver.Call) {
		c.Text(c.Ask(mcp.MethodElicit, askFor("mine")).Content("mine"))
	})
	late := r.leaving(t)
	next := r.mustBegin(toolCall("ask")).goes() // it waits for what the server says
	late.Start(mcp.MethodElicit, askFor("secret"))
	end := endOf(t, next)
	if end.err != nil || len(end.Inputs) != 1 || !strings.Contains(string(end.Inputs[0].Params), "mine") {
		t.Fatalf("the next call came to %s", end.describe())
	}
	if got := r.play(toolCall("ask").retry(end.Outcome, accept("elicitation-1", "mine", "x"))).text(t); got != "x" {
		t.Errorf("got %q", got)
	}
	if n := r.raw.Count(mcp.MethodInitialize); n != 2 {
		t.Errorf("%d sessions were opened, want a new one for the next call", n)
	}
	r.raw.Wait("the end of the first session", func() bool { return len(r.raw.Ended()) == 1 })
	refused := 0
	for _, m := range r.raw.Responses() {
		if m.Error != nil {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d questions were refused, want the late one", refused)
	}
}

// TestLateQuestionOnGET: nor is it on the GET stream, whichever replica the calls
// are at.
func TestLateQuestionOnGET(t *testing.T) {
	t.Parallel()
	for name, at := range map[string][2]int{"at one replica": {0, 0}, "at two": {0, 1}, "at two, the other way": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReplicas(t, 2, func(_ *Settings, l *legacy.Settings, _ *rawserver.Settings) { l.PushesOnGET, l.MaxPerKey = true, 1 })
			f.raw.Tool("work", func(c *rawserver.Call) { c.Text("done") })
			late := f.rigs[at[0]].leaving(t)
			late.Session.WaitListening()
			next := f.rigs[at[1]].mustBegin(toolCall("work")).goes()
			late.Session.Push(mcp.MethodElicit, askFor("secret"))
			f.raw.Wait("the question to be refused", func() bool {
				for _, m := range f.raw.Responses() {
					if m.Error != nil {
						return true
					}
				}
				return false
			})
			if end := endOf(t, next); end.err != nil || end.text(t) != "done" {
				t.Errorf("the next call came to %s", end.describe())
			}
		})
	}
}

// TestCancelledCallIsOver: a server that stops, whether it says so or not, keeps its
// session for the caller's next call.
func TestCancelledCallIsOver(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]bool{"it answers": true, "it is silent": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, oneStream)
			r.raw.Tool("plain", func(c *rawserver.Call) { c.Text("ok") })
			late := r.leaving(t)
			next := r.mustBegin(toolCall("plain")).goes()
			began := time.Now()
			if answers {
				late.Error(-32000, "cancelled", "")
			}
			if end := endOf(t, next); end.err != nil || end.text(t) != "ok" {
				t.Errorf("the next call came to %s", end.describe())
			}
			if took := time.Since(began); answers && took > time.Second || !answers && took < time.Second {
				t.Errorf("the next call has waited %v", took)
			}
			if n := r.raw.Count(mcp.MethodInitialize); n != 1 {
				t.Errorf("%d sessions were opened, want one", n)
			}
		})
	}
}

// TestCancelWait: a server that is known to stop at once need not be waited for.
func TestCancelWait(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]change{
		"one stream": oneStream,
		"GET":        func(_ *Settings, l *legacy.Settings, _ *rawserver.Settings) { l.PushesOnGET = true },
	} {
		r := newRig(t, kind, func(_ *Settings, l *legacy.Settings, _ *rawserver.Settings) {
			l.MaxPerKey, l.QueueTimeout, l.CancelWait = 1, time.Hour, 10*time.Millisecond
		})
		r.raw.Tool("plain", func(c *rawserver.Call) { c.Text("ok") })
		r.leaving(t)
		began := time.Now()
		if got := r.play(toolCall("plain")).text(t); got != "ok" {
			t.Errorf("%s: the next call came to %q", name, got)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%s: the next call has waited %v", name, took)
		}
	}
}
