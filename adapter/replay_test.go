package adapter

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

func replaying(how Replay) change {
	return func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.Replay = how }
}

// confirmAll asks whether to delete each of the names it is told, and says what
// was deleted.
func confirmAll(names func() []string) func(*rawserver.Call) {
	return func(c *rawserver.Call) {
		var deleted []string
		for _, name := range names() {
			question := `{"message":"delete ` + name + `?","requestedSchema":{"type":"object","properties":{"sure":{"type":"string"}}}}`
			if a := c.Ask(mcp.MethodElicit, question); a.Action() == "accept" {
				deleted = append(deleted, name+"="+a.Content("sure"))
			}
		}
		c.Text(strings.Join(deleted, " "))
	}
}

// What may run twice is run again where the call is lost, and the server is
// answered what it was answered before.
func TestReplay(t *testing.T) {
	t.Parallel()
	abc := confirmAll(func() []string { return []string{"A", "B", "C"} })
	for name, tt := range map[string]struct {
		query   query
		replay  Replay
		declare func(*rawserver.Server)
	}{
		"a prompt": {query{method: mcp.MethodPromptsGet, params: `"name":"p"`}, ReplaySafe, func(s *rawserver.Server) {
			s.Handle(mcp.MethodPromptsGet, abc)
		}},
		"a resource": {query{method: mcp.MethodResourcesRead, params: `"uri":"file:///x"`}, ReplaySafe, func(s *rawserver.Server) {
			s.Handle(mcp.MethodResourcesRead, abc)
		}},
		"a tool that only reads": {toolCall("tool"), ReplaySafe, func(s *rawserver.Server) {
			s.Declare("tool", `{"name":"tool","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}}`, abc)
		}},
		"an idempotent tool": {toolCall("tool"), ReplaySafe, func(s *rawserver.Server) {
			s.Declare("tool", `{"name":"tool","annotations":{"idempotentHint":true},"inputSchema":{"type":"object"}}`, abc)
		}},
		"any tool, if told so": {toolCall("tool"), ReplayAlways, func(s *rawserver.Server) { s.Tool("tool", abc) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReplicas(t, 3, noEventIDs, replaying(tt.replay))
			tt.declare(f.raw)
			q := tt.query
			o := f.rigs[0].play(q)
			o = f.rigs[0].play(q.retry(o, accept("elicitation-1", "sure", "1")))
			f.die(f.rigs[0])
			f.giveUp()
			r := f.rigs[1]
			v := r.mustBegin(q.retry(o, accept("elicitation-2", "sure", "2")))
			end := endOf(t, v.goes())
			if end.err != nil {
				t.Fatal(end.err)
			}
			switch got := v.Served(); got {
			case ServedReplayed:
			case ServedForwarded: // the other one runs it again
				if n := f.sentBy(f.rigs[2]); n == 0 {
					t.Error("it was not run again by anybody")
				}
			default:
				t.Errorf("served as %s", got)
			}
			o = end.Outcome
			if got := o.asked(t); len(o.Inputs) != 1 || !strings.Contains(string(o.Inputs[0].Params), "delete C?") {
				t.Fatalf("asked %q: %+v, want only what is new", got, o.Inputs)
			}
			o = f.rigs[2].play(q.retry(o, accept(o.Inputs[0].Key, "sure", "3")))
			if got := o.text(t); got != "A=1 B=2 C=3" {
				t.Errorf("got %q", got)
			}
			if n := f.raw.Count(q.method); n != 2 {
				t.Errorf("it ran %d times, want twice", n)
			}
		})
	}
}

// What might do harm is not run again, nor anything where that is forbidden.
func TestNoReplay(t *testing.T) {
	t.Parallel()
	abc := confirmAll(func() []string { return []string{"A"} })
	for name, tt := range map[string]struct {
		query   query
		replay  Replay
		declare string
	}{
		"a plain tool":                   {toolCall("tool"), ReplaySafe, `{"name":"tool","inputSchema":{"type":"object"}}`},
		"a tool that says it does harm":  {toolCall("tool"), ReplaySafe, `{"name":"tool","annotations":{"destructiveHint":true,"idempotentHint":false,"readOnlyHint":false},"inputSchema":{"type":"object"}}`},
		"a hint that is none":            {toolCall("tool"), ReplaySafe, `{"name":"tool","annotations":{"readOnlyHint":"true"},"inputSchema":{"type":"object"}}`},
		"a harmless tool, but forbidden": {toolCall("tool"), ReplayNever, `{"name":"tool","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}}`},
		"a prompt, but forbidden":        {query{method: mcp.MethodPromptsGet, params: `"name":"p"`}, ReplayNever, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReplicas(t, 2, noEventIDs, replaying(tt.replay))
			if tt.declare == "" {
				f.raw.Handle(tt.query.method, abc)
			} else {
				f.raw.Declare("tool", tt.declare, abc)
			}
			q := tt.query
			o := f.rigs[0].play(q)
			f.die(f.rigs[0])
			f.giveUp()
			refusal := f.rigs[1].refused(q.retry(o, accept("elicitation-1", "sure", "1")), ReasonCallLost)
			if !refusal.MayHaveRun {
				t.Error("it is not said that the call may have run")
			}
			if n := f.raw.Count(q.method); n != 1 {
				t.Errorf("it ran %d times, want once", n)
			}
		})
	}
}

