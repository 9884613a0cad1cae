package e2e

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// listed is what /replicas says of one replica.
type listed struct {
	ID, Version                               string
	Self, Leaving                             bool
	Rounds, Calls, Parked, Released, Sessions int
	Uptime                                    float64
}

func replicasOf(t testing.TB, h *Holdfast) (all []listed) {
	t.Helper()
	var body struct {
		Bus       string
		Connected bool
		Replicas  []listed
	}
	reply := Do(t, http.MethodGet, h.AdminURL+"/replicas", "", http.Header{})
	if err := json.Unmarshal(reply.Body, &body); err != nil {
		t.Fatalf("/replicas: %v\n%s", err, reply.Body)
	}
	if !body.Connected || body.Bus != "cluster" && body.Bus != "external" {
		t.Errorf("/replicas says of the bus %q, connected: %v", body.Bus, body.Connected)
	}
	return body.Replicas
}

// TestReplicasListed: each replica lists all of them, with what they do; so does
// the command, for people.
func TestReplicasListed(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("greet", greeting)
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty + "shutdown: {grace: 20s}"})
	for range 2 {
		h.Replica(0).Send(t, CallTool("greet", nil)).Asks(t, "elicitation-1")
	}
	h.ownerFirst(t)
	var owner string
	ids := map[string]int{}
	for i := range h.Size() {
		all := replicasOf(t, h.Replica(i))
		if len(all) != h.Size() {
			t.Fatalf("replica %d lists %d, want %d", i, len(all), h.Size())
		}
		for _, one := range all {
			if ids[one.ID]++; one.Version == "" || one.Uptime <= 0 {
				t.Errorf("replica %d says of %s: version %q, uptime %v", i, one.ID, one.Version, one.Uptime)
			}
			if !one.Self {
				continue
			}
			parked := 0
			if i == 0 {
				owner, parked = one.ID, 2
			}
			if one.Calls != parked || one.Parked != parked {
				t.Errorf("replica %d says that it has %d calls, %d parked, want %d", i, one.Calls, one.Parked, parked)
			}
		}
	}
	for id, n := range ids {
		if n != h.Size() {
			t.Errorf("%s is listed %d times, want once by each of %d", id, n, h.Size())
		}
	}
	// What the others know of it comes with its next heartbeat.
	other := h.Replica(1)
	ctx, cancel := within(t)
	defer cancel()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for known := (listed{}); (known.Parked != 2 || known.Rounds != 0) && ctx.Err() == nil; <-look.C {
		for _, one := range replicasOf(t, other) {
			if one.ID == owner {
				known = one
			}
		}
	}
	lines := listing(t, other)
	if !strings.HasPrefix(lines[0], "bus: ") || len(lines) != 3+h.Size() {
		t.Fatalf("holdfast replicas prints\n%s", strings.Join(lines, "\n"))
	}
	for i, head := range strings.Fields("replica version uptime rounds calls parked released sessions round trip") {
		if got := strings.Fields(lines[2]); len(got) <= i || got[i] != head {
			t.Errorf("the head is %q", lines[2])
		}
	}
	row := regexp.MustCompile(`^` + owner + `  \S+ +\d+s +0 +2 +2 +0 +\d+ +\S+ *$`)
	asked := 0
	for _, line := range lines[3:] {
		if strings.HasPrefix(line, owner) && !row.MatchString(line) {
			t.Errorf("the owner of two parked calls is listed as %q", line)
		}
		if strings.HasSuffix(line, "asked") {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("%d replicas are marked as the one that was asked:\n%s", asked, strings.Join(lines, "\n"))
	}
	code, out := runs(t, nil, "replicas", "--json", strings.TrimPrefix(other.AdminURL, "http://"))
	if !json.Valid([]byte(out)) || code != 0 {
		t.Errorf("holdfast replicas --json ends with %d and prints\n%s", code, out)
	}
	if code, out := runs(t, nil, "replicas", freeAddress(t)); code == 0 || !strings.Contains(out, "refused") {
		t.Errorf("where nobody listens it ends with %d and prints %s", code, out)
	}
}

// TestReplicaListedAsStopping: who is asked says that a replica is about to
// leave, and no more of it once it has.
func TestReplicaListedAsStopping(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	hold := newGate(t)
	server.Handle("prompts/list", func(c *rawserver.Call) { // which may not be let go
		<-hold
		c.Result(`{"prompts":[]}`)
	})
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty})
	list := h.Replica(0).Open(t, Request("prompts/list", nil))
	server.WaitCount("prompts/list", 1)
	h.Replica(0).Signal(syscall.SIGTERM)
	ctx, cancel := within(t)
	defer cancel()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for leaving := 0; leaving != 1; <-look.C {
		if leaving = 0; ctx.Err() != nil {
			t.Fatal("nobody is listed as leaving")
		}
		for _, one := range replicasOf(t, h.Replica(1)) {
			if one.Leaving {
				leaving++
			}
		}
	}
	stopping := 0
	for _, line := range listing(t, h.Replica(1)) {
		if strings.HasSuffix(line, "stopping") {
			stopping++
		}
	}
	if stopping != 1 {
		t.Errorf("%d replicas are marked as stopping", stopping)
	}
	hold.open()
	list.Reply().Completes(t)
	h.Replica(0).ends(t)
	h.Replica(1).waitPeers(t, h.Size()-2)
}

// listing is what `holdfast replicas` prints, by lines.
func listing(t testing.TB, h *Holdfast) []string {
	t.Helper()
	code, out := runs(t, nil, "replicas", strings.TrimPrefix(h.AdminURL, "http://"))
	if code != 0 {
		t.Fatalf("holdfast replicas ends with %d: %s", code, out)
	}
	return strings.Split(strings.TrimSpace(out), "\n")
}
