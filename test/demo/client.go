package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
)

// played is how a run of the client ended and what it printed.
type played struct {
	code           int
	stdout, stderr string
}

// client runs holdfast call and shows it.
func (s *stage) client(ctx context.Context, args ...string) (played, error) {
	_, _ = fmt.Fprintf(s.out, "\n$ holdfast call %s\n", shellWords(args))
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, s.holdfast, append([]string{"call", "--timeout", "20s"}, args...)...)
	shown := &inTurns{out: s.out}
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&stdout, shown), io.MultiWriter(&stderr, shown)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || !exit.Exited()) {
		return played{}, fmt.Errorf("holdfast call: %w", err)
	}
	return played{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}, nil
}

// inTurns lets the client's two outputs write to one place: each has a
// goroutine of its own in exec.
type inTurns struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *inTurns) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

// expect is an error that says what was expected, unless all of it is so.
func (p played) expect(what string, so ...bool) error {
	for i, holds := range so {
		if !holds {
			return fmt.Errorf("not as expected: %s (condition %d; exit code %d)", what, i+1, p.code)
		}
	}
	return nil
}

// shellWords writes arguments the way they are typed.
func shellWords(args []string) string {
	var words []string
	for _, arg := range args {
		if strings.ContainsAny(arg, " \"'{}$*") {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}
