package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/holdfast-mcp/holdfast/test/checkout"
	"github.com/holdfast-mcp/holdfast/test/npm"
)

const (
	installWithin = 5 * time.Minute
	playWithin    = 90 * time.Second // all pairs play at once; the longest takes some 10 s
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
	if err := npm.Install(installing, home, stderr); err != nil {
		return false, err
	}
	began := time.Now()
	ctx, cancel = context.WithTimeout(ctx, playWithin)
	defer cancel()
	stage, err := raise(ctx, root, home, node)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, stage.lower()) }()
	played, err := play(ctx, stage, plan())
	if err != nil {
		return false, err
	}
	t := judge(played)
	t.print(stdout)
	_, _ = fmt.Fprintf(stdout, "\n%s through Holdfast and directly, in %s\n", packageName, time.Since(began).Round(time.Second/10))
	return t.same(), nil
}
