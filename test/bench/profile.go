package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
)

// profiled is a replica that serves profiles of itself.
const profiled = "holdfast-profiling"

// profileTime is how long each kind of call is profiled.
const profileTime = 15 * time.Second

// profile writes where a replica's CPU goes while it serves plain calls and
// calls with a question, to the file that the compiler makes Holdfast from
// (profile-guided optimization, https://go.dev/doc/pgo).
func (b *trial) profile(ctx context.Context) error {
	var files []string
	for name, op := range map[string]func(client) error{"plain": client.Echo, "question": client.Ask} {
		b.say("profile of calls: %s", name)
		file := filepath.Join(b.temp, name+".pprof")
		if err := b.profileOf(ctx, file, op); err != nil {
			return fmt.Errorf("profile of %s: %w", name, err)
		}
		files = append(files, file)
	}
	out := b.profileTo
	if !filepath.IsAbs(out) {
		out = filepath.Join(b.root, out)
	}
	merged, err := exec.CommandContext(ctx, "go", append([]string{"tool", "pprof", "-proto", "-output", out}, files...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("put the profiles together: %w: %s", err, merged)
	}
	b.say("written: %s", b.profileTo)
	return nil
}

// profileOf writes the profile of a replica that serves one kind of call.
func (b *trial) profileOf(ctx context.Context, file string, op func(client) error) error {
	server, err := b.startServer(ctx)
	if err != nil {
		return err
	}
	defer server.Stop()
	r, err := b.startHoldfast(ctx, profiled, server.addr)
	if err != nil {
		return err
	}
	defer r.Stop()
	t := &target{name: profiled}
	defer t.close()
	for slot := range b.concurrency {
		t.clients = append(t.clients, load.NewModern(r.addr, endpoint, slot))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	called := make(chan load.Result, 1)
	go func() { called <- load.Run(ctx, t.ops(op), profileTime+time.Second) }()
	err = fetchProfile(ctx, r.admin, file)
	if err != nil {
		cancel()
	}
	result := <-called
	if err == nil && result.Errors > 0 {
		err = fmt.Errorf("%d calls failed: %w", result.Errors, result.First)
	}
	return err
}

func fetchProfile(ctx context.Context, admin, file string) (err error) {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", admin, int(profileTime.Seconds()))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}
