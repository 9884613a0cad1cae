package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// Logs collects the lines of one process, or of several, and lets tests wait
// for them.
type Logs struct {
	mu      sync.Mutex
	lines   []string
	open    int           // processes that may still write
	changed chan struct{} // closed and replaced at every change
}

// newLogs makes logs for a number of processes.
func newLogs(processes int) *Logs { return &Logs{open: processes, changed: make(chan struct{})} }

// readLogs copies lines from r to all logs, until r ends.
func readLogs(r io.Reader, all ...*Logs) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		for _, l := range all {
			l.update(func() { l.lines = append(l.lines, scanner.Text()) })
		}
	}
	for _, l := range all {
		l.update(func() { l.open-- })
	}
}

func (l *Logs) update(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

// Lines are all lines so far.
func (l *Logs) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

// Count is how many lines have all parts.
func (l *Logs) Count(parts ...string) (n int) {
	for _, line := range l.Lines() {
		if hasAll(line, parts) {
			n++
		}
	}
	return n
}

// Wait returns the first line that has all parts, once there is one.
func (l *Logs) Wait(t testing.TB, parts ...string) string {
	t.Helper()
	return l.WaitNth(t, 1, parts...)
}

// WaitNth returns the nth line that has all parts, once there is one.
func (l *Logs) WaitNth(t testing.TB, n int, parts ...string) string {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		l.mu.Lock()
		lines, ended, changed, found := l.lines, l.open == 0, l.changed, 0
		l.mu.Unlock()
		for _, line := range lines {
			if hasAll(line, parts) {
				if found++; found == n {
					return line
				}
			}
		}
		if ended {
			t.Fatalf("holdfast ended without logging %q:\n%s", parts, strings.Join(lines, "\n"))
		}
		select {
		case <-changed:
		case <-timeout.C:
			t.Fatalf("holdfast did not log %q within %v:\n%s", parts, patience, strings.Join(lines, "\n"))
		}
	}
}

func hasAll(line string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(line, part) {
			return false
		}
	}
	return true
}

func parseLine(t testing.TB, line string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), into); err != nil {
		t.Fatalf("log line %q: %v", line, err)
	}
}
