package main

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/report"
)

// worktimes are how long calls of the slower servers take. With the first, those
// of all callers together come close to what the cores can do, which clients,
// servers and Holdfast share; with the other, they leave room.
var worktimes = []time.Duration{2 * time.Millisecond, 10 * time.Millisecond}

// stdio measures what Holdfast costs in front of a server over stdio.
func (b *trial) stdio(ctx context.Context) error {
	short := *b
	short.slice /= 2 // there are many targets
	for _, part := range []func(context.Context) error{short.plainOnPipes, short.eligibleOnPipes, b.childSessions, b.startUp} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// plainOnPipes compares plain calls, which nobody can be asked anything for, so
// that all are with one process: one after the other, and many beside each other.
func (b *trial) plainOnPipes(ctx context.Context) error {
	for _, callers := range []int{1, b.concurrency} {
		what := fmt.Sprintf("plain calls over stdio, %s, one process", counted(callers, "caller"))
		all, err := b.compareWays(ctx, what, ways{chart: fmt.Sprint(callers), callers: callers, mute: true}, client.Echo)
		if err != nil {
			return err
		}
		for _, name := range []string{overHTTP, onStdio} {
			b.figure(what+", "+name+": calls per second", "", median(all, name, rate), report.Number(median(all, atPipes, rate)))
			b.figure(what+", "+name+": p50", " us", median(all, name, p50), report.Number(median(all, atPipes, p50))+" us")
		}
	}
	return nil
}

// eligibleOnPipes compares calls that each need a process of their own with as
// many clients that each have one. What the server does takes no processor time:
// that there is one of those for all must not decide.
func (b *trial) eligibleOnPipes(ctx context.Context) error {
	for _, takes := range worktimes {
		for _, c := range []struct {
			what, chart string
			op          func(client) error
		}{
			{"that may ask", "echo-", client.Echo},
			{"that ask", "ask-", client.Ask},
		} {
			what := fmt.Sprintf("calls over stdio %s and take %s, %s", c.what, takes, counted(b.concurrency, "caller"))
			all, err := b.compareWays(ctx, what, ways{chart: c.chart + takes.String(), callers: b.concurrency, takes: takes}, c.op)
			if err != nil {
				return err
			}
			for _, name := range []string{overHTTP, onStdio} {
				b.goal(what+", "+name+": rate against as many processes at once", report.AtLeast, noisy, "x",
					median(all, name, rate)/median(all, atPipes, rate), "1.0x")
			}
		}
	}
	return nil
}

// noisy is 1 less what two measurements of the same thing differ by.
const noisy = 0.95

func counted(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// compareWays lets all ways to a server over stdio take turns.
func (b *trial) compareWays(ctx context.Context, what string, w ways, op func(client) error) (map[string]*series, error) {
	s, err := b.setWays(ctx, w)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	all, err := b.takeTurns(ctx, what, s.targets, op)
	if err != nil {
		return nil, err
	}
	processes := make(map[string]int)
	for _, w := range s.ways {
		if processes[w.name], err = w.servers(); err != nil {
			return nil, err
		}
	}
	b.waysTable(what, s.targets, all, processes)
	b.distribution("stdio-"+w.chart+".svg", "Latency of "+what, s.targets, all)
	return all, nil
}

// waysTable puts the medians of the ways to a server over stdio beside each other.
func (b *trial) waysTable(title string, targets []*target, all map[string]*series, processes map[string]int) {
	t := report.Table{
		Title: title,
		Head:  []string{"way", "calls/s", "against direct", "p50 us", "added p50 us", "p99 us", "Holdfast CPU us per call", "processes", "calls", "failed"},
		Note:  "medians over the slices; direct: a legacy client at the pipes of the same server; processes: of the server, when all turns were over",
	}
	for _, target := range targets {
		name, s := target.name, all[target.name]
		t.Rows = append(t.Rows, []string{
			name, report.Number(median(all, name, rate)), report.Number(median(all, name, rate) / median(all, atPipes, rate)),
			report.Number(median(all, name, p50)), report.Number(added(all, name)), report.Number(median(all, name, p99)),
			report.Number(median(all, name, cpu)), fmt.Sprint(processes[name]), fmt.Sprint(s.sum.Calls), fmt.Sprint(s.sum.Errors),
		})
	}
	b.report.Tables = append(b.report.Tables, t)
}
