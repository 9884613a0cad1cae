package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

// stepWithin bounds one step; the longest listens for some five seconds. The
// first of a modern client may have to wait for a process to start, which takes
// that long on a machine that is busy.
const stepWithin = 40 * time.Second

// side is what one side got for a step.
type side struct {
	outcomes []peer.Outcome
	err      error
}

// played is a step that was played on both sides, or on one.
type played struct {
	pair           *pair
	step           step
	direct, modern side
}

// play plays all pairs at once, as far as the stage has places, and each side's
// steps in turn. An error means that
// there is nothing to compare.
func play(ctx context.Context, s *stage, pairs []pair) ([]played, error) {
	results := make([][]played, len(pairs))
	failures := make([]error, 2*len(pairs))
	places := make(chan struct{}, s.places)
	var wait sync.WaitGroup
	for i := range pairs {
		p := &pairs[i]
		results[i] = make([]played, len(p.steps))
		for j, step := range p.steps {
			results[i][j] = played{pair: p, step: step}
		}
		identity := p.identity()
		wait.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			c, err := s.connect(ctx, identity)
			if err != nil {
				failures[2*i] = fmt.Errorf("connect to the server directly: %w", err)
				return
			}
			failures[2*i] = act(ctx, c, p.steps, func(j int, got side) { results[i][j].direct = got })
		})
		if p.directly {
			continue
		}
		wait.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			c, err := s.through(p, identity)
			if err != nil {
				failures[2*i+1] = err
				return
			}
			failures[2*i+1] = act(ctx, c, p.steps, func(j int, got side) { results[i][j].modern = got })
		})
	}
	wait.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	var all []played
	for _, result := range results {
		all = append(all, result...)
	}
	return all, nil
}

// identity is who both clients of a pair say they are.
func (p *pair) identity() peer.Identity {
	own := maps.Clone(answers)
	maps.Copy(own, p.answers)
	return peer.Identity{Name: "real-" + p.name, Capabilities: p.capabilities, Answers: own}
}

// act plays steps with one client and closes it.
func act(ctx context.Context, c client, steps []step, got func(int, side)) error {
	for j, step := range steps {
		ctx, cancel := context.WithTimeoutCause(ctx, stepWithin, fmt.Errorf("no end within %v", stepWithin))
		outcomes, err := step.play(ctx, c)
		cancel()
		got(j, side{outcomes, err})
	}
	return c.Close(ctx)
}
