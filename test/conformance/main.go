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
	"syscall"
	"time"

	"github.com/holdfast-mcp/holdfast/test/checkout"
)

// revision is what is required, and the wire that all scenarios speak.
const revision = "2026-07-28"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(stderr)
	direct := flags.Bool("direct", false, "leave Holdfast out: the suite against the legacy server")
	url := flags.String("url", "", "run against this endpoint and start nothing")
	replicas := flags.Int("replicas", 1, "Holdfast replicas, behind a plain round-robin where there are several")
	schemas := flags.String("schemas", "", "write the JSON schemas that the suite carries to this folder, and run nothing")
	timeout := flags.Duration("timeout", 5*time.Minute, "for the suite as a whole")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if *schemas != "" {
		if err := extract(ctx, *schemas, stderr); err != nil {
			fmt.Fprintln(stderr, "conformance:", err)
			return 1
		}
		return 0
	}
	passed, err := conform(ctx, *direct, *replicas, *url, *timeout, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "conformance:", err)
	}
	if err != nil || !passed {
		return 1
	}
	return 0
}

func extract(ctx context.Context, dir string, log io.Writer) error {
	root, err := checkout.Root(ctx)
	if err != nil {
		return err
	}
	return writeSchemas(ctx, filepath.Join(root, "test", "conformance"), dir, log)
}

func conform(ctx context.Context, direct bool, replicas int, url string, timeout time.Duration, stdout, stderr io.Writer) (passed bool, err error) {
	root, err := checkout.Root(ctx)
	if err != nil {
		return false, err
	}
	home := filepath.Join(root, "test", "conformance")
	if err := install(ctx, home, stderr); err != nil {
		return false, err
	}
	wanted, err := readRequirements(home)
	if err != nil {
		return false, err
	}
	results := filepath.Join(home, "results")
	if err := os.RemoveAll(results); err != nil {
		return false, err
	}
	if err := os.MkdirAll(results, 0o755); err != nil {
		return false, err
	}
	tasks := url
	if url == "" {
		stage, err := raise(ctx, root, results, direct, replicas)
		if err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, stage.lower()) }()
		url, tasks = stage.url, stage.tasks
	}
	began := time.Now()
	if err := runSuite(ctx, home, results, timeout, "--url", url, "--requirements", revision); err != nil {
		return false, err
	}
	for _, scenario := range wanted.tasks() {
		if tasks == "" {
			break
		}
		if err := runSuite(ctx, home, results, timeout, "--url", tasks, "--scenario", scenario, "--spec-version", revision, "--force"); err != nil {
			return false, err
		}
	}
	outcomes, err := readOutcomes(results, wanted)
	if err != nil {
		return false, err
	}
	passed = report(stdout, wanted, outcomes)
	fmt.Fprintf(stdout, "\n%s in %s; records in %s\n", url, time.Since(began).Round(time.Second/10), results)
	return passed, nil
}
