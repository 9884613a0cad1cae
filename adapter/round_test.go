package adapter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// greet asks for a name, and then, unless told otherwise, for a title.
func greet(c *rawserver.Call) {
	name := c.Ask(mcp.MethodElicit, askFor("name"))
	title := c.Ask(mcp.MethodElicit, askFor("title"))
	c.Text(title.Content("title") + " " + name.Content("name"))
}

func TestCallIsAnsweredAtOnce(t *testing.T) {
	for _, json := range []bool{true, false} {
		r := newRig(t, func(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) { raw.JSON = json })
		r.raw.Tool("echo", func(c *rawserver.Call) { c.Text(c.Argument("text")) })
		for _, text := range []string{"first, with a session to open", "second"} {
			q := toolCall("echo")
			q.params += `,"arguments":{"text":"` + text + `"}`
			if got := r.play(q).text(t); got != text {
				t.Errorf("got %q, want %q", got, text)
			}
		}
		if n := r.calls.parkedCalls() + len(r.calls.named); n != 0 {
			t.Errorf("%d calls are on the books that were answered at once", n)
		}
	}
}

func TestCallParksAndResumes(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("greet", greet)
	q := toolCall("greet")
	first := r.play(q)
	if got := first.asked(t); got != "elicitation-1" {
		t.Fatalf("asked %q", got)
	}
	second := r.play(q.retry(first, accept("elicitation-1", "name", "Ada")))
	if got := second.asked(t); got != "elicitation-2" {
		t.Fatalf("asked %q", got)
	}
	last := r.play(q.retry(second, accept("elicitation-2", "title", "Dr")))
	if got := last.text(t); got != "Dr Ada" {
		t.Errorf("got %q", got)
	}
	if n := len(r.raw.Responses()); n != 2 {
		t.Errorf("the server got %d answers, want 2", n)
	}
}

// A retry sent twice gets the same outcome, and the server each answer once.
func TestRetrySentTwice(t *testing.T) {
	r := newRig(t)
	gate := make(chan struct{})
	r.raw.Tool("greet", func(c *rawserver.Call) {
		name := c.Ask(mcp.MethodElicit, askFor("name"))
		<-gate
		c.Text("Hello " + name.Content("name"))
	})
	q := toolCall("greet")
	retry := q.retry(r.play(q), accept("elicitation-1", "name", "Ada"))
	var visits []*visit
	for range 5 {
		visits = append(visits, r.mustBegin(retry))
	}
	results := make(chan string, len(visits))
	for _, v := range visits {
		go func() {
			o, _, err := v.finish()
			if err != nil {
				results <- err.Error()
				return
			}
			results <- string(o.Result)
		}()
	}
	r.raw.Wait("the answer", func() bool { return len(r.raw.Responses()) == 1 })
	close(gate)
	first := <-results
	if !strings.Contains(first, "Hello Ada") {
		t.Fatalf("got %s", first)
	}
	for range len(visits) - 1 {
		if got := <-results; got != first {
			t.Errorf("got %s, and %s for the same retry", got, first)
		}
	}
	if got := string(r.play(retry).Result); got != first {
		t.Errorf("after the end: got %s, want %s", got, first)
	}
	if n := len(r.raw.Responses()); n != 1 {
		t.Errorf("the server got %d answers, want 1", n)
	}
	if n := r.raw.ToolCalls("greet"); n != 1 {
		t.Errorf("the tool was called %d times, want once", n)
	}
}

// The retry before the last asks the newest questions; older ones are refused.
func TestRetryOfAnEarlierRound(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("greet", func(c *rawserver.Call) {
		for _, what := range []string{"a", "b", "c"} {
			c.Ask(mcp.MethodElicit, askFor(what))
		}
		c.Text("done")
	})
	q := toolCall("greet")
	first := r.play(q)
	retry := q.retry(first, accept("elicitation-1", "a", "1"))
	second := r.play(retry)
	if again := r.play(retry); again.asked(t) != second.asked(t) || again.asked(t) != "elicitation-2" {
		t.Errorf("the same retry again was asked %q, and %q before", again.asked(t), second.asked(t))
	}
	third := r.play(q.retry(second, accept("elicitation-2", "b", "2")))
	r.refused(retry, ReasonStateStale)
	r.play(q.retry(third, accept("elicitation-3", "c", "3")))
	r.refused(retry, ReasonStateStale)
	if n := len(r.raw.Responses()); n != 3 {
		t.Errorf("the server got %d answers, want 3", n)
	}
}

