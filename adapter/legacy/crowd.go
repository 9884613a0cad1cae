package legacy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// crowd are those who wait for room for one more session, of whatever keys: all
// that sessions.max allows are there. First come, first served.
type crowd struct {
	mu    sync.Mutex
	turns []*turn
}

// turn is a place in the crowd.
type turn struct {
	since time.Time
	room  chan struct{} // of a key without a session: holds one once its place is reserved
	entry *entry        // of a key with sessions: a call that waits for one is given the place
}

// waiter is a call that waits for a session of its key.
type waiter struct {
	since  time.Time
	chance chan chance // holds one
}

// chance is what a waiting call is given: a session; a reserved place for a new
// one; or neither, which says to look again.
type chance struct {
	session *Session
	place   bool
}

// errCrowded is the error of a replica that has no room for a session at the
// moment, and queues nobody for it: a peer that waits may ask again. It does so
// without a place of its own, which others may need to get on meanwhile.
var errCrowded = fmt.Errorf("%w: sessions.max is reached", ErrFull)

// crowdedThere is errCrowded as a peer has said it.
type crowdedThere struct{ error }

func (c crowdedThere) Unwrap() error { return c.error }

// askAgain is how often a call asks a replica that has no room.
const askAgain = 5 * lookAgain

// comesAgain waits, after err, before a call that has begun to wait for a session
// at a moment asks for room again. It reports false where it should not.
func (s *Server) comesAgain(ctx context.Context, began time.Time, err error) bool {
	var there crowdedThere
	left := s.settings.QueueTimeout - time.Since(began)
	if err != errCrowded && err != errSpent && !errors.As(err, &there) || left <= 0 {
		return false
	}
	defer s.asking.Add(-1)
	return s.asking.Add(1) <= int64(s.settings.Queue) && wait.Pause(ctx, min(left, askAgain))
}

var errNoRoom = fmt.Errorf("%w within sessions.queue_timeout: sessions.max is reached, and all are in use", ErrFull)

// room reserves a place for a key's first session, if need be that of a session
// that nobody uses. Where there is none it returns a turn to wait for one.
func (s *Server) room() (*turn, error) {
	c := &s.crowd
	c.mu.Lock()
	defer c.mu.Unlock()
	starting := 0
	for _, t := range c.turns {
		if t.room != nil {
			starting++
		}
	}
	switch {
	case starting == 0 && (s.reserve() || s.evict()):
		return nil, nil
	case starting >= s.settings.Queue:
		return nil, fmt.Errorf("%w: sessions.max is reached, and sessions.queue is full", ErrFull)
	}
	t := &turn{since: time.Now(), room: make(chan struct{}, 1)}
	c.turns = append(c.turns, t)
	s.log.Debug().Str("upstream", s.settings.Name).Int("waiting", starting+1).Msg("call waits for room for a session")
	return t, nil
}

// awaitRoom waits for a turn of room, whose place is reserved then.
func (s *Server) awaitRoom(ctx context.Context, t *turn) error {
	timer := time.NewTimer(s.settings.QueueTimeout)
	defer timer.Stop()
	err := errNoRoom
	select {
	case <-t.room:
		return nil
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if !s.crowd.quit(t) { // it was given room at the same moment
		<-t.room
		s.vacate()
	}
	return err
}

// join queues an entry for a place for one of its waiting calls. nil says that
// there is room, which is reserved.
func (s *Server) join(e *entry) *turn {
	c := &s.crowd
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.turns) == 0 && s.reserve() {
		return nil
	}
	t := &turn{since: time.Now(), entry: e}
	c.turns = append(c.turns, t)
	return t
}

// quit takes a turn out of the crowd. It reports whether it was there.
func (c *crowd) quit(t *turn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.turns, t)
	if i >= 0 {
		c.turns = slices.Delete(c.turns, i, i+1)
	}
	return i >= 0
}

// starving reports whether somebody waits who has no session at all, and does so
// since before a moment.
func (c *crowd) starving(before time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.turns {
		if t.room != nil {
			return t.since.Before(before)
		}
	}
	return false
}

// vacate gives the place of a session back, or to who waits longest for one.
func (s *Server) vacate() {
	c := &s.crowd
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.turns) == 0 {
		s.sessions.Add(-1)
		return
	}
	t := c.turns[0]
	c.turns = c.turns[1:]
	if t.room != nil {
		t.room <- struct{}{}
		return
	}
	s.background(func() { // the caller may hold an entry
		if !t.entry.giveRoom() {
			s.vacate()
		}
	})
}

// giveRoom gives a reserved place to the entry's call that waits longest. It
// reports false where none waits.
func (e *entry) giveRoom() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.give(chance{place: true})
}

// give gives something to the call that waits longest. It reports false where none
// does. mu is held.
func (e *entry) give(c chance) bool {
	if len(e.waiters) == 0 {
		return false
	}
	w := e.waiters[0]
	e.waiters = e.waiters[1:]
	w.chance <- c
	return true
}

// relieve gives the places of sessions that nobody uses to those who have none. It
// is for what was in use, or looked so, when they came.
func (s *Server) relieve() {
	for s.crowd.starving(time.Now()) && s.evict() {
		s.vacate()
	}
}

// yield ends a session that nobody uses, and whose place another key has more
// need of, which gets it at once. It reports whether it did. mu is held.
func (e *entry) yield(s *Session) bool {
	before := time.Now()
	if len(e.waiters) > 0 {
		before = e.waiters[0].since
	}
	if s.users > 0 || !e.server.crowd.starving(before) || !e.remove(s) {
		return false
	}
	e.give(chance{}) // it comes after who waits longer
	e.server.vacate()
	e.server.background(func() { e.server.close(s) })
	return true
}
