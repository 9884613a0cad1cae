package adapter

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// drain shuts a replica down in the background, as SIGTERM does.
func (f *replicas) drain(r *rig, grace time.Duration) (stopped <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		r.Shutdown(ctx)
		r.port().goodbye()
	}()
	eventually(f.t, "the drain to begin", r.draining.Load)
	return done
}

func awaitStop(t *testing.T, stopped <-chan struct{}) {
	t.Helper()
	select {
	case <-stopped:
	case <-time.After(20 * time.Second):
		t.Fatal("the drain did not end")
	}
}

// A drain waits for what ends soon, and takes nothing new.
func TestDrainLetsShortCallsFinish(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	gate := make(chan struct{})
	f.raw.Tool("short", func(c *rawserver.Call) {
		<-gate
		c.Text("done")
	})
	q := toolCall("short")
	v := f.rigs[0].mustBegin(q)
	end := v.goes()
	f.raw.WaitCount(mcp.MethodToolsCall, 1)
	f.rigs[0].Leave()
	other := f.rigs[0].mustBegin(q) // before the delay is over
	otherEnd := other.goes()
	f.raw.WaitCount(mcp.MethodToolsCall, 2)
	stopped := f.drain(f.rigs[0], 10*time.Second)
	if refusal := f.rigs[0].refused(q, ReasonShutdown); refusal.RetryAfter == 0 || refusal.MayHaveRun {
		t.Errorf("a new call is told %+v", refusal)
	}
	close(gate)
	for _, done := range []<-chan result{end, otherEnd} {
		if r := endOf(t, done); r.err != nil || r.text(t) != "done" {
			t.Error(r.describe())
		}
	}
	awaitStop(t, stopped)
	if n := len(f.raw.Cancelled()); n != 0 {
		t.Errorf("%d calls were cancelled", n)
	}
}

// A call that lasts is let go: its client gets a request state and no
// questions, and whoever it comes back to goes on with the call.
func TestDrainLetsLongCallsGo(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	gate := make(chan struct{})
	f.raw.Tool("long", func(c *rawserver.Call) {
		c.Progress(1, 2)
		<-gate
		c.Text("done " + c.Ask(mcp.MethodElicit, askFor("a")).Content("a"))
	})
	q := toolCall("long").with(func(q *query) { q.token = "7" })
	end := f.rigs[0].mustBegin(q).goes()
	f.raw.WaitCount(mcp.MethodToolsCall, 1)
	stopped := f.drain(f.rigs[0], 10*time.Second)
	r := endOf(t, end)
	if r.err != nil || r.State == nil || len(r.Inputs) != 0 {
		t.Fatalf("got %s, want a request state and no questions", r.describe())
	}
	awaitStop(t, stopped)
	next := f.rigs[1].mustBegin(q.retry(r.Outcome, ""))
	nextEnd := next.goes()
	f.raw.Wait("the stream to go on", func() bool { return len(f.resumptions(f.rigs[1])) == 1 })
	close(gate)
	o := endOf(t, nextEnd)
	if o.err != nil || o.asked(t) != "elicitation-1" {
		t.Fatal(o.describe())
	}
	if got := f.rigs[1].play(q.retry(o.Outcome, accept("elicitation-1", "a", "x"))).text(t); got != "done x" {
		t.Errorf("got %q", got)
	}
	if n := f.raw.ToolCalls("long"); n != 1 || len(f.raw.Cancelled()) != 0 {
		t.Errorf("it ran %d times and was cancelled %d times", n, len(f.raw.Cancelled()))
	}
}

