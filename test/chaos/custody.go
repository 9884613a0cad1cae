package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// custody is who had to end the sessions at the server, and what kept replicas from
// it: those that are left in the end are held against it.
//
// A replica that stops with the others, which hear each other, ends each session
// whose event stream it has. What nobody has any more may be left where its replica
// was killed; where its replica stopped while another was not heard of, which might
// have used it (README, "Rolling restart"); and where the connection to the server
// broke when the session began or ended: a DELETE is sent once.
type custody struct {
	mu       sync.Mutex
	killed   map[string]time.Time // processes, by what they call themselves at the server
	drained  map[string]span
	silent   []span // replicas cut off, or without NATS
	severed  []span // from the server
	lastKill time.Time
}

// span is a time in the run.
type span struct{ from, to time.Time }

func (s span) meets(o span) bool { return !s.from.After(o.to) && !o.from.After(s.to) }

func newCustody() *custody {
	return &custody{killed: map[string]time.Time{}, drained: map[string]span{}}
}

// silence is how long a replica that was not heard of may be taken to live.
const silence = 20*ownerTimeout + time.Second

// soon is how far apart a broken connection and the end of what it carried are
// noticed.
const soon = time.Second

func (c *custody) kill(process string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastKill = time.Now()
	c.killed[process] = c.lastKill
}

func (c *custody) drain(process string, from time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drained[process] = span{from, time.Now()}
}

// cutOff notes that replicas did not hear each other, from some time until now.
func (c *custody) cutOff(from time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = append(c.silent, span{from, time.Now()})
}

// sever notes that the server was not reached, from some time until now.
func (c *custody) sever(from time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.severed = append(c.severed, span{from, time.Now()})
}

// settle waits until nobody takes a replica for alive any more that was killed.
func (c *custody) settle(ctx context.Context) {
	c.mu.Lock()
	wait := silence - time.Since(c.lastKill)
	c.mu.Unlock()
	sleep(ctx, max(wait, 0))
}

// Why a session may be left.
const (
	byKill  = "kept by a replica that was killed"
	byDrain = "kept by a replica that stopped while another was not heard of"
	byBreak = "begun or ended when the server was not reached"
)

// excuse says why a session may be left that nobody had in the end, or "".
func (c *custody) excuse(s *session) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, process := range s.keepers {
		if _, dead := c.killed[process]; dead {
			return byKill
		}
	}
	end := span{s.last.Add(-soon), s.last.Add(soon)}
	if slices.ContainsFunc(c.severed, end.meets) {
		return byBreak
	}
	if len(s.keepers) == 0 {
		return ""
	}
	while, stopped := c.drained[s.keepers[len(s.keepers)-1]]
	if !stopped {
		return ""
	}
	heard := span{while.from.Add(-soon), while.to} // who was cut off is heard again a moment later
	if slices.ContainsFunc(c.silent, heard.meets) {
		return byDrain
	}
	for _, at := range c.killed {
		if while.meets(span{at, at.Add(silence)}) {
			return byDrain
		}
	}
	return ""
}

// Held are the sessions whose event streams stand.
func (s *Server) Held() (held []*session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions {
		if session.get.stands() {
			held = append(held, session)
		}
	}
	return held
}

// leftSessions says which sessions are left that must not be, after all replicas
// have stopped, which held some until then.
func (s *Server) leftSessions(c *custody, held []*session, tally *Tally) (broken []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions {
		why := "left"
		switch {
		case slices.Contains(held, session):
			why = "left, although a replica had it until it stopped"
		default:
			if excuse := c.excuse(session); excuse != "" {
				tally.orphan(excuse)
				continue
			}
		}
		broken = append(broken, fmt.Sprintf("%s (%s) is %s: kept by %q, last used at %s", session.id, session.path, why, session.keepers, session.last.UTC().Format("15:04:05.000")))
	}
	tally.entrusted(len(held))
	return broken
}
