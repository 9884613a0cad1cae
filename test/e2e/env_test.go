package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-mcp/holdfast/test/fixture/demoserver"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// binary is the program under test, built once by TestMain.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "holdfast-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "holdfast")
	arguments := []string{"build", "-o", binary}
	if racing {
		arguments = append(arguments, "-race")
	}
	build := exec.Command("go", append(arguments, "github.com/holdfast-mcp/holdfast/cmd/holdfast")...)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: building holdfast:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir) // it is a temporary directory
		os.Exit(code)
	}))
}

// Options describe a process.
type Options struct {
	// Upstream is the URL of the only upstream. Config must name no upstreams then.
	Upstream string
	// Config is the text of the configuration file.
	Config string
	// Args are further flags.
	Args []string
}

// Holdfast is a running `holdfast serve`.
type Holdfast struct {
	// Target is the endpoint of the first upstream.
	Target
	// Base is the URL of the listener, without a path.
	Base string
	// AdminURL is the URL of the admin listener, without a path.
	AdminURL string
	// Logs is what the process writes to standard error.
	Logs *Logs

	t       testing.TB
	process *exec.Cmd
	read    chan struct{} // closed when the log has been read to its end
	stop    sync.Once
}

// Start runs `holdfast serve` and returns once it listens. It is stopped with
// the test, and must stop cleanly.
func Start(t testing.TB, o Options) *Holdfast {
	t.Helper()
	arguments := []string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-level", "debug"}
	if o.Config != "" {
		file := filepath.Join(t.TempDir(), "holdfast.yaml")
		if err := os.WriteFile(file, []byte(o.Config), 0o600); err != nil {
			t.Fatal(err)
		}
		arguments = append(arguments, "--config", file)
	}
	if o.Upstream != "" {
		arguments = append(arguments, "--upstream", o.Upstream)
	}
	h := &Holdfast{t: t, Logs: newLogs(), read: make(chan struct{})}
	h.process = exec.Command(binary, append(arguments, o.Args...)...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HOLDFAST_") {
			h.process.Env = append(h.process.Env, v)
		}
	}
	stderr, err := h.process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.process.Start(); err != nil {
		t.Fatalf("start holdfast: %v", err)
	}
	go func() {
		defer close(h.read)
		h.Logs.read(stderr)
	}()
	t.Cleanup(func() {
		h.Stop()
		if t.Failed() {
			t.Logf("log of %s:\n%s", h.Base, strings.Join(h.Logs.Lines(), "\n"))
		}
	})
	var admin, serving struct{ Address, Endpoint string }
	parseLine(t, h.Logs.Wait(t, `"message":"admin listening"`), &admin)
	parseLine(t, h.Logs.Wait(t, `"message":"serving"`), &serving)
	h.AdminURL = "http://" + admin.Address
	h.URL = serving.Endpoint
	h.Base = strings.Join(strings.SplitN(h.URL, "/", 4)[:3], "/")
	return h
}

// At is the endpoint with another path, of another upstream.
func (h *Holdfast) At(path string) Target { return Target{URL: h.Base + path} }

// Stop ends the process with SIGTERM and checks that it exits with 0. More than
// once is fine.
func (h *Holdfast) Stop() {
	h.stop.Do(func() {
		if err := h.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			h.t.Errorf("stop holdfast: %v", err)
		}
		kill := time.AfterFunc(patience, func() {
			h.t.Errorf("holdfast did not stop within %v", patience)
			_ = h.process.Process.Signal(syscall.SIGABRT) // its stacks go to the log
		})
		defer kill.Stop()
		<-h.read // before Wait, which closes the pipe
		if err := h.process.Wait(); err != nil {
			h.t.Errorf("holdfast ended with %v, want exit code 0", err)
		}
	})
}

// Signal sends the process a signal.
func (h *Holdfast) Signal(s os.Signal) {
	if err := h.process.Process.Signal(s); err != nil {
		h.t.Errorf("signal holdfast: %v", err)
	}
}

// PID is the process's id.
func (h *Holdfast) PID() int { return h.process.Process.Pid }

// Logs collects lines, and lets tests wait for them.
type Logs struct {
	mu      sync.Mutex
	lines   []string
	ended   bool
	changed chan struct{} // closed and replaced at every change
}

func newLogs() *Logs { return &Logs{changed: make(chan struct{})} }

func (l *Logs) read(r io.Reader) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		l.update(func() { l.lines = append(l.lines, scanner.Text()) })
	}
	l.update(func() { l.ended = true })
}

func (l *Logs) update(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

// Lines are all lines so far.
func (l *Logs) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

// Count is how many lines have all parts.
func (l *Logs) Count(parts ...string) (n int) {
	for _, line := range l.Lines() {
		if hasAll(line, parts) {
			n++
		}
	}
	return n
}

// Wait returns the first line that has all parts, once there is one.
func (l *Logs) Wait(t testing.TB, parts ...string) string {
	t.Helper()
	return l.WaitNth(t, 1, parts...)
}

// WaitNth returns the nth line that has all parts, once there is one.
func (l *Logs) WaitNth(t testing.TB, n int, parts ...string) string {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		l.mu.Lock()
		lines, ended, changed, found := l.lines, l.ended, l.changed, 0
		l.mu.Unlock()
		for _, line := range lines {
			if hasAll(line, parts) {
				if found++; found == n {
					return line
				}
			}
		}
		if ended {
			t.Fatalf("holdfast ended without logging %q:\n%s", parts, strings.Join(lines, "\n"))
		}
		select {
		case <-changed:
		case <-timeout.C:
			t.Fatalf("holdfast did not log %q within %v:\n%s", parts, patience, strings.Join(lines, "\n"))
		}
	}
}

func hasAll(line string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(line, part) {
			return false
		}
	}
	return true
}

func parseLine(t testing.TB, line string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), into); err != nil {
		t.Fatalf("log line %q: %v", line, err)
	}
}

// Demo starts the demo's legacy server and returns its URL.
func Demo(t testing.TB, settings demoserver.Settings) string {
	t.Helper()
	server := demoserver.New(settings)
	web := httptest.NewServer(server.Handler())
	t.Cleanup(func() {
		server.Close()
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL + "/mcp"
}

// KeyFile writes a file of request-state keys, one a line.
func KeyFile(t testing.TB, keys ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	WriteKeys(t, file, keys...)
	return file
}

// WriteKeys replaces a file of request-state keys in one step.
func WriteKeys(t testing.TB, file string, keys ...string) {
	t.Helper()
	fresh := file + ".new"
	if err := os.WriteFile(fresh, []byte(strings.Join(keys, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(fresh, file); err != nil {
		t.Fatal(err)
	}
}

// within is a context that ends when patience does, or with the test.
func within(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), patience)
}
