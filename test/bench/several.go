package main

import (
	"context"
	"fmt"

	"github.com/holdfast-mcp/holdfast/test/bench/report"
)

// Sizes of the fleets that are compared.
var sizes = []int{1, 2, 3, 4}

// apart is as many replicas as the middle fleet has that know nothing of each
// other: what they cost more than one, processes cost and not the bus.
const apart = "3 apart"

// several measures calls at fleets of several sizes, in front of one server.
// One host has no more cores for more replicas: what is compared is what they
// cost, not what they could carry.
func (b *trial) several(ctx context.Context) error {
	server, err := b.startServer(ctx)
	if err != nil {
		return err
	}
	defer server.Stop()
	fleets := make(map[string]*fleet)
	for _, n := range append(sizes, 1, 1, 1) {
		f, err := b.startFleet(ctx, n, server.addr)
		if err != nil {
			return err
		}
		defer f.stop()
		if name := fleetName(n); fleets[name] == nil {
			fleets[name] = f
		} else if fleets[apart] == nil {
			fleets[apart] = f
		} else {
			fleets[apart].replicas = append(fleets[apart].replicas, f.replicas...)
		}
	}
	// There are more targets than elsewhere.
	short := *b
	short.slice /= 2
	if err := short.plainSpread(ctx, fleets); err != nil {
		return err
	}
	if err := short.plainEach(ctx, fleets); err != nil {
		return err
	}
	return short.askSpread(ctx, fleets)
}

// fleetTargets are fleets with as many callers in all as the trial has slots, or
// with so many for each replica.
func (b *trial) fleetTargets(fleets map[string]*fleet, each bool, names ...string) (targets []*target, closing func()) {
	for _, name := range names {
		slots := b.concurrency
		if each {
			slots *= len(fleets[name].replicas)
		}
		targets = append(targets, fleets[name].target(name, slots))
	}
	return targets, func() {
		for _, t := range targets {
			t.close()
		}
	}
}

// plainSpread measures plain calls of the same callers, spread over more and
// more replicas.
func (b *trial) plainSpread(ctx context.Context, fleets map[string]*fleet) error {
	targets, closing := b.fleetTargets(fleets, false, fleetName(1), fleetName(2), fleetName(3), fleetName(4), apart)
	defer closing()
	all, err := b.takeTurns(ctx, "plain calls of several replicas", targets, client.Echo)
	if err != nil {
		return err
	}
	forwarded := 0.0
	for _, f := range fleets {
		n, err := f.forwarded(ctx)
		if err != nil {
			return err
		}
		forwarded += n
	}
	b.fleetTable(fmt.Sprintf("Plain calls of %d callers, spread over replicas", b.concurrency), "calls", 1, targets, all)
	b.distribution("replicas-plain.svg", "Latency of plain calls, spread over replicas", targets, all)
	b.goal("plain calls of several replicas: rounds that were forwarded", report.AtMost, 0, "", forwarded, "")
	b.goal("plain call through three replicas: CPU against three that know nothing of each other", report.AtMost, 1.05, "x",
		median(all, fleetName(3), cpu)/median(all, apart, cpu), "1.0x")
	// A call that takes a hop writes more than a thousand; heartbeats are few.
	b.goal("plain call through three replicas: bytes written beyond those of one replica", report.AtMost, 20, "",
		median(all, fleetName(3), written)-median(all, fleetName(1), written), "0")
	return nil
}

// plainEach measures plain calls where each replica has as many callers as the
// one alone: a process that has fewer calls at a time does more system calls
// for each, whatever it does.
func (b *trial) plainEach(ctx context.Context, fleets map[string]*fleet) error {
	targets, closing := b.fleetTargets(fleets, true, fleetName(1), fleetName(3), apart)
	defer closing()
	all, err := b.takeTurns(ctx, "plain calls of as many callers for each replica", targets, client.Echo)
	if err != nil {
		return err
	}
	b.fleetTable(fmt.Sprintf("Plain calls of %d callers for each replica", b.concurrency), "calls", 1, targets, all)
	b.goal("plain call through three replicas, as many callers for each: CPU against one replica", report.AtMost, 1.05, "x",
		median(all, fleetName(3), cpu)/median(all, fleetName(1), cpu), "1.0x")
	return nil
}

// askSpread measures calls whose retry never reaches the replica that has them,
// where there is another.
func (b *trial) askSpread(ctx context.Context, fleets map[string]*fleet) error {
	targets, closing := b.fleetTargets(fleets, false, fleetName(1), fleetName(2), fleetName(4))
	defer closing()
	all, err := b.takeTurns(ctx, "calls with a question of several replicas", targets, client.Ask)
	if err != nil {
		return err
	}
	b.fleetTable("Calls with a question, whose retry reaches the next replica; times are of the whole call", "rounds", roundsPerCall, targets, all)
	b.distribution("replicas-mrtr.svg", "Latency of calls with a question, spread over replicas", targets, all)
	return nil
}

func fleetName(n int) string {
	if n == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", n)
}

// fleetTable puts the medians of fleets beside each other.
func (b *trial) fleetTable(title, unit string, perCall float64, targets []*target, all map[string]*series) {
	t := report.Table{
		Title: title,
		Head:  []string{"fleet", unit + "/s", "p50 us", "p99 us", "CPU us per call", "bytes written per call", "calls", "failed"},
		Note:  "medians over the slices; CPU and bytes are the sum over the replicas; bytes: by write(2) and writev(2), as all that goes to another replica",
	}
	for _, target := range targets {
		name, s := target.name, all[target.name]
		t.Rows = append(t.Rows, []string{
			name, report.Number(perCall * median(all, name, rate)), report.Number(median(all, name, p50)), report.Number(median(all, name, p99)),
			report.Number(median(all, name, cpu)), report.Number(median(all, name, written)), fmt.Sprint(s.sum.Calls), fmt.Sprint(s.sum.Errors),
		})
	}
	b.report.Tables = append(b.report.Tables, t)
}
