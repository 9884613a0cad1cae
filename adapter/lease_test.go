package adapter

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// While an owner holds no lease another replica may have its calls: it says
// nothing for them, to anybody, and goes on once it is confirmed.
func TestOwnerWithoutItsLeaseSaysNothing(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	gate := make(chan struct{})
	joined := make(chan struct{})
	f.raw.Tool("slow", askOnce(func(c *rawserver.Call) {
		<-joined
		c.Progress(1, 2)
		<-gate
		c.Text("done")
	}))
	q := toolCall("slow").with(func(q *query) { q.token = "7" })
	retry := q.retry(f.rigs[0].play(q), accept("elicitation-1", "a", "x"))
	owner := f.rigs[0]
	here, there := owner.mustBegin(retry), f.rigs[1].mustBegin(retry)
	if ev, err := there.Next(time.Now().Add(time.Millisecond)); !errors.Is(err, ErrDeadline) {
		t.Fatal(ev, err)
	}
	eventually(t, "both at the owner", func() bool { return owner.waiting() == 2 })
	close(joined)
	for _, v := range []*visit{here, there} {
		if ev, err := v.Next(time.Now().Add(10 * time.Second)); err != nil || ev.Notification == nil {
			t.Fatal(ev, err)
		}
	}
	owner.port().revoke(true)
	close(gate)
	eventually(t, "the result", func() bool { return len(owner.calls.all()) == 0 })
	for _, v := range []*visit{here, there} {
		if ev, err := v.Next(time.Now().Add(150 * time.Millisecond)); !errors.Is(err, ErrDeadline) {
			t.Errorf("got %+v, %v of an owner without its lease", ev, err)
		}
	}
	late := owner.mustBegin(retry)
	if ev, err := late.Next(time.Now().Add(150 * time.Millisecond)); !errors.Is(err, ErrDeadline) {
		t.Errorf("got %+v, %v of an owner without its lease", ev, err)
	}
	owner.port().revoke(false)
	for _, v := range []*visit{here, there, late} {
		if r := endOf(t, v.goes()); r.err != nil || r.text(t) != "done" {
			t.Error(r.describe())
		}
	}
}

