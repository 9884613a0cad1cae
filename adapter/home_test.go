package adapter

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// oneStream makes a server whose sessions cannot be lent: each has one stream
// for all that it says.
func oneStream(_ *Settings, upstream *legacy.Settings, raw *rawserver.Settings) {
	raw.Transport = rawserver.SSE
	upstream.Transport = legacy.TransportSSE
}

// keeper is the replica that keeps the session of a request's key.
func (f *replicas) keeper(q query) (keeper *rig, others []*rig) {
	f.t.Helper()
	req := f.rigs[0].decode(q).req
	caps, err := f.rigs[0].caps.get(req.Capabilities)
	if err != nil {
		f.t.Fatal(err)
	}
	key := f.rigs[0].key(req, caps)
	name, err := f.rigs[0].upstreams()["up"].Server.Keeper(f.t.Context(), &key, nil, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	for i, r := range f.rigs {
		if r.settings.Replica == name || name == "" && i == 0 {
			keeper = r
		} else {
			others = append(others, r)
		}
	}
	return keeper, others
}

// observations counts what a histogram is told.
type observations struct{ n atomic.Int64 }

func (o *observations) Observe(float64) { o.n.Add(1) }

// Rounds without a request state are not timed, through the home neither: what is
// timed is how long a client waits that comes back.
func TestOnlyRetriesAreTimed(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3, oneStream)
	var timed observations
	for _, r := range f.rigs {
		r.metrics = NewMetrics(prometheus.NewRegistry()).bind(r.Engine)
		for s := range r.metrics.times {
			r.metrics.times[s] = &timed
		}
	}
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	_, others := f.keeper(q)
	first := others[0].served(q, ServedForwarded)
	if n := timed.n.Load(); n != 0 {
		t.Errorf("%d first rounds were timed", n)
	}
	others[0].served(q.retry(first, accept("elicitation-1", "name", "Ada")), ServedForwarded)
	if timed.n.Load() == 0 {
		t.Error("the retry was not timed")
	}
}

// A session that cannot be lent is used through the replica that keeps it,
// whichever a request reaches: there is one for each caller.
func TestThroughTheHome(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3, oneStream)
	f.raw.Tool("greet", greet)
	q := toolCall("greet").with(func(q *query) { q.token = `"p"` })
	home, others := f.keeper(q)
	for _, r := range append(others, home) {
		want, after := ServedForwarded, ServedForwarded
		if r == home {
			want, after = ServedLocal, ServedLocal
		}
		first := r.served(q, want)
		if got := first.asked(t); got != "elicitation-1" {
			t.Fatalf("asked %q", got)
		}
		second := r.served(q.retry(first, accept("elicitation-1", "name", "Ada")), after)
		last := home.served(q.retry(second, accept("elicitation-2", "title", "Dr")), ServedLocal)
		if got := last.text(t); got != "Dr Ada" {
			t.Errorf("got %q", got)
		}
		r.served(query{method: mcp.MethodToolsList}, want)
	}
	for _, r := range others {
		if n := f.sentBy(r); n != 0 {
			t.Errorf("%s sent %d requests to the server, want all of them through %s", r.settings.Replica, n, home.settings.Replica)
		}
	}
	if n := f.raw.Count(mcp.MethodInitialize); n != 1 {
		t.Errorf("%d sessions were opened, want one", n)
	}
}

// Who keeps the session keeps it when the key's home is another one by now.
func TestKeeperStays(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 1, oneStream)
	f.raw.Tool("plain", func(c *rawserver.Call) { c.Text("ok") })
	q := toolCall("plain")
	f.rigs[0].served(q, ServedLocal)
	for _, id := range []string{"r2", "r3", "r4", "r5"} {
		f.add(id, f.rigs[0].ring, oneStream)
	}
	for _, r := range f.rigs[1:] {
		r.served(q, ServedForwarded)
	}
	if n := f.raw.Count(mcp.MethodInitialize); n != 1 {
		t.Errorf("%d sessions were opened, want one", n)
	}
}

// A client that goes cancels its call, at whichever replica that runs.
func TestGoneThroughTheHome(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, oneStream)
	begun, gate := make(chan struct{}), make(chan struct{})
	f.raw.Tool("slow", func(c *rawserver.Call) {
		close(begun)
		<-gate
	})
	q := toolCall("slow")
	_, others := f.keeper(q)
	v := others[0].mustBegin(q)
	done := v.goes()
	<-begun
	v.Gone()
	if r := endOf(t, done); !errors.Is(r.err, ErrGone) {
		t.Errorf("the round ended with %v", r.err)
	}
	f.raw.Wait("the cancellation", func() bool { return len(f.raw.Cancelled()) == 1 })
	close(gate)
}

