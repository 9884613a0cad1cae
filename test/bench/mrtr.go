package main

import (
	"context"
	"slices"

	"github.com/holdfast-mcp/holdfast/test/bench/report"
)

// roundsPerCall is how often the client sends something on behalf of a call of
// ask: the call and the retry, or the call and the answer that is posted.
const roundsPerCall = 2

// mrtr measures calls that the server answers after it has asked something.
func (b *trial) mrtr(ctx context.Context) error {
	names := slices.Clone(b.targets)
	if b.has(holdfast) {
		names = append(names, atOnce, bare)
	}
	s, err := b.set(ctx, names)
	if err != nil {
		return err
	}
	defer s.stop()
	all, err := b.takeTurns(ctx, "calls with a question", s.targets, client.Ask)
	if err != nil {
		return err
	}
	b.table("Calls with a question: two rounds each; times are of the whole call", "rounds", roundsPerCall, s.targets, all)
	b.distribution("mrtr.svg", "Latency of calls with a question", s.targets, all)
	// A replica waits a little for further input requests before it parks a
	// call. Where few callers wait for every answer, that wait bounds the rate
	// and hides the cost of a round, so both are shown.
	const what = "MRTR rounds per second against a legacy client through nginx"
	b.goal(what+", calls.gather 0s", report.AtLeast, 0.8, "x", median(all, atOnce, rate)/median(all, nginx, rate), "0.9x")
	b.goal(what+", default calls.gather", report.AtLeast, 0.8, "x", median(all, holdfast, rate)/median(all, nginx, rate), "")
	return nil
}
