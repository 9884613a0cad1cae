package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
	"github.com/holdfast-mcp/holdfast/test/bench/proc"
	"github.com/holdfast-mcp/holdfast/test/bench/report"
	"github.com/holdfast-mcp/holdfast/test/bench/stat"
)

// lot is a replica with calls parked on it, and the server that waits.
type lot struct {
	server  *server
	replica *replica
	clients []*load.Modern
	calls   []load.Parked
}

// openLot starts a server with further flags, a replica with the settings of that
// name in front of it, and a client for each slot.
func (b *trial) openLot(ctx context.Context, name string, slots int, args ...string) (*lot, error) {
	s, err := b.startServer(ctx, args...)
	if err != nil {
		return nil, err
	}
	r, err := b.startHoldfast(ctx, name, s.addr)
	if err != nil {
		s.Stop()
		return nil, err
	}
	l := &lot{server: s, replica: r}
	for slot := range slots {
		l.clients = append(l.clients, load.NewModern(r.addr, endpoint, slot))
	}
	return l, nil
}

func (l *lot) stop() {
	for _, c := range l.clients {
		c.Close()
	}
	l.replica.Stop()
	l.server.Stop()
}

// park parks n calls more.
func (l *lot) park(ctx context.Context, n int) load.Result {
	begin := len(l.calls)
	l.calls = append(l.calls, make([]load.Parked, n)...)
	return load.Each(ctx, len(l.clients), n, func(slot, i int) error {
		p, err := l.clients[slot].Park()
		l.calls[begin+i] = p
		return err
	})
}

// resume brings n of the parked calls their answers, in an order of its own: people
// do not answer in the order in which they were asked.
func (l *lot) resume(ctx context.Context, n int) load.Result {
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(l.calls))[:n]
	return load.Each(ctx, len(l.clients), len(order), func(slot, i int) error {
		return l.clients[slot].Resume(l.calls[order[i]])
	})
}

// warm lets the replica do a little of everything, so that what it needs once
// is there before memory is compared.
func (l *lot) warm(ctx context.Context) load.Result {
	return load.Each(ctx, len(l.clients), 40*len(l.clients), func(slot, i int) error {
		if i/len(l.clients)%2 == 0 {
			return l.clients[slot].Ask()
		}
		return l.clients[slot].Echo()
	})
}

// settled returns a process's resident memory once it has stayed within half
// a per cent for a second, or after eight seconds.
func settled(ctx context.Context, pid int) (float64, error) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	var last []float64
	for range 32 {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-tick.C:
		}
		rss, err := proc.RSS(pid)
		if err != nil {
			return 0, err
		}
		last = append(last, float64(rss))
		if n := len(last); n >= 5 && math.Abs(last[n-1]-last[n-5]) < last[n-1]/200 {
			break
		}
	}
	return last[len(last)-1], nil
}

// parking is what one time of parking and resuming found.
type parking struct {
	most           int     // descriptors of the replica after a step
	perCall, slope float64 // bytes
	parkRate       float64
	resumeRate     float64
	resumeCPU      float64 // us
	lost           int
	curve          []stat.Point // parked calls, MiB
}

