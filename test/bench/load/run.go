package load

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// maxErrors is how many errors a slot may meet before it gives up.
const maxErrors = 20

// Result is what came of a number of calls.
type Result struct {
	Calls   int // that ended well
	Errors  int
	First   error // one of the errors, for the report
	Elapsed time.Duration
	Latency []uint32 // nanoseconds of each call that ended well, sorted; at most 4.29 s
}

// add takes another slot's result in.
func (r *Result) add(o Result) {
	r.Calls += o.Calls
	r.Errors += o.Errors
	if r.First == nil {
		r.First = o.First
	}
	r.Latency = append(r.Latency, o.Latency...)
}

// Run lets every operation repeat itself side by side for a time, and longer
// only as the last calls take.
func Run(ctx context.Context, ops []func() error, d time.Duration) Result {
	begin := time.Now()
	return sideBySide(len(ops), func(slot int) Result {
		var r Result
		r.Latency = make([]uint32, 0, 1<<13)
		for at := time.Now(); at.Sub(begin) < d && r.Errors < maxErrors && ctx.Err() == nil; {
			err := ops[slot]()
			now := time.Now()
			r.count(err, now.Sub(at))
			at = now
		}
		return r
	})
}

// InTurn does n things in each of several ways, one by one: each way's first,
// then each way's second, and so on.
func InTurn(ctx context.Context, n int, ways []func(i int) error) []Result {
	results := make([]Result, len(ways))
	for i := 0; i < n && ctx.Err() == nil; i++ {
		for w, do := range ways {
			r := &results[w]
			if r.Errors >= maxErrors {
				continue
			}
			at := time.Now()
			err := do(i)
			took := time.Since(at)
			r.count(err, took)
			r.Elapsed += took
		}
	}
	for w := range results {
		slices.Sort(results[w].Latency)
	}
	return results
}

// Each does n things, each once, with slots of them at a time.
func Each(ctx context.Context, slots, n int, do func(slot, i int) error) Result {
	return sideBySide(slots, func(slot int) Result {
		var r Result
		at := time.Now()
		for i := slot; i < n && r.Errors < maxErrors && ctx.Err() == nil; i += slots {
			err := do(slot, i)
			now := time.Now()
			r.count(err, now.Sub(at))
			at = now
		}
		return r
	})
}

func (r *Result) count(err error, took time.Duration) {
	if err != nil {
		r.Errors++
		if r.First == nil {
			r.First = err
		}
		return
	}
	r.Calls++
	r.Latency = append(r.Latency, uint32(min(took, math.MaxUint32)))
}

// sideBySide runs the slots, waits for them and adds them up.
func sideBySide(slots int, run func(slot int) Result) Result {
	results := make([]Result, slots)
	begin := time.Now()
	var wg sync.WaitGroup
	for slot := range slots {
		wg.Go(func() { results[slot] = run(slot) })
	}
	wg.Wait()
	sum := Result{Elapsed: time.Since(begin)}
	for _, r := range results {
		sum.add(r)
	}
	slices.Sort(sum.Latency)
	return sum
}