// A replica that begins while another drains, which was alone, goes on with what runs
// there.
func TestDrainLetsCallsGoToWhoBeginsMeanwhile(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 1)
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	f.raw.Tool("long", func(c *rawserver.Call) {
		c.Progress(1, 2)
		<-gate
		c.Text("done")
	})
	q := toolCall("long").with(func(q *query) { q.token = "7" })
	end := f.rigs[0].mustBegin(q).goes()
	f.raw.WaitCount(mcp.MethodToolsCall, 1)
	stopped := f.drain(f.rigs[0], time.Hour)
	select { // it has seen that nobody is there
	case r := <-end:
		t.Fatalf("let go with nobody there: %s", r.describe())
	case <-time.After(50 * time.Millisecond):
	}
	f.add("r2", f.rigs[0].ring)
	r := endOf(t, end)
	if r.err != nil || r.State == nil || len(r.Inputs) != 0 {
		t.Fatalf("got %s, want a request state and no questions", r.describe())
	}
	awaitStop(t, stopped)
	next := f.rigs[1].mustBegin(q.retry(r.Outcome, "")).goes()
	f.raw.Wait("the stream to go on", func() bool { return len(f.resumptions(f.rigs[1])) == 1 })
	open()
	if r := endOf(t, next); r.err != nil || r.text(t) != "done" {
		t.Error(r.describe())
	}
	if n := f.raw.ToolCalls("long"); n != 1 || len(f.raw.Cancelled()) != 0 {
		t.Errorf("it ran %d times and was cancelled %d times", n, len(f.raw.Cancelled()))
	}
}

// Where nobody else can go on with a call, its owner stays and answers for it
// as long as it may.
func TestDrainingOwnerAnswersForwardedRetries(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, noEventIDs)
	gate := make(chan struct{})
	f.raw.Tool("long", func(c *rawserver.Call) {
		<-gate
		c.Text("done " + c.Ask(mcp.MethodElicit, askFor("a")).Content("a"))
	})
	q := toolCall("long")
	end := f.rigs[0].mustBegin(q).goes()
	f.raw.WaitCount(mcp.MethodToolsCall, 1)
	stopped := f.drain(f.rigs[0], 10*time.Second)
	r := endOf(t, end)
	if r.err != nil || r.State == nil || len(r.Inputs) != 0 {
		t.Fatal(r.describe())
	}
	next := f.rigs[1].mustBegin(q.retry(r.Outcome, ""))
	nextEnd := next.goes()
	eventually(t, "the retry at the owner", func() bool { return f.rigs[0].waiting() == 1 })
	close(gate)
	o := endOf(t, nextEnd)
	if o.err != nil || o.asked(t) != "elicitation-1" {
		t.Fatal(o.describe())
	}
	last := f.rigs[1].served(q.retry(o.Outcome, accept("elicitation-1", "a", "x")), ServedForwarded)
	if got := last.text(t); got != "done x" {
		t.Errorf("got %q", got)
	}
	awaitStop(t, stopped) // before its time: there is nothing left to wait for
	if n := f.raw.ToolCalls("long"); n != 1 {
		t.Errorf("it ran %d times, want once", n)
	}
}

// A method that may not be answered with input_required is never let go: it
// finishes, or is ended when the time is over.
func TestDrainKeepsWhatMayNotBeLetGo(t *testing.T) {
	t.Parallel()
	for name, finishes := range map[string]bool{"it finishes": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReplicas(t, 2)
			gate := make(chan struct{})
			f.raw.Handle(mcp.MethodPromptsList, func(c *rawserver.Call) {
				select {
				case <-gate:
					c.Result(`{"prompts":[]}`)
				case <-c.Context().Done():
				}
			})
			end := f.rigs[0].mustBegin(query{method: mcp.MethodPromptsList}).goes()
			f.raw.WaitCount(mcp.MethodPromptsList, 1)
			grace := 10 * time.Second
			if !finishes {
				grace = 1800 * time.Millisecond
			}
			stopped := f.drain(f.rigs[0], grace)
			eventually(t, "the others to be let go", f.rigs[0].letting.Load)
			if finishes {
				close(gate)
			}
			r := endOf(t, end)
			var refusal *Refusal
			switch {
			case finishes && (r.err != nil || string(r.Result) != `{"prompts":[]}`):
				t.Error(r.describe())
			case !finishes && (!errors.As(r.err, &refusal) || refusal.Reason != ReasonShutdown || !refusal.MayHaveRun):
				t.Errorf("got %s, want shutdown of a call that may have run", r.describe())
			}
			awaitStop(t, stopped)
		})
	}
}

