package main

import (
	"sync"
	"time"
)

// strangers are replicas that were started while they were cut off. One of them
// knows of no peer to wait for, and takes the others' calls for lost until they meet:
// README, "The lease", what remains.
type strangers struct {
	mu   sync.Mutex
	cut  map[int]bool // places that are cut off
	open map[int]bool // of them, those with a stranger
	last time.Time    // when one was no longer, newest
}

// met is how long a stranger may remain one after it was healed.
const met = time.Second

func (s *strangers) cutOff(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut[slot] = true
}

func (s *strangers) heal(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.cut, slot); s.open[slot] {
		delete(s.open, slot)
		s.last = time.Now()
	}
}

// start notes that a replica is started.
func (s *strangers) start(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut[slot] {
		s.open[slot] = true
	}
}

// since reports whether there has been one at some time or after.
func (s *strangers) since(at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) > 0 || s.last.Add(met).After(at)
}
