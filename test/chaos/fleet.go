package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/roundrobin"
)

// Places of replicas. The first one is never killed nor drained; the last one is
// for additional replicas.
const (
	extra = 3
	slots = 4
)

// Fleet is replicas on fixed addresses behind a round-robin, and all links
// between them.
type Fleet struct {
	Mode     string
	Balancer *roundrobin.Balancer
	Upstream *Link
	NATS     *NATS // nil: the replicas form a cluster

	tally   *Tally
	server  *Server
	custody *custody
	binary  string
	dir     string
	links   *Links
	cuts    [slots][]*Link // that cut a replica off
	args    [slots][]string
	ports   ports

	work sync.WaitGroup // what watches the ends of processes

	mu       sync.Mutex
	replicas [slots]*Replica
	started  [slots]int
	lowering bool
}

// Modes of the bus.
const (
	modeCluster  = "cluster"
	modeExternal = "external"
	modeStdio    = "stdio" // a cluster, in front of commands
)

const ownerTimeout = 600 * time.Millisecond

// Settings of the replicas. Everything that a run waits for is short.
const settings = `
bus: {owner_timeout: %[1]s}
calls: {park_ttl: %[2]s, outcome_ttl: 20s, timeout: 25s}
stream: {after: 150ms, keepalive: 1s}
shutdown: {delay: 100ms, grace: 3s}
upstream: {retry_min: 20ms, idle_conn_ttl: 2s, post_timeout: 5s}
dialects:
  resume_token: {after: 250ms}
  resumable: {max_wait: 10s}
  tasks: {after: 200ms, ttl: %[3]s, poll: 100ms}
log: {level: debug}
`

const overHTTP = `
upstreams:
  - {name: resumable, url: "http://%[1]s/resumable", path: /resumable, headers: {%[2]s: "%[3]s"}}
  - {name: plain, url: "http://%[1]s/plain", path: /plain, headers: {%[2]s: "%[3]s"}}
sessions: {open_timeout: 5s, queue_timeout: 5s}
`

const overStdio = `
upstreams:
  - {name: plain, command: %[1]q, args: [%[2]q], path: /plain}
  - {name: leaving, command: %[1]q, args: [-leave, same, -ignore-term, %[2]q], path: /leaving}
sessions: {open_timeout: 5s, queue_timeout: 5s, idle_ttl: 1s}
stdio: {grace: 200ms, restart_min: 20ms, restart_max: 200ms}
`

// How long calls wait that nobody comes back for.
const (
	parkTTL = 30 * time.Second
	taskTTL = parkTTL
)

// raise starts the fleet, save for the additional replica.
func raise(ctx context.Context, mode, dir string, server *Server, tally *Tally) (f *Fleet, err error) {
	f = &Fleet{Mode: mode, tally: tally, server: server, custody: newCustody(), binary: filepath.Join(dir, "holdfast"), dir: dir, links: NewLinks()}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Lower())
		}
	}()
	if f.ports, err = freePorts(); err != nil {
		return f, err
	}
	if f.Upstream, err = f.links.Add("upstream", server.Address); err != nil {
		return f, err
	}
	keys := filepath.Join(dir, "keys")
	if err := os.WriteFile(keys, []byte(strings.Repeat("5eed", 16)+"\n"), 0o600); err != nil {
		return f, err
	}
	if mode == modeExternal {
		if f.NATS, err = startNATS(ctx, filepath.Join(dir, "nats-server"), filepath.Join(dir, "nats.log")); err != nil {
			return f, err
		}
	}
	for slot := range slots {
		f.args[slot] = []string{"--state-key-file", keys}
	}
	if err := f.link(); err != nil {
		return f, err
	}
	var front []string
	for slot := range slots {
		front = append(front, f.ports.listen(slot))
	}
	if f.Balancer, err = roundrobin.Start(front...); err != nil {
		return f, err
	}
	for slot := range extra {
		if err := f.Start(ctx, slot); err != nil {
			return f, err
		}
	}
	return f, f.AwaitPeers(ctx, startWithin)
}

// link makes the links between the replicas, or those to NATS.
func (f *Fleet) link() error {
	for from := range slots {
		if f.NATS != nil {
			link, err := f.links.Add(fmt.Sprintf("nats-%d", from), f.NATS.Address)
			if err != nil {
				return err
			}
			f.cuts[from] = []*Link{link}
			f.args[from] = append(f.args[from], "--bus-url", "nats://"+link.Address())
			continue
		}
		f.args[from] = append(f.args[from], "--cluster-listen", f.ports.route(from))
		for to := range slots {
			if to == from {
				continue
			}
			link, err := f.links.Add(fmt.Sprintf("route-%d-%d", from, to), f.ports.route(to))
			if err != nil {
				return err
			}
			f.cuts[from], f.cuts[to] = append(f.cuts[from], link), append(f.cuts[to], link)
			f.args[from] = append(f.args[from], "--cluster-peer", link.Address())
		}
	}
	return nil
}

