package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/proc"
	"github.com/holdfast-mcp/holdfast/test/bench/report"
	"github.com/holdfast-mcp/holdfast/test/checkout"
)

func main() { os.Exit(start()) }

// start runs the program until it ends or is told to.
func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// run is the whole program; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	switch {
	case err != nil:
	case o.role == "mock":
		err = serveMock(ctx, o, stdout)
	case o.role == bare:
		err = serveBare(ctx, o, stdout)
	case o.role == "stdio":
		err = serveStdio(o, stdout)
	case o.role == "nats":
		err = serveFloor(ctx, o)
	default:
		err = bench(ctx, o, args, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// errFaults is a run whose calls did not all end as they should.
var errFaults = errors.New("not every call ended as it should; see the faults above")

// bench measures what the options ask for and reports it.
func bench(ctx context.Context, o options, args []string, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("the run took longer than %s", o.limit))
	defer cancel()
	machine, err := proc.ThisMachine()
	if err != nil {
		return err
	}
	if _, err := proc.Files(); err != nil {
		return err
	}
	root, err := checkout.Root(ctx)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	// The load is made on the cores that are measured: collect rarely.
	debug.SetGCPercent(800)

	r := &report.Report{
		Commit:   proc.Commit(root),
		Machine:  machine,
		Started:  time.Now(),
		Settings: o.String(),
		Commands: []string{"go run ./test/bench " + strings.Join(args, " ")},
	}
	b := &trial{options: o, root: root, temp: temp, report: r, progress: stderr}
	for _, part := range b.parts() {
		if err := part(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
	}
	if o.only == "profile" {
		return nil // there are no figures
	}
	r.Took = time.Since(r.Started)
	if err := r.Text(stdout); err != nil {
		return err
	}
	out := o.out
	if !filepath.IsAbs(out) {
		out = filepath.Join(root, out)
	}
	if err := r.Write(out); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "written: bench.md, bench.json and charts in %s\n", o.out)
	if len(r.Faults) > 0 {
		return errFaults
	}
	return nil
}
