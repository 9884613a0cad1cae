package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// grace is how long a process may take to end by itself.
const grace = 5 * time.Second

// maxLog is how much of the beginning of what a process writes is kept.
const maxLog = 16 << 10

// Child is a process that was started.
type Child struct {
	Name string
	Args []string

	cmd  *exec.Cmd
	log  log
	stop sync.Once
	done chan struct{} // closed when the process has ended
	err  error         // how it ended; set before done is closed
}

// Start starts a program. What it writes is kept for [Child.Log].
func Start(name, program string, args ...string) (*Child, error) {
	return StartWith(nil, name, program, args...)
}

// StartWith is Start with more variables in the environment.
func StartWith(environ []string, name, program string, args ...string) (*Child, error) {
	c := newChild(environ, name, program, args...)
	if err := c.start(); err != nil {
		return nil, err
	}
	return c, nil
}

func newChild(environ []string, name, program string, args ...string) *Child {
	c := &Child{Name: name, Args: append([]string{program}, args...), done: make(chan struct{})}
	c.cmd = exec.Command(program, args...)
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	// Settings of Holdfast come from what the report shows alone.
	c.cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "HOLDFAST_") })
	c.cmd.Env = append(c.cmd.Env, environ...)
	// A group of its own, so that an interrupt at the terminal comes to the
	// benchmark alone, which then ends its children one after the other. The
	// death signal is for a benchmark that is killed.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	c.cmd.WaitDelay = grace // its own children may hold the pipes
	return c
}

func (c *Child) start() error {
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.Name, err)
	}
	go func() {
		defer close(c.done)
		c.err = c.cmd.Wait()
	}()
	return nil
}

// PID returns the process's id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Log returns the beginning of what the process wrote.
func (c *Child) Log() string { return c.log.String() }

// Stop ends the process, and what it started, and waits for it. It may be
// called more than once.
func (c *Child) Stop() { c.StopWithin(grace) }

// StopWithin is Stop for a process that may take so long to end by itself.
func (c *Child) StopWithin(grace time.Duration) {
	c.stop.Do(func() {
		group := -c.PID()
		_ = syscall.Kill(group, syscall.SIGTERM) // an error means that nothing of it runs any more
		select {
		case <-c.done:
		case <-time.After(grace):
		}
		_ = syscall.Kill(group, syscall.SIGKILL)
		<-c.done
	})
}

// ErrEnded is a process that ended while it was needed.
var ErrEnded = errors.New("process ended")

// Until calls ready again and again until it returns nil. It gives up when ctx
// ends or the process does, and says then why it was not ready.
func (c *Child) Until(ctx context.Context, ready func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-c.done:
			return fmt.Errorf("%s: %w (%v): %s", c.Name, ErrEnded, c.err, c.Log())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; its log: %s", c.Name, err, c.Log())
		case <-tick.C:
		}
	}
}

// log keeps the beginning of what is written to it.
type log struct {
	mu   sync.Mutex // guards text
	text []byte
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p[:min(len(p), maxLog-len(l.text))]...)
	return len(p), nil
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
