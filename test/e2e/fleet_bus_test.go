package e2e

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// waitReady waits until /readyz of a replica has a status.
func waitReady(t testing.TB, h *Holdfast, want string) (code int, reasons []string) {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	for { // a process tells of itself only when asked
		code, status, reasons := readiness(t, h)
		if status == want {
			return code, reasons
		}
		if ctx.Err() != nil {
			t.Fatalf("/readyz says %s %q, want %s within %v", status, reasons, want, patience)
		}
	}
}

// TestBusAway: without the bus every replica serves what needs no other one,
// and says that it is degraded. It finds the bus again by itself.
func TestBusAway(t *testing.T) {
	t.Parallel()
	server := asking(t)
	server.Tool("say", saying)
	nats := NATS(t)
	h := startFleet(t, Options{Upstream: to(server), Config: hasty}, throughNATS(nats.URL))
	h.Send(t, CallTool("say", nil)).Completes(t)
	first := h.Replica(0).Send(t, CallTool("greet", nil))
	first.Asks(t, "elicitation-1")
	if err := nats.stop(); err != nil {
		t.Fatal(err)
	}
	for i := range h.Size() {
		code, reasons := waitReady(t, h.Replica(i), "degraded")
		if code != http.StatusOK || !strings.Contains(strings.Join(reasons, " "), "bus") {
			t.Errorf("replica %d: HTTP %d %q, want 200, and that the bus is away", i, code, reasons)
		}
	}
	for i := range 2 * h.Size() {
		if got := h.Send(t, CallTool("say", map[string]any{"say": "x"}, Client("someone "+jsonText(i%2)))).Text(t); got != "said x" {
			t.Errorf("got %q", got)
		}
	}
	// The owner may have been taken for dead: nobody can tell, and nobody acts.
	reply := h.Replica(1).Retry(t, first, ada)
	reply.Fails(t, http.StatusServiceUnavailable, -32603, "bus_down")
	if reply.Header.Get("Retry-After") == "" {
		t.Error("the refusal does not say when to try again")
	}
	if n := len(server.Responses()); n != 0 {
		t.Errorf("%d answers reached the server", n)
	}
	if err := nats.start(); err != nil {
		t.Fatal(err)
	}
	for i := range h.Size() {
		waitReady(t, h.Replica(i), "ready")
		h.Replica(i).waitPeers(t, h.Size()-1)
	}
	if got := h.Replica(1).Retry(t, first, ada).Text(t); got != "greet Ada" {
		t.Errorf("got %q", got)
	}
	if n := server.ToolCalls("greet"); n != 1 {
		t.Errorf("the tool was called %d times, want once", n)
	}
}

// TestBusAwayAtTheStart: replicas start without the bus, and meet when it
// comes.
func TestBusAwayAtTheStart(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	nats := NATS(t)
	if err := nats.stop(); err != nil {
		t.Fatal(err)
	}
	var h [2]*Holdfast
	for i := range h {
		o := Options{Upstream: to(server), Config: hasty, Args: []string{"--state-key-file", KeyFile(t, fleetKey), "--bus-url", nats.URL}}
		h[i] = StartOne(t, o)
	}
	for i := range h {
		if code, _ := waitReady(t, h[i], "degraded"); code != http.StatusOK {
			t.Errorf("HTTP %d, want 200: it serves what needs no bus", code)
		}
		if got := h[i].Send(t, CallTool("say", map[string]any{"say": "x"})).Text(t); got != "said x" {
			t.Errorf("got %q", got)
		}
	}
	if err := nats.start(); err != nil {
		t.Fatal(err)
	}
	for i := range h {
		h[i].waitPeers(t, 1)
		waitReady(t, h[i], "ready")
	}
}

// TestBusRequired: bus.required makes a replica without the bus not ready.
func TestBusRequired(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	nats := NATS(t)
	h := startFleet(t, Options{Upstream: to(server), Config: "bus: {owner_timeout: 1s, required: true}"}, throughNATS(nats.URL))
	if err := nats.stop(); err != nil {
		t.Fatal(err)
	}
	if code, reasons := waitReady(t, h.One(), "not ready"); code != http.StatusServiceUnavailable || !strings.Contains(strings.Join(reasons, " "), "bus") {
		t.Errorf("HTTP %d %q, want 503, and that the bus is away", code, reasons)
	}
	if err := nats.start(); err != nil {
		t.Fatal(err)
	}
	waitReady(t, h.One(), "ready")
}

// TestReplicaOfAnotherVersion: upgrades roll. A replica whose messages are of a
// version that is not understood is named in the log of each other, and they go
// on as if it were not there.
func TestReplicaOfAnotherVersion(t *testing.T) {
	t.Parallel()
	server := asking(t)
	busServer := NATS(t)
	h := startFleet(t, Options{Upstream: to(server), Config: hasty}, throughNATS(busServer.URL))
	conn, err := nats.Connect(busServer.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	beats, err := conn.SubscribeSync("*.v1.alive")
	if err != nil {
		t.Fatal(err)
	}
	beat, err := beats.NextMsg(patience)
	if err != nil {
		t.Fatal(err)
	}
	const stranger = "0ddba11a"
	strange := bytes.Clone(beat.Data)
	for _, one := range replicasOf(t, h.One()) {
		strange = bytes.ReplaceAll(strange, []byte(one.ID), []byte(stranger))
	}
	strange[0]++ // the version
	if err := conn.Publish(beat.Subject, strange); err != nil {
		t.Fatal(err)
	}
	for i := range h.Size() {
		h.Replica(i).Logs.Wait(t, `"level":"warn"`, "heartbeat is not understood", "unknown version", stranger)
	}
	first := h.Replica(0).Send(t, CallTool("greet", nil))
	first.Asks(t, "elicitation-1")
	if got := h.Replica(1).Retry(t, first, ada).Text(t); got != "greet Ada" {
		t.Errorf("got %q", got)
	}
	for i := range h.Size() {
		if n := len(replicasOf(t, h.Replica(i))); n != h.Size() {
			t.Errorf("replica %d lists %d, want the %d that it can ask", i, n, h.Size())
		}
	}
}
