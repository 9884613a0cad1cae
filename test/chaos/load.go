package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Load has clients make calls, one after the other each.
type Load struct {
	server  *Server
	clients []*Client // by caller
	seed    uint64
	mode    string
	workers int
	tally   *Tally
	next    *atomic.Int64 // number of the next call
}

// NewLoad makes a load through the balancer at address.
func NewLoad(server *Server, address string, seed uint64, mode string, workers int, tally *Tally, next *atomic.Int64) *Load {
	l := &Load{server: server, seed: seed, mode: mode, workers: workers, tally: tally, next: next}
	for i := range mixes[mode].callers {
		l.clients = append(l.clients, NewClient(address, i))
	}
	return l
}

// Run makes calls until more says that there are enough. Every call that began
// is driven to its end.
func (l *Load) Run(ctx context.Context, more func() bool) {
	var all sync.WaitGroup
	for range l.workers {
		all.Go(func() {
			for more() && ctx.Err() == nil {
				l.call(ctx, PlanOf(l.seed, int(l.next.Add(1)), l.mode))
			}
		})
	}
	all.Wait()
}

// call makes a call. One whose first round was lost is made again under
// another key, because nobody can know whether it has run.
func (l *Load) call(ctx context.Context, plan *Plan) {
	for attempt := range maxAttempts {
		c := &caller{load: l, client: l.clients[plan.Caller], plan: plan, script: plan.Script, given: map[string]any{}}
		c.script.Key = keyOf(plan, attempt)
		end := c.attempt(ctx)
		l.judge(&end)
		l.tally.ended(end)
		if end.End != FirstLost && !(end.End == Told && retriable(end.Reason)) || ctx.Err() != nil {
			return
		}
		if !sleep(ctx, firstPause<<min(attempt, 5)) {
			return
		}
	}
	l.server.Ledger.Break("call %d: its first round was lost %d times", plan.Index, maxAttempts)
}

// retriable reports whether a client would make the call again.
func retriable(reason string) bool {
	switch reason {
	case "shutdown", "upstream_down", "upstream_lost", "bus_down", "overload":
		return true
	}
	return false
}

// noticed is how long after the death of a replica its clients know of it.
const noticed = 3 * time.Second

// judge holds the end of a call against what must hold for it.
func (l *Load) judge(end *Ended) {
	ledger := l.server.Ledger
	where := fmt.Sprintf("%s (%s, %s, %d rounds)", end.Key, end.Dialect, end.Tool, end.Rounds)
	switch end.End {
	case Lost:
		if end.Carried() {
			ledger.Break("%s was lost: %s", where, end.Detail)
		} else if !end.toldLost() {
			ledger.Break("%s was lost without being told that it is, and that it may have run: %s", where, end.Detail)
		}
	case FirstLost:
		if end.Cut && !l.tally.killedWithin(noticed) {
			ledger.Break("%s was lost in its first round although no replica was killed: %s", where, end.Detail)
		}
	case Told:
		if end.Reason == "" {
			ledger.Break("%s ended with an error without a reason: %s", where, end.Detail)
		}
	case Done:
		done := 0
		for _, run := range ledger.Runs(end.Key) {
			if run.done {
				done++
			}
		}
		if done == 0 {
			ledger.Break("%s has a result, but was never executed to its end", where)
		}
	}
}
