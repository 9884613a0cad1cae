// Command demo is what `make demo` plays: a legacy MCP server, holdfast serve
// in front of it, and a stateless client, holdfast call, whose HTTP requests
// and answers are shown as they happen.
//
// It ends by itself, within a minute, with exit code 0 if everything went as
// told, and takes the processes that it started with it. Without -holdfast and
// -server it builds the two programs first; it must run inside the module then.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// limit bounds the whole demo, building apart.
const limit = 50 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	holdfast := flags.String("holdfast", "", "the holdfast `binary`; built if not given")
	server := flags.String("server", "", "the legacy server's `binary`; built if not given")
	if err := flags.Parse(args); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "holdfast-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if *holdfast, err = built(ctx, *holdfast, folder, "./cmd/holdfast"); err != nil {
		return err
	}
	if *server, err = built(ctx, *server, folder, "./test/fixture/legacyserver"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %v", limit))
	defer cancel()
	s := stage{out: stdout, holdfast: *holdfast, server: *server}
	err = errors.Join(s.play(ctx), s.clear())
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}

// built returns the binary, or builds the package into the folder.
func built(ctx context.Context, binary, folder, pkg string) (string, error) {
	if binary != "" {
		return filepath.Abs(binary)
	}
	binary = filepath.Join(folder, filepath.Base(pkg))
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, pkg)
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, output)
	}
	return binary, nil
}
