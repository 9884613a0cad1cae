package adapter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A retry may reach any replica: the owner serves it.
func TestRetryAtAnotherReplica(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3)
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	first := f.rigs[0].served(q, ServedLocal)
	second := f.rigs[1].served(q.retry(first, accept("elicitation-1", "name", "Ada")), ServedForwarded)
	if got := second.asked(t); got != "elicitation-2" {
		t.Fatalf("asked %q", got)
	}
	last := f.rigs[2].served(q.retry(second, accept("elicitation-2", "title", "Dr")), ServedForwarded)
	if got := last.text(t); got != "Dr Ada" {
		t.Errorf("got %q", got)
	}
	if got, want := string(last.ServerInfo), `{"name":"rawserver","version":"1.0.0"}`; got != want {
		t.Errorf("the server is said to be %s, want %s", got, want)
	}
	want := []string{`r1:0={"action":"accept","content":{"name":"Ada"}}`, `r1:1={"action":"accept","content":{"title":"Dr"}}`}
	if got := f.posted(); !slices.Equal(got, want) {
		t.Errorf("the server got %s, want %s", got, want)
	}
	if n := len(f.raw.Sessions()); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
}

// ending is a call whose second round ends in one way or another.
type ending struct {
	change change
	tool   func(*rawserver.Call)
	call   func(*query)                                 // the first round
	retry  func(f *replicas, q query, o *Outcome) query // nil: with the answer "x"
	refuse bool                                         // the server answers the answer with 401
	want   string                                       // part of how the owner tells it
}

func askOnce(then func(*rawserver.Call)) func(*rawserver.Call) {
	return func(c *rawserver.Call) {
		c.Ask(mcp.MethodElicit, askFor("a"))
		then(c)
	}
}

func endings() map[string]ending {
	answered := func(_ *replicas, q query, o *Outcome) query { return q.retry(o, accept("elicitation-1", "a", "x")) }
	return map[string]ending{
		"a result": {
			tool: askOnce(func(c *rawserver.Call) {
				c.Result(`{"content":[],"structuredContent":{"n":1.50,"\u0061":[ ]},"_meta":{}}`)
			}),
			want: `{"content":[],"structuredContent":{"n":1.50,"\u0061":[ ]},"_meta":{}}`,
		},
		"an error of the server": {
			tool: askOnce(func(c *rawserver.Call) { c.Error(-7, "no", `{"n": 1.0}`) }), want: `{"code":-7,"message":"no","data":{"n": 1.0}}`,
		},
		"an error that is mapped": {
			tool: askOnce(func(c *rawserver.Call) { c.Error(-32002, "not found", "") }), want: `{"code":-32602,"message":"not found"}`,
		},
		"questions": {
			tool: func(c *rawserver.Call) {
				c.Ask(mcp.MethodElicit, askFor("a"))
				c.Start(mcp.MethodRootsList, "")
				c.Start(mcp.MethodCreateMessage, `{"messages":[],"maxTokens":1.0}`)
				<-c.Context().Done()
			},
			want: `roots-1 roots/list {} sampling-1 sampling/createMessage {"messages":[],"maxTokens":1.0}`,
		},
		"answers that do not fit": {
			tool:  askOnce(func(c *rawserver.Call) { c.Text("?") }),
			retry: func(_ *replicas, q query, o *Outcome) query { return q.retry(o, accept("elicitation-1", "b", "x")) },
			want:  "elicitation-1 elicitation/create",
		},
		"a missing capability": {
			tool: askOnce(func(c *rawserver.Call) { c.Ask(mcp.MethodCreateMessage, `{}`) }),
			call: func(q *query) { q.caps = `{"elicitation":{"form":{}}}` },
			want: `missing_capability: the server asks for what the client did not declare; declare the capability and send the request again {"sampling":{}} true`,
		},
		"too many rounds": {
			change: func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxRounds = 1 },
			tool:   askOnce(func(c *rawserver.Call) { <-c.Context().Done() }), want: "too_many_rounds",
		},
		"silence": {
			change: func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.Timeout = 400 * time.Millisecond },
			tool:   askOnce(func(c *rawserver.Call) { <-c.Context().Done() }), want: "call_timeout",
		},
		"a stream that breaks": {
			change: noEventIDs, tool: askOnce(func(c *rawserver.Call) { c.Cut() }), want: "upstream_lost",
		},
		"an answer that is not legal": {
			tool: askOnce(func(c *rawserver.Call) { c.Send(`{"jsonrpc":"2.0","id":` + string(c.ID) + `,"error":7}`) }), want: "upstream_reply",
		},
		"a result that is no object": {
			tool: askOnce(func(c *rawserver.Call) { c.Send(c.ResultText(`[]`)) }), want: "upstream_reply: the server's result is no object  true",
		},
		"credentials that the server refuses": {
			tool: askOnce(func(c *rawserver.Call) { c.Text("?") }), refuse: true, want: `401 [Bearer realm="x" Basic] unauthorized`,
		},
		"other params": {
			tool: askOnce(func(c *rawserver.Call) { c.Text("?") }),
			retry: func(f *replicas, q query, o *Outcome) query {
				q = answered(f, q, o)
				q.params += `,"arguments":{}`
				return q
			}, want: "state_foreign",
		},
		"another caller": {
			tool: askOnce(func(c *rawserver.Call) { c.Text("?") }),
			retry: func(f *replicas, q query, o *Outcome) query {
				q = answered(f, q, o)
				q.auth = "Bearer other"
				return q
			}, want: "state_foreign",
		},
		"a header that is missing": {
			tool: askOnce(func(c *rawserver.Call) { c.Text("?") }),
			call: func(q *query) { q.headers = paramFields{{"Mcp-Param-Region", "eu"}} },
			retry: func(f *replicas, q query, o *Outcome) query {
				q = answered(f, q, o)
				q.headers = paramFields{{"Mcp-Param-Other", "eu"}}
				return q
			}, want: "header_mismatch: no header Mcp-Param-Region",
		},
		"a header that is there": {
			tool: askOnce(func(c *rawserver.Call) { c.Text("done") }),
			call: func(q *query) { q.headers = paramFields{{"Mcp-Param-Region", "eu"}, {"Mcp-Param-Other", "ü"}} },
			want: `{"content":[{"type":"text","text":"done"}]}`,
		},
		"a state of a round that is over": {
			tool: func(c *rawserver.Call) {
				for range 3 {
					c.Ask(mcp.MethodElicit, askFor("a"))
				}
				<-c.Context().Done()
			},
			retry: func(f *replicas, q query, o *Outcome) query {
				first := answered(f, q, o)
				second := f.rigs[0].play(first)
				f.rigs[0].play(q.retry(second, accept("elicitation-2", "a", "y")))
				return first
			}, want: "state_stale",
		},
		"the round before": {
			tool: func(c *rawserver.Call) {
				for range 3 {
					c.Ask(mcp.MethodElicit, askFor("a"))
				}
				<-c.Context().Done()
			},
			retry: func(f *replicas, q query, o *Outcome) query {
				first := answered(f, q, o)
				f.rigs[0].play(first)
				return first
			}, want: "elicitation-2 elicitation/create",
		},
		"a call that is forgotten": {
			change: func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxOutcomeBytes = 1 },
			tool:   askOnce(func(c *rawserver.Call) { c.Text("done") }),
			retry: func(f *replicas, q query, o *Outcome) query {
				q = answered(f, q, o)
				f.rigs[0].play(q)
				return q
			}, want: "call_lost",
		},
	}
}

