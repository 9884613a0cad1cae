package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
	"github.com/holdfast-mcp/holdfast/test/bench/proc"
	"github.com/holdfast-mcp/holdfast/test/bench/report"
	"github.com/holdfast-mcp/holdfast/test/bench/stat"
)

// dialects measures what a call that waits costs in the dialects whose calls
// outlive their clients' connections, beside a parked one, and that all of them
// end as they should.
func (b *trial) dialects(ctx context.Context) error {
	t := report.Table{
		Title: fmt.Sprintf("%d calls that wait on one replica, by dialect", b.parked),
		Head:  []string{"dialect", "state", "KiB per call", "against a parked one", "KiB per call, slope", "begun/s", "finished/s", "CPU us to finish", "lost"},
		Note:  "a fresh replica each; nobody is connected for the calls; per call: resident memory after settling less that before, divided; slope: of the curve while they were begun",
	}
	parked := math.NaN()
	lost := 0
	for _, w := range []waiting{
		{dialect: "mrtr", settings: holdfast, slots: b.concurrency, crowd: parkedCalls},
		{dialect: "tasks", settings: inTasks, slots: min(4*b.concurrency, maxSlots), crowd: tasks, later: true},
		{dialect: "resumable", settings: inTasks, slots: min(16*b.concurrency, maxSlots), crowd: leftCalls, later: true},
	} {
		b.say("calls that wait: %s", w.dialect)
		f, err := b.wait(ctx, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.dialect, err)
		}
		lost += f.lost
		states := []string{"asked"}
		if w.later {
			states = []string{"running", "asked"}
		} else {
			parked = f.each["asked"]
		}
		for i, state := range states {
			row := []string{w.dialect, state, report.Number(f.each[state] / 1024), report.Number(f.each[state] / parked), "", "", "", "", ""}
			if i == 0 {
				row[4], row[5] = report.Number(f.slope/1024), report.Number(f.begun)
			}
			if i == len(states)-1 {
				row[6], row[7], row[8] = report.Number(f.finished), report.Number(f.cpu), fmt.Sprint(f.lost)
			}
			t.Rows = append(t.Rows, row)
			if w.later {
				b.goal(fmt.Sprintf("%d calls that wait, %s, %s: resident memory of each against a parked call's", b.parked, w.dialect, state),
					report.AtMost, 3, "x", f.each[state]/parked, "")
			}
		}
	}
	b.report.Tables = append(b.report.Tables, t)
	b.goal(fmt.Sprintf("%d calls that wait, of each dialect: lost", b.parked), report.AtMost, 0, "", float64(lost), "")
	return nil
}

// maxSlots is for how many slots there are numbers of ten digits.
const maxSlots = 256

// waiting is a way in which calls wait.
type waiting struct {
	dialect  string
	settings string // of the replica
	slots    int    // clients; where each has to wait for its answer, more of them
	crowd    func(addr string, slots, calls int) *crowd
	later    bool // the server asks when it is told to
}

// crowd is many calls of some clients.
type crowd struct {
	begin, finish func(slot, i int) error
	close         func()
}

// newCrowd has each client begin calls and finish them.
func newCrowd[C interface{ Close() }, T any](dial func(addr, path string, slot int) C, begin func(C) (T, error), finish func(C, T) error) func(addr string, slots, calls int) *crowd {
	return func(addr string, slots, calls int) *crowd {
		clients := make([]C, slots)
		for slot := range clients {
			clients[slot] = dial(addr, endpoint, slot)
		}
		begun := make([]T, calls)
		return &crowd{
			begin: func(slot, i int) (err error) {
				begun[i], err = begin(clients[slot])
				return err
			},
			finish: func(slot, i int) error { return finish(clients[slot], begun[i]) },
			close: func() {
				for _, c := range clients {
					c.Close()
				}
			},
		}
	}
}

