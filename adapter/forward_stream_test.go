package adapter

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A client that closes its connection to another replica cancels the call at
// its owner, as long as nobody else waits for it.
func TestGoneElsewhereCancels(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3)
	f.raw.Tool("slow", askOnce(func(c *rawserver.Call) { <-c.Context().Done() }))
	q := toolCall("slow")
	retry := q.retry(f.rigs[0].play(q), accept("elicitation-1", "a", "x"))
	b, c, a := f.rigs[1].mustBegin(retry), f.rigs[2].mustBegin(retry), f.rigs[0].mustBegin(retry)
	ends := map[*visit]<-chan result{a: a.goes(), b: b.goes(), c: c.goes()}
	f.raw.Wait("the answer", func() bool { return len(f.raw.Responses()) == 1 })
	eventually(t, "all three at the owner", func() bool { return f.rigs[0].waiting() == 3 })
	for i, v := range []*visit{b, a, c} {
		if n := len(f.raw.Cancelled()); n != 0 {
			t.Fatalf("the call was cancelled while %d clients waited for it", 3-i)
		}
		v.Gone()
		if r := endOf(t, ends[v]); !errors.Is(r.err, ErrGone) {
			t.Errorf("got %v, want ErrGone", r.err)
		}
		eventually(t, "the owner to know", func() bool { return f.rigs[0].waiting() == 2-i })
	}
	f.raw.WaitCount(mcp.NotifyCancelled, 1)
}

// waiting counts the rounds of clients at live calls of this replica.
func (r *rig) waiting() (n int) {
	for _, c := range r.calls.all() {
		c.mu.Lock()
		n += len(c.rounds)
		c.mu.Unlock()
	}
	return n
}

// A client that leaves before its replica has asked anybody cancels nothing and
// leaves nothing.
func TestGoneBeforeTheOwnerIsAsked(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	retry := q.retry(f.rigs[0].play(q), accept("elicitation-1", "name", "x"))
	v := f.rigs[1].mustBegin(retry)
	v.Gone()
	if r := endOf(t, v.goes()); !errors.Is(r.err, ErrGone) {
		t.Errorf("got %v, want ErrGone", r.err)
	}
	f.rigs[1].mustBegin(retry).close() // never driven at all
	if n := f.lan.questions(KindRound); n != 0 {
		t.Errorf("the owner was asked %d times", n)
	}
	if got := f.rigs[1].play(retry).asked(t); got != "elicitation-2" {
		t.Errorf("asked %q", got)
	}
}

// The death of the replica that a client came to is no word of the client: the
// call goes on at its owner, and the same retry elsewhere gets its outcome.
func TestDeathOfTheReplicaThatForwards(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3)
	gate := make(chan struct{})
	f.raw.Tool("slow", askOnce(func(c *rawserver.Call) {
		<-gate
		c.Text("done")
	}))
	q := toolCall("slow")
	retry := q.retry(f.rigs[0].play(q), accept("elicitation-1", "a", "x"))
	lost := f.rigs[1].mustBegin(retry)
	lostEnd := lost.goes()
	f.raw.Wait("the answer", func() bool { return len(f.raw.Responses()) == 1 })
	f.die(f.rigs[1])
	f.giveUp()
	eventually(t, "the owner to know", func() bool { return f.rigs[0].waiting() == 0 })
	v := f.rigs[2].mustBegin(retry)
	end := v.goes()
	eventually(t, "the same retry at the owner", func() bool { return f.rigs[0].waiting() == 1 })
	close(gate)
	if r := endOf(t, end); r.err != nil || r.text(t) != "done" {
		t.Errorf("got %s", r.describe())
	}
	if n := len(f.raw.Cancelled()); n != 0 {
		t.Error("the call was cancelled")
	}
	if n := len(f.raw.Responses()); n != 1 {
		t.Errorf("the server got %d answers, want 1", n)
	}
	lost.Gone()
	endOf(t, lostEnd)
}

// What the server says on the way reaches the client in order and without a
// gap, under the token and the level of its own retry, and the outcome last.
func TestOrderThroughAnotherReplica(t *testing.T) {
	t.Parallel()
	const n = 300
	f := newReplicas(t, 2, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.Buffer = 2 * n })
	f.raw.Tool("chatty", askOnce(func(c *rawserver.Call) {
		for i := range n {
			c.Progress(float64(i), n)
			c.Log("debug", "too fine")
			c.Log("warning", fmt.Sprint("w", i))
		}
		c.Text("done")
	}))
	q := toolCall("chatty").with(func(q *query) { q.token = `"first"` })
	o := f.rigs[0].play(q)
	retry := q.retry(o, accept("elicitation-1", "a", "x")).with(func(q *query) { q.token, q.level = "7", mcp.LevelInfo })
	r := endOf(t, f.rigs[1].mustBegin(retry).goes())
	if r.err != nil || r.text(t) != "done" {
		t.Fatal(r.describe())
	}
	var want []string
	for i := range n {
		want = append(want,
			fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":%d,"total":%d}}`, i, n),
			fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"w%d"}}`, i))
	}
	if !slices.Equal(r.told, want) {
		t.Errorf("told %d notifications, want %d: %.300q", len(r.told), len(want), r.told)
	}
}

// A client that does not read costs its own call, not the replica's memory; it
// is told so once it reads again, and another's call goes on.
func TestSlowClientAtAnotherReplica(t *testing.T) {
	t.Parallel()
	const buffer = 8
	f := newReplicas(t, 2, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.Buffer = buffer })
	reads := make(chan struct{})
	f.raw.Tool("chatty", askOnce(func(c *rawserver.Call) {
		c.Progress(0, 0)
		<-reads
		for n := 1.0; n < 10*buffer; n++ {
			c.Progress(n, 0)
		}
		<-c.Context().Done()
	}))
	f.raw.Tool("greet", greet)
	q := toolCall("chatty").with(func(q *query) { q.token = "7" })
	v := f.rigs[1].mustBegin(q.retry(f.rigs[0].play(q), accept("elicitation-1", "a", "x")))
	ev, err := v.Next(time.Now().Add(10 * time.Second))
	if err != nil || ev.Notification == nil {
		t.Fatal(ev, err)
	}
	close(reads)
	f.raw.WaitCount(mcp.NotifyCancelled, 1)
	other := toolCall("greet")
	other = other.retry(f.rigs[0].play(other), accept("elicitation-1", "name", "x"))
	if got := f.rigs[1].play(other).asked(t); got != "elicitation-2" {
		t.Errorf("asked %q", got)
	}
	r := endOf(t, v.goes())
	var refusal *Refusal
	if !errors.As(r.err, &refusal) || refusal.Reason != ReasonSlowClient {
		t.Errorf("got %s, want slow_client", r.describe())
	}
	if len(r.told) > lanWindow+1 {
		t.Errorf("%d notifications were on their way, want at most %d", len(r.told), lanWindow+1)
	}
}