func TestAnswersThatAreIncomplete(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("two", func(c *rawserver.Call) {
		a, b := c.Start(mcp.MethodElicit, askFor("a")), c.Start(mcp.MethodElicit, askFor("b"))
		c.Text(a.Wait().Content("a") + b.Wait().Content("b"))
	})
	q := toolCall("two")
	o := r.play(q)
	if got := o.asked(t); got != "elicitation-1 elicitation-2" {
		t.Fatalf("asked %q", got)
	}
	for _, tt := range []struct{ name, responses, want string }{
		{"none", "", "elicitation-1 elicitation-2"},
		{"empty", "{}", "elicitation-1 elicitation-2"},
		{"unknown key", accept("elicitation-9", "a", "x"), "elicitation-1 elicitation-2"},
		{"unfit", `{"elicitation-1":{"action":"accept","content":{"a":7}},"elicitation-2":{"action":"accept"}}`, "elicitation-1 elicitation-2"},
		{"malformed", `{"elicitation-1":"yes","elicitation-2":null}`, "elicitation-1 elicitation-2"},
		{"one of two", accept("elicitation-1", "a", "1"), "elicitation-2"},
		{"the one that was given", accept("elicitation-1", "a", "other"), "elicitation-2"},
	} {
		o = r.play(q.retry(o, tt.responses))
		if got := o.asked(t); got != tt.want {
			t.Fatalf("%s: asked %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := r.play(q.retry(o, accept("elicitation-2", "b", "2"))).text(t); got != "12" {
		t.Errorf("the server was told %q", got)
	}
	if n := len(r.raw.Responses()); n != 2 {
		t.Errorf("the server got %d answers, want 2", n)
	}
}

func TestAnswersBroughtAlong(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("hinting", func(c *rawserver.Call) {
		name := c.Ask(mcp.MethodElicit, hinted("name", "name"))
		age := c.Ask(mcp.MethodElicit, hinted("age", "age"))
		plain := c.Ask(mcp.MethodElicit, askFor("plain"))
		c.Text(name.Content("name") + age.Content("age") + plain.Content("plain"))
	})
	q := toolCall("hinting")
	first := q
	// The second does not fit, the third was never hinted.
	first.responses = `{"name":{"action":"accept","content":{"name":"Ada"}},"age":{"action":"accept","content":{}},` +
		`"elicitation-1":{"action":"accept","content":{"plain":"guess"}}}`
	o := r.play(first)
	if got := o.asked(t); got != "age" {
		t.Fatalf("asked %q, want the one that did not fit", got)
	}
	o = r.play(q.retry(o, accept("age", "age", "36")))
	if got := o.asked(t); got != "elicitation-1" {
		t.Fatalf("asked %q, want the one without a hint", got)
	}
	if got := r.play(q.retry(o, accept("elicitation-1", "plain", "!"))).text(t); got != "Ada36!" {
		t.Errorf("the server was told %q", got)
	}
}

func TestLegacyAnswer(t *testing.T) {
	for version, want := range map[string]string{
		"2025-11-25": `{"role":"assistant","content":[{"type":"text","text":"x"}],"model":"m","n":1.0}`,
		"2025-06-18": `{"role":"assistant","content":{"type":"text","text":"x"},"model":"m","n":1.0}`,
	} {
		r := newRig(t, func(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) { raw.Version = version })
		r.raw.Tool("poem", func(c *rawserver.Call) { c.Result(string(c.Ask(mcp.MethodCreateMessage, `{}`).Result)) })
		q := toolCall("poem")
		o := r.play(q)
		if got := o.asked(t); got != "sampling-1" {
			t.Fatalf("asked %q", got)
		}
		o = r.play(q.retry(o, `{"sampling-1":{"resultType":"complete","role":"assistant","content":[{"type":"text","text":"x"}],"model":"m","n":1.0}}`))
		if got := string(o.Result); got != want {
			t.Errorf("%s: the server was told %s, want %s", version, got, want)
		}
	}
}

func TestGoneCancelsARunningCall(t *testing.T) {
	r := newRig(t)
	arrived := make(chan struct{})
	r.raw.Tool("slow", func(c *rawserver.Call) {
		close(arrived)
		<-c.Cancelled()
	})
	v := r.mustBegin(toolCall("slow"))
	ended := make(chan error)
	go func() {
		_, _, err := v.finish()
		ended <- err
	}()
	<-arrived
	v.Gone()
	v.Gone()
	if err := <-ended; !errors.Is(err, ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
	r.raw.WaitCount(mcp.NotifyCancelled, 1)
	if got, want := string(r.raw.Cancelled()[0]), string(r.raw.Received(mcp.MethodToolsCall)[0].ID); got != want {
		t.Errorf("request %s was cancelled, want %s", got, want)
	}
}

func TestLastOfSeveralRoundsCancels(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("slow", func(c *rawserver.Call) {
		c.Ask(mcp.MethodElicit, askFor("a"))
		<-c.Cancelled()
	})
	q := toolCall("slow")
	retry := q.retry(r.play(q), accept("elicitation-1", "a", "x"))
	a, b := r.mustBegin(retry), r.mustBegin(retry)
	ends := make(chan error)
	for _, v := range []*visit{a, b} {
		go func() {
			_, _, err := v.finish()
			ends <- err
		}()
	}
	r.raw.Wait("the answer", func() bool { return len(r.raw.Responses()) == 1 })
	a.Gone()
	if err := <-ends; !errors.Is(err, ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
	if n := len(r.raw.Cancelled()); n != 0 {
		t.Error("the call was cancelled while a client waited for it")
	}
	b.Gone()
	if err := <-ends; !errors.Is(err, ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
	r.raw.WaitCount(mcp.NotifyCancelled, 1)
}

// A client that has its question may leave: that is what parking is for.
func TestGoneDoesNotCancelAParkedCall(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("greet", greet)
	q := toolCall("greet")
	v := r.mustBegin(q)
	var o *Outcome
	for o == nil {
		ev, err := v.Next(time.Now().Add(time.Second))
		if err != nil && !errors.Is(err, ErrDeadline) {
			t.Fatal(err)
		}
		o = ev.Outcome
	}
	o = o.clone()
	v.Gone()
	v.close()
	if got := r.play(q.retry(o, accept("elicitation-1", "name", "Ada"))).asked(t); got != "elicitation-2" {
		t.Errorf("asked %q", got)
	}
	if n := len(r.raw.Cancelled()); n != 0 {
		t.Error("the parked call was cancelled")
	}
}

// A server that does not wait for its answer ends the call; the retry gets
// what it said.
func TestResultArrivesWhileParked(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(*rawserver.Call)
		want string
	}{
		"result":  {func(c *rawserver.Call) { c.Text("never mind") }, `{"content":[{"type":"text","text":"never mind"}]}`},
		"error":   {func(c *rawserver.Call) { c.Error(-7, "gave up", `{"a": 1}`) }, `{"code":-7,"message":"gave up","data":{"a": 1}}`},
		"mapped":  {func(c *rawserver.Call) { c.Error(-32002, "not found", "") }, `{"code":-32602,"message":"not found"}`},
		"cut off": {func(c *rawserver.Call) { c.Cut() }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) { raw.NoEventIDs = true })
			gate := make(chan struct{})
			r.raw.Tool("hasty", func(c *rawserver.Call) {
				c.Start(mcp.MethodElicit, askFor("a"))
				<-gate
				tt.end(c)
			})
			q := toolCall("hasty")
			o := r.play(q)
			close(gate)
			eventually(t, "the end of the call", func() bool {
				r.calls.mu.Lock()
				defer r.calls.mu.Unlock()
				return r.calls.kept.Len() == 1
			})
			retry := q.retry(o, accept("elicitation-1", "a", "too late"))
			if tt.want == "" {
				r.refused(retry, ReasonUpstreamLost)
			} else if o := r.play(retry); string(o.Result)+string(o.Error) != tt.want {
				t.Errorf("got %s%s, want %s", o.Result, o.Error, tt.want)
			}
			if n := len(r.raw.Responses()); n != 0 {
				t.Errorf("the server got %d answers that it no longer waits for", n)
			}
		})
	}
}

// eventually waits for what other goroutines of the engine do.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// When a parked call expires the server is told, and so is the client that
// comes back after all.
func TestParkedCallExpires(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.ParkTTL = 30 * time.Millisecond })
	r.raw.Tool("asking", func(c *rawserver.Call) {
		c.Start(mcp.MethodElicit, askFor("a"))
		c.Start(mcp.MethodCreateMessage, `{}`)
		c.Start(mcp.MethodRootsList, "")
		<-c.Cancelled()
	})
	q := toolCall("asking")
	o := r.play(q)
	if got := o.asked(t); got != "elicitation-1 sampling-1 roots-1" {
		t.Fatalf("asked %q", got)
	}
	r.raw.WaitCount(mcp.NotifyCancelled, 1)
	responses := r.raw.Responses()
	if len(responses) != 3 {
		t.Fatalf("the server got %d answers, want 3", len(responses))
	}
	if got := string(responses[0].Result); got != `{"action":"cancel"}` {
		t.Errorf("the elicitation was answered with %s", got)
	}
	for _, m := range responses[1:] {
		if m.Error == nil {
			t.Errorf("a request was answered with %s, want an error", m.Result)
		}
	}
	if !r.refused(q.retry(o, accept("elicitation-1", "a", "late")), ReasonStateExpired).MayHaveRun {
		t.Error("the error does not say that the call may have run, up to its question")
	}
}

