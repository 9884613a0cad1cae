package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
	"github.com/holdfast-mcp/holdfast/test/bench/proc"
)

// ways are those to a server over stdio.
type ways struct {
	chart   string // its file's name
	callers int
	takes   time.Duration // of a call at the server
	mute    bool          // the callers cannot be asked anything
}

// wayToPipes is one of them.
type wayToPipes struct {
	*target
	servers func() (int, error) // how many processes there are of the server
}

// pipeScene is all of them.
type pipeScene struct {
	scene
	ways []wayToPipes
}

// setWays starts all ways.
func (b *trial) setWays(ctx context.Context, w ways) (_ *pipeScene, err error) {
	s := &pipeScene{}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	for _, set := range []func(context.Context, *pipeScene, ways) error{b.setDirect, b.setOverHTTP, b.setOnStdio} {
		if err := set(ctx, s, w); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *pipeScene) add(t *target, servers func() (int, error)) {
	s.targets = append(s.targets, t)
	s.ways = append(s.ways, wayToPipes{t, servers})
}

// setDirect starts servers with legacy clients at their pipes. Mute callers share
// a server; which call a question is for can be told only where each has its own.
func (b *trial) setDirect(_ context.Context, s *pipeScene, w ways) error {
	t := &target{name: atPipes}
	var lines *load.Lines
	servers := 0
	for slot := range w.callers {
		if lines == nil || !w.mute {
			p, l, err := b.startPiped(w.takes)
			if err != nil {
				return err
			}
			s.stops = append(s.stops, p.Stop)
			lines = l
			servers++
		}
		t.clients = append(t.clients, load.NewPiped(lines, slot))
	}
	s.add(t, func() (int, error) { return servers, nil })
	return nil
}

// setOverHTTP starts holdfast run with clients over HTTP.
func (b *trial) setOverHTTP(ctx context.Context, s *pipeScene, w ways) error {
	r, err := b.startRun(ctx, w.takes)
	if err != nil {
		return err
	}
	t := &target{name: overHTTP, pids: []int{r.PID()}}
	s.stops = append(s.stops, r.Stop, t.close)
	for slot := range w.callers {
		t.clients = append(t.clients, load.NewModernAs(load.Manner{Mute: w.mute}, r.addr, endpoint, slot))
	}
	s.add(t, func() (int, error) { return count(serversOf(r.PID())) })
	return r.listens(ctx)
}

// setOnStdio starts holdfast run with a client at its pipes, all of whose callers
// share them.
func (b *trial) setOnStdio(ctx context.Context, s *pipeScene, w ways) error {
	p, err := b.startRunOnStdio(ctx, w.takes)
	if err != nil {
		return err
	}
	s.stops = append(s.stops, p.Stop)
	t := &target{name: onStdio, pids: []int{p.PID()}}
	lines := load.NewLines(p.In, p.Out)
	for slot := range w.callers {
		t.clients = append(t.clients, load.NewModernOn(lines, load.Manner{Mute: w.mute}, slot))
	}
	s.add(t, func() (int, error) { return count(serversOf(p.PID())) })
	return nil
}

// serversOf returns the processes of the server that a Holdfast has started.
func serversOf(pid int) ([]int, error) {
	children, err := proc.Children(pid)
	if err != nil {
		return nil, err
	}
	var servers []int
	for _, child := range children {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
		if err == nil && strings.Contains(string(text), "-role\x00stdio") { // else it is the guard
			servers = append(servers, child)
		}
	}
	return servers, nil
}

func count(servers []int, err error) (int, error) { return len(servers), err }
