package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"

	"github.com/holdfast-mcp/holdfast/test/checkout"
	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

const packageName = "@modelcontextprotocol/server-everything"

// modes are the transports of server-everything, as its command line names them.
var modes = []string{modeStdio, modeSSE, modeStreamable}

const (
	modeStdio      = "stdio"
	modeSSE        = "sse"
	modeStreamable = "streamableHttp"
)

const (
	manyClients = 32
	fewClients  = 6 // each is a process more
)

// raise raises a stage with server-everything; lower ends it.
func raise(ctx context.Context, b *bench, mode string) (*stage, error) {
	s := &stage{out: b.out, places: manyClients, official: b.official}
	if err := s.raise(ctx, b, mode); err != nil {
		return nil, errors.Join(err, s.lower())
	}
	return s, nil
}

func (s *stage) raise(ctx context.Context, b *bench, mode string) error {
	home := filepath.Join(b.dir, mode)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	program := filepath.Join(b.modules, filepath.FromSlash(packageName), "dist", "index.js")
	if mode == modeStdio {
		s.places = fewClients
		command := peer.Command{Path: b.node, Args: []string{program, mode}, Env: environ(home), Dir: home}
		s.connect = func(ctx context.Context, identity peer.Identity) (*peer.Legacy, error) {
			return peer.Spawn(ctx, command, identity)
		}
		return s.front(ctx, b, "holdfast-"+mode, nil, command)
	}
	upstream, err := checkout.FreeAddress(ctx)
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(upstream)
	if err != nil {
		return err
	}
	if err := s.start(ctx, "server-everything-"+mode, upstream, environ(home, "PORT="+port), b.node, program, mode); err != nil {
		return err
	}
	url := "http://" + upstream + "/mcp"
	connect := peer.Connect
	if mode == modeSSE {
		url, connect = "http://"+upstream+"/sse", peer.ConnectSSE
	}
	s.connect = func(ctx context.Context, identity peer.Identity) (*peer.Legacy, error) {
		return connect(ctx, url, identity)
	}
	listen, err := checkout.FreeAddress(ctx)
	if err != nil {
		return err
	}
	s.modern = "http://" + listen + "/mcp"
	// The server drops what it asks before the GET stream stands, which takes a
	// machine that is busy longer than it should.
	return s.start(ctx, "holdfast-"+mode, listen, environ(home), b.holdfast, "serve", "--listen", listen, "--upstream", url,
		"--upstream.stream-wait", "5s", "--log-level", "debug")
}
