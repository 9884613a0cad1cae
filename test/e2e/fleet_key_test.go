package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestKeyThatAReplicaLacks: replicas that do not have the same keys are a
// mistake that the operator must see: in the log and at /readyz.
func TestKeyThatAReplicaLacks(t *testing.T) {
	t.Parallel()
	server := asking(t)
	other := StartOne(t, Options{Upstream: to(server), Args: []string{"--state-key-file", KeyFile(t, newKey(t))}})
	h := StartFleet(t, Options{Upstream: to(server)})
	first := other.Send(t, CallTool("greet", nil))
	first.Asks(t, "elicitation-1")
	one := h.Replica(1)
	if code, status, reasons := readiness(t, one); code != http.StatusOK || status != "ready" {
		t.Fatalf("before: HTTP %d %s %q, want ready", code, status, reasons)
	}
	for range 3 {
		one.Retry(t, first, ada).Fails(t, http.StatusBadRequest, -32602, "state_key")
	}
	one.Logs.Wait(t, `"level":"warn"`, "all replicas need the same keys")
	if n := one.Logs.Count("all replicas need the same keys"); n != 1 {
		t.Errorf("it is logged %d times, want once: clients could flood the log", n)
	}
	code, status, reasons := readiness(t, one)
	if code != http.StatusOK || status != "degraded" || !strings.Contains(strings.Join(reasons, " "), "key") {
		t.Errorf("HTTP %d %s %q, want degraded, and that a key is missing", code, status, reasons)
	}
	if code, status, _ := readiness(t, h.Replica(2)); code != http.StatusOK || status != "ready" {
		t.Errorf("a replica that has seen nothing of it: HTTP %d %s, want ready", code, status)
	}
	if got := other.Retry(t, first, ada).Text(t); got != "greet Ada" {
		t.Errorf("got %q", got)
	}
}
