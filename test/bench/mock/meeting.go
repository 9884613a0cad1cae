package mock

import (
	"sync"
	"time"
)

// late is how long those who came to a meeting wait for the next one.
const late = 3 * time.Second

// meeting keeps the answers of meet until all have come. Whoever waits too long
// for the next one is let go: one caller that is lost must not look like all.
type meeting struct {
	mu    sync.Mutex // guards what follows
	ends  []func()
	alarm *time.Timer
	going sync.WaitGroup
}

// join holds end until as many have come as the server expects, or late has
// passed.
func (m *meeting) join(s *Server, end func()) {
	m.mu.Lock()
	m.ends = append(m.ends, end)
	s.stats.Together.Store(max(s.stats.Together.Load(), int64(len(m.ends))))
	whole := len(m.ends) >= s.Meeting
	if !whole {
		if m.alarm == nil {
			m.alarm = time.AfterFunc(late, m.part)
		}
		m.alarm.Reset(late)
	}
	m.mu.Unlock()
	if whole {
		m.going.Go(m.part) // the last answer's own response need not wait for it
	}
}

// part ends all calls that are held.
func (m *meeting) part() {
	m.mu.Lock()
	ends := m.ends
	m.ends = nil
	if m.alarm != nil {
		m.alarm.Stop()
	}
	m.mu.Unlock()
	for _, end := range ends {
		end()
	}
}