// configure writes the configuration of a process.
func (f *Fleet) configure(process string) (file string, err error) {
	text := fmt.Sprintf(settings, ownerTimeout, parkTTL, taskTTL)
	if f.Mode == modeStdio {
		text += fmt.Sprintf(overStdio, f.pipe(), f.server.Socket)
	} else {
		text += fmt.Sprintf(overHTTP, f.Upstream.Address(), replicaHeader, process)
	}
	file = filepath.Join(f.dir, process+".yaml")
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// Start starts the replica of a place.
func (f *Fleet) Start(ctx context.Context, slot int) error {
	f.mu.Lock()
	f.started[slot]++
	process := fmt.Sprintf("%d-%02d", slot, f.started[slot])
	f.mu.Unlock()
	config, err := f.configure(process)
	if err != nil {
		return err
	}
	f.tally.strangers.start()
	r, err := startReplica(ctx, slot, f.binary, filepath.Join(f.dir, process+".log"), f.ports.listen(slot), f.ports.admin(slot),
		append([]string{"--config", config}, f.args[slot]...), []string{"HOLDFAST_BUS__CLUSTER__SECRET=of all replicas"})
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Process = process
	f.replicas[slot] = r
	return nil
}

// End ends the replica of a place.
func (f *Fleet) End(slot int, signal syscall.Signal) error {
	f.mu.Lock()
	r, last := f.replicas[slot], f.lowering
	f.replicas[slot] = nil
	f.mu.Unlock()
	if r == nil {
		return nil
	}
	if r.died() {
		return fmt.Errorf("replica %d had died: %s, see %s", slot, r.cmd.ProcessState, r.log.Name())
	}
	theirs, err := f.startedBy(r)
	if err != nil {
		return err
	}
	if signal == syscall.SIGKILL {
		f.tally.kills()
		f.custody.kill(r.Process)
	}
	from := time.Now()
	if err = r.end(signal); signal == syscall.SIGTERM && !last {
		f.custody.drain(r.Process, from)
	}
	f.tally.served(r.served)
	if len(theirs) > 0 {
		f.work.Go(func() { f.awaitEnd(slot, signal, theirs) })
	}
	return err
}

// Replicas are those that run.
func (f *Fleet) Replicas() (list []*Replica) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.replicas {
		if r != nil {
			list = append(list, r)
		}
	}
	return list
}

// AwaitPeers waits until all replicas know each other.
func (f *Fleet) AwaitPeers(ctx context.Context, most time.Duration) error {
	for give := time.Now().Add(most); ; {
		all := f.Replicas()
		missing := ""
		for _, r := range all {
			if _, peers, err := r.status(); err != nil || peers != len(all)-1 {
				missing = fmt.Sprintf("replica %d knows %d others of %d (%v)", r.Slot, peers, len(all)-1, err)
			}
		}
		if missing == "" {
			return nil
		}
		if time.Now().After(give) || !sleep(ctx, 30*time.Millisecond) {
			return errors.New(missing)
		}
	}
}

// Lower ends whatever still runs.
func (f *Fleet) Lower() error {
	f.mu.Lock()
	f.lowering = true
	f.mu.Unlock()
	var failures [slots + 1]error
	var all sync.WaitGroup
	for slot := range slots { // at once: they wait for each other
		all.Go(func() { failures[slot] = f.End(slot, syscall.SIGTERM) })
	}
	all.Wait()
	f.work.Wait()
	if f.Balancer != nil {
		f.Balancer.Close()
	}
	if f.NATS != nil {
		failures[slots] = f.NATS.Stop(syscall.SIGTERM)
	}
	f.links.Close()
	return errors.Join(failures[:]...)
}

// ports are those of all places. Each place has a loopback address of its own,
// and all have the same route port: what NATS servers tell each other of where
// a server is (the address that a connection came from, with that server's
// port) then leads nowhere, and all routes go through the links.
type ports struct{ route0, listen0, admin0 int }

func (ports) host(slot int) string { return fmt.Sprintf("127.0.0.%d", 10+slot) }

func (p ports) route(slot int) string  { return net.JoinHostPort(p.host(slot), fmt.Sprint(p.route0)) }
func (p ports) listen(slot int) string { return net.JoinHostPort(p.host(slot), fmt.Sprint(p.listen0)) }
func (p ports) admin(slot int) string  { return net.JoinHostPort(p.host(slot), fmt.Sprint(p.admin0)) }

// firstPort is the first port of replicas.
const firstPort = 20000

// fleets counts those of this process: two that are raised at once do not look for
// ports at the same place.
var fleets atomic.Int64

// freePorts finds ports that are free at every place, below those that systems
// give to outgoing connections, so that they stay free. Those of links are below
// them.
func freePorts() (p ports, err error) {
	for first := firstPort + os.Getpid()%3000*3 + int(fleets.Add(1))*300; first < 32700; first += 3 {
		p = ports{first, first + 1, first + 2}
		free := true
		for slot := range slots {
			for _, address := range []string{p.route(slot), p.listen(slot), p.admin(slot)} {
				listener, err := net.Listen("tcp", address)
				if err != nil {
					free = false
					break
				}
				_ = listener.Close() // nobody was accepted
			}
		}
		if free {
			return p, nil
		}
	}
	return p, errors.New("no free ports")
}
