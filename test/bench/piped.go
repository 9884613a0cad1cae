package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
	"github.com/holdfast-mcp/holdfast/test/bench/mock"
	"github.com/holdfast-mcp/holdfast/test/bench/proc"
	"github.com/holdfast-mcp/holdfast/test/checkout"
)

// serveStdio is this program as the legacy server over stdio.
func serveStdio(o options, stdout io.Writer) error {
	signal.Reset(os.Interrupt, syscall.SIGTERM) // it ends with its input, or at once
	return (&mock.Stdio{Takes: o.takes}).Serve(os.Stdin, stdout)
}

// stdioServer is the command line of the server over stdio, whose calls take some
// time.
func (b *trial) stdioServer(takes time.Duration) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start mock over stdio: %w", err)
	}
	return []string{self, "-role", "stdio", "-takes", takes.String()}, nil
}

// Names of the ways to a server over stdio.
const (
	atPipes  = "direct"               // a legacy client at the server's own pipes
	overHTTP = "holdfast run"         // a modern client over HTTP
	onStdio  = "holdfast run --stdio" // and at Holdfast's pipes
)

// startPiped starts a server with a legacy client at its pipes.
func (b *trial) startPiped(takes time.Duration) (*proc.Piped, *load.Lines, error) {
	command, err := b.stdioServer(takes)
	if err != nil {
		return nil, nil, err
	}
	p, err := proc.StartPiped("mock over stdio", command[0], command[1:]...)
	if err != nil {
		return nil, nil, err
	}
	b.command("go run ./test/bench " + strings.Join(command[1:], " "))
	l := load.NewLines(p.In, p.Out)
	if err := l.Initialize(); err != nil {
		p.Stop()
		return nil, nil, fmt.Errorf("mock over stdio: %w: %s", err, p.Log())
	}
	return p, l, nil
}

// wrapped is the command line of holdfast run with a server over stdio.
func (b *trial) wrapped(ctx context.Context, takes time.Duration, flags ...string) ([]string, error) {
	program, err := b.build(ctx)
	if err != nil {
		return nil, err
	}
	server, err := b.stdioServer(takes)
	if err != nil {
		return nil, err
	}
	args := append(append([]string{program, "run"}, flags...), b.serve...)
	args = append(append(args, "--"), server...)
	shown := strings.NewReplacer(b.temp, "$TEMP", server[0], "$BENCH", b.root, ".").Replace(strings.Join(args, " "))
	b.command(addresses.ReplaceAllString(shown, "127.0.0.1:PORT"))
	return args, nil
}

// addresses that are shown would differ from start to start.
var addresses = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// startRun starts holdfast run for clients over HTTP, and does not wait for it.
func (b *trial) startRun(ctx context.Context, takes time.Duration) (*replica, error) {
	addr, err := checkout.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	args, err := b.wrapped(ctx, takes, "--listen", addr)
	if err != nil {
		return nil, err
	}
	child, err := proc.Start(overHTTP, args[0], args[1:]...)
	if err != nil {
		return nil, err
	}
	return &replica{Child: child, addr: addr}, nil
}

// startRunOnStdio starts holdfast run for a client at its pipes.
func (b *trial) startRunOnStdio(ctx context.Context, takes time.Duration) (*proc.Piped, error) {
	args, err := b.wrapped(ctx, takes, "--stdio")
	if err != nil {
		return nil, err
	}
	return proc.StartPiped(onStdio, args[0], args[1:]...)
}

// listens waits until the replica takes connections, and looks often.
func (r *replica) listens(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 15*time.Second, errors.New("it did not listen in time"))
	defer cancel()
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	var dialer net.Dialer
	for {
		nc, err := dialer.DialContext(ctx, "tcp", r.addr)
		if err == nil {
			return nc.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %s", r.Name, context.Cause(ctx), r.Log())
		}
	}
}