// An answer that a retry brought is not posted while the lease is lost.
func TestOwnerWithoutItsLeasePostsNothing(t *testing.T) {
	t.Parallel()
	for name, responses := range map[string]string{
		"one answer":  accept("elicitation-1", "a", "1"),
		"two answers": `{"elicitation-1":{"action":"accept","content":{"a":"1"}},"elicitation-2":{"action":"accept","content":{"b":"2"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReplicas(t, 2)
			f.raw.Tool("two", func(c *rawserver.Call) {
				a, b := c.Start(mcp.MethodElicit, askFor("a")), c.Start(mcp.MethodElicit, askFor("b"))
				a.Wait()
				b.Wait()
				c.Text("done")
			})
			q := toolCall("two")
			owner := f.rigs[0]
			retry := q.retry(owner.play(q), responses)
			v := owner.mustBegin(retry)
			owner.port().revoke(true)
			if ev, err := v.Next(time.Now().Add(250 * time.Millisecond)); !errors.Is(err, ErrDeadline) {
				t.Errorf("got %+v, %v", ev, err)
			}
			if got := f.posted(); len(got) != 0 {
				t.Errorf("the server got %s", got)
			}
			owner.port().revoke(false)
			if r := endOf(t, v.goes()); r.err != nil {
				t.Error(r.describe())
			}
			eventually(t, "what the server gets", func() bool { return len(f.posted()) > 0 })
		})
	}
}

// A client that leaves an owner without its lease cancels nothing: the call may
// be somebody else's, whose client waits.
func TestOwnerWithoutItsLeaseCancelsNothing(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	f.raw.Tool("slow", askOnce(func(c *rawserver.Call) { <-c.Context().Done() }))
	q := toolCall("slow")
	owner := f.rigs[0]
	v := owner.mustBegin(q.retry(owner.play(q), accept("elicitation-1", "a", "x")))
	end := v.goes()
	f.raw.Wait("the answer", func() bool { return len(f.raw.Responses()) == 1 })
	owner.port().revoke(true)
	v.Gone()
	if r := endOf(t, end); !errors.Is(r.err, ErrGone) {
		t.Error(r.describe())
	}
	owner.port().revoke(false)
	v = owner.mustBegin(toolCall("slow")) // whatever was to be posted is, by then
	if r := endOf(t, v.goes()); r.err != nil {
		t.Error(r.describe())
	}
	if got := f.raw.Cancelled(); len(got) != 0 {
		t.Errorf("the server was told that %s is cancelled", got)
	}
}

// A parked call that expires while its owner holds no lease is ended when it
// does again.
func TestExpiryWithoutTheLease(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.ParkTTL = 150 * time.Millisecond })
	f.raw.Tool("asking", askOnce(func(c *rawserver.Call) { <-c.Context().Done() }))
	owner := f.rigs[0]
	o := owner.play(toolCall("asking"))
	owner.port().revoke(true)
	c := owner.calls.get(owner.tokenOf(o))
	eventually(t, "the call to be over its time", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.until.Sub(c.parkedAt) > 150*time.Millisecond // put off
	})
	if got := f.posted(); len(got) != 0 || len(f.raw.Cancelled()) != 0 {
		t.Errorf("the server got %s", got)
	}
	owner.port().revoke(false)
	f.raw.WaitCount(mcp.NotifyCancelled, 1)
	if got, want := f.posted(), []string{`r1:0={"action":"cancel"}`}; !slices.Equal(got, want) {
		t.Errorf("the server got %s, want %s", got, want)
	}
}

// lateOwner is a call that r2 has taken over from r1, which is back.
func lateOwner(t *testing.T, changes ...change) (f *replicas, q query, first, second *Outcome) {
	t.Helper()
	f = newReplicas(t, 2, changes...)
	f.raw.Tool("greet", greet)
	q = toolCall("greet")
	first = f.rigs[0].play(q)
	f.rigs[0].port().unplug()
	f.giveUp()
	second = f.rigs[1].served(q.retry(first, accept("elicitation-1", "name", "Ada")), ServedTakenOver)
	f.rigs[0].port().plug()
	return f, q, first, second
}

// An owner that comes back learns that its call is another's: it serves every
// retry there, and does nothing for the call itself.
func TestLateOwner(t *testing.T) {
	t.Parallel()
	answered := []string{`r2:0={"action":"accept","content":{"name":"Ada"}}`}
	t.Run("the newest state", func(t *testing.T) {
		t.Parallel()
		f, q, _, second := lateOwner(t)
		if got := f.rigs[0].served(q.retry(second, accept("elicitation-2", "title", "Dr")), ServedForwarded).text(t); got != "Dr Ada" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("the state from before", func(t *testing.T) {
		t.Parallel()
		f, q, first, second := lateOwner(t)
		again := f.rigs[0].served(q.retry(first, accept("elicitation-1", "name", "Ada")), ServedForwarded)
		if again.asked(t) != second.asked(t) {
			t.Errorf("asked %q, and %q for the same retry", again.asked(t), second.asked(t))
		}
		if got := f.posted(); !slices.Equal(got, answered) {
			t.Errorf("the server got %s, want %s", got, answered)
		}
	})
	t.Run("the end", func(t *testing.T) {
		t.Parallel()
		f, q, first, second := lateOwner(t)
		last := q.retry(second, accept("elicitation-2", "title", "Dr"))
		f.rigs[1].play(last)
		if got := f.rigs[0].play(last).text(t); got != "Dr Ada" {
			t.Errorf("got %q", got)
		}
		f.rigs[0].refused(q.retry(first, accept("elicitation-1", "name", "Ada")), ReasonStateStale)
	})
	t.Run("its own expiry", func(t *testing.T) {
		t.Parallel()
		f, q, _, second := lateOwner(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) {
			if s.Replica == "r1" {
				s.ParkTTL = 200 * time.Millisecond
			}
		})
		eventually(t, "the late owner's call to end", func() bool { return len(f.rigs[0].calls.all()) == 0 })
		if got := f.rigs[1].play(q.retry(second, accept("elicitation-2", "title", "Dr"))).text(t); got != "Dr Ada" {
			t.Errorf("got %q", got)
		}
		if got := f.raw.Cancelled(); len(got) != 0 {
			t.Errorf("the server was told that %s is cancelled", got)
		}
	})
}

// A call that was taken over from an owner goes on there again, once whoever
// took it over is gone.
func TestOwnerInheritsItsOwnCall(t *testing.T) {
	t.Parallel()
	f, q, first, second := lateOwner(t)
	owner, taker := f.rigs[0], f.rigs[1]
	eventually(t, "the late owner to give up", func() bool { return owner.calls.get(owner.tokenOf(first)) == nil })
	f.die(taker)
	f.giveUp()
	again := owner.served(q.retry(first, accept("elicitation-1", "name", "Ada")), ServedTakenOver)
	if again.asked(t) != second.asked(t) {
		t.Errorf("asked %q, and %q for the same retry", again.asked(t), second.asked(t))
	}
	if got := owner.play(q.retry(again, accept("elicitation-2", "title", "Dr"))).text(t); got != "Dr Ada" {
		t.Errorf("got %q", got)
	}
}

// Two sides of a split that both hold a lease may both have a call. When they
// hear each other again, the one that had it earlier gives it up without a word.
func TestOwnersMeet(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) {
		if s.Replica == "r1" {
			s.ParkTTL = 500 * time.Millisecond
		}
	})
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	owner, taker := f.rigs[0], f.rigs[1]
	first := owner.play(q)
	f.lan.change(func() { owner.port().alone = true })
	owner.port().unplug()
	f.giveUp()
	second := taker.served(q.retry(first, accept("elicitation-1", "name", "Ada")), ServedTakenOver)
	owner.port().plug()
	eventually(t, "the earlier owner to give up", func() bool { return owner.calls.get(owner.tokenOf(first)) == nil })
	// Which may have opened the stream last, so that all that comes goes there.
	eventually(t, "the stream to be opened anew", func() bool { return len(f.resumptions(taker)) == 2 })
	if got := owner.served(q.retry(second, accept("elicitation-2", "title", "Dr")), ServedForwarded).text(t); got != "Dr Ada" {
		t.Errorf("got %q", got)
	}
	if got, cancelled := f.posted(), f.raw.Cancelled(); len(got) != 2 || len(cancelled) != 0 {
		t.Errorf("the server got %s and was told that %s is cancelled", got, cancelled)
	}
}

// An owner without its lease does not open a broken stream again: whoever has
// taken the call over might lose it.
func TestOwnerWithoutItsLeaseOpensNoStream(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	cut := make(chan struct{})
	f.raw.Tool("slow", func(c *rawserver.Call) {
		q := c.Start(mcp.MethodElicit, askFor("a"))
		<-cut
		c.Cut()
		c.Text("done " + q.Wait().Content("a"))
	})
	q := toolCall("slow")
	owner := f.rigs[0]
	o := owner.play(q)
	owner.port().revoke(true)
	close(cut)
	time.Sleep(100 * time.Millisecond) // RetryMax is 10 ms
	if got := f.resumptions(owner); len(got) != 0 {
		t.Errorf("the stream was opened behind %q", got)
	}
	owner.port().revoke(false)
	if got := owner.play(q.retry(o, accept("elicitation-1", "a", "x"))).text(t); got != "done x" {
		t.Errorf("got %q", got)
	}
}
