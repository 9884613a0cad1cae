package main

import (
	"context"
	"fmt"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
)

// pair is two replicas in front of one server. Calls are parked on the first.
type pair struct {
	*fleet
	server *server
	owner  []*load.Modern // clients of the first, one in each slot
	other  []*load.Modern // of the second
}

func (b *trial) startPair(ctx context.Context) (*pair, error) {
	s, err := b.startServer(ctx)
	if err != nil {
		return nil, err
	}
	f, err := b.startFleet(ctx, 2, s.addr)
	if err != nil {
		s.Stop()
		return nil, err
	}
	p := &pair{fleet: f, server: s}
	for slot := range b.concurrency {
		p.owner = append(p.owner, load.NewModern(f.replicas[0].addr, endpoint, slot))
		p.other = append(p.other, load.NewModern(f.replicas[1].addr, endpoint, slot))
	}
	return p, nil
}

func (p *pair) stop() {
	for i := range p.owner {
		p.owner[i].Close()
		p.other[i].Close()
	}
	p.fleet.stop()
	p.server.Stop()
}

// park parks n calls on the first replica.
func (p *pair) park(ctx context.Context, n int, park parker) ([]load.Parked, error) {
	calls := make([]load.Parked, n)
	r := load.Each(ctx, len(p.owner), n, func(slot, i int) (err error) {
		calls[i], err = park(p.owner[slot])
		return err
	})
	if r.Errors > 0 {
		return nil, fmt.Errorf("park call: %w", r.First)
	}
	return calls, ctx.Err()
}
