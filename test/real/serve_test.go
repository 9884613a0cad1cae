package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

func TestVerdicts(t *testing.T) {
	same, other := &table{}, &table{}
	same.row(subject{"tool", "a"}).covered = true
	other.row(subject{"tool", "a"}).differs("by a word")
	blamed := server{fault: "its list is no list"}
	for name, c := range map[string]struct {
		row    served
		want   string
		passes bool
	}{
		"same":                       {served{table: same}, "same: lists, a", true},
		"differs":                    {served{table: other}, "OURS: a: by a word", false},
		"fails through Holdfast":     {served{err: errors.New("no end")}, "OURS: no end", false},
		"fails directly":             {served{err: errors.New("no end"), directly: true}, "NOT KNOWN: it does not work directly: no end", false},
		"differs by its own fault":   {served{server: blamed, table: other}, "THE SERVER'S: its list is no list (a: by a word)", true},
		"a fault that is no more so": {served{server: blamed, table: same}, "STALE: all is the same, and the server is blamed: its list is no list", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.row.verdict(); got != c.want {
				t.Errorf("verdict: got %q, want %q", got, c.want)
			}
			if got := c.row.passes(); got != c.passes {
				t.Errorf("passes: got %v, want %v", got, c.passes)
			}
		})
	}
}

// The table, package.json and the promises of doc.go say the same.
func TestServersArePinned(t *testing.T) {
	versions, err := pinned(".")
	if err != nil {
		t.Fatal(err)
	}
	exact := regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	for name, version := range versions {
		if !exact.MatchString(version) {
			t.Errorf("%s is pinned to %q, want an exact version", name, version)
		}
		if name != packageName && !slices.ContainsFunc(servers, func(s server) bool { return s.name == name }) {
			t.Errorf("%s is installed, and not tried", name)
		}
	}
	bins := map[string]bool{}
	for _, s := range servers {
		if versions[s.name] == "" {
			t.Errorf("%s is tried, and not installed", s.name)
		}
		if bins[s.bin] {
			t.Errorf("%s has the home of another", s.name)
		}
		bins[s.bin] = true
		if len(s.calls) == 0 {
			t.Errorf("%s is not called", s.name)
		}
	}
	if got := len(servers) - 3; got < 20 { // filesystem, memory and sequential-thinking are named apart
		t.Errorf("%d further servers, want 20", got)
	}
}

// What a server has started is found whatever group it has gone to, and ended.
func TestProcessesLeftOver(t *testing.T) {
	b := &bench{dir: t.TempDir()}
	if err := b.left(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := exec.Command("sleep", "60")
	left.Env = []string{"HOME=" + filepath.Join(b.dir, "home")}
	left.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel() // nothing more is waited for
	err := b.left(late)
	if err == nil || !strings.Contains(err.Error(), "sleep 60") {
		t.Errorf("left: %v, want it to name the process", err)
	}
	var ended *exec.ExitError
	if err := left.Wait(); !errors.As(err, &ended) {
		t.Errorf("the process has ended with %v, want it killed", err)
	}
}

func TestHomesAreNamed(t *testing.T) {
	s := server{
		args: []string{inHome + "/a"}, env: map[string]string{"FILE": inHome + "/f"}, roots: []string{"file://" + inHome},
		calls: []step{tool("t", object{"path": inHome + "/b"})}, files: map[string]string{"sub/file": "text"},
	}
	home := filepath.Join(t.TempDir(), "home")
	moved := s.at(home)
	if got, want := moved.args[0]+moved.env["FILE"]+moved.roots[0], home+"/a"+home+"/f"+"file://"+home; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	c := &recorder{}
	if _, err := moved.calls[0].play(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if difference := diff("", any(object{"name": "t", "arguments": object{"path": home + "/b"}}), any(c.asked.Params)); difference != "" {
		t.Error(difference)
	}
	if s.args[0] != inHome+"/a" {
		t.Error("the table has changed")
	}
	for range 2 {
		if err := moved.furnish(home); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(home, "sub", "file")); err != nil || string(text) != "text" {
			t.Errorf("file: %q, %v", text, err)
		}
		if _, err := os.Stat(filepath.Join(home, "more")); !os.IsNotExist(err) {
			t.Errorf("what the other side has left is there: %v", err)
		}
		if err := os.WriteFile(filepath.Join(home, "more"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// recorder keeps the last request.
type recorder struct {
	client
	asked peer.Request
}

func (r *recorder) Call(_ context.Context, request peer.Request) (peer.Outcome, error) {
	r.asked = request
	return peer.Outcome{}, nil
}
