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
	strangers strangers

	mu     sync.Mutex
	began  time.Time
	log    io.Writer // of events
	faults map[Fault]int
	ends   map[Tool]map[End]int
	spoke  map[Dialect]map[End]int
	held   map[Tool]int    // calls whose client held a handle and did not itself leave
	stayed int             // of them, those that the ladder can carry
	pries  map[Dialect]int // handles that were refused to another caller
	copies map[string]int  // what a task was later that had ended
	rounds map[string]float64
	why    map[string]int // reasons of losses and first errors
	left   map[string]int // sessions that nobody has ended, by why
	kept   int            // sessions that replicas had until they stopped
	tries  map[string]int // what clients sent requests again for
	killed []time.Time    // when replicas were killed
	told   int            // notifications of tasks
	order  int            // calls whose progress was held against the server's
	peak   int            // bytes of memory that a replica has had at most
}

// NewTally returns an empty one, which writes its events to log.
func NewTally(log io.Writer) *Tally {
	return &Tally{
		strangers: strangers{cut: map[int]bool{}},
		began:     time.Now(), log: log, faults: map[Fault]int{}, ends: map[Tool]map[End]int{}, held: map[Tool]int{},
		spoke: map[Dialect]map[End]int{}, pries: map[Dialect]int{}, copies: map[string]int{},
		rounds: map[string]float64{}, why: map[string]int{}, left: map[string]int{}, tries: map[string]int{},
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
	t.killed = append(t.killed, time.Now())
}

// killedWithin reports whether a replica was killed not longer ago than that.
func (t *Tally) killedWithin(d time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.killed) > 0 && time.Since(t.killed[len(t.killed)-1]) < d
}

// outlived reports whether replicas were killed so that what was told then need not
// be known any more: soon after, or two of them since.
func (t *Tally) outlived(told time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, at := range t.killed {
		if at.After(told.Add(-copied)) {
			if n++; n > 1 || at.Before(told.Add(copied)) {
				return true
			}
		}
	}
	return false
}

// heard notes a notification of a task.
func (t *Tally) heard() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told++
}

// memory notes how much a replica has had.
func (t *Tally) memory(peak int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.peak = max(t.peak, peak)
}

// inOrder notes a call whose progress is held against the server's.
func (t *Tally) inOrder() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.order++
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
	if t.spoke[e.Dialect] == nil {
		t.spoke[e.Dialect] = map[End]int{}
	}
	t.spoke[e.Dialect][e.End]++
	if e.State && e.End != Disconnected && e.End != Cancelled {
		if t.held[e.Tool]++; e.Carried() {
			t.stayed++
		}
	}
	switch e.End {
	case Lost:
		t.why[fmt.Sprintf("%s, %s, %s: %s", e.Dialect, e.Tool, e.End, e.Reason)]++
	case Told:
		t.why[fmt.Sprintf("%s: %s", e.End, e.Reason)]++
	}
	if e.Detail != "" {
		_, _ = fmt.Fprintf(t.log, "%s %s %s: %s: %s\n", time.Now().UTC().Format("15:04:05.000"), e.Key, e.Tool, e.End, e.Detail) // likewise
	}
}

// orphan counts a session that no replica has ended.
func (t *Tally) orphan(why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left[why]++
}

// entrusted counts sessions that replicas had until they stopped.
func (t *Tally) entrusted(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept += n
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

// pried notes that a handle was refused to another caller.
func (t *Tally) pried(d Dialect) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pries[d]++
}

// later notes what a task was that had ended, asked for some time after.
func (t *Tally) later(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.copies[what]++
}

// carried is how many calls ended whose client held a handle, did not itself
// leave, and which the ladder can carry.
func (t *Tally) carried() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stayed
}

// Unspoken are the dialects of some in which fewer calls than so many have come to
// their results, or no handle was refused to another caller.
func (t *Tally) Unspoken(least int, dialects []Dialect) (list []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range dialects {
		if n := t.spoke[d][Done]; n < least {
			list = append(list, fmt.Sprintf("calls of dialect %s that are done: %d, want %d", d, n, least))
		}
	}
	return list
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
	printEnds(row, "calls by end", []Tool{Resumable, Idempotent, ReadOnly, Unsafe}, t.ends)
	row("  held a handle and stayed\t%d\t%d\t%d\t%d", t.held[Resumable], t.held[Idempotent], t.held[ReadOnly], t.held[Unsafe])
	_ = table.Flush()
	printEnds(row, "calls by end", Dialects, t.spoke)
	_ = table.Flush()
	row("handles refused to another caller\t%d", sum(t.pries))
	row("notifications of tasks\t%d", t.told)
	row("followed calls whose progress was held against the server's\t%d", t.order)
	row("tasks that had ended, asked for again; and what was answered again\t")
	printSorted(row, t.copies)
	row("faults\t")
	for _, f := range Faults {
		row("  %s\t%d", f, t.faults[f])
	}
	row("rounds by how they were served\t")
	for _, rung := range rungs {
		row("  %s\t%.0f", rung, t.rounds[rung])
	}
	row("sessions that replicas had to end when all stopped\t%d", t.kept)
	row("sessions that the server itself had to end, and may have had to\t%d", sum(t.left))
	printSorted(row, t.left)
	row("memory of a replica at most\t%d MiB", t.peak>>20)
	row("errors that ended calls\t")
	printSorted(row, t.why)
	row("requests sent again because of\t")
	printSorted(row, t.tries)
	_ = table.Flush() // w is the terminal
}

// printEnds writes a table with a column for each of some.
func printEnds[K ~string](row func(string, ...any), title string, columns []K, ends map[K]map[End]int) {
	line := title
	for _, k := range columns {
		line += "\t" + string(k)
	}
	row("%s", line)
	for _, end := range Ends {
		line := "  " + string(end)
		for _, k := range columns {
			line += fmt.Sprintf("\t%d", ends[k][end])
		}
		row("%s", line)
	}
}

func sum[K comparable](counts map[K]int) (n int) {
	for _, each := range counts {
		n += each
	}
	return n
}
