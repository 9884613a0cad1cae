package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
	"github.com/holdfast-mcp/holdfast/test/bench/proc"
	"github.com/holdfast-mcp/holdfast/test/bench/report"
	"github.com/holdfast-mcp/holdfast/test/checkout"
)

// holdfastConf raises the limits that would refuse the parked calls, and
// leaves everything else as it is by default.
const holdfastConf = `listen: LISTEN
upstreams:
  - name: mock
    url: http://UPSTREAM/mcp
    path: /mcp
calls:
  max: 20000
  max_parked: 20000
  max_parked_per_principal: 20000
`

// atOnce is a replica that parks a call with its first input request instead
// of waiting for others (calls.gather).
const atOnce = "holdfast-gather-0s"

// inTasks is a replica whose calls soon become tasks, all of one principal.
const inTasks = "holdfast-tasks"

// lettingGo is a replica that soon lets go of the streams of parked calls. That it
// shows profiles is for the one of its heap, which begins with a collection.
const lettingGo = "holdfast-released"

// settings are what a replica's configuration has besides holdfastConf.
var settings = map[string]string{
	holdfast: "",
	atOnce:   "  gather: 0s\n",
	profiled: "admin: ADMIN\nprofiling: true\n",
	lettingGo: `  release_after: 200ms
shutdown:
  grace: 2m
admin: ADMIN
profiling: true
`,
	inTasks: `dialects:
  tasks:
    after: 10ms
    max: 20000
    max_per_principal: 20000
`,
}

// replica is a running Holdfast.
type replica struct {
	*proc.Child
	addr  string
	admin string // empty: it has none
}

// build builds Holdfast once for the run and returns the program.
func (b *trial) build(ctx context.Context) (string, error) {
	if b.binary != "" {
		return b.binary, nil
	}
	program := filepath.Join(b.temp, holdfast)
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/holdfast")
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build holdfast (leave it out with -targets direct,nginx): %w: %s", err, out)
	}
	b.binary = program
	b.command("go build -o $TEMP/holdfast ./cmd/holdfast")
	return program, nil
}

// startHoldfast starts a replica, with the settings of that name, in front of
// a server and waits until it answers.
func (b *trial) startHoldfast(ctx context.Context, name, upstream string) (*replica, error) {
	r, err := b.launch(ctx, name, holdfastConf+settings[name], upstream, nil)
	if err != nil {
		return nil, err
	}
	if err := r.answers(ctx); err != nil {
		r.Stop()
		return nil, err
	}
	return r, nil
}

// launch starts a replica and does not wait for it.
func (b *trial) launch(ctx context.Context, name, conf, upstream string, environ []string, args ...string) (*replica, error) {
	program, err := b.build(ctx)
	if err != nil {
		return nil, err
	}
	r := &replica{}
	if r.addr, err = checkout.FreeAddress(ctx); err != nil {
		return nil, err
	}
	if r.admin, err = checkout.FreeAddress(ctx); err != nil {
		return nil, err
	}
	text := strings.NewReplacer("LISTEN", r.addr, "UPSTREAM", upstream, "ADMIN", r.admin).Replace(conf)
	file := filepath.Join(b.temp, name+".yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("start holdfast: %w", err)
	}
	args = append([]string{"serve", "--config", file}, append(args, b.serve...)...)
	if r.Child, err = proc.StartWith(environ, name, program, args...); err != nil {
		return nil, err
	}
	b.command(strings.ReplaceAll(strings.Join(append(environ, r.Args...), " "), b.temp, "$TEMP"))
	b.file(report.File{Name: name + ".yaml", Text: text})
	return r, nil
}

// answers waits until the replica serves.
func (r *replica) answers(ctx context.Context) error {
	client := load.NewModern(r.addr, endpoint, 63)
	defer client.Close()
	ready, cancel := context.WithTimeoutCause(ctx, 15*time.Second, errors.New("it did not answer server/discover in time"))
	defer cancel()
	return r.Until(ready, client.Discover)
}
