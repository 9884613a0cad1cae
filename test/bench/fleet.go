package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
)

// fleet is some replicas in front of one server.
type fleet struct{ replicas []*replica }

// startFleet starts n replicas, whose embedded NATS servers form a cluster if
// there are several, and returns when each knows all others.
func (b *trial) startFleet(ctx context.Context, n int, upstream string) (_ *fleet, err error) {
	keys, err := b.keys(ctx)
	if err != nil {
		return nil, err
	}
	routes, err := routeAddresses(n)
	if err != nil {
		return nil, err
	}
	join := []string{"--state-key-file", keys}
	for _, route := range routes {
		join = append(join, "--cluster-peer", route)
	}
	f := &fleet{}
	defer func() {
		if err != nil {
			f.stop()
		}
	}()
	for i, route := range routes {
		name := fmt.Sprintf("holdfast-%d-of-%d", i+1, n)
		args, environ := join[:2], []string(nil)
		if n > 1 {
			args = append(join[:len(join):len(join)], "--cluster-listen", route)
			environ = []string{"HOLDFAST_BUS__CLUSTER__SECRET=bench"}
		}
		r, err := b.launch(ctx, name, fleetConf, upstream, environ, args...)
		if err != nil {
			return nil, err
		}
		f.replicas = append(f.replicas, r)
	}
	for _, r := range f.replicas {
		if err := r.answers(ctx); err != nil {
			return nil, err
		}
	}
	met, cancel := context.WithTimeoutCause(ctx, 20*time.Second, errors.New("it did not find the others in time"))
	defer cancel()
	for _, r := range f.replicas {
		if err := r.Until(met, func() error { return r.knows(met, n) }); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// fleetConf is holdfastConf with an address for those who run it, and without
// the wait for further input requests, which would hide what a round costs.
const fleetConf = holdfastConf + "  gather: 0s\nadmin: ADMIN\n"

// keys makes the request-state keys that all replicas of the run have.
func (b *trial) keys(ctx context.Context) (string, error) {
	program, err := b.build(ctx)
	if err != nil {
		return "", err
	}
	file := filepath.Join(b.temp, "keys")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	key, err := exec.CommandContext(ctx, program, "keygen").Output()
	if err == nil {
		err = os.WriteFile(file, key, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("make request-state keys: %w", err)
	}
	b.command("$TEMP/holdfast keygen > $TEMP/keys")
	return file, nil
}

// stop ends all replicas at once: none is to go on with the calls of another.
func (f *fleet) stop() {
	var stopping sync.WaitGroup
	for _, r := range f.replicas {
		stopping.Go(r.Stop)
	}
	stopping.Wait()
}

func (f *fleet) addrs() []string {
	var addrs []string
	for _, r := range f.replicas {
		addrs = append(addrs, r.addr)
	}
	return addrs
}

func (f *fleet) pids() []int {
	var pids []int
	for _, r := range f.replicas {
		pids = append(pids, r.PID())
	}
	return pids
}

// target is the fleet with a client in every slot.
func (f *fleet) target(name string, slots int) *target {
	t := &target{name: name, pids: f.pids()}
	for slot := range slots {
		t.clients = append(t.clients, load.NewSpread(f.addrs(), endpoint, slot))
	}
	return t
}

// forwarded is how many rounds came to a replica that another one had to serve.
func (f *fleet) forwarded(ctx context.Context) (float64, error) {
	sum := 0.0
	for _, r := range f.replicas {
		n, err := r.metric(ctx, `holdfast_rounds_total{served="forwarded"}`)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// metric is one of those that the replica shows.
func (r *replica) metric(ctx context.Context, series string) (float64, error) {
	text, err := r.ask(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(text, "\n"+series+" ")
	if !found {
		return 0, fmt.Errorf("%s has no metric %s", r.Name, series)
	}
	value, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return 0, fmt.Errorf("metric %s of %s: %w", series, r.Name, err)
	}
	return n, nil
}

// knows is nil when the replica knows n live ones, itself among them.
func (r *replica) knows(ctx context.Context, n int) error {
	text, err := r.ask(ctx, "/replicas")
	if err != nil {
		return err
	}
	var known struct{ Replicas []struct{ ID string } }
	if err := json.Unmarshal([]byte(text), &known); err != nil {
		return fmt.Errorf("/replicas: %w", err)
	}
	if len(known.Replicas) != n {
		return fmt.Errorf("it knows %d replicas of %d", len(known.Replicas), n)
	}
	return nil
}

// ask gets what the replica tells those who run it.
func (r *replica) ask(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.admin+path, nil)
	if err != nil {
		return "", err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", r.Name, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", r.Name, err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("ask %s: %s: %s", r.Name, path, resp.Status)
	}
	return string(text), nil
}
