package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Ledger is what the legacy server did: every execution of every call, and
// every answer that it was given.
type Ledger struct {
	mu      sync.Mutex
	runs    map[string][]*Run // by the call's key
	broken  []string          // promises that were, in words
	repeats int               // answers that were posted again
	late    int               // cancels for questions that had been answered
	traces  map[string][]string
}

// Run is one execution of a call.
type Run struct {
	key       string
	tool      Tool
	session   string
	request   string // raw id
	resumed   int    // how often its stream was asked for again
	repeated  string // the question whose answer was posted again last
	effects   map[string]string
	cancelled bool
	refused   bool // a question was answered with a cancel or an error
	done      bool
}

// NewLedger returns an empty one.
func NewLedger() *Ledger { return &Ledger{runs: map[string][]*Run{}, traces: map[string][]string{}} }

// Trace notes what a client or the server saw of a call, in case that the run
// breaks a promise of it.
func (l *Ledger) Trace(key, format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.traces[key] = append(l.traces[key], time.Now().UTC().Format("15:04:05.000")+" "+fmt.Sprintf(format, v...))
}

// Traces are what was noted of the calls that a text names first.
func (l *Ledger) Traces(text string) []string {
	key := strings.TrimRight(strings.SplitN(text, " ", 2)[0], ":")
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.traces[key])
}

// Begin notes that a call is executed.
func (l *Ledger) Begin(key string, tool Tool, session, request string) *Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	run := &Run{key: key, tool: tool, session: session, request: request, effects: map[string]string{}}
	l.runs[key] = append(l.runs[key], run)
	if n := len(l.runs[key]); n > 1 && !tool.Replayable() {
		l.breakLocked("%s (%s) was executed %d times", key, tool, n)
	}
	return run
}

// Effect notes the answer that an execution goes on with.
func (l *Ledger) Effect(run *Run, question, answer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, known := run.effects[question]; known {
		l.breakLocked("%s: question %s took effect twice: %s, then %s", run.key, question, before, answer)
	}
	run.effects[question] = answer
}

// Again notes an answer to a question that had one.
func (l *Ledger) Again(run *Run, question, first, second string, cancel bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case cancel:
		l.late++ // the server no longer listens
	case first != second:
		l.breakLocked("%s: question %s was answered with %s, then with %s", run.key, question, first, second)
	default:
		l.repeats++
		run.repeated = question
	}
}

// Note changes a run.
func (l *Ledger) Note(run *Run, change func(*Run)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(run)
}

// Break notes a promise that was broken.
func (l *Ledger) Break(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.breakLocked(format, v...)
}

func (l *Ledger) breakLocked(format string, v ...any) {
	l.broken = append(l.broken, fmt.Sprintf(format, v...))
}

// Broken are the promises that were broken, in the end.
func (l *Ledger) Broken() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := append([]string(nil), l.broken...)
	for _, runs := range l.runs {
		for _, run := range runs {
			if run.repeated != "" && run.resumed == 0 {
				list = append(list, fmt.Sprintf("%s (%s): the answer to question %s was posted again although nobody took the call over", run.key, run.tool, run.repeated))
			}
		}
	}
	return list
}

// Runs are the executions of a call.
func (l *Ledger) Runs(key string) []Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []Run
	for _, r := range l.runs[key] {
		list = append(list, *r)
	}
	return list
}

// Figures are how many calls were executed, how many executions there were,
// and how many answers were posted again or refused too late.
func (l *Ledger) Figures() (calls, runs, repeats, late int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, list := range l.runs {
		runs += len(list)
	}
	return len(l.runs), runs, l.repeats, l.late
}
