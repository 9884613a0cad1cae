package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// Words that a person types in place of a value.
const (
	wordDecline = "!decline"
	wordCancel  = "!cancel"
	wordSkip    = "!skip"
)

// maxTyped bounds one typed line.
const maxTyped = 1 << 20

// terminal is where a person is asked.
type terminal struct {
	interactive bool
	lines       *bufio.Scanner
	out         io.Writer
}

// newTerminal asks on out and reads from in. A file that is no terminal has
// nobody behind it; any other reader has.
func newTerminal(in io.Reader, out io.Writer) *terminal {
	file, isFile := in.(*os.File)
	t := &terminal{interactive: in != nil && (!isFile || isTerminal(file)), out: out}
	if in != nil {
		t.lines = bufio.NewScanner(in)
		t.lines.Buffer(nil, maxTyped)
	}
	return t
}

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && file != nil && term.IsTerminal(int(file.Fd()))
}

func (t *terminal) say(format string, args ...any) { _, _ = fmt.Fprintf(t.out, format, args...) }

// read returns the next typed line. When ctx ends first, the read goes on
// until its line comes or the process ends: see call.
func (t *terminal) read(ctx context.Context) (string, error) {
	type typed struct {
		line string
		err  error
	}
	done := make(chan typed, 1)
	go func() {
		if t.lines.Scan() {
			done <- typed{line: t.lines.Text()}
			return
		}
		err := t.lines.Err()
		if err == nil {
			err = fmt.Errorf("%w: the input ended", errUnanswered)
		}
		done <- typed{err: err}
	}()
	select {
	case got := <-done:
		if errors.Is(got.err, bufio.ErrTooLong) {
			return "", fmt.Errorf("%w: a line longer than %d bytes", errUnanswered, maxTyped)
		}
		return got.line, got.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// prompt asks for one line.
func (t *terminal) prompt(ctx context.Context, format string, args ...any) (string, error) {
	t.say(format, args...)
	return t.read(ctx)
}

// plain makes a foreign text harmless to show: control characters could move
// the cursor and rewrite the screen, direction marks could disguise a URL.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069, r == 0x200E, r == 0x200F:
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// oneLine is plain without line breaks.
func oneLine(text string) string { return strings.Join(strings.Fields(plain(text)), " ") }

// indented puts a text's lines two columns in.
func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(plain(text), "\n"), "\n", "\n  ")
}
