package adapter

import (
	"context"
	"testing"
	"time"
)

func testRegistry(change func(*Settings)) *registry {
	s := testSettings()
	if change != nil {
		change(&s)
	}
	r := &registry{}
	r.init(s)
	return r
}

func named(n, caller byte) *call {
	c := &call{id: [16]byte{n}}
	c.key.Principal = principal{caller}
	return c
}

func refusalFor(err error) Reason {
	if r, ok := err.(*Refusal); ok {
		return r.Reason
	}
	return ""
}

func TestParkedCallsAreBounded(t *testing.T) {
	r := testRegistry(func(s *Settings) { s.MaxParked, s.MaxParkedPerPrincipal = 3, 2 })
	a1, a2, a3, b1, b2 := named(1, 'a'), named(2, 'a'), named(3, 'a'), named(4, 'b'), named(5, 'b')
	for _, step := range []struct {
		c    *call
		want Reason
	}{{a1, ""}, {a2, ""}, {a3, ReasonQuota}, {b1, ""}, {b2, ReasonOverload}} {
		if err := r.park(step.c); refusalFor(err) != step.want || step.want == "" && err != nil {
			t.Fatalf("call %d: %v, want %q", step.c.id[0], err, step.want)
		}
	}
	if r.get(a1.id) != a1 || r.get(a3.id) != nil || r.get(b2.id) != nil {
		t.Error("a refused call can be found, or a parked one cannot")
	}
	r.unpark(a1)
	if r.get(a1.id) != a1 {
		t.Error("a call that goes on cannot be found")
	}
	if err := r.park(b2); err != nil {
		t.Errorf("there is room again, but: %v", err)
	}
	for _, c := range []*call{a2, b1, b2} {
		r.unpark(c)
	}
	if r.parkedCalls() != 0 || len(r.perCaller) != 0 {
		t.Errorf("%d calls of %d callers are counted, want none", r.parkedCalls(), len(r.perCaller))
	}
}

// A caller with many outcomes loses those, not the others theirs.
func TestOutcomesOfOtherCallersAreKept(t *testing.T) {
	r := testRegistry(func(s *Settings) { s.MaxOutcomeBytes = 1000 })
	keep := func(n, caller byte, bytes int64) *call {
		c := named(n, caller)
		if err := r.park(c); err != nil {
			t.Fatal(err)
		}
		r.unpark(c)
		c.mu.Lock()
		r.keep(c, bytes)
		c.mu.Unlock()
		return c
	}
	few, other := keep(1, 'a', 100), keep(2, 'b', 150)
	var many []*call
	for n := range byte(20) {
		many = append(many, keep(10+n, 'm', 200))
	}
	if r.get(few.id) == nil || r.get(other.id) == nil {
		t.Error("others' outcomes were let go")
	}
	for i, c := range many {
		if kept := r.get(c.id) != nil; kept != (i >= len(many)-3) {
			t.Errorf("of the many, outcome %d: kept %v", i, kept)
		}
	}
	keep(40, 'b', 250) // there is room, but for one of the many
	if r.get(many[17].id) != nil || r.get(few.id) == nil || r.get(other.id) == nil {
		t.Error("not the oldest of who has the most was let go")
	}
	r.close()
	if len(r.shelves) != 0 || len(r.shelfOf) != 0 || r.keptBytes != 0 {
		t.Errorf("%d shelves of %d callers are left", len(r.shelves), len(r.shelfOf))
	}
}

// What is kept of a call that has a handle is counted with it.
func TestHandlesCountAmongOutcomes(t *testing.T) {
	c := named(1, 'a')
	c.result = &Outcome{Result: make([]byte, 100)}
	before := c.size()
	c.lasting = &lasting{handle: make([]byte, 5000), following: &following{short: make([]byte, 300)}}
	c.lasting.following.backlog.bytes = 70
	if got := c.size() - before; got != 5370 {
		t.Errorf("they count for %d bytes", got)
	}
}

