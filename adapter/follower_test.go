package adapter

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// followed is the query of a client that follows its call, and may be away for so
// long.
func (q query) followed(away time.Duration) query {
	return q.with(func(q *query) { q.away, q.lasts, q.token = away, time.Hour, `"p"` })
}

// ofFollower is a query about the call that a client follows.
func ofFollower(method string, handle string) query {
	return query{method: method, state: handle, original: "1"}
}

func answerOf(handle, responses string) query {
	return ofFollower(mcp.MethodAnswer, handle).with(func(q *query) { q.responses, q.wrapped = responses, true })
}

func posted(key, name, value string) string {
	return `{"` + key + `":{"result":{"action":"accept","content":{"` + name + `":"` + value + `"}}}}`
}

// hears returns what the client of a round is told next, as a word: handle, pN for
// progress, -N for so many that are lost, ?key for a question, =text for the
// result, !reason for an error.
func (v *visit) hears(t *testing.T) string {
	t.Helper()
	ev, err := v.Next(time.Now().Add(20 * time.Second))
	var refusal *Refusal
	switch {
	case errors.Is(err, ErrEnded):
		return "end"
	case errors.As(err, &refusal):
		return "!" + string(refusal.Reason)
	case err != nil:
		t.Fatalf("heard %v", err)
	case ev.Standing != nil && ev.Standing.State != nil:
		return "handle"
	case ev.Standing != nil:
		return "?" + ev.Standing.Inputs[0].Key
	case ev.Outcome != nil && ev.Outcome.Error != nil:
		return "=" + string(ev.Outcome.Error)
	case ev.Outcome != nil:
		return "=" + ev.Outcome.text(t)
	}
	params := jsonrpc.Get(ev.Notification, "params")
	if dropped := jsonrpc.Get(jsonrpc.Get(params, "data"), "dropped"); dropped != nil {
		return "-" + string(dropped)
	}
	if string(jsonrpc.Get(params, "progressToken")) != `"p"` {
		t.Errorf("heard %s", ev.Notification)
	}
	return "p" + string(jsonrpc.Get(params, "progress"))
}

// hear checks what the client is told next.
func (v *visit) hear(t *testing.T, words string) {
	t.Helper()
	for _, want := range strings.Fields(words) {
		if got := v.hears(t); got != want {
			t.Fatalf("heard %s, want %s of %s", got, want, words)
		}
	}
}

// handleFirst begins a call and returns its handle, which comes first.
func (r *rig) handleFirst(q query) (*visit, string) {
	r.t.Helper()
	v := r.mustBegin(q)
	ev, err := v.Next(time.Now().Add(20 * time.Second))
	if err != nil || ev.Standing == nil || ev.Standing.State == nil || ev.Standing.Standing.Away < time.Second {
		r.t.Fatalf("no handle: %+v, %v", ev, err)
	}
	return v, string(ev.Standing.Standing.Handle)
}

// follows begins a call of a tool that is told its steps (stepwise), for a client
// that follows it and may be away for so long.
func (r *rig) follows(away time.Duration) (v *visit, handle string, steps chan<- string) {
	r.t.Helper()
	all := make(chan string, 16)
	r.raw.Tool("t", stepwise(all))
	v, handle = r.handleFirst(toolCall("t").followed(away))
	return v, handle, all
}

// leave is what the end of the client's connection comes to.
func (v *visit) leave() {
	v.Gone()
	v.close()
}

// stands returns how a call stands, and how much its client is yet to be told.
func (r *rig) stands(handle string) string {
	r.t.Helper()
	s := r.play(ofFollower(mcp.MethodStatus, handle)).Standing
	return fmt.Sprintf("%v %d", s.Status, s.Waiting)
}

// stepwise is a tool that does as it is told: pN progress, ?name a question, = its
// result, which is the last answer.
func stepwise(steps chan string) func(*rawserver.Call) {
	return func(c *rawserver.Call) {
		text := ""
		for {
			var step string
			select {
			case step = <-steps:
			case <-c.Cancelled():
				return
			case <-c.Context().Done():
				return
			}
			switch step[0] {
			case 'p':
				c.Progress(float64(step[1]-'0'), 9)
			case '?':
				text = c.Ask(mcp.MethodElicit, askFor(step[1:])).Content(step[1:])
			default:
				c.Text(text)
				return
			}
		}
	}
}