var (
	parkedCalls = newCrowd(load.NewModern, (*load.Modern).Park, (*load.Modern).Resume)
	tasks       = newCrowd(load.NewTasks, (*load.Tasks).Create, (*load.Tasks).Finish)
	leftCalls   = newCrowd(load.NewResumable, (*load.Resumable).Leave, (*load.Resumable).Finish)
)

// waited is what was found of calls that wait.
type waited struct {
	each            map[string]float64 // bytes, by state
	slope           float64            // bytes
	begun, finished float64            // per second
	cpu             float64            // us to finish one
	lost            int
}

// wait has calls wait and finishes them.
func (b *trial) wait(ctx context.Context, w waiting) (*waited, error) {
	s, err := b.startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	r, err := b.startHoldfast(ctx, w.settings, s.addr)
	if err != nil {
		return nil, err
	}
	defer r.Stop()
	c := w.crowd(r.addr, w.slots, b.parked)
	defer c.close()
	if err := b.rehearse(ctx, w, s, r, c); err != nil {
		return nil, err
	}
	before, err := settled(ctx, r.PID())
	if err != nil {
		return nil, err
	}
	f := &waited{each: map[string]float64{}}
	if err := b.begin(ctx, f, w, r, c, before); err != nil {
		return nil, err
	}
	measure := func(state string) error {
		now, err := settled(ctx, r.PID())
		if err != nil {
			return err
		}
		f.each[state] = (now - before) / float64(b.parked)
		return b.waiting(ctx, s, b.parked)
	}
	if w.later {
		if err := measure("running"); err != nil {
			return nil, err
		}
		if err := s.ask(ctx); err != nil {
			return nil, err
		}
	}
	if err := measure("asked"); err != nil {
		return nil, err
	}
	cpu, err := proc.CPU(r.PID())
	if err != nil {
		return nil, err
	}
	done := load.Each(ctx, w.slots, b.parked, c.finish)
	used, err := proc.CPU(r.PID())
	if err != nil {
		return nil, err
	}
	b.fault("finishing calls that wait, "+w.dialect, done)
	f.lost = b.parked - done.Calls
	f.finished = float64(done.Calls) / done.Elapsed.Seconds()
	f.cpu = float64((used - cpu).Microseconds()) / float64(max(done.Calls, 1))
	return f, b.waiting(ctx, s, 0)
}

// rehearse has some calls wait and finishes them, so that what the replica needs
// once is there before memory is compared.
func (b *trial) rehearse(ctx context.Context, w waiting, s *server, r *replica, c *crowd) error {
	calls := min(4*w.slots, b.parked)
	begun := load.Each(ctx, w.slots, calls, c.begin)
	b.fault("beginning first calls, "+w.dialect, begun)
	if begun.Errors > 0 {
		return fmt.Errorf("begin call: %w", begun.First)
	}
	if w.later {
		if err := s.ask(ctx); err != nil {
			return err
		}
		// A question that is on its way is none yet to who looks at once.
		if _, err := settled(ctx, r.PID()); err != nil {
			return err
		}
	}
	b.fault("finishing first calls, "+w.dialect, load.Each(ctx, w.slots, calls, c.finish))
	return nil
}

// begin begins the calls in steps and draws the curve.
func (b *trial) begin(ctx context.Context, f *waited, w waiting, r *replica, c *crowd, before float64) error {
	const steps = 10
	curve := []stat.Point{{X: 0, Y: before}}
	var busy time.Duration
	for step := range steps {
		from, to := b.parked*step/steps, b.parked*(step+1)/steps
		begun := load.Each(ctx, w.slots, to-from, func(slot, i int) error { return c.begin(slot, from+i) })
		b.fault("beginning calls, "+w.dialect, begun)
		if begun.Errors > 0 {
			return fmt.Errorf("begin call: %w", begun.First)
		}
		busy += begun.Elapsed
		rss, err := proc.RSS(r.PID())
		if err != nil {
			return err
		}
		curve = append(curve, stat.Point{X: float64(to), Y: float64(rss)})
	}
	f.slope = stat.Slope(curve)
	f.begun = float64(b.parked) / busy.Seconds()
	return nil
}