// parkMany measures what parked calls cost, and that all of them come back.
func (b *trial) parkMany(ctx context.Context) error {
	var all []parking
	for i := range b.repeats {
		b.say("parked calls: time %d of %d", i+1, b.repeats)
		p, err := b.parkOnce(ctx)
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	of := func(figure func(parking) float64) float64 {
		var values []float64
		for _, p := range all {
			values = append(values, figure(p))
		}
		return stat.Median(values)
	}
	t := report.Table{
		Title: fmt.Sprintf("%d parked calls on one replica", b.parked),
		Head:  []string{"time", "KiB per call", "KiB per call, slope", "parked/s", "resumed/s", "CPU us per resume", "lost"},
		Note:  "a fresh replica each time; per call: resident memory after settling less that before, divided; slope: of the curve while they were parked",
	}
	chart := report.Chart{File: "parked.svg", Title: "Resident memory over parked calls", X: "parked calls", Y: "resident memory, MiB"}
	lost := 0
	for i, p := range all {
		t.Rows = append(t.Rows, []string{
			fmt.Sprint(i + 1), report.Number(p.perCall / 1024), report.Number(p.slope / 1024), report.Number(p.parkRate),
			report.Number(p.resumeRate), report.Number(p.resumeCPU), fmt.Sprint(p.lost),
		})
		chart.Lines = append(chart.Lines, report.Line{Name: fmt.Sprintf("time %d", i+1), Points: p.curve})
		lost += p.lost
	}
	begin := all[0].curve[0].Y
	chart.Lines = append(chart.Lines, report.Line{Name: "8 KiB per call", Dashed: true, Points: []stat.Point{
		{X: 0, Y: begin}, {X: float64(b.parked), Y: begin + 8*float64(b.parked)/1024},
	}})
	b.report.Tables = append(b.report.Tables, t)
	b.report.Charts = append(b.report.Charts, chart)
	what := fmt.Sprintf("%d parked calls: ", b.parked)
	b.goal(what+"resident memory each", report.AtMost, 8, " KiB", of(func(p parking) float64 { return p.perCall / 1024 }), "5.5 KiB")
	b.goal(what+"resumes per second", report.AtLeast, 15_000, "", of(func(p parking) float64 { return p.resumeRate }), "")
	b.goal(what+"lost", report.AtMost, 0, "", float64(lost), "")
	return nil
}

func (b *trial) parkOnce(ctx context.Context) (p parking, err error) {
	l, err := b.openLot(ctx, holdfast, b.concurrency)
	if err != nil {
		return p, err
	}
	defer l.stop()
	b.fault("warming up before parking", l.warm(ctx))
	before, err := settled(ctx, l.replica.PID())
	if err != nil {
		return p, err
	}
	if err := p.fill(ctx, b, l, b.parked, before); err != nil {
		return p, err
	}
	after, err := settled(ctx, l.replica.PID())
	if err != nil {
		return p, err
	}
	p.perCall = (after - before) / float64(b.parked)
	if err := b.waiting(ctx, l.server, b.parked); err != nil {
		return p, err
	}

	cpu, err := proc.CPU(l.replica.PID())
	if err != nil {
		return p, err
	}
	r := l.resume(ctx, b.parked)
	used, err := proc.CPU(l.replica.PID())
	if err != nil {
		return p, err
	}
	b.fault("resuming", r)
	p.lost = b.parked - r.Calls
	p.resumeRate = float64(r.Calls) / r.Elapsed.Seconds()
	p.resumeCPU = float64((used - cpu).Microseconds()) / float64(max(r.Calls, 1))
	return p, b.waiting(ctx, l.server, 0)
}

// fill parks n calls more in steps and draws the curve.
func (p *parking) fill(ctx context.Context, b *trial, l *lot, n int, before float64) error {
	const steps = 20
	begin := len(l.calls)
	p.curve = []stat.Point{{X: float64(begin), Y: before / (1 << 20)}}
	var busy time.Duration
	for step := range steps {
		r := l.park(ctx, begin+n*(step+1)/steps-len(l.calls))
		b.fault("parking", r)
		if r.Errors > 0 {
			// Without a request state nothing can be resumed: no more of it.
			return fmt.Errorf("park call: %w", r.First)
		}
		busy += r.Elapsed
		rss, err := proc.RSS(l.replica.PID())
		if err != nil {
			return err
		}
		descriptors, err := proc.Descriptors(l.replica.PID())
		if err != nil {
			return err
		}
		p.most = max(p.most, descriptors)
		p.curve = append(p.curve, stat.Point{X: float64(len(l.calls)), Y: float64(rss) / (1 << 20)})
	}
	p.parkRate = float64(n) / busy.Seconds()
	p.slope = stat.Slope(p.curve) * (1 << 20)
	return nil
}

// waiting notes a fault unless the server sees as many calls wait for answers as
// wait here, and nothing answered twice.
func (b *trial) waiting(ctx context.Context, s *server, want int) error {
	c, err := s.counts(ctx)
	if err != nil {
		return err
	}
	if c.Waiting != want || c.Stray != 0 || c.Left != 0 {
		b.report.Faults = append(b.report.Faults, fmt.Sprintf("%d calls wait, but the server sees %+v", want, c))
	}
	return nil
}