// describe is all that a client is told of how its round ended.
func (r result) describe() string {
	var refusal *Refusal
	var auth *Unauthorized
	var envelope *jsonrpc.Error
	switch {
	case errors.As(r.err, &refusal):
		return fmt.Sprintf("%s: %s %s %v %v", refusal.Reason, refusal.Detail, refusal.Required, refusal.MayHaveRun, refusal.RetryAfter)
	case errors.As(r.err, &auth):
		return fmt.Sprintf("%d %v %s %s", auth.Status, auth.Authenticate, auth.Body, auth.ContentType)
	case errors.As(r.err, &envelope):
		return fmt.Sprintf("%d %s %s", envelope.Code, envelope.Message, envelope.Data)
	case r.err != nil:
		return r.err.Error()
	}
	text := string(r.Result) + string(r.Error)
	for _, in := range r.Inputs {
		text += in.Key + " " + in.Method + " " + string(in.Params) + " "
	}
	return fmt.Sprintf("%s %s %s %v %v", r.Method, text, r.ServerInfo, r.Cache, r.State != nil)
}

// Whatever the owner tells, a client at another replica is told the same.
func TestSameEndThroughAnotherReplica(t *testing.T) {
	t.Parallel()
	for name, tt := range endings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ends [2]string
			for at := range ends {
				changes := []change{}
				if tt.change != nil {
					changes = append(changes, tt.change)
				}
				f := newReplicas(t, 2, changes...)
				f.raw.Declare("tool", `{"name":"tool","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`, tt.tool)
				q := toolCall("tool")
				q.auth = "Bearer mine"
				if tt.call != nil {
					tt.call(&q)
				}
				o := f.rigs[0].play(q)
				retry := q.retry(o, accept("elicitation-1", "a", "x"))
				if tt.retry != nil {
					retry = tt.retry(f, q, o)
				}
				if tt.refuse {
					f.raw.Once(func(r *rawserver.Record) bool { return len(r.Messages) == 1 && r.Messages[0].Method == "" }, func(x *rawserver.Exchange) {
						x.Reply(401, "unauthorized", "WWW-Authenticate", `Bearer realm="x"`, "WWW-Authenticate", "Basic", "Content-Type", "text/odd")
					})
				}
				v, err := f.rigs[at].begin(retry)
				end := result{err: err}
				if err == nil {
					end = endOf(t, v.goes())
				}
				ends[at] = end.describe()
			}
			if !strings.Contains(ends[0], tt.want) {
				t.Errorf("at the owner: got %s, want %s", ends[0], tt.want)
			}
			if ends[1] != ends[0] {
				t.Errorf("elsewhere: got %s, want %s", ends[1], ends[0])
			}
		})
	}
}

// The same retry at two replicas at once has one outcome, and its answer
// reaches the server once.
func TestRetrySentToTwoReplicas(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3)
	gate := make(chan struct{})
	f.raw.Tool("greet", func(c *rawserver.Call) {
		name := c.Ask(mcp.MethodElicit, askFor("name"))
		<-gate
		c.Text("Hello " + name.Content("name"))
	})
	q := toolCall("greet")
	retry := q.retry(f.rigs[0].play(q), accept("elicitation-1", "name", "Ada"))
	var rounds []<-chan result
	for range 3 {
		for _, r := range f.rigs {
			rounds = append(rounds, r.mustBegin(retry).goes())
		}
	}
	f.raw.Wait("the answer", func() bool { return len(f.raw.Responses()) == 1 })
	close(gate)
	for _, done := range rounds {
		if r := endOf(t, done); r.err != nil || r.text(t) != "Hello Ada" {
			t.Errorf("got %v", r.describe())
		}
	}
	for _, r := range f.rigs {
		if got := r.play(retry).text(t); got != "Hello Ada" {
			t.Errorf("after the end: got %q", got)
		}
	}
	if n := len(f.raw.Responses()); n != 1 {
		t.Errorf("the server got %d answers, want 1", n)
	}
}
