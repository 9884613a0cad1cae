package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is one `holdfast serve`, or `holdfast run`.
type process struct {
	t          testing.TB
	options    Options
	command    *exec.Cmd
	url, admin string
	logs       *Logs
	read       chan struct{} // closed when the log has been read to its end

	count sync.Once // what it served is counted
	stop  sync.Once
	mu    sync.Mutex
	dead  bool // by the test's own hand: its exit code says nothing
}

// launch starts a process; what it logs goes to its own logs and to those of
// its fleet.
func launch(t testing.TB, o Options, logs *Logs) *process {
	t.Helper()
	arguments := []string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-level", "debug"}
	config := o.Config
	if o.Run {
		arguments[0] = "run"
	} else {
		config, arguments = o.Upstream.apply(config, arguments)
	}
	if config != "" {
		file := filepath.Join(t.TempDir(), "holdfast.yaml")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		arguments = append(arguments, "--config", file)
	}
	p := &process{t: t, options: o, logs: newLogs(1), read: make(chan struct{})}
	arguments = append(arguments, o.Args...)
	if o.Run {
		arguments = append(append(arguments, "--"), o.Upstream.Command...)
	}
	p.command = exec.Command(binary, arguments...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HOLDFAST_") {
			p.command.Env = append(p.command.Env, v)
		}
	}
	p.command.Env = append(p.command.Env, o.Env...)
	stderr, err := p.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatalf("start holdfast: %v", err)
	}
	go func() {
		defer close(p.read)
		readLogs(stderr, p.logs, logs)
	}()
	return p
}

// listens waits until the process listens, and notes where.
func (p *process) listens(t testing.TB) {
	t.Helper()
	var admin, serving struct{ Address, Endpoint string }
	parseLine(t, p.logs.Wait(t, `"message":"admin listening"`), &admin)
	parseLine(t, p.logs.Wait(t, `"message":"serving"`), &serving)
	p.admin, p.url = "http://"+admin.Address, serving.Endpoint
}

// alone is the process as a Holdfast of its own.
func (p *process) alone() *Holdfast {
	return &Holdfast{Target: Target{URL: p.url}, Base: baseOf(p.url), AdminURL: p.admin, Logs: p.logs, t: p.t, processes: []*process{p}}
}

// baseOf is a URL without its path.
func baseOf(url string) string { return strings.Join(strings.SplitN(url, "/", 4)[:3], "/") }

// running reports whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.read:
		return false
	default:
		return true
	}
}

func (p *process) signal(s os.Signal) {
	if s == syscall.SIGTERM || s == syscall.SIGKILL {
		p.count.Do(p.countServed) // nobody can ask afterwards
	}
	if s == syscall.SIGKILL {
		p.mu.Lock()
		p.dead = true
		p.mu.Unlock()
	}
	if err := p.command.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("signal holdfast: %v", err)
	}
}

// freeze stops the process with SIGSTOP, and returns once it has stopped, which
// takes a while from the signal on.
func (p *process) freeze() {
	p.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.command.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || !status.Stopped() {
			p.t.Errorf("holdfast was to be frozen: %v, status %#x", err, status)
		}
		return
	}
}

// terminate ends the process with SIGTERM and checks that it exits with 0. More
// than once is fine.
func (p *process) terminate() {
	p.stop.Do(func() {
		p.signal(syscall.SIGTERM)
		kill := time.AfterFunc(patience, func() {
			p.t.Errorf("holdfast did not stop within %v", patience)
			_ = p.command.Process.Signal(syscall.SIGABRT) // its stacks go to the log
		})
		defer kill.Stop()
		p.wait()
	})
}

// kill ends the process at once.
func (p *process) kill() {
	p.stop.Do(func() {
		p.signal(syscall.SIGKILL)
		p.wait()
	})
}

func (p *process) wait() {
	<-p.read // before Wait, which closes the pipe
	err := p.command.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && !p.dead {
		p.t.Errorf("holdfast ended with %v, want exit code 0", err)
	}
}

// end is the end of a test.
func (p *process) end(t testing.TB) {
	p.terminate()
	if !t.Failed() {
		return
	}
	lines := slices.DeleteFunc(p.logs.Lines(), func(line string) bool {
		return strings.Contains(line, `"nats":`) && strings.Contains(line, `"level":"debug"`)
	})
	t.Logf("log of %s:\n%s", p.url, strings.Join(lines, "\n"))
}
