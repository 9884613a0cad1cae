package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

var (
	// ErrEnded: the process has ended, or is about to.
	ErrEnded = errors.New("process has ended")
	// ErrCut: a part of a line went out, and no more. The process is of no more
	// use.
	ErrCut = errors.New("line was cut")
	// ErrNotRead: the process does not read what it is sent. It is of no more
	// use.
	ErrNotRead = errors.New("process does not read its standard input")
)

// atomicSize is what a pipe takes whole or not at all: POSIX, PIPE_BUF, of which
// there is no system with less.
const atomicSize = 512

// TryWrite sends a line, which ends with a line feed, if that needs no waiting;
// what does not fit the pipe follows in the background. It reports whether it
// has begun.
//
// Hot: once per call.
func (p *Process) TryWrite(line []byte, timeout time.Duration) bool {
	select {
	case p.turn <- struct{}{}:
	default:
		return false
	}
	n := 0
	err := p.raw.Write(func(fd uintptr) bool {
		n, _ = writePipe(fd, line)
		return true
	})
	if err != nil || n <= 0 {
		<-p.turn
		return false
	}
	if n == len(line) {
		<-p.turn
		return true
	}
	rest := bytes.Clone(line[n:])
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		<-p.turn
		return true
	}
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		defer func() { <-p.turn }()
		_ = p.writeRest(rest, timeout) // whoever reads learns of it
	}()
	return true
}

// Write sends a line, which ends with a line feed. ctx and timeout bound the
// wait for the first byte to go out, timeout that for the others. ErrCut says
// that some have; after another error none has.
func (p *Process) Write(ctx context.Context, line []byte, timeout time.Duration) error {
	until := time.Now().Add(timeout)
	wait, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	select {
	case p.turn <- struct{}{}:
	case <-wait.Done():
		return p.unread(ctx)
	}
	defer func() { <-p.turn }()
	if err := p.stdin.SetWriteDeadline(until); err != nil {
		return fmt.Errorf("%w: %w", ErrEnded, err)
	}
	defer p.unbound()
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		_ = p.stdin.SetWriteDeadline(time.Unix(1, 0))
	})
	first := line[:min(len(line), atomicSize)]
	n, err := p.stdin.Write(first)
	if !stop() {
		<-over
	}
	switch {
	case err == nil && len(line) == len(first):
		return nil
	case err == nil:
		return p.writeRest(line[len(first):], time.Until(until))
	case n > 0:
		return fmt.Errorf("%w: %w", ErrCut, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return p.unread(ctx)
	}
	return fmt.Errorf("%w: %w", ErrEnded, err) // what it has said before can still be read
}

// unread is the error of a line of which nothing went out in time.
func (p *Process) unread(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.giveUp(ErrNotRead)
}

// unbound takes the bound off writing, which would fail TryWrite later.
func (p *Process) unbound() { _ = p.stdin.SetWriteDeadline(time.Time{}) }

// writeRest sends the rest of a line that has begun.
func (p *Process) writeRest(rest []byte, timeout time.Duration) error {
	defer p.unbound()
	err := p.stdin.SetWriteDeadline(time.Now().Add(timeout))
	if err == nil {
		_, err = p.stdin.Write(rest)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = p.giveUp(ErrNotRead)
	default:
		p.leave(fmt.Errorf("%w: %w", ErrCut, err))
	}
	return fmt.Errorf("%w: %w", ErrCut, err)
}
