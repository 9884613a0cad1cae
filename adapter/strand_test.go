package adapter

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// The connection breaks on which an answer goes to the server, which may have
// it or not: asked on the call's stream, opened anew, the server is given it
// again, also by a tool that may not run twice.
func TestAnswerWhosePostBreaks(t *testing.T) {
	t.Parallel()
	two := `{"elicitation-1":{"action":"accept","content":{"a":"1"}},"elicitation-2":{"action":"accept","content":{"b":"2"}}}`
	for name, tt := range map[string]struct {
		responses string
		breaks    string // the id of the answer whose post breaks
		want      []string
	}{
		"the only one": {accept("elicitation-1", "a", "1"), "0", []string{"0", "0"}},
		"the first":    {two, "0", []string{"0", "0", "1"}},
		"the second":   {two, "1", []string{"0", "1", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.raw.Tool("tool", func(c *rawserver.Call) {
				a := c.Start(mcp.MethodElicit, askFor("a"))
				if tt.responses == two {
					b := c.Start(mcp.MethodElicit, askFor("b"))
					c.Text(a.Wait().Content("a") + b.Wait().Content("b"))
					return
				}
				c.Text(a.Wait().Content("a"))
			})
			q := toolCall("tool")
			o := r.play(q)
			r.raw.Once(func(record *rawserver.Record) bool {
				return len(record.Messages) == 1 && record.Messages[0].Method == "" && string(record.Messages[0].ID) == tt.breaks
			}, func(x *rawserver.Exchange) { x.Drop() })
			if got, want := r.play(q.retry(o, tt.responses)).text(t), "12"[:len(o.Inputs)]; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			var posted []string
			for _, m := range r.raw.Responses() {
				posted = append(posted, string(m.ID))
			}
			if !slices.Equal(posted, tt.want) {
				t.Errorf("answers to %q were posted, want %q", posted, tt.want)
			}
			if n := r.raw.ToolCalls("tool"); n != 1 {
				t.Errorf("the tool ran %d times", n)
			}
		})
	}
}

// The same, after the call has parked with another question: the next retry
// brings the answer along.
func TestAnswerWhosePostBreaksLate(t *testing.T) {
	t.Parallel()
	for name, changes := range map[string][]change{"taken over": nil, "run again": {noEventIDs, replaying(ReplayAlways)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, changes...)
			r.raw.Tool("tool", func(c *rawserver.Call) {
				a, b := c.Start(mcp.MethodElicit, askFor("a")), c.Start(mcp.MethodElicit, askFor("b"))
				first := a.Wait().Content("a")
				third := c.Start(mcp.MethodElicit, askFor("c"))
				c.Text(first + b.Wait().Content("b") + third.Wait().Content("c"))
			})
			gate := make(chan struct{})
			r.raw.Once(func(record *rawserver.Record) bool {
				return len(record.Messages) == 1 && record.Messages[0].Method == "" && string(record.Messages[0].ID) == "1"
			}, func(x *rawserver.Exchange) {
				x.Hold(gate)
				x.Drop()
			})
			q := toolCall("tool")
			o := r.play(q)
			o = r.play(q.retry(o, `{"elicitation-1":{"action":"accept","content":{"a":"1"}},"elicitation-2":{"action":"accept","content":{"b":"2"}}}`))
			if got := o.asked(t); got != "elicitation-3" {
				t.Fatalf("asked %q", got)
			}
			close(gate)
			c := r.calls.get(r.tokenOf(o))
			eventually(t, "the answer to be known to be lost", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.estate != nil || c.phase == done
			})
			if got := r.play(q.retry(o, accept("elicitation-3", "c", "3"))).text(t); got != "123" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// An answer of the transcript whose post breaks in a replay: it runs again.
func TestTranscriptWhosePostBreaks(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, noEventIDs, replaying(ReplayAlways))
	f.raw.Tool("tool", confirmAll(func() []string { return []string{"A", "B"} }))
	q := toolCall("tool")
	o := f.rigs[0].play(q)
	o = f.rigs[0].play(q.retry(o, accept("elicitation-1", "sure", "1")))
	f.die(f.rigs[0])
	f.giveUp()
	f.raw.Once(func(record *rawserver.Record) bool {
		return record.Header.Get("X-Replica") == "r2" && len(record.Messages) == 1 && record.Messages[0].Method == "" && record.Messages[0].Result != nil
	}, func(x *rawserver.Exchange) { x.Drop() })
	if got := f.rigs[1].served(q.retry(o, accept("elicitation-2", "sure", "2")), ServedReplayed).text(t); got != "A=1 B=2" {
		t.Errorf("got %q", got)
	}
	if n := f.raw.ToolCalls("tool"); n != 3 {
		t.Errorf("the tool ran %d times, want 3", n)
	}
}

// The stream breaks of a call that may run again while nobody waits for it: its
// client's replica has died. The same retry elsewhere lets it run again.
func TestStreamBreaksWhileNobodyWaits(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, noEventIDs, replaying(ReplayAlways))
	breaks := make(chan struct{})
	var runs atomic.Int32
	f.raw.Tool("tool", askOnce(func(c *rawserver.Call) {
		if runs.Add(1) == 1 {
			<-breaks
			c.Cut()
			return
		}
		c.Text("done")
	}))
	q := toolCall("tool")
	owner, other := f.rigs[0], f.rigs[1]
	o := owner.play(q)
	retry := q.retry(o, accept("elicitation-1", "a", "x"))
	end := other.mustBegin(retry).goes()
	f.raw.Wait("the answer", func() bool { return len(f.raw.Responses()) == 1 })
	f.die(other)
	f.giveUp()
	eventually(t, "the owner to hear that its client's replica is gone", func() bool { return owner.waiting() == 0 })
	close(breaks)
	c := owner.calls.get(owner.tokenOf(o))
	eventually(t, "the stream to break", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.phase != running
	})
	if got := owner.served(retry, ServedReplayed).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	endOf(t, end) // whatever it was told
}

// A server that breaks at a call is tried so and so often for each retry, and as
// often again where the client sends the retry once more.
func TestStrandedForARetryThatComesAgain(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 1, noEventIDs, replaying(ReplayAlways))
	seen, again := make(chan struct{}), make(chan struct{})
	var runs atomic.Int32
	f.raw.Tool("tool", func(c *rawserver.Call) {
		n := runs.Add(1)
		answer := c.Ask(mcp.MethodElicit, askFor("a"))
		if n == maxStrandings-1 {
			close(seen)
			<-again
		}
		if n <= maxStrandings+1 {
			c.Cut()
			return
		}
		c.Text("done " + answer.Content("a"))
	})
	q, owner := toolCall("tool"), f.rigs[0]
	retry := q.retry(owner.play(q), accept("elicitation-1", "a", "x"))
	first := owner.mustBegin(retry).goes()
	<-seen
	second := owner.mustBegin(retry)
	eventually(t, "the second", func() bool { return owner.waiting() == 2 })
	close(again)
	for _, end := range []<-chan result{first, second.goes()} {
		if r := endOf(t, end); r.err != nil || r.text(t) != "done x" {
			t.Error(r.describe())
		}
	}
}
