package adapter

import (
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A server that gives up while the human is thinking has lost its call like any
// other: it runs again where that is harmless, and what the server was told
// before it is told again.
func TestServerThatGaveUp(t *testing.T) {
	t.Parallel()
	const failed = `{"content":[{"type":"text","text":"timed out"}],"isError":true}`
	for name, tt := range map[string]struct {
		change  change
		declare string
		giveUp  func(*rawserver.Call, *rawserver.Question)
		answer  string // to the second question
		want    string // the outcome, or the key of a further question
		runs    int
	}{
		"an error result of a harmless tool": {
			declare: `"annotations":{"idempotentHint":true},`, giveUp: func(c *rawserver.Call, _ *rawserver.Question) { c.Result(failed) },
			answer: accept("elicitation-2", "b", "2"), want: `{"content":[{"type":"text","text":"12"}]}`, runs: 2,
		},
		"an error response of one": {
			declare: `"annotations":{"readOnlyHint":true},`, giveUp: func(c *rawserver.Call, _ *rawserver.Question) { c.Error(-32001, "timed out", "") },
			answer: accept("elicitation-2", "b", "2"), want: `{"content":[{"type":"text","text":"12"}]}`, runs: 2,
		},
		"after it withdrew its question": {
			declare: `"annotations":{"idempotentHint":true},`, giveUp: func(c *rawserver.Call, q *rawserver.Question) {
				c.Notify(mcp.NotifyCancelled, `{"requestId":`+q.ID+`,"reason":"timed out"}`)
				c.Result(failed)
			},
			answer: accept("elicitation-2", "b", "2"), want: `{"content":[{"type":"text","text":"12"}]}`, runs: 2,
		},
		"a harmless one whose client has no answer": {
			declare: `"annotations":{"idempotentHint":true},`, giveUp: func(c *rawserver.Call, _ *rawserver.Question) { c.Result(failed) },
			want: failed, runs: 1,
		},
		"any other tool": {
			giveUp: func(c *rawserver.Call, _ *rawserver.Question) { c.Result(failed) },
			answer: accept("elicitation-2", "b", "2"), want: failed, runs: 1,
		},
		"a harmless one, but replay is forbidden": {
			change: replaying(ReplayNever), declare: `"annotations":{"idempotentHint":true},`, giveUp: func(c *rawserver.Call, _ *rawserver.Question) { c.Result(failed) },
			answer: accept("elicitation-2", "b", "2"), want: failed, runs: 1,
		},
		"a result that is no error": {
			declare: `"annotations":{"idempotentHint":true},`, giveUp: func(c *rawserver.Call, _ *rawserver.Question) { c.Text("done without") },
			answer: accept("elicitation-2", "b", "2"), want: `{"content":[{"type":"text","text":"done without"}]}`, runs: 1,
		},
		"a stream that broke": {
			change: noEventIDs, declare: `"annotations":{"idempotentHint":true},`, giveUp: func(c *rawserver.Call, _ *rawserver.Question) { c.Cut() },
			answer: accept("elicitation-2", "b", "2"), want: `{"content":[{"type":"text","text":"12"}]}`, runs: 2,
		},
	} {
		for _, at := range []int{0, 1} {
			t.Run(name+[]string{" at its owner", " elsewhere"}[at], func(t *testing.T) {
				t.Parallel()
				changes := []change{}
				if tt.change != nil {
					changes = append(changes, tt.change)
				}
				f := newReplicas(t, 2, changes...)
				first := make(chan struct{}, 1)
				first <- struct{}{}
				ended, gate := make(chan struct{}), make(chan struct{})
				f.raw.Declare("tool", `{"name":"tool",`+tt.declare+`"inputSchema":{"type":"object"}}`, func(c *rawserver.Call) {
					a := c.Ask(mcp.MethodElicit, askFor("a"))
					b := c.Start(mcp.MethodElicit, askFor("b"))
					select {
					case <-first:
						<-gate
						tt.giveUp(c, b)
						close(ended)
					default:
						c.Text(a.Content("a") + b.Wait().Content("b"))
					}
				})
				q := toolCall("tool")
				o := f.rigs[0].play(q)
				o = f.rigs[0].play(q.retry(o, accept("elicitation-1", "a", "1")))
				close(gate)
				<-ended
				c := f.rigs[0].calls.get(f.rigs[0].tokenOf(o))
				eventually(t, "the owner to know", func() bool {
					c.mu.Lock()
					defer c.mu.Unlock()
					return c.estate != nil || c.phase == done
				})
				retry := q.retry(o, tt.answer)
				end := f.rigs[at].play(retry)
				if got := string(end.Result) + string(end.Error); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
				again := f.rigs[1-at].play(retry)
				if string(again.Result) != string(end.Result) {
					t.Errorf("the same retry elsewhere got %s, and %s before", again.Result, end.Result)
				}
				if n := f.raw.ToolCalls("tool"); n != tt.runs {
					t.Errorf("it ran %d times, want %d", n, tt.runs)
				}
			})
		}
	}
}

// A question that was withdrawn while the call is parked is not asked any more,
// and an answer to it goes nowhere.
func TestQuestionThatWasWithdrawn(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	gate, withdrawn := make(chan struct{}), make(chan struct{})
	f.raw.Tool("tool", func(c *rawserver.Call) {
		a, b := c.Start(mcp.MethodElicit, askFor("a")), c.Start(mcp.MethodElicit, askFor("b"))
		<-gate
		c.Notify(mcp.NotifyCancelled, `{"requestId":`+a.ID+`}`)
		close(withdrawn)
		c.Text("-" + b.Wait().Content("b"))
	})
	q := toolCall("tool")
	o := f.rigs[0].play(q)
	if got := o.asked(t); got != "elicitation-1 elicitation-2" {
		t.Fatalf("asked %q", got)
	}
	close(gate)
	<-withdrawn
	c := f.rigs[0].calls.get(f.rigs[0].tokenOf(o))
	eventually(t, "the owner to know", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.inputs) == 1
	})
	o = f.rigs[1].play(q.retry(o, accept("elicitation-1", "a", "1")))
	if got := o.asked(t); got != "elicitation-2" {
		t.Fatalf("asked %q", got)
	}
	if got := f.rigs[1].play(q.retry(o, accept("elicitation-2", "b", "2"))).text(t); got != "-2" {
		t.Errorf("got %q", got)
	}
	for _, post := range f.posted() {
		if !strings.HasPrefix(post, "r1:1=") {
			t.Errorf("the server got %s", post)
		}
	}
}