func TestOutcomeIsKeptForAWhile(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.OutcomeTTL = 30 * time.Millisecond })
	r.raw.Tool("greet", func(c *rawserver.Call) { c.Text(c.Ask(mcp.MethodElicit, askFor("a")).Content("a")) })
	q := toolCall("greet")
	retry := q.retry(r.play(q), accept("elicitation-1", "a", "x"))
	r.play(retry)
	eventually(t, "the outcome to be forgotten", func() bool {
		r.calls.mu.Lock()
		defer r.calls.mu.Unlock()
		return len(r.calls.named) == 0
	})
	r.refused(retry, ReasonCallLost)
}

// The outcome is forgotten while a copy of the retry is about to be told.
func TestOutcomeIsForgottenUnderARound(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("greet", func(c *rawserver.Call) { c.Text(c.Ask(mcp.MethodElicit, askFor("a")).Content("a")) })
	q := toolCall("greet")
	retry := q.retry(r.play(q), accept("elicitation-1", "a", "x"))
	r.play(retry)
	again := r.mustBegin(retry)
	r.calls.close()
	_, _, err := again.finish()
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Reason != ReasonCallLost || !refusal.MayHaveRun {
		t.Errorf("got %+v, want that the outcome is no longer kept, and that the call may have run", err)
	}
}

func TestCallLastsTooLong(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Settings)
		work   func(*rawserver.Call)
		want   Reason
	}{
		"silence": {func(s *Settings) { s.Timeout = time.Second }, func(c *rawserver.Call) { <-c.Cancelled() }, ReasonCallTimeout},
		"progress without end": {
			func(s *Settings) { s.Timeout, s.MaxDuration = 200*time.Millisecond, 500*time.Millisecond },
			func(c *rawserver.Call) {
				for n := 0.0; ; n++ {
					select {
					case <-c.Cancelled():
						return
					case <-time.After(20 * time.Millisecond):
						c.Progress(n, 0)
					}
				}
			}, ReasonCallDuration,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) {
				s.Buffer = 1000
				tt.change(s)
			})
			r.raw.Tool("slow", tt.work)
			q := toolCall("slow")
			q.token = "7"
			if refusal := r.refused(q, tt.want); !refusal.MayHaveRun {
				t.Error("it is not said that the call may have run")
			}
			r.raw.WaitCount(mcp.NotifyCancelled, 1)
		})
	}
}

