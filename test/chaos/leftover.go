package main

import (
	"context"
	"fmt"
	"maps"
	"time"
)

// rest is what a replica has of file descriptors, by kind, and of goroutines.
type rest struct {
	files      map[string]int
	goroutines int
}

// still is how long a fleet may take to come to rest: until parked calls whose
// clients did not come back have expired, and some.
const still = parkTTL + 10*time.Second

// quiet waits until no replica has anything to do, and returns what the survivor
// has then.
func (f *Fleet) quiet(ctx context.Context) (has rest, err error) {
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
	r := f.Replicas()[survivor]
	if has.files, err = settled(ctx, r); err != nil {
		return has, err
	}
	has.goroutines, err = r.goroutines()
	return has, err
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

// leftOver says what the fleet has too much of after the load.
func (f *Fleet) leftOver(ctx context.Context, before rest) (broken []string) {
	if err := f.AwaitPeers(ctx, startWithin); err != nil {
		broken = append(broken, f.Mode+": in the end "+err.Error())
	}
	after, err := f.quiet(ctx)
	if err != nil {
		return append(broken, f.Mode+": "+err.Error())
	}
	own, _, err := f.Replicas()[survivor].status()
	if err != nil {
		return append(broken, f.Mode+": "+err.Error())
	}
	if f.Mode == modeStdio { // no replica has a session
		broken = append(broken, f.childrenLeft(ctx)...)
	}
	peak, err := f.Replicas()[survivor].peak()
	if err != nil {
		broken = append(broken, f.Mode+": "+err.Error())
	}
	if f.tally.memory(peak); peak > maxMemory {
		broken = append(broken, fmt.Sprintf("%s: the survivor has had %d MiB of memory, and may have %d", f.Mode, peak>>20, maxMemory>>20))
	}
	// Each session that the survivor keeps has one event stream.
	if now, most := after.files["socket"], before.files["socket"]+own.Sessions; now > most {
		broken = append(broken, fmt.Sprintf("%s: the survivor has %d sockets, had %d before, and has %d sessions", f.Mode, now, before.files["socket"], own.Sessions))
	}
	for kind, n := range after.files {
		if kind != "socket" && n > before.files[kind] {
			broken = append(broken, fmt.Sprintf("%s: the survivor has %d file descriptors of kind %s, had %d before", f.Mode, n, kind, before.files[kind]))
		}
	}
	now, most := after.goroutines, before.goroutines+own.Sessions+few
	for give := time.Now().Add(lull); now > most && time.Now().Before(give) && sleep(ctx, time.Second); {
		if now, err = f.Replicas()[survivor].goroutines(); err != nil {
			return append(broken, f.Mode+": "+err.Error())
		}
	}
	f.tally.event("the survivor has %d goroutines, had %d before, and has %d sessions", now, before.goroutines, own.Sessions)
	if now > most {
		broken = append(broken, fmt.Sprintf("%s: the survivor has %d goroutines, had %d before, and has %d sessions", f.Mode, now, before.goroutines, own.Sessions))
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

// leftOver says what the server has too much of after all replicas have
// stopped. What killed replicas left there expires.
func (s *Server) leftOver(ctx context.Context, tally *Tally) (broken []string) {
	conns, sessions, running := s.Left()
	for give := time.Now().Add(2 * time.Second); conns > 0 && time.Now().Before(give) && sleep(ctx, 20*time.Millisecond); {
		conns, sessions, running = s.Left()
	}
	if conns > 0 {
		broken = append(broken, fmt.Sprintf("%d connections to the server after all replicas have stopped", conns))
	}
	tally.event("after all replicas have stopped: %d sessions and %d executions at the server", sessions, running)
	tally.orphans(sessions)
	for give := time.Now().Add(2 * orphanTTL); sessions+running > 0 && time.Now().Before(give) && sleep(ctx, 50*time.Millisecond); {
		_, sessions, running = s.Left()
	}
	if sessions+running > 0 {
		broken = append(broken, fmt.Sprintf("%d sessions and %d executions at the server, long after all replicas have stopped", sessions, running))
	}
	return broken
}
