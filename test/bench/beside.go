package main

import (
	"context"
	"fmt"

	"github.com/holdfast-mcp/holdfast/test/bench/report"
)

// times is how many times as many parked calls the second replica has.
const times = 16

// callBeside measures whether parked calls slow others down: two replicas,
// one with a few of them and one with many, take turns.
func (b *trial) callBeside(ctx context.Context) error {
	var targets []*target
	var lots []*lot
	for _, parked := range []int{b.beside, times * b.beside} {
		l, err := b.openLot(ctx, holdfast, b.concurrency)
		if err != nil {
			return err
		}
		defer l.stop()
		b.say("calls beside parked ones: parking %d", parked)
		b.fault("warming up beside parked calls", l.warm(ctx))
		r := l.park(ctx, parked)
		b.fault("parking", r)
		if r.Errors > 0 {
			return fmt.Errorf("park call: %w", r.First)
		}
		t := &target{name: fmt.Sprintf("beside %d", parked), pids: []int{l.replica.PID()}}
		for _, c := range l.clients {
			t.clients = append(t.clients, c)
		}
		targets = append(targets, t)
		lots = append(lots, l)
	}
	all, err := b.takeTurns(ctx, "plain calls beside parked ones", targets, client.Echo)
	if err != nil {
		return err
	}
	t := report.Table{
		Title: "Plain calls beside parked ones",
		Head:  []string{"parked calls", "calls/s", "p50 us", "p99 us", "CPU us per call", "calls", "failed"},
		Note:  "a replica and a server each, taking turns; medians over the slices",
	}
	for _, target := range targets {
		s := all[target.name]
		t.Rows = append(t.Rows, []string{
			target.name, report.Number(median(all, s.name, rate)), report.Number(median(all, s.name, p50)),
			report.Number(median(all, s.name, p99)), report.Number(median(all, s.name, cpu)), fmt.Sprint(s.sum.Calls), fmt.Sprint(s.sum.Errors),
		})
	}
	b.report.Tables = append(b.report.Tables, t)
	few, many := targets[0].name, targets[1].name
	b.goal(fmt.Sprintf("p50 of plain calls beside %d parked calls against beside %d", times*b.beside, b.beside),
		report.AtMost, 1.1, "x", median(all, many, p50)/median(all, few, p50), "1.0x")
	for _, l := range lots {
		b.fault("resuming what others ran beside", l.resume(ctx, len(l.calls)))
		if err := b.waiting(ctx, l.server, 0); err != nil {
			return err
		}
	}
	return nil
}
