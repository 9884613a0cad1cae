package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/roundrobin"
)

// The ways in which the suite can run, by the environment variable HOLDFAST_E2E.
const (
	modeOne     = "one"     // one replica
	modeCluster = "cluster" // three, whose embedded NATS servers form a cluster
	modeNATS    = "nats"    // three, with a nats-server beside them
)

var mode = modeOne

func chooseMode() error {
	switch text := os.Getenv("HOLDFAST_E2E"); text {
	case "":
	case modeOne, modeCluster, modeNATS:
		mode = text
	default:
		return fmt.Errorf("HOLDFAST_E2E is %q, allowed: %s, %s, %s", text, modeOne, modeCluster, modeNATS)
	}
	return nil
}

// replicas is how many make a fleet.
const replicas = 3

// fleetKey seals the request states of fleets to which tests give no keys.
var fleetKey = strings.Repeat("5eed", 16)

var fleets atomic.Int64

// StartFleet is Start with several replicas in every mode. They have keys of
// request states in common, unless the test gives them some.
func StartFleet(t testing.TB, o Options) *Holdfast {
	t.Helper()
	if mode == modeNATS {
		return startFleet(t, o, throughNATS(commonNATS.URL))
	}
	return startFleet(t, o, asCluster(t))
}

// throughNATS has the replicas meet at a NATS server, where nobody else uses
// their subjects.
func throughNATS(url string) func(int, *Options) {
	namespace := "fleet" + strconv.FormatInt(fleets.Add(1), 10)
	return func(_ int, o *Options) {
		o.Args = append(o.Args, "--bus-url", url, "--bus.namespace", namespace)
	}
}

// asCluster has the replicas form a NATS cluster by themselves.
func asCluster(t testing.TB) func(int, *Options) {
	t.Helper()
	var peers [replicas]string
	for i := range peers {
		peers[i] = freeAddress(t)
	}
	return func(i int, o *Options) {
		o.Args = append(o.Args, "--cluster-listen", peers[i])
		for _, peer := range peers {
			o.Args = append(o.Args, "--cluster-peer", peer)
		}
		o.Env = append(o.Env, "HOLDFAST_BUS__CLUSTER__SECRET=of all replicas")
	}
}

