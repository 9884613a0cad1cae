package adapter

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

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