// A call can end while its session is still being opened.
func TestCallEndsWhileStarting(t *testing.T) {
	for name, tt := range map[string]struct {
		timeout time.Duration
		gone    bool
		hold    string
	}{
		"gone during the handshake":            {time.Minute, true, mcp.MethodInitialize},
		"silence during the handshake":         {time.Second, false, mcp.MethodInitialize},
		"gone while tools are listed":          {time.Minute, true, mcp.MethodToolsList},
		"silence while tools are listed":       {time.Second, false, mcp.MethodToolsList},
		"gone while the log level is set":      {time.Minute, true, mcp.MethodSetLevel},
		"silence while the log level is being": {time.Second, false, mcp.MethodSetLevel},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.Timeout = tt.timeout })
			arrived, gate := make(chan struct{}), make(chan struct{})
			r.raw.Once(rawserver.ForMethod(tt.hold), func(x *rawserver.Exchange) {
				close(arrived)
				x.Hold(gate)
				x.Drop()
			})
			q := toolCall("x")
			q.level = mcp.LevelDebug
			v := r.mustBegin(q)
			ended := make(chan error)
			go func() {
				_, _, err := v.finish()
				ended <- err
			}()
			<-arrived
			if tt.gone {
				v.Gone()
				if err := <-ended; !errors.Is(err, ErrGone) {
					t.Errorf("got %v, want ErrGone", err)
				}
			} else {
				var refusal *Refusal
				if err := <-ended; !errors.As(err, &refusal) || refusal.Reason != ReasonCallTimeout || refusal.MayHaveRun {
					t.Errorf("got %v, want call_timeout of a call that has not run", err)
				}
			}
			close(gate)
			eventually(t, "the call to be off the books", func() bool { return len(r.calls.all()) == 0 })
			if n := r.raw.ToolCalls("x"); n != 0 {
				t.Error("the tool was called")
			}
		})
	}
}

func TestLimits(t *testing.T) {
	asking := func(c *rawserver.Call) {
		for {
			if a := c.Ask(mcp.MethodElicit, askFor("a")); !a.OK() || a.Action() == "cancel" {
				return
			}
		}
	}
	t.Run("calls.max", func(t *testing.T) {
		r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxCalls = 2 })
		r.raw.Tool("slow", func(c *rawserver.Call) { <-c.Cancelled() })
		a, b := r.mustBegin(toolCall("slow")), r.mustBegin(toolCall("slow"))
		if refusal := r.refused(toolCall("slow"), ReasonOverload); refusal.RetryAfter == 0 {
			t.Error("it is not said when to try again")
		}
		a.close()
		r.mustBegin(toolCall("slow")).close()
		b.close()
	})
	t.Run("calls.max_parked", func(t *testing.T) {
		r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxParked = 1 })
		r.raw.Tool("asking", asking)
		q := toolCall("asking")
		o := r.play(q)
		r.refused(q, ReasonOverload)
		r.raw.Wait("the server to be told", func() bool { return len(r.raw.Responses()) == 1 })
		r.play(q.retry(o, accept("elicitation-1", "a", "x"))) // the one that was there goes on
	})
	t.Run("calls.max_parked_per_principal", func(t *testing.T) {
		r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxParkedPerPrincipal = 1 })
		r.raw.Tool("asking", asking)
		q := toolCall("asking")
		r.play(q.with(func(q *query) { q.auth = "a" }))
		r.play(q.with(func(q *query) { q.auth = "b" }))
		r.refused(q.with(func(q *query) { q.auth = "a" }), ReasonQuota)
	})
	t.Run("calls.max_rounds", func(t *testing.T) {
		r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxRounds = 3 })
		r.raw.Tool("asking", asking)
		q := toolCall("asking")
		o := r.play(q)
		for n := 1; n < 3; n++ {
			o = r.play(q.retry(o, accept(fmt.Sprintf("elicitation-%d", n), "a", "x")))
		}
		r.refused(q.retry(o, accept("elicitation-3", "a", "x")), ReasonTooManyRounds)
		r.raw.WaitCount(mcp.NotifyCancelled, 1)
	})
	t.Run("calls.max_inputs", func(t *testing.T) {
		r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxInputs = 2 })
		r.raw.Tool("asking", func(c *rawserver.Call) {
			c.Start(mcp.MethodElicit, askFor("a"))
			c.Start(mcp.MethodElicit, askFor("b"))
			if third := c.Ask(mcp.MethodElicit, askFor("c")); third.Error == nil {
				c.Session.Expire()
			}
			c.Text("one too many")
		})
		o := r.play(toolCall("asking"))
		if o.State != nil {
			if got := o.asked(t); got != "elicitation-1 elicitation-2" {
				t.Errorf("asked %q", got)
			}
		}
		r.raw.Wait("the refusal", func() bool { return len(r.raw.Responses()) == 1 && r.raw.Responses()[0].Error != nil })
	})
	t.Run("stream.buffer", func(t *testing.T) {
		r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.Buffer = 2 })
		r.raw.Tool("chatty", func(c *rawserver.Call) {
			for n := range 10 {
				c.Progress(float64(n), 10)
			}
			<-c.Cancelled()
		})
		q := toolCall("chatty")
		q.token = "7"
		v := r.mustBegin(q)
		eventually(t, "the buffer to be full", func() bool { // nobody reads
			c := v.Round.(*callRound).call
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.lagging || v.Round.(*callRound).err != nil
		})
		var refusal *Refusal
		if _, _, err := v.finish(); !errors.As(err, &refusal) || refusal.Reason != ReasonSlowClient {
			t.Errorf("got %v, want slow_client", err)
		}
		r.raw.WaitCount(mcp.NotifyCancelled, 1)
	})
}

