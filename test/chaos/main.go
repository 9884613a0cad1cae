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
	"sync"
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
	Calls   int // whose clients held a handle and stayed, at least
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
	o = Options{Seed: rand.Uint64N(1_000_000), Calls: fullCalls, Workers: 40, Modes: []string{modeCluster, modeExternal, modeStdio}, Limit: 8 * time.Minute}
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
	if text := getenv("CHAOS_PART"); text != "" {
		if !slices.Contains(o.Modes, text) {
			return o, fmt.Errorf("CHAOS_PART is %q, want one of %q", text, o.Modes)
		}
		o.Modes = []string{text}
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
	if dir, err = filepath.EvalSymlinks(dir); err != nil { // processes are known by their programs' paths
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
	build := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator), "./cmd/holdfast", "./test/fixture/pipe", "github.com/nats-io/nats-server/v2")
	build.Dir, build.Stderr = root, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	began := time.Now()
	t := &trial{Options: o, dir: dir, stdout: stdout, tally: NewTally(events)}
	if err := t.parts(ctx); err != nil {
		return err
	}
	t.tally.Print(stdout)
	broken := t.broken
	if !o.Smoke {
		broken = append(broken, t.tally.Short(o.Faults, t.faults(), t.rungs())...)
	} else {
		broken = append(broken, t.tally.Short(1, t.made(), []string{"local", "forwarded"})...)
	}
	if !slices.Equal(o.Modes, []string{modeStdio}) {
		broken = append(broken, t.tally.Unspoken(o.Faults, Dialects)...)
	}
	if n := t.tally.carried(); n < o.Calls {
		broken = append(broken, fmt.Sprintf("calls whose clients held a handle and stayed: %d, want %d", n, o.Calls))
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

	mu     sync.Mutex
	broken []string
}

// breaks notes promises that were broken.
func (t *trial) breaks(texts ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = append(t.broken, texts...)
}

// parts runs all parts. One winds down, which takes until the calls have expired
// that nobody came back for, while the next is under load.
func (t *trial) parts(ctx context.Context) error {
	var winding sync.WaitGroup
	defer winding.Wait()
	for i, mode := range t.Modes {
		wind, err := t.part(ctx, i, mode)
		if err != nil {
			return fmt.Errorf("part %s: %w", mode, err)
		}
		winding.Go(func() { wind(ctx) })
	}
	return nil
}

// part drives calls through one fleet. wind looks at what is left of it then, and
// ends it.
func (t *trial) part(ctx context.Context, i int, mode string) (wind func(context.Context), err error) {
	dir, err := t.dirOf(mode)
	if err != nil {
		return nil, err
	}
	server, err := NewServer(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			server.Close()
		}
	}()
	fleet, err := raise(ctx, mode, dir, server, t.tally)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, fleet.Lower())
		}
	}()
	before, err := fleet.quiet(ctx)
	if err != nil {
		return nil, err
	}
	t.tally.event("part %s begins", mode)
	chaos := &Chaos{fleet: fleet, tally: t.tally, seed: t.Seed + uint64(i)<<40, times: t.times(mode)}
	var over atomic.Bool
	failed := make(chan error, 1)
	go func() { // waited for below
		failed <- chaos.Run(ctx)
		over.Store(true)
	}()
	quota := t.Calls * shares(t.Modes[:i+1]) / shares(t.Modes)
	workers := t.Workers
	if mode == modeStdio { // each call that runs or waits there has a process
		workers /= 2
	}
	load := NewLoad(server, fleet.Balancer.Addr(), t.Seed, mode, workers, t.tally, &t.next)
	load.Run(ctx, func() bool { return !over.Load() || t.tally.carried() < quota })
	if err := <-failed; err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	t.tally.event("part %s is over", mode)
	return func(ctx context.Context) { t.wind(ctx, fleet, before) }, nil
}

// dirOf makes the folder of a part, with the programs. Its processes are known by
// their paths.
func (t *trial) dirOf(mode string) (string, error) {
	dir := filepath.Join(t.dir, mode)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	for _, program := range []string{"holdfast", "pipe", "nats-server"} {
		if err := os.Link(filepath.Join(t.dir, program), filepath.Join(dir, program)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// wind waits until a fleet that had its load has come to rest, ends it, and says
// what is left over, and which promises were broken.
func (t *trial) wind(ctx context.Context, fleet *Fleet, before rests) {
	server, mode := fleet.server, fleet.Mode
	defer server.Close()
	broken := fleet.leftOver(ctx, before)
	fleet.custody.settle(ctx)
	held := server.Held()
	if err := fleet.Lower(); err != nil {
		broken = append(broken, err.Error())
	}
	broken = append(broken, fleet.processesLeft(ctx)...)
	broken = append(broken, server.leftOver(ctx, fleet.custody, held, t.tally)...)
	for _, text := range broken {
		t.breaks(mode + ": " + text)
	}
	for _, text := range server.Ledger.Broken() {
		t.breaks(mode + ": " + text)
		t.tally.event("BROKEN: %s", text)
		for _, line := range server.Ledger.Traces(text) {
			t.tally.event("    %s", line)
		}
	}
	calls, runs, repeats, late := server.Ledger.Figures()
	fmt.Fprintf(t.stdout, "%s: %d calls reached the server, %d executions, %d answers posted again, %d refusals after an answer, %d sessions\n",
		mode, calls, runs, repeats, late, server.Opened())
}

// shares is how much of the load some parts have.
func shares(modes []string) (n int) {
	for _, mode := range modes {
		n += map[string]int{modeCluster: 4, modeExternal: 4, modeStdio: 1}[mode]
	}
	return n
}

// times is how often each fault is made in a part.
func (t *trial) times(mode string) map[Fault]int {
	each := t.Faults
	if len(t.Modes) > 1 { // any two parts make enough of what both have
		each = (t.Faults + 1) / 2
	}
	times := map[Fault]int{Kills: each, Drains: each, Adds: each}
	switch mode {
	case modeStdio:
		times[ChildKills] = childKills * t.Faults
		return times
	case modeExternal:
		times[NATSRestarts] = t.Faults
	}
	times[CutsOff], times[UpstreamCuts] = each, each
	return times
}

// childKills is how many processes of upstreams are killed for each fault that
// there must be: there are many of them, and nothing has to be waited for.
const childKills = 6

// made are the faults that the run makes by itself.
func (t *trial) made() (list []Fault) {
	for _, fault := range Faults {
		if slices.ContainsFunc(t.Modes, func(mode string) bool { return t.times(mode)[fault] > 0 }) {
			list = append(list, fault)
		}
	}
	return list
}

// faults are those that must have happened.
func (t *trial) faults() []Fault { return append(t.made(), ClientBreaks, SentTwice) }

// rungs are those that must have been used: over stdio nothing is taken over.
func (t *trial) rungs() []string {
	if slices.Equal(t.Modes, []string{modeStdio}) {
		return slices.DeleteFunc(slices.Clone(rungs), func(rung string) bool { return rung == "taken_over" })
	}
	return rungs
}

func printSorted(row func(string, ...any), counts map[string]int) {
	for _, name := range slices.SortedFunc(maps.Keys(counts), cmp.Compare) {
		row("  %s\t%d", name, counts[name])
	}
}
