package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, leftByToxiproxy...) }

// TestSmoke is a run with few calls and each fault once, without NATS beside
// the replicas. What a rung of the ladder serves in it depends on luck.
func TestSmoke(t *testing.T) {
	for _, mode := range []string{modeCluster, modeStdio} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := run(t.Context(), Options{Seed: 1, Calls: 30, Workers: 12, Modes: []string{mode}, Limit: 2 * time.Minute, Faults: 1, Smoke: true}, &out)
			if err != nil {
				t.Errorf("%v\n%s", err, out.String())
			}
		})
	}
}

func TestPlanComesFromTheSeed(t *testing.T) {
	for i := range 100 {
		a, b := PlanOf(7, i, modeCluster), PlanOf(7, i, modeCluster)
		if *a.key() != *b.key() {
			t.Fatalf("plan %d of one seed: %+v and %+v", i, a, b)
		}
	}
	same := 0
	for i := range 100 {
		if *PlanOf(7, i, modeCluster).key() == *PlanOf(8, i, modeCluster).key() {
			same++
		}
	}
	if same == 100 {
		t.Error("two seeds have the same plans")
	}
}

// key is what of a plan can be compared.
func (p *Plan) key() *struct {
	Dialect      Dialect
	Tool         Tool
	Caller, Step int
	Think        [maxSteps]time.Duration
	Twice        [maxSteps]Twice
	Break        int
} {
	return &struct {
		Dialect      Dialect
		Tool         Tool
		Caller, Step int
		Think        [maxSteps]time.Duration
		Twice        [maxSteps]Twice
		Break        int
	}{p.Dialect, p.Tool, p.Caller, len(p.Script.Steps), p.Think, p.Twice, p.Break}
}

// TestLedger breaks each promise once, so that a run that says nothing has
// looked.
func TestLedger(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(*Ledger)
		want string
	}{
		{"one execution, one answer", func(l *Ledger) { l.Effect(l.Begin("k", Unsafe, "s", "1"), "q", "yes") }, ""},
		{"harmless calls run twice", func(l *Ledger) { l.Begin("k", ReadOnly, "s", "1"); l.Begin("k", ReadOnly, "s", "2") }, ""},
		{"others do not", func(l *Ledger) { l.Begin("k", Resumable, "s", "1"); l.Begin("k", Resumable, "s", "2") }, "was executed 2 times"},
		{"an answer takes effect once", func(l *Ledger) {
			run := l.Begin("k", Resumable, "s", "1")
			l.Effect(run, "q", "yes")
			l.Effect(run, "q", "yes")
		}, "took effect twice"},
		{"an answer is posted again by who took over", func(l *Ledger) {
			run := l.Begin("k", Resumable, "s", "1")
			l.Note(run, func(r *Run) { r.resumed++ })
			l.Again(run, "q", "yes", "yes", false)
		}, ""},
		{"and by nobody else", func(l *Ledger) { l.Again(l.Begin("k", Resumable, "s", "1"), "q", "yes", "yes", false) }, "posted again although nobody took"},
		{"nor is it another answer", func(l *Ledger) {
			run := l.Begin("k", Resumable, "s", "1")
			l.Note(run, func(r *Run) { r.resumed++ })
			l.Again(run, "q", "yes", "no", false)
		}, "was answered with yes, then with no"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := NewLedger()
			test.do(l)
			got := strings.Join(l.Broken(), "\n")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("broken: %q, want %q", got, test.want)
			}
		})
	}
}

// TestTallyIsShort: a run in which something did not happen often enough says
// what.
func TestTallyIsShort(t *testing.T) {
	tally := NewTally(new(bytes.Buffer))
	for _, f := range Faults {
		if f != CutsOff {
			tally.fault(f)
		}
	}
	for _, rung := range rungs {
		if rung != "replayed" {
			tally.served(map[string]float64{rung: 1})
		}
	}
	for range 2 {
		tally.ended(Ended{End: Done, Dialect: Saga})
	}
	tally.ended(Ended{End: Done, Dialect: MRTR})
	if got := strings.Join(tally.Unspoken(2, []Dialect{MRTR, Saga}), "\n"); got != "calls of dialect mrtr that are done: 1, want 2" {
		t.Errorf("unspoken: %q", got)
	}
	got := strings.Join(tally.Short(1, Faults, rungs), "\n")
	want := "replica cut off from NATS, and healed: 0 times, want 1\nrounds served replayed: 0, want 1"
	if got != want {
		t.Errorf("short of:\n%s\nwant:\n%s", got, want)
	}
}
