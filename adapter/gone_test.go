package adapter

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

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
