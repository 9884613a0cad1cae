package adapter

import (
	"sync"
	"time"
)

// gatherer learns, for each tool, prompt or resource, whether waiting for
// sibling questions pays: most ask one thing at a time, and each wait would
// cost every round that much. A sibling that comes late costs one more round,
// nothing else.
type gatherer struct {
	mu    sync.Mutex
	stats map[string]*gatherStat
}

type gatherStat struct {
	mu    sync.Mutex
	alone int // rounds in a row whose question had no sibling
}

const (
	// maxGathered bounds how many names are remembered.
	maxGathered = 1024
	// maxGatheredName bounds each: longer ones that begin alike share what is known.
	maxGatheredName = 200
	// enoughAlone rounds with one question each end the waiting.
	enoughAlone = 8
	// lateSibling is how soon after parking a question counts as a sibling.
	lateSibling = 250 * time.Millisecond
)

func (g *gatherer) of(method string, name []byte) *gatherStat {
	g.mu.Lock()
	defer g.mu.Unlock()
	var space [256]byte
	name = name[:min(len(name), maxGatheredName)]
	key := append(append(append(space[:0], method...), 0), name...)
	s := g.stats[string(key)]
	if s == nil {
		if g.stats == nil || len(g.stats) >= maxGathered {
			g.stats = make(map[string]*gatherStat)
		}
		s = &gatherStat{}
		g.stats[string(key)] = s
	}
	return s
}

// gathering returns what is known of the call's tool. mu is held.
func (c *call) gathering() *gatherStat {
	if c.stat == nil {
		var name []byte
		if len(c.rounds) > 0 {
			name = c.rounds[0].req.Name
		}
		c.stat = c.up.gather.of(c.method, name)
	}
	return c.stat
}

func (s *gatherStat) wait(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alone >= enoughAlone {
		return 0
	}
	return d
}

func (s *gatherStat) parked(questions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if questions == 1 {
		s.alone++
	} else {
		s.alone = 0
	}
}

func (s *gatherStat) late() {
	s.mu.Lock()
	s.alone = 0
	s.mu.Unlock()
}
