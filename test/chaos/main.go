package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-mcp/holdfast/test/checkout"
)

func main() { os.Exit(start()) }

func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := options(os.Getenv)
	if err == nil {
		err = run(ctx, o, os.Stdout)
	}
	stop() // its goroutine ends
	err = errors.Join(err, goleak.Find(leftByToxiproxy...))
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 1
	}
	return 0
}

// Options of a run.
type Options struct {
	Seed    uint64
	Calls   int // whose clients held a request state and stayed, at least
	Faults  int // of each kind, at least
	Workers int
	Modes   []string
	Limit   time.Duration
	Smoke   bool // too short for all faults and all rungs
}

// Of a full run.
const (
	fullCalls  = 2000
	fullFaults = 20
)

// options are those of a full run, or of a part of one.
func options(getenv func(string) string) (o Options, err error) {
	o = Options{Seed: rand.Uint64N(1_000_000), Calls: fullCalls, Workers: 40, Modes: []string{modeCluster, modeExternal}, Limit: 8 * time.Minute}
	if text := getenv("CHAOS_SEED"); text != "" {
		if o.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return o, fmt.Errorf("CHAOS_SEED: %w", err)
		}
	}
	if text := getenv("CHAOS_CALLS"); text != "" {
		if o.Calls, err = strconv.Atoi(text); err != nil || o.Calls < 1 {
			return o, fmt.Errorf("CHAOS_CALLS is %q, want a number of calls", text)
		}
	}
	o.Faults = min(fullFaults, max(1, fullFaults*o.Calls/fullCalls))
	return o, nil
}

// errBroken is a run after which not everything held that must.
var errBroken = errors.New("not everything held that must; see above")

// run is the whole program.
func run(ctx context.Context, o Options, stdout io.Writer) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limit, fmt.Errorf("the run took longer than %v", o.Limit))
	defer cancel()
	fmt.Fprintf(stdout, "chaos: CHAOS_SEED=%d CHAOS_CALLS=%d\n", o.Seed, o.Calls)
	root, err := checkout.Root(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "holdfast-chaos-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			fmt.Fprintf(stdout, "logs: %s\n", dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	events, err := os.Create(filepath.Join(dir, "events.log"))
	if err != nil {
		return err
	}
	defer func() { _ = events.Close() }() // it only helps to read the run
	build := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator), "./cmd/holdfast", "github.com/nats-io/nats-server/v2")
	build.Dir, build.Stderr = root, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	began := time.Now()
	t := &trial{Options: o, dir: dir, stdout: stdout, tally: NewTally(events)}
	for i, mode := range o.Modes {
		if err := t.part(ctx, i, mode); err != nil {
			return fmt.Errorf("part %s: %w", mode, err)
		}
	}
	t.tally.Print(stdout)
	broken := t.broken
	if !o.Smoke {
		broken = append(broken, t.tally.Short(o.Faults, Faults, rungs)...)
	} else {
		broken = append(broken, t.tally.Short(1, []Fault{Kills, Drains, Adds, CutsOff, UpstreamCuts}, []string{"local", "forwarded"})...)
	}
	if n := t.tally.carried(); n < o.Calls {
		broken = append(broken, fmt.Sprintf("calls whose clients held a request state and stayed: %d, want %d", n, o.Calls))
	}
	for i, text := range broken {
		if i == maxPrinted {
			fmt.Fprintf(stdout, "… and %d more\n", len(broken)-i)
			break
		}
		fmt.Fprintln(stdout, "BROKEN:", text)
	}
	fmt.Fprintf(stdout, "chaos: seed %d, %v, %d broken\n", o.Seed, time.Since(began).Round(time.Second), len(broken))
	if len(broken) > 0 {
		return errBroken
	}
	return nil
}

const maxPrinted = 60

// trial is a run in progress.
type trial struct {
	Options
	dir    string
	stdout io.Writer
	tally  *Tally
	next   atomic.Int64
	broken []string
}

// part drives calls through one fleet.
func (t *trial) part(ctx context.Context, i int, mode string) (err error) {
	server, err := NewServer()
	if err != nil {
		return err
	}
	defer server.Close()
	fleet, err := raise(ctx, mode, t.dir, filepath.Join(t.dir, "holdfast"), filepath.Join(t.dir, "nats-server"), server, t.tally)
	if err != nil {
		return err
	}
	lowered := false
	defer func() {
		if !lowered {
			err = errors.Join(err, fleet.Lower())
		}
	}()
	before, err := fleet.quiet(ctx)
	if err != nil {
		return err
	}
	t.tally.event("part %s begins", mode)
	chaos := &Chaos{fleet: fleet, tally: t.tally, seed: t.Seed + uint64(i)<<40, times: t.times(mode)}
	var over atomic.Bool
	failed := make(chan error, 1)
	go func() { // waited for below
		failed <- chaos.Run(ctx)
		over.Store(true)
	}()
	quota := t.Calls * (i + 1) / len(t.Modes)
	load := NewLoad(server, fleet.Balancer.Addr(), t.Seed, t.Workers, t.tally, &t.next)
	load.Run(ctx, func() bool { return !over.Load() || t.tally.carried() < quota })
	if err := <-failed; err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	t.tally.event("part %s is over", mode)
	t.broken = append(t.broken, fleet.leftOver(ctx, before)...)
	lowered = true
	if err := fleet.Lower(); err != nil {
		t.broken = append(t.broken, err.Error())
	}
	t.broken = append(t.broken, server.leftOver(ctx, t.tally)...)
	for _, text := range server.Ledger.Broken() {
		t.broken = append(t.broken, mode+": "+text)
		t.tally.event("BROKEN: %s", text)
		for _, line := range server.Ledger.Traces(text) {
			t.tally.event("    %s", line)
		}
	}
	calls, runs, repeats, late := server.Ledger.Figures()
	fmt.Fprintf(t.stdout, "%s: %d calls reached the server, %d executions, %d answers posted again, %d refusals after an answer, %d sessions\n",
		mode, calls, runs, repeats, late, server.Opened())
	return nil
}

// times is how often each fault is made in a part.
func (t *trial) times(mode string) map[Fault]int {
	each := (t.Faults + len(t.Modes) - 1) / len(t.Modes)
	times := map[Fault]int{Kills: each, Drains: each, Adds: each, CutsOff: each, UpstreamCuts: each}
	if mode == modeExternal {
		times[NATSRestarts] = t.Faults
	}
	return times
}

func printSorted(row func(string, ...any), counts map[string]int) {
	for _, name := range slices.SortedFunc(maps.Keys(counts), cmp.Compare) {
		row("  %s\t%d", name, counts[name])
	}
}