// A request state is good for one caller, one request, one upstream and one
// replica; nothing of a refused one reaches the server.
func TestForeignStates(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("greet", greet)
	q := toolCall("greet").with(func(q *query) { q.auth = "mine" })
	q.params += `,"arguments":{"a":1}`
	o := r.play(q)
	retry := q.retry(o, accept("elicitation-1", "name", "Ada"))
	tampered := []byte(retry.state)
	tampered[len(tampered)/2] ^= 1
	seal := func(change func(*state.Token)) string {
		token, err := r.ring.Open(o.State, 4096)
		if err != nil {
			t.Fatal(err)
		}
		change(&token)
		return string(r.ring.Seal(nil, &token))
	}
	otherRing, err := state.NewRing(state.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	token, err := r.ring.Open(o.State, 4096)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*query)
		want   Reason
	}{
		"another caller":   {func(q *query) { q.auth = "other" }, ReasonStateForeign},
		"no caller":        {func(q *query) { q.auth = "" }, ReasonStateForeign},
		"other arguments":  {func(q *query) { q.params = `"name":"greet","arguments":{"a":2}` }, ReasonStateForeign},
		"another method":   {func(q *query) { q.method = mcp.MethodPromptsGet }, ReasonStateForeign},
		"tampered with":    {func(q *query) { q.state = string(tampered) }, ReasonStateInvalid},
		"cut":              {func(q *query) { q.state = q.state[:len(q.state)-4] }, ReasonStateInvalid},
		"garbage":          {func(q *query) { q.state = "x" }, ReasonStateInvalid},
		"another key":      {func(q *query) { q.state = string(otherRing.Seal(nil, &token)) }, ReasonStateUnknown},
		"another upstream": {func(q *query) { q.state = seal(func(t *state.Token) { t.Upstream = "other" }) }, ReasonStateForeign},
		"another replica": {func(q *query) {
			q.state = seal(func(t *state.Token) { t.Owner, t.Position = "r2", state.Position{}; t.Call[0] ^= 1 })
		}, ReasonCallLost},
		"another call":      {func(q *query) { q.state = seal(func(t *state.Token) { t.Call[0] ^= 1 }) }, ReasonCallLost},
		"a round to come":   {func(q *query) { q.state = seal(func(t *state.Token) { t.Round++ }) }, ReasonStateStale},
		"a state in ruins":  {func(q *query) { q.state = seal(func(t *state.Token) { t.Expires = 1 }) }, ReasonStateExpired},
		"larger than legal": {func(q *query) { q.state = strings.Repeat("A", 5000) }, ReasonStateInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			if refusal := r.refused(retry.with(tt.change), tt.want); tt.want == ReasonStateExpired && !refusal.MayHaveRun {
				t.Error("the error does not say that the call may have run, up to its question")
			}
		})
	}
	if n := len(r.raw.Responses()); n != 0 {
		t.Fatalf("the server got %d answers", n)
	}
	r.play(retry) // and the call is unharmed
}

func TestMissingCapability(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("greet", greet)
	q := toolCall("greet")
	for _, caps := range []string{`{}`, `{"sampling":{}}`, `{"elicitation":{"url":{}}}`} {
		q.caps = caps
		before := len(r.raw.Responses())
		refusal := r.refused(q, ReasonMissingCapability)
		if got := string(refusal.Required); got != `{"elicitation":{"form":{}}}` {
			t.Errorf("%s: required is %s", caps, got)
		}
		r.raw.Wait("the server to be told", func() bool { return len(r.raw.Responses()) > before })
		if m := r.raw.Responses()[before]; m.Error == nil {
			t.Errorf("%s: the server was told %s", caps, m.Result)
		}
	}
}

func TestProgressAndLogMessages(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("chatty", func(c *rawserver.Call) {
		c.Progress(1, 2)
		c.Log("debug", "fine")
		c.Log("warning", "hm")
		c.Log("nonsense", "?")
		c.Text("done")
	})
	told := func(q query) []string {
		t.Helper()
		o, told, err := r.mustBegin(q).finish()
		if err != nil || o.text(t) != "done" {
			t.Fatal(o, err)
		}
		return told
	}
	if got := told(toolCall("chatty")); len(got) != 0 {
		t.Errorf("a client that asked for nothing was told %q", got)
	}
	got := told(toolCall("chatty").with(func(q *query) { q.token, q.level = `"mine"`, mcp.LevelInfo }))
	want := []string{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mine","progress":1,"total":2}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"hm"}}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	if got := r.raw.Levels(); !slices.Equal(got, []string{"info"}) {
		t.Errorf("levels set: %v", got)
	}
}

// What met no session has not run, and is sent again; once.
func TestSessionThatIsGone(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("echo", func(c *rawserver.Call) { c.Text("done") })
	r.play(toolCall("echo"))
	r.raw.Session().Expire()
	if got := r.play(toolCall("echo")).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	if n := r.raw.Count(mcp.MethodInitialize); n != 2 {
		t.Errorf("%d handshakes, want 2", n)
	}
	r.raw.Hook(func(x *rawserver.Exchange) bool {
		if x.Record.Method() != mcp.MethodToolsCall {
			return false
		}
		x.Reply(http.StatusNotFound, "no session")
		return true
	})
	before := r.raw.ToolCalls("echo")
	if refusal := r.refused(toolCall("echo"), ReasonUpstreamLost); refusal.MayHaveRun {
		t.Error("it is said that the call may have run")
	}
	if n := r.raw.ToolCalls("echo") - before; n != 2 {
		t.Errorf("the request was sent %d times, want twice", n)
	}
}