// startFleet starts replicas that join as join tells them to, and returns once
// each of them knows all others.
func startFleet(t testing.TB, o Options, join func(i int, o *Options)) *Holdfast {
	t.Helper()
	if !strings.Contains(o.Config, "keys:") && !strings.Contains(strings.Join(o.Args, " "), "--state-key-file") {
		o.Args = append(o.Args[:len(o.Args):len(o.Args)], "--state-key-file", KeyFile(t, fleetKey))
	}
	h := &Holdfast{t: t, Logs: newLogs(replicas)}
	for i := range replicas {
		each := o
		each.Args, each.Env = append([]string{"--listen", freeAddress(t)}, o.Args...), append([]string(nil), o.Env...)
		join(i, &each)
		h.processes = append(h.processes, launch(t, each, h.Logs))
	}
	t.Cleanup(func() {
		h.Stop()
		for _, p := range h.processes {
			p.end(t)
		}
	})
	var listeners []string
	for _, p := range h.processes {
		p.listens(t)
		listeners = append(listeners, strings.TrimPrefix(baseOf(p.url), "http://"))
	}
	for i := range h.processes {
		h.Replica(i).waitPeers(t, replicas-1)
	}
	front, err := roundrobin.Start(listeners...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(front.Close)
	h.AdminURL = h.processes[0].admin
	h.Base = "http://" + front.Addr()
	h.URL = h.Base + strings.TrimPrefix(h.processes[0].url, baseOf(h.processes[0].url))
	return h
}

// Restart starts a replica again that has ended, at the same address, and
// returns once all know each other.
func (h *Holdfast) Restart(t testing.TB, i int) {
	t.Helper()
	o, was := h.processes[i].options, h.processes[i].url
	h.Logs.update(func() { h.Logs.open++ })
	h.processes[i] = launch(t, o, h.Logs)
	h.processes[i].listens(t)
	if h.processes[i].url != was {
		t.Fatalf("it came back at %s, not at %s", h.processes[i].url, was)
	}
	for i := range h.processes {
		h.Replica(i).waitPeers(t, len(h.processes)-1)
	}
}

// ownerFirst makes the replica that holds the parked calls the first one: where a
// session has one stream for everything, it is not the one that was asked.
func (h *Holdfast) ownerFirst(t testing.TB) {
	t.Helper()
	h.first(t, `holdfast_calls_parked`)
}

// keeperFirst makes the replica the first one that has the session with the
// server.
func (h *Holdfast) keeperFirst(t testing.TB) {
	t.Helper()
	h.first(t, `holdfast_upstream_sessions{upstream="default"}`)
}

// first makes the replica the first one of which a gauge has something to show.
func (h *Holdfast) first(t testing.TB, name string) {
	t.Helper()
	for i := range h.processes {
		if gauge(t, h.Replica(i), name) > 0 {
			h.processes[0], h.processes[i] = h.processes[i], h.processes[0]
			return
		}
	}
	t.Fatalf("no replica shows %s", name)
}

// peers is how many other replicas one knows of.
func (h *Holdfast) peers(t testing.TB) int {
	t.Helper()
	reply := Do(t, http.MethodGet, h.AdminURL+"/replicas", "", http.Header{})
	var body struct{ Replicas []struct{ ID string } }
	if err := json.Unmarshal(reply.Body, &body); err != nil {
		t.Fatalf("/replicas: %v\n%s", err, reply.Body)
	}
	return len(body.Replicas) - 1 // it lists itself as well
}

// waitPeers waits until one replica knows of as many others.
func (h *Holdfast) waitPeers(t testing.TB, want int) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond) // a process tells of its peers only when asked
	defer look.Stop()
	for give := time.Now().Add(patience); ; <-look.C {
		got := h.peers(t)
		if got == want {
			return
		}
		if time.Now().After(give) {
			t.Fatalf("%s knows %d other replicas, want %d within %v", h.AdminURL, got, want, patience)
		}
	}
}

// Some ports must be known before anybody listens on them, or again after. These
// lie below those that systems give to outgoing connections, so that a free one
// stays free.
const firstPort, lastPort = 20000, 32000

var nextPort atomic.Int64

func init() { nextPort.Store(rand.Int64N(lastPort - firstPort)) }

// freeAddress finds an address where nobody listens. To listen there for a try
// would not do: see [away].
func freeAddress(t testing.TB) string {
	t.Helper()
	for range lastPort - firstPort {
		port := firstPort + nextPort.Add(1)%(lastPort-firstPort)
		address := net.JoinHostPort("127.0.0.1", strconv.FormatInt(port, 10))
		if !listens(address) {
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}

// listens reports whether somebody listens at an address.
func listens(address string) bool {
	conn, err := net.Dial("tcp", address)
	if err == nil {
		_ = conn.Close() // it was for nothing else
	}
	return err == nil
}

// served adds up, over all processes of the run, how rounds were served.
var served = struct {
	sync.Mutex
	rounds map[string]float64
}{rounds: map[string]float64{}}

const roundsTotal = "holdfast_rounds_total"

// countServed adds what the process served. One that ends just now cannot be
// asked: what it did is not counted.
func (p *process) countServed() {
	if p.admin == "" || mode == modeOne {
		return
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Get(p.admin + "/metrics")
	if err != nil {
		return
	}
	defer func() { _ = response.Body.Close() }() // only read
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		return
	}
	served.Lock()
	defer served.Unlock()
	for line := range strings.Lines(body.String()) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil && strings.HasPrefix(series, roundsTotal+"{") {
			served.rounds[series] += n
		}
	}
}
