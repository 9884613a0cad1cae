package main

import (
	"context"
	"slices"

	"github.com/holdfast-mcp/holdfast/test/bench/report"
)

// plain measures calls that the server answers at once.
func (b *trial) plain(ctx context.Context) error {
	names := slices.Clone(b.targets)
	if b.has(holdfast) {
		names = append(names, bare)
	}
	s, err := b.set(ctx, names)
	if err != nil {
		return err
	}
	defer s.stop()
	all, err := b.takeTurns(ctx, "plain calls", s.targets, client.Echo)
	if err != nil {
		return err
	}
	b.table("Plain tools/call, JSON answer", "calls", 1, s.targets, all)
	b.distribution("plain.svg", "Latency of plain calls", s.targets, all)
	b.goal("plain calls: throughput against nginx", report.AtLeast, 0.8, "x",
		median(all, holdfast, rate)/median(all, nginx, rate), "0.87x")
	b.goal("plain calls: added p50 against nginx's added p50", report.AtMost, 1.5, "x",
		added(all, holdfast)/added(all, nginx), "1.25x")
	b.goal("plain calls: CPU per call", report.AtMost, 18, " us", median(all, holdfast, cpu), "13.5 us")
	// The same, where the machine is not the one that the goal was found on.
	b.goal("plain calls: CPU per call against a bare adapter's, which checks nothing", report.AtMost, 18/13.5, "x",
		median(all, holdfast, cpu)/median(all, bare, cpu), "1.0x")
	return nil
}
