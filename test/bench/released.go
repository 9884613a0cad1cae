package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
	"github.com/holdfast-mcp/holdfast/test/bench/proc"
	"github.com/holdfast-mcp/holdfast/test/bench/report"
	"github.com/holdfast-mcp/holdfast/test/bench/stat"
)

// Of released calls some are resumed, by that many clients.
const (
	releasedResumes = 5000
	releasedSlots   = 64
)

// holding is what a replica holds at one time.
type holding struct {
	resident    float64 // bytes
	heap        float64 // bytes, after a collection
	descriptors int
}

// holds finds out what the replica holds.
func (r *replica) holds(ctx context.Context) (h holding, err error) {
	if _, err = r.ask(ctx, "/debug/pprof/heap?gc=1"); err != nil {
		return h, err
	}
	if h.heap, err = r.metric(ctx, "go_memstats_heap_alloc_bytes"); err != nil {
		return h, err
	}
	if h.resident, err = settled(ctx, r.PID()); err != nil {
		return h, err
	}
	h.descriptors, err = proc.Descriptors(r.PID())
	return h, err
}

// lettingGoOf is what was found of calls that were let go.
type lettingGoOf struct {
	parking
	calls         int // between before and after
	before, after holding
	streams       int // open at the server for calls
	resumed       load.Result
	told          int // of the rest, those of which the server was told at the end
	ending        time.Duration
}

// letGo measures what stays of parked calls whose streams were let go, and that
// they come back.
func (b *trial) letGo(ctx context.Context) error {
	b.say("released calls")
	f, err := b.parkAndLetGo(ctx)
	if err != nil {
		return err
	}
	each := func(of func(holding) float64) float64 { return (of(f.after) - of(f.before)) / float64(f.calls) }
	heap := each(func(h holding) float64 { return h.heap })
	resident := each(func(h holding) float64 { return h.resident })
	rest := b.released - f.resumed.Calls - f.lost
	b.report.Tables = append(b.report.Tables, report.Table{
		Title: fmt.Sprintf("%d parked calls on one replica whose streams were let go", b.released),
		Head: []string{
			"heap bytes per call", "resident bytes per call", "descriptors before, most, after", "open streams at the server", "parked/s",
			"resumed", "resumed/s", "p50 us", "p99 us", "CPU us per resume", "lost", "told at the end", "told/s",
		},
		Rows: [][]string{{
			report.Number(heap), report.Number(resident), fmt.Sprintf("%d, %d, %d", f.before.descriptors, f.most, f.after.descriptors), fmt.Sprint(f.streams), report.Number(f.parkRate),
			fmt.Sprint(f.resumed.Calls), report.Number(f.resumeRate), report.Number(micros(stat.Quantile(f.resumed.Latency, 0.5))),
			report.Number(micros(stat.Quantile(f.resumed.Latency, 0.99))), report.Number(f.resumeCPU), fmt.Sprint(f.lost),
			fmt.Sprint(f.told), report.Number(float64(f.told) / f.ending.Seconds()),
		}},
		Note: fmt.Sprintf("per call: what the replica holds when all are let go less what it held after a tenth of them, divided; heap: after a collection; "+
			"resumed by %d clients at a time, each with a stream that is opened anew; told at the end: when the replica stops, the server hears of every call that is left", releasedSlots),
	})
	b.report.Charts = append(b.report.Charts, report.Chart{
		File: "released.svg", Title: "Resident memory over parked calls that are let go", X: "parked calls", Y: "resident memory, MiB",
		Lines: []report.Line{{Name: "parking", Points: f.curve}},
	})
	what := fmt.Sprintf("%d released calls: ", b.released)
	b.goal(what+"heap of each", report.AtMost, 256, " B", heap, "")
	b.figure(what+"resident memory of each", " B", resident, "")
	b.goal(what+"open streams at the server", report.AtMost, 0, "", float64(f.streams), "")
	b.goal(what+"descriptors more than before", report.AtMost, releasedSlots, "", float64(f.after.descriptors-f.before.descriptors), "")
	b.figure(what+"resumes per second", "", f.resumeRate, "")
	b.goal(fmt.Sprintf("%slost, of %d resumed", what, f.resumed.Calls+f.lost), report.AtMost, 0, "", float64(f.lost), "")
	b.goal(fmt.Sprintf("%snot told of at the end, of %d", what, rest), report.AtMost, 0, "", float64(rest-f.told), "")
	return nil
}

