package main

import (
	"context"
	"fmt"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
	"github.com/holdfast-mcp/holdfast/test/bench/proc"
)

// endpoint is the path that everything is served under.
const endpoint = "/mcp"

// client is what a slot does its calls with; both kinds of client have it.
type client interface {
	Echo() error
	Ask() error
	Close()
}

// target is one way to the server, with a client in every slot.
type target struct {
	name    string
	clients []client
	pids    []int // of the proxy in between
}

func (t *target) close() {
	for _, c := range t.clients {
		c.Close()
	}
}

// ops is the same operation of every client.
func (t *target) ops(op func(client) error) []func() error {
	ops := make([]func() error, len(t.clients))
	for slot, c := range t.clients {
		ops[slot] = func() error { return op(c) }
	}
	return ops
}

// scene is a server with the targets in front of it.
type scene struct {
	targets []*target
	stops   []func() // in the order in which things were started
}

// stop ends all of it, the last started first.
func (s *scene) stop() {
	for i := len(s.stops) - 1; i >= 0; i-- {
		s.stops[i]()
	}
	s.stops = nil
}

// set starts a server and, in front of it, the targets of these names.
func (b *trial) set(ctx context.Context, names []string) (_ *scene, err error) {
	s := &scene{}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	server, err := b.startServer(ctx)
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, server.Stop)
	for _, name := range names {
		t := &target{name: name}
		addr := server.addr
		switch name {
		case nginx:
			p, err := b.startNginx(ctx, server.addr)
			if err != nil {
				return nil, err
			}
			s.stops = append(s.stops, p.Stop)
			addr, t.pids = p.addr, p.pids
		case bare:
			p, err := b.startBare(ctx, server.addr)
			if err != nil {
				return nil, err
			}
			s.stops = append(s.stops, p.Stop)
			addr, t.pids = p.addr, []int{p.PID()}
		case holdfast, atOnce:
			r, err := b.startHoldfast(ctx, name, server.addr)
			if err != nil {
				return nil, err
			}
			s.stops = append(s.stops, r.Stop)
			addr, t.pids = r.addr, []int{r.PID()}
		}
		s.targets = append(s.targets, t)
		s.stops = append(s.stops, t.close)
		for slot := range b.concurrency {
			c, err := b.dial(name, addr, slot)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			t.clients = append(t.clients, c)
		}
	}
	return s, nil
}

// dial returns the client that fits the target.
func (b *trial) dial(name, addr string, slot int) (client, error) {
	if _, modern := settings[name]; modern || name == bare {
		return load.NewModern(addr, endpoint, slot), nil
	}
	return load.NewLegacy(addr, endpoint, slot)
}

// usage is what a target's proxy has used.
type usage struct {
	cpu     float64 // us
	written float64 // bytes
}

// used returns what the target's proxy has used since it began.
func (t *target) used() (usage, error) {
	d, err := proc.CPUs(t.pids)
	if err != nil {
		return usage{}, err
	}
	written, err := proc.Written(t.pids)
	return usage{cpu: float64(d.Microseconds()), written: float64(written)}, err
}
