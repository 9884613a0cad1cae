package main

import (
	"context"
	"fmt"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
	"github.com/holdfast-mcp/holdfast/test/bench/proc"
	"github.com/holdfast-mcp/holdfast/test/bench/report"
	"github.com/holdfast-mcp/holdfast/test/bench/stat"
)

// sessionSteps is in how many steps sessions are opened.
const sessionSteps = 8

// betweenSessions is how many calls are enough for some collections of garbage.
const betweenSessions = 10_000

// childSessions measures what a session with a process costs: Holdfast's own
// memory, and the process's beside it.
func (b *trial) childSessions(ctx context.Context) error {
	r, err := b.startRun(ctx, 0)
	if err != nil {
		return err
	}
	defer r.Stop()
	if err := r.listens(ctx); err != nil {
		return err
	}
	b.say("sessions over stdio: %d", b.sessions)
	// One client after the other, so that connections are no part of it. Calls on
	// one session go on before memory is read: what opening the others has left
	// behind would lie uncollected for as long as nothing happens.
	first := load.NewModernAs(load.Manner{Token: "first"}, r.addr, endpoint, 0)
	defer first.Close()
	busy := func() (float64, error) {
		b.fault("calls between sessions over stdio", load.Each(ctx, 1, betweenSessions, func(int, int) error { return first.Echo() }))
		return settled(ctx, r.PID())
	}
	before, err := busy()
	if err != nil {
		return err
	}
	curve := []stat.Point{{X: 0, Y: before}}
	open := func(i int) error {
		c := load.NewModernAs(load.Manner{Token: fmt.Sprintf("caller-%d", i)}, r.addr, endpoint, 0)
		defer c.Close()
		return c.Echo()
	}
	for step := range sessionSteps {
		from, to := b.sessions*step/sessionSteps, b.sessions*(step+1)/sessionSteps
		b.fault("opening sessions over stdio", load.Each(ctx, 1, to-from, func(_, i int) error { return open(from + i) }))
		rss, err := proc.RSS(r.PID())
		if err != nil {
			return err
		}
		curve = append(curve, stat.Point{X: float64(to), Y: float64(rss)})
	}
	after, err := busy()
	if err != nil {
		return err
	}
	servers, err := serversOf(r.PID())
	if err != nil {
		return err
	}
	if len(servers) != b.sessions+1 {
		b.report.Faults = append(b.report.Faults, fmt.Sprintf("%d callers of a server over stdio had %d processes", b.sessions+1, len(servers)))
	}
	var child []float64
	for _, pid := range servers {
		rss, err := proc.RSS(pid)
		if err != nil {
			return err
		}
		child = append(child, float64(rss)/(1<<10))
	}
	own, beside := (after-before)/float64(b.sessions)/(1<<10), stat.Median(child)
	b.report.Tables = append(b.report.Tables, report.Table{
		Title: "Sessions over stdio",
		Head:  []string{"sessions", "Holdfast's own KiB each", "the same, slope", "Holdfast without any, MiB", "process of the server, KiB"},
		Rows: [][]string{{
			fmt.Sprint(b.sessions), report.Number(own), report.Number(stat.Slope(curve) / (1 << 10)), report.Number(before / (1 << 20)), report.Number(beside),
		}},
		Note: "resident memory; own: after settling less that before, divided, without the processes, with calls on another session before both; slope: while they were opened, with what is not collected yet",
	})
	b.figure("session over stdio: Holdfast's own resident memory", " KiB", own, report.Number(beside)+" KiB, the process itself")
	return nil
}