// Parked calls outlive the replica that has parked them: who takes its place
// keeps what it needs to tell the server when the client does not come back.
func TestParkedCallsAreHandedOver(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	kept := f.rigs[0].play(q)
	f.rigs[0].play(q) // whose client does not come back
	awaitStop(t, f.drain(f.rigs[0], 5*time.Second))
	if n := len(f.posted()) + len(f.raw.Cancelled()); n != 0 {
		t.Errorf("the server was told %d things", n)
	}
	if _, _, n := f.rigs[1].calls.count(); n != 2 {
		t.Errorf("%d records were left, want 2", n)
	}
	second := f.rigs[1].served(q.retry(kept, accept("elicitation-1", "name", "Ada")), ServedTakenOver)
	if got := f.rigs[1].play(q.retry(second, accept("elicitation-2", "title", "Dr"))).text(t); got != "Dr Ada" {
		t.Errorf("got %q", got)
	}
	f.rigs[1].expireReleased(time.Now().Add(2 * time.Hour))
	f.raw.WaitCount(mcp.NotifyCancelled, 1)
	if got, want := f.posted(), `r2:2={"action":"cancel"}`; !slices.Contains(got, want) && !slices.Contains(got, `r2:1={"action":"cancel"}`) {
		t.Errorf("the server got %s, want also %s", got, want)
	}
	if n := len(f.raw.Sessions()); n != 1 {
		t.Errorf("%d sessions, want the one", n)
	}
}

// One after the other, all replicas are replaced: a call goes from one to the
// next.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	for name, changes := range map[string][]change{"resumable": nil, "replayable": {noEventIDs, replaying(ReplayAlways)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReplicas(t, 2, changes...)
			f.raw.Tool("tool", confirmAll(func() []string { return []string{"A", "B", "C", "D"} }))
			q := toolCall("tool")
			o := f.rigs[0].play(q)
			for i := range 3 {
				stopped := f.drain(f.rigs[i], time.Second)
				if changes == nil { // else the owner stays for as long as it may
					awaitStop(t, stopped)
				}
				f.add([]string{"r3", "r4", "r5"}[i], f.rigs[0].ring, changes...)
				if len(o.Inputs) != 1 {
					t.Fatalf("asked %d things", len(o.Inputs))
				}
				o = f.rigs[i+1].play(q.retry(o, accept(o.Inputs[0].Key, "sure", []string{"1", "2", "3"}[i])))
				awaitStop(t, stopped)
			}
			if got := f.rigs[3].play(q.retry(o, accept(o.Inputs[0].Key, "sure", "4"))).text(t); got != "A=1 B=2 C=3 D=4" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A replica that stops without its lease leaves everything as it is.
func TestDrainWithoutTheLease(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	retry := q.retry(f.rigs[0].play(q), accept("elicitation-1", "name", "Ada"))
	f.rigs[0].port().unplug()
	f.giveUp()
	awaitStop(t, f.drain(f.rigs[0], 500*time.Millisecond))
	if got, cancelled := f.posted(), f.raw.Cancelled(); len(got)+len(cancelled) != 0 {
		t.Errorf("the server was told %s and that %s is cancelled", got, cancelled)
	}
	if n := f.raw.HTTPCount("DELETE"); n != 0 {
		t.Error("the session was deleted")
	}
	if got := f.rigs[1].served(retry, ServedTakenOver).asked(t); got != "elicitation-2" {
		t.Errorf("asked %q", got)
	}
}

// A round is held for calls.max_hold, or for what it says itself, at most: then
// its client is told to come back, on whatever replica. As long as nothing is
// asked, that does not count towards calls.max_rounds.
func TestMaxHold(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ settings, request time.Duration }{
		"of the settings": {60 * time.Millisecond, 0},
		"of the request":  {0, 60 * time.Millisecond},
		"the shorter one": {60 * time.Millisecond, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			maxHold(t, tt.settings, tt.request)
		})
	}
}

