package main

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
	"github.com/holdfast-mcp/holdfast/test/bench/report"
	"github.com/holdfast-mcp/holdfast/test/bench/stat"
)

// firstAnswers are how long first answers took, in milliseconds.
type firstAnswers struct {
	direct  []float64 // of the server, from its start, with the handshake
	stdio   []float64 // of holdfast run --stdio, from its start
	http    []float64 // of holdfast run, from its start
	running []float64 // and once that listened
}

// startUp measures how much later than the server's own the first answer through
// Holdfast comes. All starts are taken in turn.
func (b *trial) startUp(ctx context.Context) error {
	var all firstAnswers
	for n := range b.starts + 1 {
		b.say("first answers over stdio: start %d of %d", n, b.starts)
		var one firstAnswers
		for _, start := range []func(context.Context, *firstAnswers) error{b.startDirect, b.startOnStdio, b.startOverHTTP} {
			if err := start(ctx, &one); err != nil {
				return fmt.Errorf("first answer over stdio: %w", err)
			}
		}
		if n > 0 { // the first brings the programs into memory
			all.add(one)
		}
	}
	t := report.Table{
		Title: "First answer of a server over stdio",
		Head:  []string{"way", "ms", "later than direct, ms"},
		Note:  fmt.Sprintf("medians of %d starts, taken in turn; to the answer to the first tools/call, each later than the direct one of its turn", b.starts),
	}
	row := func(way string, took []float64) float64 {
		later := all.later(took)
		t.Rows = append(t.Rows, []string{way, report.Number(stat.Median(took)), report.Number(later)})
		return later
	}
	row("direct: start of the server, handshake, call", all.direct)
	onPipes := row("holdfast run --stdio: start of Holdfast included", all.stdio)
	included := row("holdfast run: start of Holdfast included", all.http)
	excluded := row("holdfast run, which listens already", all.running)
	b.report.Tables = append(b.report.Tables, t)
	floor := report.Number(stat.Median(all.direct)) + " ms, the server's own"
	const what = "first answer over stdio: later than the server's own, "
	b.goal(what+onStdio+", its start included", report.AtMost, 50, " ms", onPipes, floor)
	b.goal(what+overHTTP+", its start included", report.AtMost, 50, " ms", included, floor)
	b.goal(what+overHTTP+", which listens already", report.AtMost, 50, " ms", excluded, floor)
	return nil
}

func (f *firstAnswers) add(o firstAnswers) {
	f.direct = append(f.direct, o.direct...)
	f.stdio = append(f.stdio, o.stdio...)
	f.http = append(f.http, o.http...)
	f.running = append(f.running, o.running...)
}

// later is the median of by how much answers came later than the direct ones.
func (f *firstAnswers) later(took []float64) float64 {
	later := make([]float64, len(took))
	for i, ms := range took {
		later[i] = ms - f.direct[i]
	}
	return stat.Median(later)
}

func millisSince(begin time.Time) float64 { return float64(time.Since(begin).Nanoseconds()) / 1e6 }

func (b *trial) startDirect(_ context.Context, f *firstAnswers) error {
	begin := time.Now()
	p, lines, err := b.startPiped(0)
	if err != nil {
		return err
	}
	defer p.Stop()
	err = load.NewPiped(lines, 0).Echo()
	f.direct = append(f.direct, millisSince(begin))
	return err
}

func (b *trial) startOnStdio(ctx context.Context, f *firstAnswers) error {
	if _, err := b.build(ctx); err != nil {
		return err
	}
	begin := time.Now()
	p, err := b.startRunOnStdio(ctx, 0)
	if err != nil {
		return err
	}
	defer p.Stop()
	err = load.NewModernOn(load.NewLines(p.In, p.Out), load.Manner{}, 0).Echo()
	f.stdio = append(f.stdio, millisSince(begin))
	return err
}

func (b *trial) startOverHTTP(ctx context.Context, f *firstAnswers) error {
	begin := time.Now()
	r, err := b.startRun(ctx, 0)
	if err != nil {
		return err
	}
	defer r.Stop()
	if err := r.listens(ctx); err != nil {
		return err
	}
	listens := time.Now()
	c := load.NewModern(r.addr, endpoint, 0)
	defer c.Close()
	err = c.Echo()
	f.http = append(f.http, millisSince(begin))
	f.running = append(f.running, millisSince(listens))
	return err
}