func (b *trial) parkAndLetGo(ctx context.Context) (f lettingGoOf, err error) {
	l, err := b.openLot(ctx, lettingGo, releasedSlots, "-keep", strconv.Itoa(b.released))
	if err != nil {
		return f, err
	}
	defer l.stop()
	b.fault("warming up before parking", l.warm(ctx))
	first := b.released / 10 // which what it needs once is not counted with
	b.fault("parking first calls", l.park(ctx, first))
	if err := l.allReleased(ctx); err != nil {
		return f, err
	}
	if f.before, err = l.replica.holds(ctx); err != nil {
		return f, err
	}
	f.calls = b.released - first
	if err := f.fill(ctx, b, l, f.calls, f.before.resident/(1<<20)); err != nil {
		return f, err
	}
	if err := l.allReleased(ctx); err != nil {
		return f, err
	}
	if f.after, err = l.replica.holds(ctx); err != nil {
		return f, err
	}
	c, err := l.server.counts(ctx)
	if err != nil {
		return f, err
	}
	f.streams = c.Streams
	if err := b.waiting(ctx, l.server, b.released); err != nil {
		return f, err
	}
	if err := f.resumeSome(ctx, b, l); err != nil {
		return f, err
	}
	return f, f.end(ctx, b, l)
}

// end stops the replica, which tells the server of the calls that are left.
func (f *lettingGoOf) end(ctx context.Context, b *trial, l *lot) error {
	before, err := l.server.counts(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	l.replica.StopWithin(2 * time.Minute)
	f.ending = time.Since(begin)
	c, err := l.server.counts(ctx)
	if err != nil {
		return err
	}
	f.told = c.Answered - before.Answered
	return b.waiting(ctx, l.server, b.released-f.resumed.Calls-f.lost-f.told)
}

// allReleased waits until the replica has let go of all calls.
func (l *lot) allReleased(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("it did not let go of all calls in time"))
	defer cancel()
	return l.replica.Until(ctx, func() error {
		n, err := l.replica.metric(ctx, "holdfast_calls_released")
		if err == nil && n != float64(len(l.calls)) {
			err = fmt.Errorf("it has let go of %.0f calls of %d", n, len(l.calls))
		}
		return err
	})
}

// resumeSome brings some of the calls their answers.
func (f *lettingGoOf) resumeSome(ctx context.Context, b *trial, l *lot) error {
	n := min(releasedResumes, b.released/2)
	cpu, err := proc.CPU(l.replica.PID())
	if err != nil {
		return err
	}
	f.resumed = l.resume(ctx, n)
	used, err := proc.CPU(l.replica.PID())
	if err != nil {
		return err
	}
	b.fault("resuming released calls", f.resumed)
	f.lost = n - f.resumed.Calls
	f.resumeRate = float64(f.resumed.Calls) / f.resumed.Elapsed.Seconds()
	f.resumeCPU = float64((used - cpu).Microseconds()) / float64(max(f.resumed.Calls, 1))
	c, err := l.server.counts(ctx)
	if err != nil {
		return err
	}
	if c.Resumed != n || c.Streams != 0 {
		b.report.Faults = append(b.report.Faults, fmt.Sprintf("%d calls were resumed, but the server sees %+v", n, c))
	}
	return b.waiting(ctx, l.server, b.released-n)
}
