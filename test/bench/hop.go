package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
	"github.com/holdfast-mcp/holdfast/test/bench/report"
)

// Names of the ways of a resume.
const (
	atOwner   = "on the owner"
	atOther   = "another replica"
	plainNATS = "plain NATS"
)

// way is one of those that are compared.
type way struct {
	target
	park parker // makes the calls, before they are timed; nil: none are needed
	do   func(slot int, call load.Parked) error
}

type parker func(*load.Modern) (load.Parked, error)

// ways are a resume on the owner of the call and one through the other replica.
func (p *pair) ways(park parker) []*way {
	pids := p.pids()
	return []*way{
		{target{name: atOwner, pids: pids}, park, func(slot int, c load.Parked) error { return p.owner[slot].Resume(c) }},
		{target{name: atOther, pids: pids}, park, func(slot int, c load.Parked) error { return p.other[slot].Resume(c) }},
	}
}

// calls parks what a slice of a way takes.
func (w *way) calls(ctx context.Context, p *pair, n int) ([]load.Parked, error) {
	if w.park == nil {
		return make([]load.Parked, n), nil
	}
	return p.park(ctx, n, w.park)
}

// hop measures what it costs that a retry comes to another replica than the
// one that has its call.
func (b *trial) hop(ctx context.Context) error {
	p, err := b.startPair(ctx)
	if err != nil {
		return err
	}
	defer p.stop()
	for _, part := range []func(context.Context, *pair) error{b.resumeBoth, b.largeResults, b.inFlight} {
		if err := part(ctx, p); err != nil {
			return err
		}
	}
	c, err := p.server.counts(ctx)
	if err != nil {
		return err
	}
	if c.Waiting != 0 || c.Stray != 0 || c.Left != 0 {
		b.report.Faults = append(b.report.Faults, fmt.Sprintf("all resumes are done, but the server sees %+v", c))
	}
	return nil
}

// resumeBoth compares the ways of a resume, and what one of them adds with a
// plain NATS request-reply of the same size.
func (b *trial) resumeBoth(ctx context.Context, p *pair) error {
	f, err := b.startFloor(ctx)
	if err != nil {
		return err
	}
	defer f.stop()
	// The sizes are the client's: what replicas send each other is a little more.
	calls, err := p.park(ctx, 1, (*load.Modern).Park)
	if err != nil {
		return err
	}
	if err := p.other[0].Resume(calls[0]); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	f.carry(p.other[0].Sizes())
	ways := append(p.ways((*load.Modern).Park), &way{
		target: target{name: plainNATS, pids: f.pids()}, do: func(int, load.Parked) error { return f.do() },
	})
	before, err := p.forwarded(ctx)
	if err != nil {
		return err
	}
	sent := 0
	for _, part := range []func(context.Context, *pair, []*way) (map[string]*series, error){b.resumeInTurn, b.resumeBackToBack, b.resumeManyAtATime} {
		all, err := part(ctx, p, ways)
		if err != nil {
			return err
		}
		sent += all[atOther].sum.Calls
	}
	after, err := p.forwarded(ctx)
	if err != nil {
		return err
	}
	if got := after - before; got < float64(sent) {
		b.report.Faults = append(b.report.Faults, fmt.Sprintf("%d resumes were sent to a replica that did not have their calls, which forwarded %v", sent, got))
	}
	return nil
}

