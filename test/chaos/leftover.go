package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// rest is what a replica has of file descriptors, by kind, and of goroutines.
type rest struct {
	files      map[string]int
	goroutines int
}

// rests are those of the replicas that run, by their places.
type rests [slots]rest

// still is how long a fleet may take to come to rest: until parked calls whose
// clients did not come back have expired, and some.
const still = parkTTL + 10*time.Second

// quiet waits until no replica has anything to do, and returns what each has then.
func (f *Fleet) quiet(ctx context.Context) (has rests, err error) {
	for give := time.Now().Add(still); ; {
		busy := ""
		for _, r := range f.Replicas() {
			own, _, err := r.status()
			if err != nil || own.Rounds > 0 || own.Calls > 0 || own.Parked > 0 || own.Released > 0 || f.Mode == modeStdio && own.Sessions > 0 {
				busy = fmt.Sprintf("replica %d still has %+v (%v)", r.Slot, own, err)
			}
		}
		if busy == "" {
			break
		}
		if time.Now().After(give) || !sleep(ctx, 100*time.Millisecond) {
			return has, fmt.Errorf("after %v: %s", still, busy)
		}
	}
	if !sleep(ctx, idle) {
		return has, context.Cause(ctx)
	}
	var all sync.WaitGroup
	var failures [slots]error
	for _, r := range f.Replicas() {
		all.Go(func() {
			files, err := settled(ctx, r)
			n, more := r.goroutines()
			has[r.Slot], failures[r.Slot] = rest{files, n}, errors.Join(err, more)
		})
	}
	all.Wait()
	return has, errors.Join(failures[:]...)
}

// settled returns the file descriptors of a replica once they stay the same: a
// process that was starved of CPU may still have to open or close some. It gives
// up after some seconds.
func settled(ctx context.Context, r *Replica) (files map[string]int, err error) {
	for range 10 {
		before := files
		if files, err = r.files(); err != nil || maps.Equal(files, before) {
			return files, err
		}
		if !sleep(ctx, time.Second) {
			return nil, context.Cause(ctx)
		}
	}
	return files, nil
}

// idle is how long idle connections last, see settings, and some.
const idle = 4 * time.Second

// leftOver says what the fleet has too much of after the load. A replica that was
// started again is held against what its place had before: its processes are alike.
func (f *Fleet) leftOver(ctx context.Context, before rests) (broken []string) {
	if err := f.AwaitPeers(ctx, startWithin); err != nil {
		broken = append(broken, "in the end "+err.Error())
	}
	after, err := f.quiet(ctx)
	if err != nil {
		return append(broken, err.Error())
	}
	if f.Mode == modeStdio { // no replica has a session
		broken = append(broken, f.childrenLeft(ctx)...)
	}
	for _, r := range f.Replicas() {
		broken = append(broken, f.leftAt(ctx, r, before[r.Slot], after[r.Slot])...)
	}
	return broken
}

// leftAt says what one replica has too much of.
func (f *Fleet) leftAt(ctx context.Context, r *Replica, before, after rest) (broken []string) {
	breaks := func(format string, v ...any) {
		broken = append(broken, fmt.Sprintf("replica %d ", r.Slot)+fmt.Sprintf(format, v...))
	}
	own, _, err := r.status()
	if err != nil {
		breaks("does not say how it is: %v", err)
		return broken
	}
	peak, err := r.peak()
	if err != nil {
		breaks("does not say what memory it has had: %v", err)
	}
	if f.tally.memory(peak); peak > maxMemory {
		breaks("has had %d MiB of memory, and may have %d", peak>>20, maxMemory>>20)
	}
	// Each session that it keeps has one event stream.
	if now, most := after.files["socket"], before.files["socket"]+own.Sessions; now > most {
		breaks("has %d sockets, had %d before, and has %d sessions", now, before.files["socket"], own.Sessions)
	}
	for kind, n := range after.files {
		if kind != "socket" && n > before.files[kind] {
			breaks("has %d file descriptors of kind %s, had %d before", n, kind, before.files[kind])
		}
	}
	now, most := after.goroutines, before.goroutines+own.Sessions+few
	for give := time.Now().Add(lull); now > most && time.Now().Before(give) && sleep(ctx, time.Second); {
		if now, err = r.goroutines(); err != nil {
			breaks("does not say how many goroutines it has: %v", err)
			return broken
		}
	}
	f.tally.event("replica %d has %d goroutines, had %d before, and has %d sessions", r.Slot, now, before.goroutines, own.Sessions)
	if now > most {
		breaks("has %d goroutines, had %d before, and has %d sessions", now, before.goroutines, own.Sessions)
	}
	return broken
}

// maxMemory is how much memory a replica may have had, with all calls that were
// open and all outcomes that are kept: some six times what it takes.
const maxMemory = 256 << 20

// few is how many more goroutines there may be than before: those of the embedded
// NATS server that look for routes come and go. What is left behind by calls or
// faults would be more.
const few = 8

// lull is how long goroutines may last that wait for the next connection to
// serve.
const lull = 25 * time.Second

// leftOver says what the server has too much of after all replicas have stopped.
// Sessions that may be left there expire.
func (s *Server) leftOver(ctx context.Context, c *custody, held []*session, tally *Tally) (broken []string) {
	conns, sessions, running := s.Left()
	for give := time.Now().Add(2 * time.Second); conns > 0 && time.Now().Before(give) && sleep(ctx, 20*time.Millisecond); {
		conns, sessions, running = s.Left()
	}
	if conns > 0 {
		broken = append(broken, fmt.Sprintf("%d connections to the server after all replicas have stopped", conns))
	}
	tally.event("after all replicas have stopped: %d sessions and %d executions at the server", sessions, running)
	broken = append(broken, s.leftSessions(c, held, tally)...)
	for give := time.Now().Add(2 * orphanTTL); sessions+running > 0 && time.Now().Before(give) && sleep(ctx, 50*time.Millisecond); {
		_, sessions, running = s.Left()
	}
	if sessions+running > 0 {
		broken = append(broken, fmt.Sprintf("%d sessions and %d executions at the server, long after all replicas have stopped", sessions, running))
	}
	return broken
}
