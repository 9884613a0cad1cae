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
)

const packageName = "@modelcontextprotocol/server-everything"

// startWithin is how long a server may take until it accepts connections.
const startWithin = 20 * time.Second

// stage is the server, and Holdfast in front of it.
type stage struct {
	direct, modern string // URLs
	dir            string // of the binary
	out            string // where what the servers wrote is kept
	children       []*proc.Child
}

// raise builds Holdfast and starts both; lower ends them.
func raise(ctx context.Context, root, home, node string) (*stage, error) {
	dir, err := os.MkdirTemp("", "real")
	if err != nil {
		return nil, err
	}
	s := &stage{dir: dir, out: filepath.Join(home, "out")}
	if err := s.raise(ctx, root, home, node); err != nil {
		return nil, errors.Join(err, s.lower())
	}
	return s, nil
}

func (s *stage) raise(ctx context.Context, root, home, node string) error {
	holdfast := filepath.Join(s.dir, "holdfast")
	build := exec.CommandContext(ctx, "go", "build", "-o", holdfast, "./cmd/holdfast")
	build.Dir, build.Stderr = root, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("go build ./cmd/holdfast: %w", err)
	}
	upstream, err := checkout.FreeAddress(ctx)
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(upstream)
	if err != nil {
		return err
	}
	// An environment of its own: its get-env tool tells all of it.
	program := filepath.Join(home, "node_modules", filepath.FromSlash(packageName), "dist", "index.js")
	if err := s.start(ctx, "server-everything", upstream, "env", "-i", "PORT="+port, node, program, "streamableHttp"); err != nil {
		return err
	}
	listen, err := checkout.FreeAddress(ctx)
	if err != nil {
		return err
	}
	s.direct, s.modern = "http://"+upstream+"/mcp", "http://"+listen+"/mcp"
	return s.start(ctx, "holdfast", listen, holdfast, "serve", "--listen", listen, "--upstream", s.direct)
}

// start starts a server and waits until it accepts connections.
func (s *stage) start(ctx context.Context, name, address, program string, args ...string) error {
	child, err := proc.Start(name, program, args...)
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
	failures := []error{os.MkdirAll(s.out, 0o755)}
	for i := len(s.children) - 1; i >= 0; i-- {
		child := s.children[i]
		child.Stop()
		failures = append(failures, os.WriteFile(filepath.Join(s.out, child.Name+".log"), []byte(child.Log()), 0o644))
	}
	return errors.Join(append(failures, os.RemoveAll(s.dir))...)
}
