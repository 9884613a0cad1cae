package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Metric is the sum, over all replicas, of the samples whose line begins with a
// name, and labels if given: `holdfast_calls{state="parked"}`.
func (h *Holdfast) Metric(t testing.TB, name string) float64 {
	t.Helper()
	sum, _ := h.sum(t, name)
	return sum
}

// sum is Metric, and whether there was such a sample.
func (h *Holdfast) sum(t testing.TB, name string) (sum float64, found bool) {
	t.Helper()
	for _, p := range h.processes {
		if !p.running() {
			continue
		}
		reply := Do(t, http.MethodGet, p.admin+"/metrics", "", http.Header{"Connection": {"close"}}) // it counts itself otherwise
		if reply.Status != http.StatusOK {
			t.Fatalf("/metrics: HTTP %d\n%s", reply.Status, reply.Body)
		}
		for line := range strings.Lines(string(reply.Body)) {
			rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
			if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
				continue
			}
			value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
			if err != nil {
				t.Fatalf("metric %q: %v", line, err)
			}
			sum, found = sum+value, true
		}
	}
	return sum, found
}

// WaitMetric waits until a metric has a value.
func (h *Holdfast) WaitMetric(t testing.TB, name string, want float64) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond) // a process tells of its metrics only when asked
	defer look.Stop()
	for give := time.Now().Add(patience); ; <-look.C {
		got := h.Metric(t, name)
		if got == want {
			return
		}
		if time.Now().After(give) {
			t.Fatalf("%s is %v, want %v within %v", name, got, want, patience)
		}
	}
}

// Rounds is how many rounds were served in a way: local, forwarded, taken_over,
// replayed or refused.
func (h *Holdfast) Rounds(t testing.TB, served string) float64 {
	t.Helper()
	return h.Metric(t, roundsTotal+`{served="`+served+`"}`)
}
