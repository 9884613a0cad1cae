package main

import (
	"context"
	"fmt"
	"time"
)

// still is how long a fleet may take to come to rest: until parked calls whose
// clients did not come back have expired, and some.
const still = parkTTL + 10*time.Second

// quiet waits until no replica has anything to do, and returns the number of
// the survivor's file descriptors by kind.
func (f *Fleet) quiet(ctx context.Context) (map[string]int, error) {
	for give := time.Now().Add(still); ; {
		busy := ""
		for _, r := range f.Replicas() {
			own, _, err := r.status()
			if err != nil || own.Rounds > 0 || own.Calls > 0 || own.Parked > 0 || own.Released > 0 {
				busy = fmt.Sprintf("replica %d still has %+v (%v)", r.Slot, own, err)
			}
		}
		if busy == "" {
			break
		}
		if time.Now().After(give) || !sleep(ctx, 100*time.Millisecond) {
			return nil, fmt.Errorf("after %v: %s", still, busy)
		}
	}
	if !sleep(ctx, idle) {
		return nil, context.Cause(ctx)
	}
	return f.Replicas()[survivor].files()
}

// idle is how long idle connections last, see settings, and some.
const idle = 4 * time.Second

// leftOver says what the fleet has too much of after the load.
func (f *Fleet) leftOver(ctx context.Context, before map[string]int) (broken []string) {
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
	// Each session that the survivor keeps has one event stream.
	if now, most := after["socket"], before["socket"]+own.Sessions; now > most {
		broken = append(broken, fmt.Sprintf("%s: the survivor has %d sockets, had %d before, and has %d sessions", f.Mode, now, before["socket"], own.Sessions))
	}
	for kind, n := range after {
		if kind != "socket" && n > before[kind] {
			broken = append(broken, fmt.Sprintf("%s: the survivor has %d file descriptors of kind %s, had %d before", f.Mode, n, kind, before[kind]))
		}
	}
	return broken
}

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
