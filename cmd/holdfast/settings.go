package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/holdfast-mcp/holdfast/config"
)

// newFlags makes the flag set of a command. Its errors are returned by parse;
// the commands print them.
func newFlags(command string) *flag.FlagSet {
	fs := flag.NewFlagSet(command, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	return fs
}

// parse reads a command line that has flags only.
func parse(fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return nil
}

// errNoUpstream: there is nothing to serve.
var errNoUpstream = errors.New("settings: upstreams: none; give --upstream URL, HOLDFAST_UPSTREAM, or upstreams in the file")

// runServe reads the settings and serves until a signal or the end of ctx.
func runServe(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	const name, help = "holdfast serve", "holdfast help serve"
	fs := newFlags(name)
	config.AddFlags(fs)
	if err := parse(fs, args); errors.Is(err, flag.ErrHelp) {
		return printed(stdout, stderr, name, serveUsage+config.Usage())
	} else if err != nil {
		return misused(stderr, name, err, help)
	}
	c, err := config.Load(fs, environ)
	if err == nil && len(c.Upstreams) == 0 {
		err = errNoUpstream
	}
	if err != nil {
		return misused(stderr, name, err, help)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := serve(ctx, c, environ, nil, stderr); err != nil {
		return failed(stderr, name, err)
	}
	return exitDone
}

// runConfig prints the settings, or their table.
func runConfig(args, environ []string, stdout, stderr io.Writer) int {
	const name, help = "holdfast config", "holdfast help config"
	fs := newFlags(name)
	config.AddFlags(fs)
	markdown := fs.Bool("markdown", false, "")
	if err := parse(fs, args); errors.Is(err, flag.ErrHelp) {
		return printed(stdout, stderr, name, configUsage)
	} else if err != nil {
		return misused(stderr, name, err, help)
	}
	if *markdown {
		return printed(stdout, stderr, name, config.Markdown())
	}
	c, err := config.Load(fs, environ)
	if err != nil {
		return misused(stderr, name, err, help)
	}
	text, err := c.YAML()
	if err != nil {
		return failed(stderr, name, err)
	}
	return printed(stdout, stderr, name, string(text))
}