// A client that leaves between the two attempts leaves nothing behind.
func TestGoneWhileTheSessionIsReplaced(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("echo", func(c *rawserver.Call) { c.Text("done") })
	r.play(toolCall("echo"))
	r.raw.Session().Expire()
	arrived, gate := make(chan struct{}), make(chan struct{})
	r.raw.Once(rawserver.ForMethod(mcp.MethodInitialize), func(x *rawserver.Exchange) {
		close(arrived)
		x.Hold(gate)
		x.Drop()
	})
	v := r.mustBegin(toolCall("echo"))
	ended := make(chan error)
	go func() {
		_, _, err := v.finish()
		ended <- err
	}()
	<-arrived
	v.Gone()
	if err := <-ended; !errors.Is(err, ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
	close(gate)
	eventually(t, "the call to be off the books", func() bool { return len(r.calls.all()) == 0 })
	if n := r.raw.ToolCalls("echo"); n != 2 {
		t.Errorf("the tool was called %d times, want not again", n-2)
	}
}

// The server ended the request: the retry sends it anew, on the session that
// the caller has, whatever became of the first request's memory.
func TestURLElicitationRequired(t *testing.T) {
	r := newRig(t)
	visited := false
	r.raw.Tool("pay", func(c *rawserver.Call) {
		if !visited {
			visited = true
			c.Error(-32042, "visit first", `{"elicitations":[{"mode":"url","elicitationId":"7","url":"https://pay.example","message":"Pay"}]}`)
			return
		}
		c.Text("paid with " + c.Argument("card"))
	})
	r.raw.Tool("other", func(c *rawserver.Call) { c.Text("done") })
	r.play(toolCall("other")) // there is a session
	q := toolCall("pay")
	q.params += `,"arguments":{"card":"gold"}`
	o := r.play(q)
	if got := o.asked(t); got != "elicitation-1" {
		t.Fatalf("asked %q", got)
	}
	if got := string(o.Inputs[0].Params); got != `{"mode":"url","url":"https://pay.example","message":"Pay"}` {
		t.Errorf("asked %s", got)
	}
	if got := r.play(q.retry(o, `{"elicitation-1":{"action":"accept"}}`)).text(t); got != "paid with gold" {
		t.Errorf("got %q", got)
	}
	for _, m := range r.raw.Received(mcp.MethodInitialize) {
		if info := jsonrpc.Get(m.Params, "clientInfo"); string(info) != `{"name":"client","version":"1"}` {
			t.Errorf("a session was opened for the client %s", info)
		}
	}
	if n := r.raw.Count(mcp.MethodInitialize); n != 1 {
		t.Errorf("%d sessions were opened for one caller, want 1", n)
	}
	if n := len(r.raw.Cancelled()); n != 0 {
		t.Errorf("%d requests were cancelled that the server had ended", n)
	}
}

func TestURLElicitationThatNobodyCanVisit(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("none", func(c *rawserver.Call) { c.Error(-32042, "visit first", `{"elicitations":[]}`) })
	r.raw.Tool("pay", func(c *rawserver.Call) {
		c.Error(-32042, "visit first", `{"elicitations":[{"url":"https://pay.example","message":"Pay"}]}`)
	})
	r.refused(toolCall("none"), ReasonUpstreamReply)
	r.refused(toolCall("pay").with(func(q *query) { q.caps = `{"elicitation":{}}` }), ReasonMissingCapability)
}

// The official TypeScript SDK's plain elicitInput asks on the GET stream.
func TestQuestionOnTheGETStream(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("push", func(c *rawserver.Call) { c.Text(c.Push(mcp.MethodElicit, askFor("a")).Content("a")) })
	q := toolCall("push")
	for range 2 {
		o := r.play(q)
		if got := o.asked(t); got != "elicitation-1" {
			t.Fatalf("asked %q", got)
		}
		if got := r.play(q.retry(o, accept("elicitation-1", "a", "x"))).text(t); got != "x" {
			t.Errorf("got %q", got)
		}
	}
	if !r.upstreams()["up"].Server.PushesOnGET() {
		t.Error("it was not learned that the server asks on the GET stream")
	}
	if n := r.raw.Count(mcp.MethodInitialize); n != 1 {
		t.Errorf("%d sessions for calls one after the other, want 1", n)
	}
}

// A question may come on the GET stream when the call is on its session, but
// its request has not been sent yet.
func TestQuestionBeforeTheRequestIsSent(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("echo", func(c *rawserver.Call) { c.Text("done") })
	r.play(toolCall("echo"))
	arrived, gate := make(chan struct{}), make(chan struct{})
	r.raw.Once(rawserver.ForMethod(mcp.MethodSetLevel), func(x *rawserver.Exchange) {
		close(arrived)
		x.Hold(gate)
		x.Reply(http.StatusOK, `{"jsonrpc":"2.0","id":`+string(x.Record.Messages[0].ID)+`,"result":{}}`, "Content-Type", "application/json")
	})
	q := toolCall("echo").with(func(q *query) { q.level = mcp.LevelDebug })
	v := r.mustBegin(q)
	<-arrived
	question := r.raw.Session().Push(mcp.MethodElicit, askFor("a"))
	o, _, err := v.finish()
	if err != nil || o.asked(t) != "elicitation-1" {
		t.Fatal(o, err)
	}
	retry := r.mustBegin(q.retry(o, accept("elicitation-1", "a", "x")))
	ended := make(chan string, 1)
	go func() {
		o, _, err := retry.finish()
		if err != nil {
			ended <- err.Error()
			return
		}
		ended <- string(o.Result)
	}()
	close(gate)
	if got := question.Wait().Content("a"); got != "x" {
		t.Errorf("the server was told %q", got)
	}
	if got := <-ended; !strings.Contains(got, "done") {
		t.Errorf("the retry ended with %s", got)
	}
}

// The same, with the client away until the request has been sent.
func TestQuestionBeforeTheRequestIsSentIsParked(t *testing.T) {
	r := newRig(t)
	answered := make(chan struct{})
	r.raw.Tool("echo", func(c *rawserver.Call) { c.Text("done") })
	r.raw.Tool("wait", func(c *rawserver.Call) {
		select {
		case <-answered:
		case <-c.Context().Done():
		}
		c.Text("done")
	})
	r.play(toolCall("echo"))
	arrived, gate := make(chan struct{}), make(chan struct{})
	r.raw.Once(rawserver.ForMethod(mcp.MethodSetLevel), func(x *rawserver.Exchange) {
		close(arrived)
		x.Hold(gate)
		x.Reply(http.StatusOK, `{"jsonrpc":"2.0","id":`+string(x.Record.Messages[0].ID)+`,"result":{}}`, "Content-Type", "application/json")
	})
	q := toolCall("wait").with(func(q *query) { q.level = mcp.LevelDebug })
	v := r.mustBegin(q)
	<-arrived
	question := r.raw.Session().Push(mcp.MethodElicit, askFor("a"))
	o, _, err := v.finish()
	if err != nil || o.asked(t) != "elicitation-1" {
		t.Fatal(o, err)
	}
	close(gate)
	r.raw.Wait("the request", func() bool { return r.raw.ToolCalls("wait") == 1 })
	if n := r.calls.parkedCalls(); n != 1 {
		t.Errorf("%d calls are parked, want 1", n)
	}
	go func() {
		if question.Wait().Content("a") == "x" {
			close(answered)
		}
	}()
	if got := r.play(q.retry(o, accept("elicitation-1", "a", "x"))).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
}

// What the server asked outside any call waits for the next one that can be
// asked, and for none that is over.
func TestQuestionOutsideAnyCall(t *testing.T) {
	r := newRig(t)
	r.raw.Initialized(func(s *rawserver.Session) { s.Push(mcp.MethodRootsList, "") })
	r.raw.Tool("files", func(c *rawserver.Call) { c.Text("done") })
	// Not a call that can be asked.
	r.play(query{method: mcp.MethodToolsList})
	r.raw.Session().WaitListening()
	r.awaitOrphan()
	q := toolCall("files")
	o := r.play(q)
	if got := o.asked(t); got != "roots-1" {
		t.Fatalf("asked %q", got)
	}
	if n := r.raw.ToolCalls("files"); n != 0 {
		t.Error("the request did not wait for the answer")
	}
	if got := r.play(q.retry(o, `{"roots-1":{"roots":[]}}`)).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	responses := r.raw.Responses()
	if len(responses) != 1 || string(responses[0].Result) != `{"roots":[]}` {
		t.Errorf("the server was told %v", responses)
	}
}

// awaitOrphan returns once a question waits for the next eligible call.
func (r *rig) awaitOrphan() {
	r.t.Helper()
	eventually(r.t, "the question", func() bool {
		caps, _ := mcp.ParseCapabilities([]byte(allCapabilities))
		key := r.key(&Request{ClientInfo: []byte(`{"name":"client","version":"1"}`)}, caps)
		s := r.upstreams()["up"].Server.TryAcquire(&key, false)
		if s == nil {
			return false
		}
		defer s.Return(false)
		return s.HasOrphans()
	})
}

// A call that is over takes no question with it.
func TestQuestionOutsideAnyCallOutlivesACallThatIsOver(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("files", func(c *rawserver.Call) { c.Text("done") })
	arrived, gate := make(chan struct{}), make(chan struct{})
	r.raw.Once(rawserver.ForMethod(mcp.MethodToolsList), func(x *rawserver.Exchange) {
		close(arrived)
		x.Hold(gate)
		x.Reply(http.StatusOK, `{"jsonrpc":"2.0","id":`+string(x.Record.Messages[0].ID)+`,"result":{"tools":[]}}`, "Content-Type", "application/json")
	})
	q := toolCall("files")
	v := r.mustBegin(q)
	<-arrived
	r.raw.Session().Push(mcp.MethodRootsList, "")
	v.Gone()
	if _, _, err := v.finish(); !errors.Is(err, ErrGone) {
		t.Fatal(err)
	}
	close(gate)
	eventually(t, "the call to be off the books", func() bool { return len(r.calls.all()) == 0 })
	r.awaitOrphan()
	if got := r.play(q).asked(t); got != "roots-1" {
		t.Errorf("asked %q, want what the server asked before", got)
	}
}

// An answer that the server refuses for want of credentials can be sent again
// with others; the call waits.
func TestAnswerIsRefusedForItsCredentials(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("greet", func(c *rawserver.Call) { c.Text(c.Ask(mcp.MethodElicit, askFor("a")).Content("a")) })
	q := toolCall("greet")
	o := r.play(q)
	r.raw.Once(func(r *rawserver.Record) bool { return len(r.Messages) == 1 && r.Messages[0].Method == "" }, func(x *rawserver.Exchange) {
		x.Unauthorized("Bearer")
	})
	retry := q.retry(o, accept("elicitation-1", "a", "x"))
	_, _, err := r.mustBegin(retry).finish()
	var unauthorized *Unauthorized
	if !errors.As(err, &unauthorized) || unauthorized.Status != 401 || !slices.Equal(unauthorized.Authenticate, []string{"Bearer"}) {
		t.Fatalf("got %v, want 401 and its challenge", err)
	}
	if n := r.calls.parkedCalls(); n != 1 {
		t.Errorf("%d calls are parked, want 1", n)
	}
	if got := r.play(retry).text(t); got != "x" {
		t.Errorf("got %q", got)
	}
}

// While one of two answers is on its way the server may ask anew, and the call
// park again, before the other is refused.
func TestAnswerIsRefusedWhileTheCallIsParkedAgain(t *testing.T) {
	r := newRig(t)
	again := make(chan struct{})
	r.raw.Tool("three", func(c *rawserver.Call) {
		a, b := c.Start(mcp.MethodElicit, askFor("a")), c.Start(mcp.MethodElicit, askFor("b"))
		a.Wait()
		third := c.Start(mcp.MethodElicit, askFor("c"))
		close(again)
		c.Text(a.Wait().Content("a") + b.Wait().Content("b") + third.Wait().Content("c"))
	})
	q := toolCall("three")
	o := r.play(q)
	if got := o.asked(t); got != "elicitation-1 elicitation-2" {
		t.Fatalf("asked %q", got)
	}
	isSecond := func(r *rawserver.Record) bool {
		return len(r.Messages) == 1 && r.Messages[0].Method == "" && string(r.Messages[0].ID) == "1"
	}
	parkedAgain := make(chan struct{})
	r.raw.Once(isSecond, func(x *rawserver.Exchange) {
		x.Hold(parkedAgain)
		x.Unauthorized("Bearer")
	})
	second := r.play(q.retry(o, `{"elicitation-1":{"action":"accept","content":{"a":"1"}},"elicitation-2":{"action":"accept","content":{"b":"2"}}}`))
	if got := second.asked(t); got != "elicitation-3" {
		t.Fatalf("asked %q", got)
	}
	<-again
	close(parkedAgain)
	r.raw.Wait("the refusal", func() bool { return len(r.raw.Responses()) == 2 })
	token, err := r.ring.Open(second.State, 4096)
	if err != nil {
		t.Fatal(err)
	}
	c := r.calls.get(token.Call)
	eventually(t, "the refused answer", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.inputs) == 2
	})
	if n := r.calls.parkedCalls(); n != 1 {
		t.Errorf("%d calls are counted as parked, want 1", n)
	}
	third := r.play(q.retry(second, accept("elicitation-3", "c", "3")))
	if got := third.asked(t); got != "elicitation-2" {
		t.Fatalf("asked %q, want what was not delivered", got)
	}
	if got := r.play(q.retry(third, accept("elicitation-2", "b", "2"))).text(t); got != "123" {
		t.Errorf("the server was told %q", got)
	}
}

