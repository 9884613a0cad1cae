package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// Fault is a kind of fault.
type Fault string

const (
	Kills        Fault = "replica killed (SIGKILL) and started again"
	Drains       Fault = "replica drained (SIGTERM) and started again"
	Adds         Fault = "additional replica started"
	CutsOff      Fault = "replica cut off from NATS, and healed"
	NATSRestarts Fault = "nats-server restarted"
	UpstreamCuts Fault = "connections to the legacy server broken"
	ClientBreaks Fault = "connection broken by the client"
	SentTwice    Fault = "request sent twice"
	ChildKills   Fault = "process of the upstream killed (SIGKILL)"
)

// Faults are all kinds.
var Faults = []Fault{Kills, Drains, Adds, CutsOff, NATSRestarts, UpstreamCuts, ClientBreaks, SentTwice, ChildKills}

// Chaos makes faults, two at a time: one of processes and one of links.
type Chaos struct {
	fleet *Fleet
	tally *Tally
	seed  uint64
	times map[Fault]int // how often each is made
}

// Run makes all faults. An error is a replica that did not do as it was told.
func (c *Chaos) Run(ctx context.Context) error {
	lanes := [...][]Fault{
		c.lane(0, Kills, Drains, Adds),
		c.lane(1, CutsOff, NATSRestarts, UpstreamCuts, ChildKills),
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var both sync.WaitGroup
	for i, lane := range lanes {
		both.Go(func() {
			r := rand.New(rand.NewPCG(c.seed, 1<<32+uint64(i)))
			for _, fault := range lane {
				if ctx.Err() != nil {
					return
				}
				if err := c.make(ctx, r, fault); err != nil {
					cancel(fmt.Errorf("%s: %w", fault, err))
				}
				sleep(ctx, upTo(r, 100, 900))
			}
		})
	}
	both.Wait()
	return context.Cause(ctx)
}

// lane is a number of faults of each kind in an order of the seed's.
func (c *Chaos) lane(n uint64, kinds ...Fault) (lane []Fault) {
	for _, kind := range kinds {
		for range c.times[kind] {
			lane = append(lane, kind)
		}
	}
	r := rand.New(rand.NewPCG(c.seed, 1<<33+n))
	r.Shuffle(len(lane), func(i, j int) { lane[i], lane[j] = lane[j], lane[i] })
	return lane
}

// upTo is a number of milliseconds.
func upTo(r *rand.Rand, least, most int) time.Duration {
	return time.Duration(least+r.IntN(most-least)) * time.Millisecond
}

func (c *Chaos) make(ctx context.Context, r *rand.Rand, fault Fault) error {
	f := c.fleet
	switch fault {
	case Kills:
		slot := 1 + r.IntN(extra-1)
		c.tally.event("kill %d", slot)
		if err := f.End(slot, syscall.SIGKILL); err != nil {
			return err
		}
		sleep(ctx, upTo(r, 10, 1200))
		if err := f.Start(ctx, slot); err != nil {
			return err
		}
		c.tally.event("started %d", slot)
	case Drains:
		slot := 1 + r.IntN(extra-1)
		c.tally.event("drain %d", slot)
		if err := f.End(slot, syscall.SIGTERM); err != nil {
			return err
		}
		c.tally.event("drained %d", slot)
		sleep(ctx, upTo(r, 10, 300))
		if err := f.Start(ctx, slot); err != nil {
			return err
		}
		c.tally.event("started %d", slot)
	case Adds:
		if err := f.Start(ctx, extra); err != nil {
			return err
		}
		c.tally.event("added %d", extra)
		sleep(ctx, upTo(r, 500, 1800))
		signal := [...]syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[r.IntN(2)]
		c.tally.event("end %d with %v", extra, signal)
		if err := f.End(extra, signal); err != nil {
			return err
		}
	case CutsOff:
		if err := c.cutOff(ctx, r, r.IntN(extra)); err != nil {
			return err
		}
	case NATSRestarts:
		c.tally.event("nats stops")
		began := time.Now()
		if err := f.NATS.Stop([...]syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[r.IntN(2)]); err != nil {
			return err
		}
		sleep(ctx, upTo(r, 10, 900))
		if err := f.NATS.Start(ctx); err != nil {
			return err
		}
		c.tally.event("nats started")
		f.custody.cutOff(began)
	case ChildKills:
		if err := f.killChild(ctx, r); err != nil {
			return err
		}
	case UpstreamCuts:
		c.tally.event("upstream cut")
		began := time.Now()
		f.Upstream.Break()
		sleep(ctx, upTo(r, 1, 200))
		if err := f.Upstream.Join(); err != nil {
			return err
		}
		f.custody.sever(began)
	}
	c.tally.fault(fault)
	return nil
}

// cutOff cuts a replica off from the others, in one of two ways: its
// connections end, or nothing comes through any more.
func (c *Chaos) cutOff(ctx context.Context, r *rand.Rand, slot int) error {
	links := c.fleet.cuts[slot]
	swallow := r.IntN(2) == 0
	c.tally.event("cut off %d (swallow: %v)", slot, swallow)
	c.tally.strangers.cutOff(slot)
	defer c.fleet.custody.cutOff(time.Now())
	for _, link := range links {
		cut := link.Sever
		if swallow {
			cut = link.Swallow
		}
		if err := cut(); err != nil {
			return err
		}
	}
	sleep(ctx, upTo(r, 200, 2500))
	for _, link := range links {
		if err := link.Release(); err != nil {
			return err
		}
	}
	c.tally.strangers.heal(slot)
	c.tally.event("healed %d", slot)
	return nil
}
