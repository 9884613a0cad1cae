package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter/lines"
)

// Process is a command that was started.
type Process struct {
	command *Command
	cmd     *exec.Cmd
	leader  *leader
	group   group

	stdin, stdout, stderr *os.File
	lines                 *lines.Reader
	said                  tail

	turn chan struct{}   // a mutex that a context can give up: one line is written at a time
	raw  syscall.RawConn // of stdin

	reaped chan struct{} // closed once the process has ended
	alone  chan struct{} // closed once nobody is left in its group, after that
	hurry  chan struct{} // closed by a Close that has no time for them to leave
	gone   chan struct{} // closed once nothing of it is left
	silent chan struct{} // closed once its standard error has ended as well
	state  error         // how it ended, once reaped is closed

	mu     sync.Mutex
	closed bool
	broken error // why nothing more can be written or read
	wg     sync.WaitGroup
}

// drain is how long what a process has said is read after its end: what it has
// started may hold its pipes open. What it has said itself is there at once.
const drain = time.Second

// Start runs a command. The log has the name of what it is for. Close must be
// called.
func Start(c *Command, log zerolog.Logger) (*Process, error) {
	path, err := c.Find()
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: path, Args: append([]string{c.Path}, c.Args...), Env: c.Env, Dir: c.Dir, SysProcAttr: ownGroup()}
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would be this process's
	}
	if strings.ContainsRune(c.Path, filepath.Separator) {
		cmd.Path = c.Path // exec takes it from Dir
	}
	p := &Process{command: c, cmd: cmd, turn: make(chan struct{}, 1), reaped: make(chan struct{}), silent: make(chan struct{}),
		alone: make(chan struct{}), hurry: make(chan struct{}), gone: make(chan struct{})}
	var theirs [3]*os.File
	defer func() {
		for _, f := range theirs {
			if f != nil {
				_ = f.Close()
			}
		}
	}()
	if theirs[0], p.stdin, err = os.Pipe(); err != nil {
		return nil, err
	}
	if p.stdout, theirs[1], err = os.Pipe(); err == nil {
		p.stderr, theirs[2], err = os.Pipe()
	}
	if err == nil {
		p.raw, err = p.stdin.SyscallConn()
	}
	var out, said *pipe
	if err == nil {
		out, err = newPipe(p.stdout)
	}
	if err == nil {
		said, err = newPipe(p.stderr)
	}
	if err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
		err = cmd.Start()
	}
	if err != nil {
		p.closeFiles()
		return nil, fmt.Errorf("%w: %w", ErrNotRunnable, err)
	}
	c.Guard.begins(cmd.Process.Pid)
	p.leader = lead(cmd.Process.Pid)
	p.group.kill = p.leader.signaller(cmd.Process.Pid)
	p.lines = lines.NewReader(out, c.MaxLine)
	p.wg.Add(2)
	go func() {
		defer p.wg.Done()
		defer close(p.silent)
		listen(said, &p.said, log.With().Int("pid", cmd.Process.Pid).Logger())
	}()
	go func() {
		defer p.wg.Done()
		p.reap()
	}()
	return p, nil
}

// reap waits for the process, and then ends what it has left behind: not only when
// it is closed, for until then its number might have become another's.
func (p *Process) reap() {
	defer close(p.alone)
	p.leader.awaitExit()
	if err := p.cmd.Wait(); err != nil {
		p.state = err
	} else {
		p.state = errors.New("exit status 0")
	}
	close(p.reaped)
	until := time.Now().Add(drain)
	_ = p.stdout.SetReadDeadline(until) // fails only where Close was faster
	_ = p.stderr.SetReadDeadline(until)
	p.group.end(p.command.Grace, p.hurry)
	p.command.Guard.ends(p.PID())
}

func (p *Process) closeFiles() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// PID is the process's id, and its group's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.reaped:
		return false
	default:
		return true
	}
}

// Next returns the next line of the process's standard output, valid until the
// next call; a *lines.TooLong, after which there may be more; or another error,
// which is the end. One goroutine calls it.
func (p *Process) Next() ([]byte, error) {
	line, err := p.lines.Next()
	if err == nil || len(line) > 0 { // it may not have finished its last line
		return line, nil
	}
	if long := (*lines.TooLong)(nil); errors.As(err, &long) {
		return nil, err
	}
	return nil, p.giveUp(err)
}

// giveUp notes why the process is of no more use, and returns the first reason.
func (p *Process) giveUp(why error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken == nil {
		p.broken = why
	}
	_ = p.stdout.SetReadDeadline(time.Unix(1, 0)) // whoever reads it learns of it
	return p.broken
}

// leave is giveUp for a process that takes nothing more, and may run on: what it
// has said can still be read.
func (p *Process) leave(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken == nil && !p.closed {
		p.broken = why
		_ = p.stdout.SetReadDeadline(time.Now().Add(drain))
	}
}

// Story says how the process has ended and what it said last on standard error.
// It waits for its end at most for the given time.
func (p *Process) Story(wait time.Duration) string {
	story := "its process runs"
	t := time.NewTimer(wait)
	defer t.Stop()
	if closed(p.reaped, t) {
		story = "its process has ended: " + p.state.Error()
		closed(p.silent, t)
	}
	if said := p.said.String(); said != "" {
		story += fmt.Sprintf("; its standard error ended with %q", said)
	}
	return story
}

// closed reports whether a channel is closed, or comes to be before a timer fires.
func closed(c <-chan struct{}, t *time.Timer) bool {
	select {
	case <-c:
		return true
	default:
	}
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// Close ends the process and what is left of its group: standard input is closed,
// after Grace comes SIGTERM, after another SIGKILL. When ctx ends, SIGKILL comes at
// once. Nothing of it is left when Close returns.
func (p *Process) Close(ctx context.Context) {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.mu.Unlock()
	if !first {
		<-p.gone
		return
	}
	defer close(p.gone)
	_ = p.stdin.Close()
	if !p.awaitEnd(ctx) {
		p.group.signal(syscall.SIGTERM)
		if !p.awaitEnd(ctx) {
			p.group.signal(syscall.SIGKILL)
			<-p.reaped
		}
	}
	select {
	case <-p.alone:
	case <-ctx.Done():
		close(p.hurry)
		<-p.alone
	}
	select {
	case <-p.silent: // at the latest when drain is over: its last words are told
	case <-ctx.Done():
	}
	_ = p.stdout.Close()
	_ = p.stderr.Close()
	p.wg.Wait()
	p.leader.close()
}

// awaitEnd waits for the process for Grace, or until ctx ends.
func (p *Process) awaitEnd(ctx context.Context) bool {
	t := time.NewTimer(p.command.Grace)
	defer t.Stop()
	select {
	case <-p.reaped:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return !p.Running()
}
