package adapter

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// visitFirst is a tool that wants a URL visited before it works; the first call
// hears of it on ready.
func visitFirst(ready chan struct{}, times *atomic.Int32) func(*rawserver.Call) {
	return func(c *rawserver.Call) {
		if times.Add(1) == 1 {
			<-ready
			c.Error(-32042, "first", `{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://example.com/","message":"m"}]}`)
			return
		}
		c.Text("visited" + c.Argument("what"))
	}
}

const visited = `{"elicitationId":"e"}`

// A visit that is over before the client has answered lets a lasting call go on: the
// client may never come to answer.
func TestLastingCallGoesOnAfterAVisit(t *testing.T) {
	q := query{method: mcp.MethodToolsCall, params: `"name":"visit","arguments":{"what":"-it"}`}
	t.Run("task", func(t *testing.T) {
		r := newRig(t)
		ready, times := make(chan struct{}), new(atomic.Int32)
		r.raw.Tool("visit", visitFirst(ready, times))
		begun := r.play(q.lasting()).handle(t)
		close(ready)
		o := r.until(begun, mcp.TaskInputRequired)
		r.raw.Session().Notify(mcp.NotifyElicitationCompleted, visited)
		if got := r.until(begun, mcp.TaskCompleted).text(t); got != "visited-it" {
			t.Errorf("got %q", got)
		}
		// The answer that comes after all is taken, and changes nothing.
		r.play(about(mcp.MethodTaskUpdate, begun).with(func(q *query) { q.responses = `{"` + o.Inputs[0].Key + `":{"action":"accept"}}` }))
		if n := times.Load(); n != 2 {
			t.Errorf("the tool was called %d times", n)
		}
	})
	t.Run("over before the error came", func(t *testing.T) {
		r := newRig(t)
		ready, times := make(chan struct{}), new(atomic.Int32)
		r.raw.Tool("visit", visitFirst(ready, times))
		begun := r.play(q.lasting()).handle(t)
		c := r.calls.get(r.callOf(begun))
		c.mu.Lock()
		c.visited = append(c.visited, "e")
		c.mu.Unlock()
		close(ready)
		if got := r.until(begun, mcp.TaskCompleted).text(t); got != "visited-it" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("followed", func(t *testing.T) {
		r := newRig(t)
		ready, times := make(chan struct{}), new(atomic.Int32)
		r.raw.Tool("visit", visitFirst(ready, times))
		v, _ := r.handleFirst(q.followed(time.Hour))
		defer v.close()
		close(ready)
		v.hear(t, "?elicitation-1")
		r.raw.Session().Notify(mcp.NotifyElicitationCompleted, visited)
		v.hear(t, "=visited-it")
	})
}

// A request that was held back for a question is sent once the server has taken
// that back.
func TestLastingCallGoesOnWhenItIsNotAskedAnyMore(t *testing.T) {
	r := newRig(t)
	question := make(chan *rawserver.Question, 1)
	r.raw.Initialized(func(s *rawserver.Session) { question <- s.Push(mcp.MethodRootsList, "") })
	r.raw.Tool("files", func(c *rawserver.Call) { c.Text("done") })
	r.play(query{method: mcp.MethodToolsList})
	r.raw.Session().WaitListening()
	r.awaitOrphan()
	v, _ := r.handleFirst(toolCall("files").followed(time.Hour))
	defer v.close()
	v.hear(t, "?roots-1")
	r.raw.Session().Notify(mcp.NotifyCancelled, `{"requestId":`+(<-question).ID+`}`)
	v.hear(t, "=done")
}

// A lasting call whose question was taken back runs again, and so has its time
// limits.
func TestLastingCallRunsOnWhenItIsNotAskedAnyMore(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.Timeout = 1500 * time.Millisecond })
	ready, taken := make(chan struct{}), make(chan struct{})
	r.raw.Tool("ask", func(c *rawserver.Call) {
		<-ready
		q := c.Start(mcp.MethodElicit, askFor("a"))
		<-taken
		c.Notify(mcp.NotifyCancelled, `{"requestId":`+q.ID+`}`)
		<-c.Context().Done()
	})
	begun := r.play(toolCall("ask").lasting()).handle(t)
	close(ready)
	r.until(begun, mcp.TaskInputRequired)
	close(taken)
	r.until(begun, mcp.TaskWorking)
	if n := r.calls.parkedCalls(); n != 0 {
		t.Errorf("%d calls are parked", n)
	}
	var refusal *Refusal
	if o := r.until(begun, mcp.TaskFailed); !errors.As(o.Standing.Failure, &refusal) || refusal.Reason != ReasonCallTimeout {
		t.Errorf("failed with %s, %v", o.Error, o.Standing.Failure)
	}
}
