package main

import (
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"
)

// Tally counts what happened in a run.
type Tally struct {
	mu     sync.Mutex
	began  time.Time
	log    io.Writer // of events
	faults map[Fault]int
	ends   map[Tool]map[End]int
	held   map[Tool]int // calls whose client held a request state and did not itself disconnect
	rounds map[string]float64
	why    map[string]int // reasons of losses and first errors
	left   int            // sessions that nobody has ended
	tries  map[string]int // what clients sent requests again for
	killed time.Time      // when a replica was killed last
}

// NewTally returns an empty one, which writes its events to log.
func NewTally(log io.Writer) *Tally {
	return &Tally{
		began: time.Now(), log: log, faults: map[Fault]int{}, ends: map[Tool]map[End]int{}, held: map[Tool]int{},
		rounds: map[string]float64{}, why: map[string]int{}, tries: map[string]int{},
	}
}

func (t *Tally) fault(f Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults[f]++
}

// kills notes that a replica is killed now.
func (t *Tally) kills() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.killed = time.Now()
}

// killedWithin reports whether a replica was killed not longer ago than that.
func (t *Tally) killedWithin(d time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.killed) < d
}

func (t *Tally) event(format string, v ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintf(t.log, "%s %s\n", time.Now().UTC().Format("15:04:05.000"), fmt.Sprintf(format, v...)) // it only helps to read the run
}

func (t *Tally) ended(e Ended) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ends[e.Tool] == nil {
		t.ends[e.Tool] = map[End]int{}
	}
	t.ends[e.Tool][e.End]++
	if e.State && e.End != Disconnected {
		t.held[e.Tool]++
	}
	if e.End == Lost || e.End == Told {
		t.why[fmt.Sprintf("%s, %s: %s", e.Tool, e.End, e.Reason)]++
	}
	if e.Detail != "" {
		_, _ = fmt.Fprintf(t.log, "%s %s %s: %s: %s\n", time.Now().UTC().Format("15:04:05.000"), e.Key, e.Tool, e.End, e.Detail) // likewise
	}
}

// orphans counts sessions that no replica has ended.
func (t *Tally) orphans(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left += n
}

func (t *Tally) retried(r *Reply) {
	t.mu.Lock()
	defer t.mu.Unlock()
	why := "connection broken"
	if r.Err != nil {
		why = r.Err.Data.Reason
	}
	t.tries[why]++
}

func (t *Tally) served(rounds map[string]float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for served, n := range rounds {
		t.rounds[served] += n
	}
}

// carried is how many calls ended whose client held a request state, did not
// itself disconnect, and which the ladder can carry.
func (t *Tally) carried() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for tool, held := range t.held {
		if tool.Carried() {
			n += held
		}
	}
	return n
}

// rungs are the ways in which rounds are served.
var rungs = []string{"local", "forwarded", "taken_over", "replayed", "refused"}

// Short are those of some faults and rungs that there were fewer than so many
// of.
func (t *Tally) Short(least int, faults []Fault, rungs []string) (list []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range faults {
		if t.faults[f] < least {
			list = append(list, fmt.Sprintf("%s: %d times, want %d", f, t.faults[f], least))
		}
	}
	for _, rung := range rungs {
		if n := int(t.rounds[rung]); n < least {
			list = append(list, fmt.Sprintf("rounds served %s: %d, want %d", rung, n, least))
		}
	}
	return list
}

// Print writes the tables.
func (t *Tally) Print(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(format string, v ...any) { _, _ = fmt.Fprintf(table, format+"\n", v...) } // Flush tells
	row("calls by end")
	ends := []End{Done, Disconnected, FirstLost, Told, Lost}
	tools := []Tool{Resumable, Idempotent, ReadOnly, Unsafe}
	row("  \t%s\t%s\t%s\t%s", Resumable, Idempotent, ReadOnly, Unsafe)
	for _, end := range ends {
		row("  %s\t%d\t%d\t%d\t%d", end, t.ends[tools[0]][end], t.ends[tools[1]][end], t.ends[tools[2]][end], t.ends[tools[3]][end])
	}
	row("  held a request state and stayed\t%d\t%d\t%d\t%d", t.held[tools[0]], t.held[tools[1]], t.held[tools[2]], t.held[tools[3]])
	row("faults\t")
	for _, f := range Faults {
		row("  %s\t%d", f, t.faults[f])
	}
	row("rounds by how they were served\t")
	for _, rung := range rungs {
		row("  %s\t%.0f", rung, t.rounds[rung])
	}
	row("sessions that the server itself had to end\t%d", t.left)
	row("errors that ended calls\t")
	printSorted(row, t.why)
	row("requests sent again because of\t")
	printSorted(row, t.tries)
	_ = table.Flush() // w is the terminal
}
