package main

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
	"github.com/holdfast-mcp/holdfast/test/bench/stat"
)

// series is what one target did in its turns; times are in microseconds.
type series struct {
	name      string
	rate      []float64 // calls per second
	p50, p99  []float64
	cpu       []float64 // of the proxy, per call
	written   []float64 // bytes, by the proxy, per call
	latencies []uint32  // of all calls, in nanoseconds
	sum       load.Result
}

// warmUp is what each target does before the first turn, uncounted.
const warmUp = 300 * time.Millisecond

// takeTurns lets the targets do the same operation in turns.
func (b *trial) takeTurns(ctx context.Context, what string, targets []*target, op func(client) error) (map[string]*series, error) {
	all := make(map[string]*series)
	for _, t := range targets {
		all[t.name] = &series{name: t.name}
		b.fault(what+", "+t.name+", warming up", load.Run(ctx, t.ops(op), warmUp))
	}
	for round := range b.rounds {
		b.say("%s: round %d of %d", what, round+1, b.rounds)
		for i := range targets {
			// Another order in each round: none is always the one after the slowest.
			t := targets[(round+i)%len(targets)]
			if err := all[t.name].turn(ctx, t, op, b.slice); err != nil {
				return nil, err
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
	}
	for _, s := range all {
		slices.Sort(s.latencies)
		b.fault(what+", "+s.name, s.sum)
	}
	return all, nil
}

func (s *series) turn(ctx context.Context, t *target, op func(client) error, d time.Duration) error {
	// New connections for each turn: how they are spread over nginx's workers
	// is luck, which the median takes out. Their opening is not timed.
	t.close()
	load.Each(ctx, len(t.clients), len(t.clients), func(slot, _ int) error { return op(t.clients[slot]) })
	runtime.GC()
	return s.measure(t, func() load.Result { return load.Run(ctx, t.ops(op), d) })
}

// measure notes what came of calls, and what the target's proxy used for them.
func (s *series) measure(t *target, calls func() load.Result) error {
	before, err := t.used()
	if err != nil {
		return err
	}
	r := calls()
	after, err := t.used()
	if err != nil {
		return err
	}
	s.add(r)
	if r.Calls > 0 && len(t.pids) > 0 {
		s.cpu = append(s.cpu, (after.cpu-before.cpu)/float64(r.Calls))
		s.written = append(s.written, (after.written-before.written)/float64(r.Calls))
	}
	return nil
}

// add takes in what came of a slice.
func (s *series) add(r load.Result) {
	if r.Calls > 0 {
		s.rate = append(s.rate, float64(r.Calls)/r.Elapsed.Seconds())
		s.p50 = append(s.p50, micros(stat.Quantile(r.Latency, 0.5)))
		s.p99 = append(s.p99, micros(stat.Quantile(r.Latency, 0.99)))
	}
	s.latencies = append(s.latencies, r.Latency...)
	s.sum.Calls += r.Calls
	s.sum.Errors += r.Errors
	if s.sum.First == nil {
		s.sum.First = r.First
	}
}

func micros(nanos uint32) float64 { return float64(nanos) / 1000 }
