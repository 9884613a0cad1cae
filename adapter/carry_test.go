package adapter

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// carriedCall is a first request whose client does not send it again.
func carriedCall(params string) query {
	return query{method: mcp.MethodToolsCall, params: params, carried: true}
}

// resumed is a later round of it: all answers, and no request.
func resumed(o *Outcome, answers ...string) query {
	return query{method: mcp.MethodToolsCall, carried: true, wrapped: true, state: string(o.State), responses: "{" + strings.Join(answers, ",") + "}"}
}

// step is an answer as the client wraps it.
func step(key, value string) string {
	return `"` + key + `":{"result":{"action":"accept","content":{"sure":"` + value + `"}}}`
}

func TestRequestIsCarried(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"a key of all replicas": false, "a key of this process": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.OwnKey = own })
			r.raw.Tool("tool", confirmAll(func() []string { return []string{"A", "B"} }))
			first := r.play(carriedCall(`"name":"tool","arguments":null`))
			if got := first.asked(t); got != "elicitation-1" {
				t.Fatalf("asked %q", got)
			}
			second := r.play(resumed(first, step("elicitation-1", "1")))
			if got := second.asked(t); got != "elicitation-2" {
				t.Fatalf("asked %q", got)
			}
			// All that the call has had is sent every time, and stays as it was.
			r.refused(resumed(second, step("elicitation-2", "2")), ReasonInvalidParams)
			r.refused(resumed(second, step("elicitation-1", "9"), step("elicitation-2", "2")), ReasonInvalidParams)
			r.refused(resumed(second, `"elicitation-1":{"error":{"code":1,"message":"no"}}`, step("elicitation-2", "2")), ReasonInvalidParams)
			r.refused(resumed(second, step("elicitation-1", "1"), step("elicitation-2", "2")).with(func(q *query) { q.auth = "Bearer other" }), ReasonStateForeign)
			spelt := `"elicitation-1": { "result" : {"content": {"sure":"\u0031"}, "action":"accept"} }`
			if got := r.play(resumed(second, spelt, step("elicitation-2", "2"), step("other", "3"))).text(t); got != "A=1 B=2" {
				t.Errorf("got %q", got)
			}
			// The same once more has the same outcome.
			if got := r.play(resumed(second, step("elicitation-1", "1"), step("elicitation-2", "2"))).text(t); got != "A=1 B=2" {
				t.Errorf("got %q", got)
			}
			if n := r.raw.ToolCalls("tool"); n != 1 {
				t.Errorf("it ran %d times", n)
			}
		})
	}
}

func TestCarriedRequestIsNotEverywhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.raw.Tool("tool", confirmAll(func() []string { return []string{"A"} }))
	r.refused(carriedCall(`"name":"tool","arguments":{"a":"`+strings.Repeat("x", 4096)+`"}`), ReasonInvalidParams)
	if n := r.raw.ToolCalls("tool"); n != 0 {
		t.Errorf("it ran %d times, although its token had no room for it", n)
	}
	plain := r.play(toolCall("tool"))
	r.refused(resumed(plain, step("elicitation-1", "1")), ReasonStateInvalid)
	// A large one whose answers find no more room is served all the same.
	large := r.play(carriedCall(`"name":"tool","arguments":{"a":"` + strings.Repeat("x", 2750) + `"}`))
	if got := r.play(resumed(large, step("elicitation-1", "1"))).text(t); got != "A=1" {
		t.Errorf("got %q", got)
	}
}

