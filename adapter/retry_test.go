package adapter

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

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
	eventually(t, "the third question", func() bool { // which has no other trace
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.inputs) == 2
	})
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
