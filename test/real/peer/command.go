package peer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	// commandGrace is how long a command may take to end once its input is
	// closed, and again after SIGTERM.
	commandGrace = 2 * time.Second
	// maxSaid is how much is kept of the end of a command's standard error.
	maxSaid = 4 << 10
)

// Command is a server that speaks over its standard input and output.
type Command struct {
	Path string
	Args []string
	Env  []string // all of it
	Dir  string
}

// Spawn starts a command and opens a session with it.
func Spawn(ctx context.Context, command Command, identity Identity) (*Legacy, error) {
	c, err := spawn(command)
	if err != nil {
		return nil, err
	}
	return begin(ctx, c, identity)
}

// command is stdio: a message a line (spec 2025-11-25, basic/transports).
type command struct {
	*channel
	process *exec.Cmd
	in      io.WriteCloser
	writing sync.Mutex // one line at a time
	said    tail
	stop    context.CancelFunc // of the reader's context
}

func spawn(s Command) (*command, error) {
	c := &command{process: exec.Command(s.Path, s.Args...)}
	c.channel = newChannel(c.write)
	c.process.Env, c.process.Dir, c.process.Stderr = s.Env, s.Dir, &c.said
	// A group of its own, so that all of it can be ended.
	c.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.process.WaitDelay = commandGrace
	var err error
	if c.in, err = c.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.process.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Path, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.read(ctx, out)
	return c, nil
}

// read reads lines until the output ends, and waits for the process.
func (c *command) read(ctx context.Context, out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		line := bytes.TrimSpace(lines.Bytes())
		var m message
		if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &m) != nil {
			continue // some servers greet on standard output
		}
		c.take(ctx, m)
	}
	err := lines.Err()
	if err != nil {
		_, _ = io.Copy(io.Discard, out)
	}
	err = errors.Join(err, c.process.Wait())
	c.end(fmt.Errorf("the command has ended (%w): %s", errors.Join(err, io.EOF), c.said.String()))
}

func (c *command) write(_ context.Context, text []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.in.Write(append(text, '\n'))
	return err
}

// close ends the command with all that it has started.
func (c *command) close(context.Context) error {
	err := c.leave()
	_ = c.in.Close() // it may have ended by itself
	group := -c.process.Process.Pid
	if !c.within(commandGrace) {
		_ = syscall.Kill(group, syscall.SIGTERM) // an error means that nothing of it runs any more
		_ = c.within(commandGrace)
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-c.ended
	c.stop()
	return err
}

// within reports whether the command ends in time.
func (c *command) within(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.ended:
		return true
	case <-timer.C:
		return false
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex // guards text
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - maxSaid; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