func maxHold(t *testing.T, settings, request time.Duration) {
	f := newReplicas(t, 2, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxHold, s.MaxRounds = settings, 2 })
	gate := make(chan struct{})
	f.raw.Tool("long", func(c *rawserver.Call) {
		<-gate
		c.Text("done")
	})
	listed := make(chan struct{})
	f.raw.Handle(mcp.MethodPromptsList, func(c *rawserver.Call) {
		<-listed
		c.Result(`{"prompts":[]}`)
	})
	plain := f.rigs[0].mustBegin(query{method: mcp.MethodPromptsList}).goes()
	q := toolCall("long").with(func(q *query) { q.hold = request })
	o := f.rigs[0].play(q)
	for n := range 4 {
		if o.State == nil || len(o.Inputs) != 0 {
			t.Fatalf("round %d: %+v, want a request state and no questions", n, o)
		}
		began := time.Now()
		o = f.rigs[(n+1)%2].play(q.retry(o, ""))
		if held := time.Since(began); held < 60*time.Millisecond {
			t.Errorf("held for %s only", held)
		}
	}
	close(gate)
	if got := f.rigs[1].play(q.retry(o, "")).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	close(listed) // it was held for longer: it may not be let go
	if r := endOf(t, plain); r.err != nil || string(r.Result) != `{"prompts":[]}` {
		t.Error(r.describe())
	}
	if n := f.raw.ToolCalls("long"); n != 1 || len(f.raw.Cancelled()) != 0 {
		t.Errorf("it ran %d times and was cancelled %d times", n, len(f.raw.Cancelled()))
	}
}

// A client that may lose its connection comes back to its call with the request
// state that it has, as long as that is good.
func TestClientThatStays(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.ParkTTL = 3 * time.Second })
	gate := make(chan struct{})
	f.raw.Tool("long", func(c *rawserver.Call) {
		select {
		case <-gate:
			c.Text("done")
		case <-c.Cancelled():
		}
	})
	q := toolCall("long").with(func(q *query) { q.hold, q.stays = 20*time.Millisecond, true })
	lose := func(r *rig, q query) {
		t.Helper()
		v := r.mustBegin(q.with(func(q *query) { q.hold = time.Minute }))
		if _, err := v.Next(time.Now().Add(50 * time.Millisecond)); !errors.Is(err, ErrDeadline) {
			t.Fatalf("got %v", err)
		}
		v.Gone()
		v.close()
	}
	o := f.rigs[0].play(q)
	expiring := f.rigs[0].play(q)
	for n := range 4 {
		lose(f.rigs[n%2], q.retry(o, ""))
	}
	if n := len(f.raw.Cancelled()); n != 0 {
		t.Fatalf("%d calls were cancelled", n)
	}
	o = f.rigs[1].play(q.retry(o, ""))
	close(gate)
	if got := f.rigs[0].play(q.retry(o, "").with(func(q *query) { q.hold = time.Minute })).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	if n := f.raw.ToolCalls("long"); n != 2 {
		t.Errorf("it ran %d times, want twice", n)
	}
	f.rigs[0].play(q.retry(expiring, "").with(func(q *query) { q.hold = time.Minute }))

	// Before there is a request state, there is nothing to come back with; and
	// whoever does not come back lets the call end.
	again := make(chan struct{})
	defer close(again)
	f.raw.Tool("longer", func(c *rawserver.Call) {
		select {
		case <-again:
		case <-c.Cancelled():
		}
	})
	q.params = `"name":"longer"`
	lose(f.rigs[0], q)
	f.raw.WaitCount(mcp.NotifyCancelled, 1)
	o = f.rigs[0].play(q)
	lose(f.rigs[1], q.retry(o, ""))
	f.raw.WaitCount(mcp.NotifyCancelled, 2)
}