// A keeper that is gone: what had reached it may have run, and only what is
// harmless is sent again, to the next one.
func TestKeeperLost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		q        query
		replay   Replay
		known    bool // what the server's tools do
		harmless bool
		long     bool // it has run for longer than a home is looked for
	}{
		{"a tool", toolCall("slow"), ReplaySafe, true, false, false},
		{"a prompt", query{method: mcp.MethodPromptsGet, params: `"name":"slow"`}, ReplaySafe, false, true, false},
		{"a harmless tool", toolCall("look"), ReplaySafe, true, true, false},
		{"a harmless tool after a while", toolCall("look"), ReplaySafe, true, true, true},
		{"a harmless tool of which nothing is known", toolCall("look"), ReplaySafe, false, false, false},
		{"a harmless tool that may not run again", toolCall("look"), ReplayNever, true, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newReplicas(t, 2, oneStream, replaying(tt.replay))
			begun, gate := make(chan struct{}, 2), make(chan struct{})
			slow := func(c *rawserver.Call) {
				begun <- struct{}{}
				<-gate
				c.Result(`{"content":[],"messages":[]}`)
			}
			f.raw.Handle(mcp.MethodPromptsGet, slow)
			f.raw.Tool("slow", slow)
			f.raw.Declare("look", `{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, slow)
			f.raw.Tool("plain", func(c *rawserver.Call) { c.Text("ok") })
			home, others := f.keeper(tt.q)
			if tt.known { // its home has read the list before its first call
				home.served(toolCall("plain"), ServedLocal)
			}
			ran := f.raw.Count(tt.q.method)
			done := others[0].mustBegin(tt.q).goes()
			<-begun
			if tt.long {
				const patience = lanPatience / 8
				f.lan.change(func() { f.lan.patience = patience })
				since := time.Now()
				eventually(t, "its time to be over", func() bool { return time.Since(since) > patienceTimes*patience })
			}
			f.die(home)
			f.giveUp()
			if tt.harmless {
				eventually(t, "the next home to run it", func() bool { return f.raw.Count(tt.q.method)-ran == 2 })
				close(gate)
				if r := endOf(t, done); r.err != nil {
					t.Error(r.err)
				}
				return
			}
			r := endOf(t, done)
			close(gate)
			var refusal *Refusal
			if !errors.As(r.err, &refusal) || refusal.Reason != ReasonCallLost || !refusal.MayHaveRun {
				t.Errorf("got %v, want that the call is lost, and may have run", r.err)
			}
			if n := f.raw.Count(tt.q.method) - ran; n != 1 {
				t.Errorf("it was sent %d times", n)
			}
		})
	}
}

// The replica that the client is at dies: its connection with it, so that nobody
// is left who could use what comes of a first round.
func TestFirstRoundOfALostReplicaIsCancelled(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, oneStream)
	begun, gate := make(chan struct{}), make(chan struct{})
	f.raw.Tool("slow", func(c *rawserver.Call) {
		close(begun)
		<-gate
	})
	q := toolCall("slow")
	_, others := f.keeper(q)
	v := others[0].mustBegin(q)
	done := v.goes()
	<-begun
	f.die(others[0])
	f.giveUp()
	f.raw.Wait("the cancellation", func() bool { return len(f.raw.Cancelled()) == 1 })
	close(gate)
	v.Gone()
	endOf(t, done)
}

// A listener hears of its session's changes through the replica that keeps it.
func TestListenThroughTheHome(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, oneStream)
	q := query{method: mcp.MethodListen, params: `"notifications":{"toolsListChanged":true}`}
	home, others := f.keeper(q)
	v := others[0].mustBegin(q)
	ev := v.next(t)
	if !strings.Contains(string(ev.Notification), mcp.NotifyAcknowledged) {
		t.Fatalf("got %s first", ev.Notification)
	}
	f.raw.Sessions()[0].Notify(mcp.NotifyToolsChanged, "")
	if ev = v.next(t); !strings.Contains(string(ev.Notification), mcp.NotifyToolsChanged) {
		t.Errorf("got %s", ev.Notification)
	}
	home.mu.Lock()
	n := len(home.listeners)
	home.mu.Unlock()
	if n != 1 {
		t.Errorf("%d listeners where the session is, want the one", n)
	}
	v.Gone()
	v.close()
}

// next is what the round tells next.
func (v *visit) next(t *testing.T) Event {
	t.Helper()
	ev, err := v.Next(time.Now().Add(20 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// A replica that stops has the one that keeps the session let go of a first round:
// its client comes back elsewhere, and the call, which may not run twice, goes on.
func TestDrainOfTheReplicaBeforeTheHome(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3, oneStream)
	gate := make(chan struct{})
	f.raw.Tool("slow", func(c *rawserver.Call) {
		select {
		case <-gate:
			c.Text("done")
		case <-c.Context().Done():
		}
	})
	q := toolCall("slow")
	home, others := f.keeper(q)
	end := others[0].mustBegin(q).goes()
	f.raw.WaitCount(mcp.MethodToolsCall, 1)
	stopped := f.drain(others[0], 10*time.Second)
	r := endOf(t, end)
	if r.err != nil || r.State == nil || len(r.Inputs) != 0 {
		t.Fatal(r.describe())
	}
	awaitStop(t, stopped)
	again := others[1].mustBegin(q.retry(r.Outcome, "")).goes()
	eventually(t, "the retry at the home", func() bool { return home.waiting() == 1 })
	close(gate)
	if r := endOf(t, again); r.err != nil || r.text(t) != "done" {
		t.Error(r.describe())
	}
	if n := len(f.raw.Cancelled()); n != 0 {
		t.Errorf("%d cancellations", n)
	}
	home.mu.Lock()
	defer home.mu.Unlock()
	if len(home.guests) != 0 {
		t.Error("a guest is left")
	}
}
