package e2e

import (
	"os"
	"sync"
	"testing"
	"time"
)

// Holdfast is what a test talks to: one process, or a fleet of them behind a
// balancer.
type Holdfast struct {
	// Target is the endpoint of the first upstream.
	Target
	// Base is the URL of the listener, without a path.
	Base string
	// AdminURL is the URL of the admin listener, without a path. Of a fleet, it
	// is that of the first replica.
	AdminURL string
	// Logs is what the processes write to standard error.
	Logs *Logs

	t         testing.TB
	processes []*process
}

// At is the endpoint with another path, of another upstream.
func (h *Holdfast) At(path string) Target { return Target{URL: h.Base + path} }

// One is one replica, without the balancer: for what each replica does, limits
// or says for itself.
func (h *Holdfast) One() *Holdfast { return h.Replica(0) }

// Replica is one of the replicas, without the balancer.
func (h *Holdfast) Replica(i int) *Holdfast { return h.processes[i].alone() }

// Size is how many replicas there are.
func (h *Holdfast) Size() int { return len(h.processes) }

// Stop ends all processes with SIGTERM and checks that each exits with 0. More
// than once is fine.
func (h *Holdfast) Stop() {
	var all sync.WaitGroup
	for _, p := range h.processes {
		all.Go(p.terminate)
	}
	all.Wait()
}

// Kill ends all processes with SIGKILL.
func (h *Holdfast) Kill() {
	for _, p := range h.processes {
		p.kill()
	}
}

// Freeze stops all processes where they are, until they get SIGCONT.
func (h *Holdfast) Freeze() {
	for _, p := range h.processes {
		p.freeze()
	}
}

// Signal sends all processes a signal.
func (h *Holdfast) Signal(s os.Signal) {
	for _, p := range h.processes {
		p.signal(s)
	}
}

// ends waits for the end of processes that were told to stop: a second signal
// would end them at once.
func (h *Holdfast) ends(t testing.TB) {
	t.Helper()
	timeout := time.After(patience)
	for _, p := range h.processes {
		select {
		case <-p.read:
		case <-timeout:
			t.Errorf("holdfast did not stop within %v", patience)
			return
		}
	}
	h.Stop() // checks how
}