// An answer from before is used for the same question only: yes to "delete A?"
// must never answer "delete B?".
func TestTranscriptAnswersOnlyTheSameQuestion(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before, after []string
		asked         string // what the client is asked in the replay, after having answered A and B
		want          string
	}{
		"others":           {[]string{"A", "B"}, []string{"C", "D"}, "C D", "C=new D=new"},
		"one of them":      {[]string{"A", "B"}, []string{"C", "B"}, "C", "C=new B=old2"},
		"another order":    {[]string{"A", "B"}, []string{"B", "A"}, "", "B=old2 A=old1"},
		"one that repeats": {[]string{"A", "B"}, []string{"A", "A", "B"}, "A", "A=old1 A=new B=old2"},
		"the same twice":   {[]string{"A", "A"}, []string{"A", "A"}, "", "A=old1 A=old2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReplicas(t, 2, noEventIDs, replaying(ReplayAlways))
			runs := make(chan []string, 2)
			runs <- append(slices.Clone(tt.before), "last")
			runs <- tt.after
			f.raw.Tool("tool", confirmAll(func() []string { return <-runs }))
			q := toolCall("tool")
			o := f.rigs[0].play(q)
			o = f.rigs[0].play(q.retry(o, accept("elicitation-1", "sure", "old1")))
			o = f.rigs[0].play(q.retry(o, accept("elicitation-2", "sure", "old2")))
			f.die(f.rigs[0])
			f.giveUp()
			o = f.rigs[1].play(q.retry(o, `{"elicitation-3":{"action":"accept","content":{"sure":"to the last"}},"elicitation-1":{"action":"accept","content":{"sure":"guess"}}}`))
			var asked []string
			for o.State != nil {
				if len(o.Inputs) != 1 {
					t.Fatalf("%d questions", len(o.Inputs))
				}
				_, rest, _ := strings.Cut(string(o.Inputs[0].Params), "delete ")
				asked = append(asked, rest[:1])
				o = f.rigs[1].play(q.retry(o, accept(o.Inputs[0].Key, "sure", "new")))
			}
			if got := strings.Join(asked, " "); got != tt.asked {
				t.Errorf("asked for %q, want %q", got, tt.asked)
			}
			if got := o.text(t); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// The same params mean the same whatever the spelling; another method is
// another question.
func TestTranscriptGoesByMethodAndMeaning(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, noEventIDs, replaying(ReplayAlways))
	second := false
	f.raw.Tool("tool", func(c *rawserver.Call) {
		spelled, method := `{"message":"a\u0062","requestedSchema":{"type":"object","properties":{}}}`, mcp.MethodCreateMessage
		if second {
			spelled, method = `{ "requestedSchema":{"properties":{}, "type":"object"},"message":"ab" }`, mcp.MethodElicit
		}
		second = true
		first := c.Ask(mcp.MethodElicit, spelled)
		other := c.Ask(method, `{"message":"ab","requestedSchema":{"type":"object","properties":{}}}`)
		c.Text(first.Content("v") + other.Content("v") + other.Content("text"))
		c.Ask(mcp.MethodElicit, askFor("x"))
	})
	q := toolCall("tool")
	o := f.rigs[0].play(q)
	o = f.rigs[0].play(q.retry(o, `{"elicitation-1":{"action":"accept","content":{"v":"1"}}}`))
	if got := o.asked(t); got != "sampling-1" {
		t.Fatalf("asked %q", got)
	}
	f.die(f.rigs[0])
	f.giveUp()
	o = f.rigs[1].play(q.retry(o, `{"sampling-1":{"role":"assistant","content":{"type":"text","text":"2"},"model":"m"}}`))
	if got := o.asked(t); got != "elicitation-2" {
		t.Fatalf("asked %q, want the question that has the same params as one before, but another method", got)
	}
	if got := f.rigs[1].play(q.retry(o, `{"elicitation-2":{"action":"accept","content":{"v":"3"}}}`)).text(t); got != "13" {
		t.Errorf("got %q", got)
	}
}

// A transcript that is too large for the request state stays with the owner:
// after its death everything is asked again, and nothing is made up.
func TestTranscriptThatIsTooLarge(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, noEventIDs, replaying(ReplayAlways), func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxState = 700 })
	f.raw.Tool("tool", confirmAll(func() []string { return []string{"A", "B"} }))
	q := toolCall("tool")
	o := f.rigs[0].play(q)
	o = f.rigs[0].play(q.retry(o, accept("elicitation-1", "sure", strings.Repeat("x", 1000))))
	if len(o.State) > 700 {
		t.Errorf("the request state has %d bytes, want at most 700", len(o.State))
	}
	f.die(f.rigs[0])
	f.giveUp()
	var asked []string
	for answer := "2"; o.State != nil; answer += "+" {
		o = f.rigs[1].play(q.retry(o, accept(o.Inputs[0].Key, "sure", answer)))
		if o.State != nil {
			_, rest, _ := strings.Cut(string(o.Inputs[0].Params), "delete ")
			asked = append(asked, rest[:1])
		}
	}
	if got := fmt.Sprint(asked); got != "[A B]" {
		t.Errorf("asked for %s, want everything again", got)
	}
	if got := o.text(t); got != "A=2+ B=2++" {
		t.Errorf("got %q", got)
	}
}
