package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/proc"
	"github.com/holdfast-mcp/holdfast/test/checkout"
	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

// startWithin is how long a server may take until it accepts connections.
const startWithin = 20 * time.Second

// bench is what all that is played shares.
type bench struct {
	holdfast, node string // programs
	modules        string // the installed servers
	officials      *officials
	dir            string // the working folders of the servers, and the built binary
	out            string // where what the servers wrote is kept
}

// newBench builds Holdfast; clear takes the folders away.
func newBench(ctx context.Context, root, home, installed, node string) (*bench, error) {
	dir, err := os.MkdirTemp("", "real")
	if err != nil {
		return nil, err
	}
	b := &bench{
		holdfast: filepath.Join(dir, "holdfast"), node: node, dir: dir,
		modules: filepath.Join(installed, "node_modules"), out: filepath.Join(home, "out"),
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", b.holdfast, "./cmd/holdfast")
	build.Dir, build.Stderr = root, os.Stderr
	if err := build.Run(); err != nil {
		return nil, errors.Join(fmt.Errorf("go build ./cmd/holdfast: %w", err), b.clear())
	}
	return b, os.MkdirAll(b.out, 0o755)
}

func (b *bench) clear() error { return os.RemoveAll(b.dir) }

// environ is all of the environment that a server gets, on both sides: some
// tell it, and its HOME says whose process it is.
func environ(home string, more ...string) []string {
	return append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, more...)
}

// stage is a server, and Holdfast in front of it.
type stage struct {
	// connect opens a session with the server directly.
	connect func(ctx context.Context, identity peer.Identity) (*peer.Legacy, error)
	modern  string // URL of Holdfast
	// official starts the official client of the tasks extension at a URL.
	official func(url string, identity peer.Identity) (*peer.Official, error)
	places   int // clients that play at a time
	out      string
	children []*proc.Child
}

// through is the client of a pair that comes through Holdfast.
func (s *stage) through(p *pair, identity peer.Identity) (client, error) {
	if p.official {
		return s.official(s.modern, identity)
	}
	return peer.NewModern(s.modern, identity), nil
}

// start starts a server in an environment of its own, and waits until it
// accepts connections.
func (s *stage) start(ctx context.Context, name, address string, environ []string, program string, args ...string) error {
	child, err := proc.Start(name, "env", append(append(append([]string{"-i"}, environ...), program), args...)...)
	if err != nil {
		return err
	}
	s.children = append(s.children, child)
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	return child.Until(ctx, func() error {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return connection.Close()
	})
}

// lower ends what was started, the last first, and keeps what it wrote.
func (s *stage) lower() error {
	var failures []error
	for i := len(s.children) - 1; i >= 0; i-- {
		child := s.children[i]
		child.Stop()
		failures = append(failures, os.WriteFile(filepath.Join(s.out, child.Name+".log"), []byte(child.Log()), 0o644))
	}
	return errors.Join(failures...)
}

// front starts Holdfast in front of a command.
func (s *stage) front(ctx context.Context, b *bench, name string, names []string, c peer.Command) error {
	listen, err := checkout.FreeAddress(ctx)
	if err != nil {
		return err
	}
	s.modern = "http://" + listen + "/mcp"
	args := []string{"-C", c.Dir, b.holdfast, "run", "--listen", listen, "--log-level", "debug"}
	for _, name := range names {
		args = append(args, "--env", name)
	}
	args = append(append(args, "--", c.Path), c.Args...)
	return s.start(ctx, name, listen, c.Env, "env", args...)
}
