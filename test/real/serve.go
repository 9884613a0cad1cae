package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

const (
	// beside is how many servers are tried at a time.
	beside = 3
	// serverWithin bounds one server, both sides.
	serverWithin = time.Minute
)

// served is the row of one server.
type served struct {
	server
	version  string       // of the package
	said     peer.Outcome // at initialize, directly
	offers   map[string]int
	table    *table
	err      error         // there is nothing to compare
	directly bool          // err is of the direct side
	took     time.Duration // both sides
}

// same reports whether nothing differs.
func (r served) same() bool { return r.err == nil && r.table.same() }

// passes reports whether all is the same, or what is not is known to be the
// server's own fault. A fault that no longer shows has to go.
func (r served) passes() bool { return r.same() == (r.fault == "") }

// verdict is the row's last column: what differs is ours until a fault is known.
func (r served) verdict() string {
	if r.same() {
		if r.fault != "" {
			return "STALE: all is the same, and the server is blamed: " + r.fault
		}
		return r.table.sum()
	}
	text := ""
	if r.err != nil {
		text = r.err.Error()
	} else {
		text = r.table.differences()
	}
	switch {
	case r.fault != "":
		return fmt.Sprintf("THE SERVER'S: %s (%s)", r.fault, text)
	case r.directly:
		return "NOT KNOWN: it does not work directly: " + text
	}
	return "OURS: " + text
}

// playServers tries servers, some at a time.
func playServers(ctx context.Context, b *bench, all []server, versions map[string]string) []served {
	rows := make([]served, len(all))
	places := make(chan struct{}, beside)
	var wait sync.WaitGroup
	for i, s := range all {
		places <- struct{}{}
		wait.Go(func() {
			defer func() { <-places }()
			began := time.Now()
			rows[i] = b.serve(ctx, s)
			rows[i].version, rows[i].took = versions[s.name], time.Since(began)
		})
	}
	wait.Wait()
	return rows
}

// pinned are the versions that package.json names.
func pinned(home string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(home, "package.json"))
	if err != nil {
		return nil, err
	}
	var manifest struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, fmt.Errorf("package.json: %w", err)
	}
	return manifest.Dependencies, nil
}

// serve plays the same with one server directly and, after that, through
// Holdfast: each side finds the home as the other has.
func (b *bench) serve(ctx context.Context, s server) served {
	ctx, cancel := context.WithTimeoutCause(ctx, serverWithin, fmt.Errorf("no end within %v", serverWithin))
	defer cancel()
	home := filepath.Join(b.dir, path.Base(s.bin)+"-home")
	s = s.at(home)
	row := served{server: s, offers: map[string]int{}}
	p := &pair{name: "server", capabilities: everything, steps: slices.Concat(lists(), s.calls, unknown())}
	if s.roots != nil {
		p.answers = rooted(s.roots)
	}
	all := make([]played, len(p.steps))
	for i, step := range p.steps {
		all[i] = played{pair: p, step: step}
	}
	command := peer.Command{
		Path: b.node, Args: append([]string{filepath.Join(b.modules, ".bin", s.bin)}, s.args...), Dir: home, Env: environ(home),
	}
	for _, name := range slices.Sorted(maps.Keys(s.env)) {
		command.Env = append(command.Env, name+"="+s.env[name])
	}
	row.err = s.furnish(home)
	if row.err == nil {
		row.err = b.direct(ctx, command, p, all)
		row.directly = row.err != nil
	}
	if row.err == nil {
		row.err = s.furnish(home)
	}
	if row.err == nil {
		row.err = b.through(ctx, s, command, p, all)
	}
	if row.err != nil {
		return row
	}
	row.table = &table{}
	for _, one := range all {
		row.table.used(one)
		row.offers[one.step.name] = len(entries(one.step.name, one.direct.outcomes))
		if one.step.name == "server/discover" && len(one.direct.outcomes) == 1 {
			row.said = one.direct.outcomes[0]
		}
	}
	return row
}

