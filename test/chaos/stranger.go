package main

import (
	"sync"
	"time"
)

// strangers are replicas that were started while one of them was cut off, or a moment
// before, so that two have not met. Each knows nothing of the other to wait for, and
// may take its calls for lost: README, "The lease", what remains.
type strangers struct {
	mu    sync.Mutex
	cut   map[int]bool // places that are cut off
	open  bool         // two have not met
	begun time.Time    // when a replica was started last
	last  time.Time    // when all had met again
}

// met is how soon replicas have met that hear each other.
const met = time.Second

func (s *strangers) cutOff(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut[slot] = true
	s.open = s.open || time.Since(s.begun) < met
}

func (s *strangers) heal(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.cut, slot); s.open && len(s.cut) == 0 {
		s.open, s.last = false, time.Now().Add(met)
	}
}

// start notes that a replica is started.
func (s *strangers) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = time.Now()
	s.open = s.open || len(s.cut) > 0
}

// since reports whether there have been some at a time or after.
func (s *strangers) since(at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open || s.last.After(at)
}
