package adapter

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

func TestSubscriptionHearsOfLastingCalls(t *testing.T) {
	r := newRig(t)
	ready := make(chan struct{})
	r.raw.Tool("ask", func(c *rawserver.Call) {
		<-ready
		c.Text(c.Ask(mcp.MethodElicit, askFor("a")).Content("a"))
	})
	begun := r.play(toolCall("ask").lasting()).handle(t)
	v := r.mustBegin(query{method: mcp.MethodListen, params: `"notifications":{"taskIds":["` + string(begun.State) + `","no"]}`})
	defer v.close()
	ev, err := v.Next(time.Now().Add(10 * time.Second))
	if err != nil || !strings.Contains(string(ev.Notification), `"notifications":{"taskIds":["`+string(begun.State)+`"]}`) {
		t.Fatalf("acknowledged with %s, %v", ev.Notification, err)
	}
	hear := func(want mcp.TaskStatus) *Outcome {
		t.Helper()
		for {
			ev, err := v.Next(time.Now().Add(10 * time.Second))
			if err != nil || ev.Standing == nil {
				t.Fatalf("heard %+v, %v", ev, err)
			}
			if ev.Standing.Standing.Status == want {
				return ev.Standing
			}
		}
	}
	close(ready)
	o := hear(mcp.TaskInputRequired)
	r.play(about(mcp.MethodTaskUpdate, begun).with(func(q *query) { q.responses = accept(o.Inputs[0].Key, "a", "A") }))
	if got := hear(mcp.TaskCompleted).text(t); got != "A" {
		t.Errorf("got %q", got)
	}
}

// Listeners that hear of the same calls share what watches them, and leave room
// for the calls of others.
func TestListenersShareWatches(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxCalls = 2 })
	goOn := make(chan struct{})
	r.raw.Tool("slow", func(c *rawserver.Call) {
		select {
		case <-goOn:
			c.Text("slow")
		case <-c.Context().Done():
		}
	})
	r.raw.Tool("fast", func(c *rawserver.Call) { c.Text("fast") })
	const calls, listeners = 4, 3
	var quoted []string
	for range calls {
		quoted = append(quoted, `"`+string(r.play(toolCall("slow").lasting()).handle(t).State)+`"`)
	}
	standing := func(v *visit, want mcp.TaskStatus) {
		t.Helper()
		for range calls {
			ev, err := v.Next(time.Now().Add(20 * time.Second))
			if err != nil || ev.Standing == nil || ev.Standing.Standing.Status != want || string(ev.Standing.Subscription) != "1" {
				t.Fatalf("got %+v, %v", ev, err)
			}
		}
	}
	var all []*visit
	for i := range listeners { // each is told how the calls stand, whoever was there before
		v := r.mustBegin(query{method: mcp.MethodListen, params: `"notifications":{"taskIds":[` + strings.Join(quoted, ",") + `]}`})
		if i > 0 {
			defer v.close()
		}
		if ev, err := v.Next(time.Now().Add(20 * time.Second)); err != nil || ev.Notification == nil {
			t.Fatalf("got %+v, %v", ev, err)
		}
		standing(v, mcp.TaskWorking)
		all = append(all, v)
	}
	if n := r.watches.Load(); n != calls {
		t.Errorf("%d watches of %d calls", n, calls)
	}
	if got := r.play(toolCall("fast").with(func(q *query) { q.auth = "Bearer other" })).text(t); got != "fast" {
		t.Errorf("another caller got %q", got)
	}
	all[0].close() // whose request began the watches
	close(goOn)
	for _, v := range all[1:] {
		standing(v, mcp.TaskCompleted)
	}
	eventually(t, "the watches' end", func() bool { return r.watches.Load() == 0 })
}