// resumeInTurn does one of each way after the other. So all meet processes that
// have just done something else, as messages do in life: a request-reply that
// is sent as soon as the one before is answered finds every thread awake.
func (b *trial) resumeInTurn(ctx context.Context, p *pair, ways []*way) (map[string]*series, error) {
	const what = "resumes and NATS requests, one by one"
	all := make(map[string]*series)
	for _, w := range ways {
		all[w.name] = &series{name: w.name}
	}
	for round := range b.rounds {
		b.say("%s: round %d of %d", what, round+1, b.rounds)
		do := make([]func(int) error, len(ways))
		for i, w := range ways {
			calls, err := w.calls(ctx, p, b.resumes)
			if err != nil {
				return nil, err
			}
			do[i] = func(n int) error { return w.do(0, calls[n]) }
		}
		runtime.GC()
		for i, r := range load.InTurn(ctx, b.resumes, do) {
			all[ways[i].name].add(r)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	b.sum(what, all)
	b.resumeTable("Resumes on the replica that has the call and through another, and plain NATS, one by one in turn", ways, all)
	var targets []*target
	for _, w := range ways {
		targets = append(targets, &w.target)
	}
	b.distribution("hop.svg", "Latency of resumes and of a NATS request-reply, one by one in turn", targets, all)
	b.goal("forwarded resume: added p50 against the p50 of NATS request-replies in turn with it", report.AtMost, 1.7, "x", hopRatio(all), "1.4x")
	b.goal("forwarded resume: p99 against its p50", report.AtMost, 5, "x", median(all, atOther, p99)/median(all, atOther, p50), "")
	return all, nil
}

// resumeBackToBack has each way to itself for a slice, one resume at a time.
func (b *trial) resumeBackToBack(ctx context.Context, p *pair, ways []*way) (map[string]*series, error) {
	all, err := b.sliced(ctx, "resumes", p, ways, 1, b.resumes)
	if err != nil {
		return nil, err
	}
	b.resumeTable("The same, each back to back", ways, all)
	b.goal("forwarded resume: added p50 against the p50 of NATS request-replies back to back", report.AtMost, 1.7, "x", hopRatio(all), "")
	return all, nil
}

// resumeManyAtATime has each way to itself for a slice, in all slots.
func (b *trial) resumeManyAtATime(ctx context.Context, p *pair, ways []*way) (map[string]*series, error) {
	all, err := b.sliced(ctx, "resumes, many at a time", p, ways, b.concurrency, 2*b.resumes)
	if err != nil {
		return nil, err
	}
	b.resumeTable(fmt.Sprintf("The same, each back to back, %d at a time", b.concurrency), ways, all)
	return all, nil
}

// sliced lets the ways take turns with n things, as many at a time as slots,
// and once before that uncounted.
func (b *trial) sliced(ctx context.Context, what string, p *pair, ways []*way, slots, n int) (map[string]*series, error) {
	all := make(map[string]*series)
	for _, w := range ways {
		all[w.name] = &series{name: w.name}
	}
	for round := range b.rounds + 1 {
		b.say("%s: round %d of %d", what, round, b.rounds)
		for i := range ways {
			w := ways[(round+i)%len(ways)]
			s := all[w.name]
			if round == 0 {
				s = &series{}
			}
			calls, err := w.calls(ctx, p, n)
			if err != nil {
				return nil, err
			}
			runtime.GC()
			err = s.measure(&w.target, func() load.Result {
				return load.Each(ctx, slots, n, func(slot, i int) error { return w.do(slot, calls[i]) })
			})
			if err != nil {
				return nil, err
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
	}
	b.sum(what, all)
	return all, nil
}

// sum sorts the latencies and notes what failed.
func (b *trial) sum(what string, all map[string]*series) {
	for _, s := range all {
		slices.Sort(s.latencies)
		b.fault(what+", "+s.name, s.sum)
	}
}

// hopAdds is by how much a resume through another replica takes longer.
func hopAdds(all map[string]*series) float64 {
	return median(all, atOther, p50) - median(all, atOwner, p50)
}

// hopRatio compares that with a NATS request-reply.
func hopRatio(all map[string]*series) float64 { return hopAdds(all) / median(all, plainNATS, p50) }

func (b *trial) resumeTable(title string, ways []*way, all map[string]*series) {
	t := report.Table{
		Title: title,
		Head:  []string{"way", "p50 us", "p99 us", "p99 against p50", "added p50 us", "added against NATS", "per second", "CPU us each", "done", "failed"},
		Note:  "medians over the slices; plain NATS: as many bytes as the client's retry and its answer, between two embedded servers of a cluster",
	}
	for _, w := range ways {
		s := all[w.name]
		added, ratio := "-", "-"
		if w.name == atOther {
			added, ratio = report.Number(hopAdds(all)), report.Number(hopRatio(all))
		}
		t.Rows = append(t.Rows, []string{
			w.name, report.Number(median(all, w.name, p50)), report.Number(median(all, w.name, p99)),
			report.Number(median(all, w.name, p99) / median(all, w.name, p50)), added, ratio,
			report.Number(median(all, w.name, rate)), report.Number(median(all, w.name, cpu)), fmt.Sprint(s.sum.Calls), fmt.Sprint(s.sum.Errors),
		})
	}
	b.report.Tables = append(b.report.Tables, t)
}
