package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast-mcp/holdfast/test/checkout"
	"github.com/holdfast-mcp/holdfast/test/npm"
)

const (
	installWithin = 5 * time.Minute
	allWithin     = 4 * time.Minute
	playWithin    = 2 * time.Minute // some 20 s, but on a machine that is busy
	nodeMajor     = 20
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, stdout, stderr io.Writer) int {
	same, err := try(ctx, stdout, stderr)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "real:", err)
	}
	if err != nil || !same {
		return 1
	}
	return 0
}

// try installs, starts, plays and prints, and reports whether all that is
// covered is the same.
func try(ctx context.Context, stdout, stderr io.Writer) (same bool, err error) {
	root, err := checkout.Root(ctx)
	if err != nil {
		return false, err
	}
	home := filepath.Join(root, "test", "real")
	node, err := npm.Node(ctx, nodeMajor)
	if err != nil {
		return false, err
	}
	installing, cancel := context.WithTimeout(ctx, installWithin)
	defer cancel()
	installed, err := npm.Cached(installing, home, stderr)
	if err != nil {
		return false, err
	}
	versions, err := pinned(home)
	if err != nil {
		return false, err
	}
	began := time.Now()
	ctx, cancel = context.WithTimeoutCause(ctx, allWithin, fmt.Errorf("not done within %v", allWithin))
	defer cancel()
	b, err := newBench(ctx, root, home, installed, node)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, b.left(ctx), b.clear()) }()
	if b.officials, err = installOfficial(installing, home, b.dir, stderr); err != nil {
		return false, err
	}
	same = true
	for _, mode := range modes {
		t, err := playEverything(ctx, b, mode)
		if err != nil {
			return false, fmt.Errorf("%s over %s: %w", packageName, mode, err)
		}
		_, _ = fmt.Fprintf(stdout, "\n%s over %s\n\n", packageName, mode)
		t.print(stdout)
		same = same && t.same()
	}
	printOfficials(stdout, b.officials)
	rows := playServers(ctx, b, servers, versions)
	printServers(stdout, rows)
	same = same && !slices.ContainsFunc(rows, func(r served) bool { return !r.passes() })
	_, _ = fmt.Fprintf(stdout, "\nthrough Holdfast and directly, in %s\n", time.Since(began).Round(time.Second/10))
	return same, nil
}

// playEverything plays the plan with server-everything over one transport.
func playEverything(ctx context.Context, b *bench, mode string) (_ *table, err error) {
	ctx, cancel := context.WithTimeout(ctx, playWithin)
	defer cancel()
	stage, err := raise(ctx, b, mode)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stage.lower()) }()
	played, err := play(ctx, stage, plan())
	if err != nil {
		return nil, err
	}
	return judge(played), nil
}