func TestDiscover(t *testing.T) {
	r := newRig(t, func(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) {
		raw.Capabilities, raw.Instructions = `{"tools":{},"tasks":{"list":{}},"experimental":{"x":1.0}}`, "Say \"please\"."
	})
	const want = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"experimental":{"x":1.0}},"instructions":"Say \"please\"."}`
	for range 2 {
		o := r.play(query{method: mcp.MethodDiscover})
		if string(o.Result) != want || string(o.ServerInfo) != `{"name":"rawserver","version":"1.0.0"}` {
			t.Errorf("got %s of server %s, want %s", o.Result, o.ServerInfo, want)
		}
	}
}

func TestListener(t *testing.T) {
	r := newRig(t)
	q := query{method: mcp.MethodListen, params: `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}`}
	v := r.mustBegin(q)
	next := func() Event {
		t.Helper()
		ev, err := v.Next(time.Now().Add(10 * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		return ev
	}
	if got := string(next().Notification); !strings.Contains(got, mcp.NotifyAcknowledged) ||
		!strings.Contains(got, `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}`) {
		t.Fatalf("first came %s", got)
	}
	r.raw.Session().Notify(mcp.NotifyPromptsChanged, "")
	r.raw.Session().Notify(mcp.NotifyResourceUpdated, `{"uri":"file:///b"}`)
	r.raw.Session().Notify(mcp.NotifyToolsChanged, "")
	if got := string(next().Notification); !strings.Contains(got, mcp.NotifyToolsChanged) {
		t.Errorf("told %s", got)
	}
	r.raw.Session().Notify(mcp.NotifyResourceUpdated, `{"uri":"file:///a"}`)
	if got := string(next().Notification); !strings.Contains(got, `"uri":"file:///a"`) {
		t.Errorf("told %s", got)
	}
	shut := make(chan struct{})
	go func() {
		defer close(shut)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		r.Shutdown(ctx)
	}()
	if o := next().Outcome; o == nil || string(o.Result) != "{}" || string(o.Subscription) != "1" {
		t.Errorf("ended with %+v", o)
	}
	v.close()
	<-shut
	if n := r.raw.Count(mcp.MethodUnsubscribe); n != 1 {
		t.Errorf("%d resources were unsubscribed, want 1", n)
	}
	if _, err := r.begin(q); refusalFor(err) != ReasonShutdown {
		t.Errorf("got %v, want a refusal for shutdown", err)
	}
}

func TestListenersAreBounded(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) {
		s.MaxListeners, s.MaxListenersPerPrincipal = 2, 1
	})
	q := query{method: mcp.MethodListen, params: `"notifications":{"toolsListChanged":true}`}
	as := func(auth string) query { return q.with(func(q *query) { q.auth = auth }) }
	a := r.mustBegin(as("a"))
	r.refused(as("a"), ReasonQuota)
	b := r.mustBegin(as("b"))
	r.refused(as("c"), ReasonOverload)
	a.Gone()
	if _, err := a.Next(time.Now().Add(time.Minute)); !errors.Is(err, ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
	a.close()
	c := r.mustBegin(as("c"))
	b.close()
	c.close()
}

// A question that comes when its siblings have gone out is no part of their
// round: a retry of the round before, which comes again, is told what it was.
func TestLateSiblingIsOfTheNextRound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	late, sent := make(chan struct{}), make(chan struct{})
	r.raw.Tool("ask", func(c *rawserver.Call) {
		c.Ask(mcp.MethodElicit, askFor("a"))
		second := c.Start(mcp.MethodElicit, askFor("b"))
		<-late
		third := c.Start(mcp.MethodRootsList, "")
		close(sent)
		second.Wait()
		third.Wait()
		c.Text("done")
	})
	q := toolCall("ask")
	first := r.play(q)
	again := q.retry(first, accept("elicitation-1", "a", "x"))
	second := r.play(again)
	close(late)
	<-sent
	token, err := r.ring.Open(second.State, r.settings.MaxState)
	if err != nil {
		t.Fatal(err)
	}
	c := r.calls.get(token.Call)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) { // the question has no other trace
		c.mu.Lock()
		n := len(c.inputs)
		c.mu.Unlock()
		if n == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the third question did not come")
		}
	}
	if got := r.play(again).asked(t); got != "elicitation-2" {
		t.Errorf("the same retry is asked %q, want what it was asked before", got)
	}
	third := r.play(q.retry(second, accept("elicitation-2", "b", "y")))
	if got := third.asked(t); got != "roots-1" {
		t.Fatalf("the next round is asked %q", got)
	}
	if got := r.play(q.retry(third, `{"roots-1":{"roots":[]}}`)).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
}