func (b *bench) direct(ctx context.Context, command peer.Command, p *pair, all []played) error {
	c, err := peer.Spawn(ctx, command, p.identity())
	if err != nil {
		return err
	}
	return act(ctx, c, p.steps, func(i int, got side) { all[i].direct = got })
}

func (b *bench) through(ctx context.Context, s server, command peer.Command, p *pair, all []played) (err error) {
	stage := &stage{out: b.out}
	defer func() { err = errors.Join(err, stage.lower()) }()
	if err := stage.front(ctx, b, "holdfast-"+s.bin, slices.Sorted(maps.Keys(s.env)), command); err != nil {
		return err
	}
	return act(ctx, peer.NewModern(stage.modern, p.identity()), p.steps, func(i int, got side) { all[i].modern = got })
}

// unknown calls a tool that no server has. How that ends is the server's own: an
// error of the protocol, or a result that is one.
func unknown() []step {
	return []step{request(subject{"error", noTool}, toolCall(noTool, object{}))}
}

const noTool = "no-such-tool"

// furnish makes the home anew.
func (s server) furnish(home string) error {
	if err := os.RemoveAll(home); err != nil {
		return err
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	for name, text := range s.files {
		file := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// printServers prints a row for each server, then why something was masked.
func printServers(out io.Writer, rows []served) {
	wide := 0
	for _, r := range rows {
		wide = max(wide, len(r.name))
	}
	_, _ = fmt.Fprintf(out, "\npublished servers over stdio\n\n%-*s  %-12s  %-10s  %5s  %7s  %9s  %9s  %4s  %s\n",
		wide, "server", "version", "revision", "tools", "prompts", "resources", "templates", "s", "holdfast run, against the command directly")
	var used []string
	passed := 0
	for _, r := range rows {
		result, _ := r.said.Result.(map[string]any)
		_, _ = fmt.Fprintf(out, "%-*s  %-12v  %-10v  %5d  %7d  %9d  %9d  %4.1f  %s\n", wide, r.name, r.version, result["protocolVersion"],
			r.offers["tools/list"], r.offers["prompts/list"], r.offers["resources/list"], r.offers["resources/templates/list"], r.took.Seconds(), r.verdict())
		if r.passes() {
			passed++
		}
		if r.table != nil {
			used = append(used, r.table.masked()...)
		}
	}
	_, _ = fmt.Fprintln(out)
	explain(out, used)
	_, _ = fmt.Fprintf(out, "\n%d servers, %d pass; * is an answer that is an error, on both sides\n", len(rows), passed)
}

// at puts a server's home where it is named.
func (s server) at(home string) server {
	in := func(text string) string { return strings.ReplaceAll(text, inHome, home) }
	s.args, s.roots, s.env = slices.Clone(s.args), slices.Clone(s.roots), maps.Clone(s.env)
	for i := range s.args {
		s.args[i] = in(s.args[i])
	}
	for i := range s.roots {
		s.roots[i] = in(s.roots[i])
	}
	for name := range s.env {
		s.env[name] = in(s.env[name])
	}
	calls := slices.Clone(s.calls)
	for i, step := range calls {
		calls[i].play = func(ctx context.Context, c client) ([]peer.Outcome, error) { return step.play(ctx, moved{c, in}) }
	}
	s.calls = calls
	return s
}

// moved is a client whose requests name a server's home.
type moved struct {
	client
	in func(string) string
}

func (m moved) Call(ctx context.Context, r peer.Request) (peer.Outcome, error) {
	r.Params, _ = texts(r.Params, m.in).(map[string]any)
	return m.client.Call(ctx, r)
}

// rooted answers roots/list.
func rooted(uris []string) peer.Answers {
	roots := make([]any, len(uris))
	for i, uri := range uris {
		roots[i] = object{"uri": uri, "name": "root"}
	}
	return peer.Answers{methodRoots: object{"roots": roots}}
}