// A call whose request is carried runs again like any other; what the client
// brings counts for the same question only.
func TestCarriedRequestRunsAgain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before, after []string
		asks          string // in the replay, after A and B were answered; "" for nothing
		key           string
		answers       []string
		want          string
	}{
		"the same questions": {[]string{"A", "B", "C"}, []string{"A", "B", "C"}, "delete C?", "elicitation-5",
			[]string{step("elicitation-1", "1"), step("elicitation-2", "2")}, "A=1 B=2 C=3"},
		"another question in the place of the first": {[]string{"A", "B", "C"}, []string{"X", "B"}, "delete X?", "elicitation-3",
			[]string{step("elicitation-1", "1"), step("elicitation-2", "2")}, "X=3 B=2"},
		"in another order": {[]string{"A", "B", "C"}, []string{"B", "A"}, "", "",
			[]string{step("elicitation-1", "1"), step("elicitation-2", "2")}, "B=2 A=1"},
		"an error among them": {[]string{"A", "B", "C"}, []string{"A", "B"}, "", "",
			[]string{`"elicitation-1":{"error":{"code":-1,"message":"no"}}`, step("elicitation-2", "2")}, "B=2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReplicas(t, 3, noEventIDs, replaying(ReplayAlways))
			var runs atomic.Int32
			f.raw.Tool("tool", func(c *rawserver.Call) {
				if runs.Add(1) == 1 {
					confirmAll(func() []string { return tt.before })(c)
				} else {
					confirmAll(func() []string { return tt.after })(c)
				}
			})
			o := f.rigs[0].play(carriedCall(`"name":"tool","arguments":{"a":1}`))
			o = f.rigs[1].play(resumed(o, tt.answers[0]))
			if got := o.asked(t); got != "elicitation-2" {
				t.Fatalf("asked %q", got)
			}
			f.die(f.rigs[0])
			f.giveUp()
			o = f.rigs[1].play(resumed(o, tt.answers...))
			answers := tt.answers
			if tt.asks != "" {
				if got := o.asked(t); got != tt.key || !strings.Contains(string(o.Inputs[0].Params), tt.asks) {
					t.Fatalf("asked %q: %s, want %q, which is new", got, o.Inputs[0].Params, tt.key)
				}
				answers = append(answers[:2:2], step(tt.key, "3"))
				o = f.rigs[2].play(resumed(o, answers...))
			}
			if got := o.text(t); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			calls := f.raw.Received("tools/call")
			if len(calls) != 2 || string(calls[0].Params) != string(calls[1].Params) {
				t.Errorf("the server got %d calls: %s", len(calls), calls[len(calls)-1].Params)
			}
		})
	}
}

// An answer may be an error, which the server gets for its question.
func TestErrorAnswers(t *testing.T) {
	t.Parallel()
	const failure = `{"code":-1,"message":"rejected","data":{"by":"user"}}`
	said := func(a rawserver.Answer) string {
		if a.Error != nil {
			return a.Error.Message + string(a.Error.Data)
		}
		return a.Content("v")
	}
	r := newRig(t)
	r.raw.Tool("plain", func(c *rawserver.Call) { c.Text(said(c.Ask(mcp.MethodElicit, askFor("v")))) })
	r.raw.Tool("hinted", func(c *rawserver.Call) { c.Text(said(c.Ask(mcp.MethodElicit, hinted("k", "v")))) })
	wrap := func(q *query) { q.wrapped = true }

	o := r.play(toolCall("plain"))
	for _, bad := range []string{`{"elicitation-1":{"error":{"code":"x","message":"m"}}}`, `{"elicitation-1":{"error":7}}`, `{"elicitation-1":{}}`,
		`{"elicitation-1":{"action":"accept","content":{"v":"1"}}}`, `{"elicitation-1":{"result":{"action":"maybe"}}}`} {
		o = r.play(toolCall("plain").retry(o, bad).with(wrap))
		if got := o.asked(t); got != "elicitation-1" {
			t.Fatalf("%s: asked %q, want the same once more", bad, got)
		}
	}
	if got := r.play(toolCall("plain").retry(o, `{"elicitation-1":{"error":`+failure+`}}`).with(wrap)).text(t); got != `rejected{"by":"user"}` {
		t.Errorf("the server got %q", got)
	}
	early := toolCall("hinted").with(wrap)
	early.responses = `{"k":{"error":` + failure + `}}`
	if got := r.play(early).text(t); got != `rejected{"by":"user"}` {
		t.Errorf("the server got %q", got)
	}
	early.responses = accept("k", "v", "1")
	early.wrapped = false
	if got := r.play(early).text(t); got != "1" {
		t.Errorf("the server got %q", got)
	}
	// Without wrapping a client cannot say that it has failed.
	o = r.play(toolCall("plain"))
	if got := r.play(toolCall("plain").retry(o, `{"elicitation-1":{"error":`+failure+`}}`)).asked(t); got != "elicitation-1" {
		t.Errorf("asked %q", got)
	}
}

// An error that was given before is given again in a replay.
func TestErrorAnswersAgain(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, noEventIDs, replaying(ReplayAlways))
	f.raw.Tool("tool", func(c *rawserver.Call) {
		a := c.Ask(mcp.MethodElicit, askFor("a"))
		b := c.Ask(mcp.MethodElicit, askFor("b"))
		c.Text(a.Error.Message + " " + b.Content("b"))
	})
	q := toolCall("tool").with(func(q *query) { q.wrapped = true })
	o := f.rigs[0].play(q)
	o = f.rigs[0].play(q.retry(o, `{"elicitation-1":{"error":{"code":-1,"message":"rejected"}}}`))
	f.die(f.rigs[0])
	f.giveUp()
	o = f.rigs[1].play(q.retry(o, `{"elicitation-2":{"result":{"action":"accept","content":{"b":"B"}}}}`))
	if got := o.text(t); got != "rejected B" {
		t.Errorf("got %q", got)
	}
}