func TestKeptOutcomesAreBounded(t *testing.T) {
	r := testRegistry(func(s *Settings) { s.MaxOutcomeBytes = 1000 })
	keep := func(n byte, bytes int64) *call {
		c := named(n, 'a')
		if err := r.park(c); err != nil {
			t.Fatal(err)
		}
		r.unpark(c)
		c.result = &Outcome{}
		c.mu.Lock()
		r.keep(c, bytes)
		c.mu.Unlock()
		return c
	}
	a, b := keep(1, 400), keep(2, 400)
	if r.get(a.id) != a || r.get(b.id) != b || r.keptBytes != 800 {
		t.Fatal("an outcome within the limit is not kept")
	}
	c := keep(3, 400)
	if r.get(a.id) != nil || !a.forgotten || a.result != nil {
		t.Error("the oldest outcome was not let go")
	}
	if r.get(b.id) != b || r.get(c.id) != c || r.keptBytes != 800 {
		t.Errorf("%d bytes are kept, want those of the other two", r.keptBytes)
	}
	// A busy call is not waited for; it is off the books all the same.
	b.mu.Lock()
	d := keep(4, 400)
	if r.get(b.id) != nil || b.forgotten {
		t.Error("a busy call was changed under its lock, or is still on the books")
	}
	b.mu.Unlock()
	// One that is larger than everything is not kept, but its rounds still get it.
	e := keep(5, 2000)
	if r.get(e.id) != nil || e.forgotten || e.result == nil {
		t.Error("an outcome that is too large is kept, or is lost to the round that waits for it")
	}
	if r.get(c.id) != nil || r.get(d.id) != nil || r.keptBytes != 0 || r.kept.Len() != 0 {
		t.Errorf("%d bytes of %d calls are kept, want none", r.keptBytes, r.kept.Len())
	}
	f := keep(6, 100)
	r.forget(f)
	r.forget(f) // a timer that fires late
	if r.get(f.id) != nil || !f.forgotten || r.keptBytes != 0 {
		t.Error("a forgotten call is still kept")
	}
	keep(7, 100)
	r.close()
	if r.kept.Len() != 0 || len(r.named) != 0 {
		t.Error("outcomes are left at the end")
	}
	if !b.forgotten {
		t.Error("a call that was busy when it was let go is not forgotten")
	}
}

func TestRegistryWaitsForRunningCalls(t *testing.T) {
	ended := func(wait func(context.Context)) <-chan struct{} {
		over := make(chan struct{})
		go func() {
			defer close(over)
			wait(context.Background())
		}()
		return over
	}
	still := func(t *testing.T, over <-chan struct{}, why string) {
		t.Helper()
		select {
		case <-over:
			t.Fatal("wait returned while ", why)
		case <-time.After(5 * time.Millisecond):
		}
	}
	r := testRegistry(nil)
	running := func(ctx context.Context) { r.wait(ctx, func() bool { return false }) }
	any := func(ctx context.Context) { r.wait(ctx, func() bool { return true }) }
	<-ended(running)
	<-ended(any)

	parkedCall, runningCall := named(1, 'a'), named(2, 'a')
	if err := r.park(parkedCall); err != nil {
		t.Fatal(err)
	}
	<-ended(running) // a parked call is not waited for

	r.watch(runningCall)
	over := ended(running)
	still(t, over, "a call runs")
	r.leave(runningCall)
	<-over

	r.watch(runningCall)
	over = ended(running)
	still(t, over, "a call runs")
	if err := r.park(runningCall); err != nil {
		t.Fatal(err)
	}
	<-over

	over = ended(any)
	still(t, over, "two are parked")
	for _, c := range []*call{parkedCall, runningCall} {
		r.unpark(c)
		r.leave(c)
	}
	<-over

	r.watch(runningCall)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.wait(ctx, nil) // gives up
}

// What wait asks others is asked without the lock that every call needs.
func TestRegistryAsksWithoutItsLock(t *testing.T) {
	r := testRegistry(nil)
	c := named(1, 'a')
	if err := r.park(c); err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 1)
	all := func() bool {
		calls, _, _ := r.count()
		select {
		case asked <- struct{}{}:
		default:
		}
		return calls > 0
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.wait(t.Context(), all)
	}()
	for range 2 { // as it begins, and as it looks again
		select {
		case <-asked:
		case <-time.After(10 * time.Second):
			t.Fatal("it was not asked, or with the lock held")
		}
	}
	r.unpark(c)
	r.leave(c)
	select {
	case <-over:
	case <-time.After(10 * time.Second):
		t.Fatal("wait did not return")
	}
}
