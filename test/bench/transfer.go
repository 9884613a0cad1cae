package main

import (
	"context"
	"fmt"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
	"github.com/holdfast-mcp/holdfast/test/bench/report"
	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// largeResults measures how long the retry of a call with a large result takes.
func (b *trial) largeResults(ctx context.Context, p *pair) error {
	all, err := b.sliced(ctx, "large results", p, p.ways((*load.Modern).ParkLarge), 1, 3)
	if err != nil {
		return err
	}
	t := report.Table{
		Title: fmt.Sprintf("Results of %d MiB", wire.LargeSize>>20),
		Head:  []string{"way", "p50 ms", "MB/s", "slowest ms", "CPU ms per result", "results", "failed"},
		Note:  "one at a time; from the retry to the whole answer, which the client compares byte by byte",
	}
	for _, name := range []string{atOwner, atOther} {
		s := all[name]
		took := median(all, name, p50)
		t.Rows = append(t.Rows, []string{
			name, report.Number(took / 1000), report.Number(wire.LargeSize / took), report.Number(largest(s.p99) / 1000),
			report.Number(median(all, name, cpu) / 1000), fmt.Sprint(s.sum.Calls), fmt.Sprint(s.sum.Errors),
		})
	}
	b.report.Tables = append(b.report.Tables, t)
	for _, clients := range [][]*load.Modern{p.owner, p.other} {
		clients[0].Close() // its buffer has grown with the results
	}
	return nil
}

func largest(values []float64) float64 {
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	return most
}

// inFlight has many resumes under way through another replica at once: the
// server ends none of the calls before all answers have come.
func (b *trial) inFlight(ctx context.Context, p *pair) error {
	n := b.meeting
	b.say("%d forwarded resumes in flight", n)
	calls, err := p.park(ctx, n, (*load.Modern).ParkMeeting)
	if err != nil {
		return err
	}
	before, err := p.forwarded(ctx)
	if err != nil {
		return err
	}
	clients := make([]*load.Modern, n)
	for i := range clients {
		clients[i] = load.NewModern(p.replicas[1].addr, endpoint, i%64)
		defer clients[i].Close()
	}
	r := load.Each(ctx, n, n, func(_, i int) error { return clients[i].Resume(calls[i]) })
	b.fault("resumes in flight", r)
	after, err := p.forwarded(ctx)
	if err != nil {
		return err
	}
	c, err := p.server.counts(ctx)
	if err != nil {
		return err
	}
	b.report.Tables = append(b.report.Tables, report.Table{
		Title: "Forwarded resumes in flight",
		Head:  []string{"sent", "forwarded", "under way at once", "ended well", "lost", "seconds"},
		Rows: [][]string{{
			fmt.Sprint(n), report.Number(after - before), fmt.Sprint(c.Together), fmt.Sprint(r.Calls), fmt.Sprint(n - r.Calls), report.Number(r.Elapsed.Seconds()),
		}},
		Note: "each on a connection of its own; the server ends the calls when all answers have come",
	})
	b.goal(fmt.Sprintf("%d forwarded resumes in flight: at once", n), report.AtLeast, float64(n), "", min(after-before, float64(c.Together)), "")
	b.goal(fmt.Sprintf("%d forwarded resumes in flight: lost", n), report.AtMost, 0, "", float64(n-r.Calls), "")
	return nil
}
