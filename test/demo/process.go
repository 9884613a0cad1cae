package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// grace is how long a process may take to end after SIGTERM.
const grace = 10 * time.Second

// process is a server that runs in the background.
type process struct {
	name  string
	log   tail
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
	err   error         // how; read it after ended
}

// start starts a server. Its first line on stdout is sent to the channel; the
// rest of what it says goes to its log.
func start(name, binary string, args ...string) (*process, <-chan string, error) {
	p := &process{name: name, cmd: exec.Command(binary, args...), ended: make(chan struct{})}
	p.cmd.Stderr = &p.log
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", name, err)
	}
	first := make(chan string, 1)
	go func() { // ends with the process, which closes its end of the pipe
		defer close(p.ended)
		lines := bufio.NewReader(stdout)
		if line, err := lines.ReadString('\n'); err == nil {
			first <- strings.TrimSpace(line)
		}
		_, copyErr := io.Copy(&p.log, lines)
		p.err = errors.Join(p.cmd.Wait(), copyErr)
	}()
	return p, first, nil
}

// firstLine waits for the first line that the process prints.
func (p *process) firstLine(ctx context.Context, first <-chan string) (string, error) {
	select {
	case line := <-first:
		return line, nil
	case <-p.ended:
		return "", p.gone()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// gone is the error that the process ended although it is needed.
func (p *process) gone() error {
	return fmt.Errorf("%s ended (%v); it said:\n%s", p.name, p.err, p.log.String())
}

// stop ends the process. It is an error if it was gone before, does not end
// in time, or ends with another exit code than 0.
func (p *process) stop() error {
	select {
	case <-p.ended:
		return p.gone()
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		killErr := p.cmd.Process.Kill()
		<-p.ended
		return errors.Join(fmt.Errorf("%s did not end within %v of SIGTERM", p.name, grace), killErr)
	}
	if p.err != nil {
		return p.gone()
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.Clone(t.text))
}
