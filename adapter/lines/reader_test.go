package lines

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

// FuzzReader holds a Reader to the plain way of doing it, whatever the pieces that
// the text comes in.
func FuzzReader(f *testing.F) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"say","arguments":{"text":"é"}}}`
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	for _, text := range []string{
		call + "\n", call + "\r\n" + cancel + "\n", "\n\n \n", "a", "a\nb", "a\nb\r\n\nc", "{\n}\n", "\r\r\n", "\x00\xff\n",
		strings.Repeat("x", 40), strings.Repeat("x", 41) + "\nok\n", strings.Repeat("x", bufferSize) + "\nok",
		strings.Repeat("x", bufferSize-1) + "\r\nok", strings.Repeat("x", 3*bufferSize) + "\r\ny",
	} {
		f.Add([]byte(text), 40, uint16(7))
		f.Add([]byte(text), 20_000, uint16(0))
	}
	f.Fuzz(func(t *testing.T, text []byte, limit int, piece uint16) {
		if limit < 0 || limit > 1<<20 {
			return
		}
		for what, stream := range streams(text, int(piece)) {
			r := NewReader(stream, limit)
			for rest := text; len(rest) > 0; {
				want, after, _ := bytes.Cut(rest, []byte("\n"))
				want, rest = bytes.TrimSuffix(want, []byte("\r")), after
				got, err := r.Next()
				if len(want) <= limit {
					if err != nil || !bytes.Equal(got, want) {
						t.Fatalf("%s: got %.99q, %v, want %.99q", what, got, err, want)
					}
					continue
				}
				var over *TooLong
				if !errors.As(err, &over) || got != nil {
					t.Fatalf("%s: of a line of %d bytes, limit %d, got %.99q, %v", what, len(want), limit, got, err)
				}
				if over.Size != len(want) || over.Cause != nil || !bytes.HasPrefix(want, over.Head) || !bytes.HasSuffix(want, over.Tail) ||
					len(over.Head) != min(ends, len(want)) || len(over.Tail) > ends || len(over.Tail) < min(ends-len("\r\n"), len(want)) {
					t.Fatalf("%s: of a line of %d bytes is told %d, %d and %d of them, %v", what, len(want), over.Size, len(over.Head), len(over.Tail), over.Cause)
				}
			}
			if line, err := r.Next(); err != io.EOF || line != nil {
				t.Fatalf("%s: at the end: got %q, %v", what, line, err)
			}
			if r.from != nil {
				t.Fatalf("%s: the buffer is kept at the end", what)
			}
		}
	})
}

// streams are the ways in which a text may come.
func streams(text []byte, piece int) map[string]io.Reader {
	return map[string]io.Reader{
		"in pieces":            pieces{bytes.NewReader(text), piece + 1},
		"with its end":         iotest.DataErrReader(bytes.NewReader(text)),
		"that can be awaited":  awaited{pieces{bytes.NewReader(text), piece + 1}},
		"awaited with its end": awaited{iotest.DataErrReader(bytes.NewReader(text))},
	}
}

// pieces reads a few bytes at a time.
type pieces struct {
	r io.Reader
	n int
}

func (p pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.n)]) }

type awaited struct{ io.Reader }

func (awaited) Await() error { return nil }

// While a Waiter has nothing to say, its Reader has no buffer.
func TestSilenceNeedsNoBuffer(t *testing.T) {
	s := &silent{}
	r := NewReader(s, 100)
	s.await = func() error {
		if r.from != nil {
			t.Error("it waits with a buffer")
		}
		return nil
	}
	for _, text := range []string{"one\n", "two\n"} {
		s.text = text
		if line, err := r.Next(); err != nil || string(line)+"\n" != text {
			t.Fatalf("got %q, %v, want %q", line, err, text)
		}
	}
	s.await = func() error { return os.ErrClosed }
	if line, err := r.Next(); err != os.ErrClosed || line != nil {
		t.Errorf("at the end: got %q, %v", line, err)
	}
}

type silent struct {
	text  string
	await func() error
}

func (s *silent) Await() error { return s.await() }

func (s *silent) Read(b []byte) (int, error) {
	n := copy(b, s.text)
	s.text = s.text[n:]
	return n, nil
}

// A line above the limit does not fill the memory.
func TestLongLinesAreNotKept(t *testing.T) {
	r := NewReader(io.LimitReader(endless{}, 64<<20), 1000)
	var over *TooLong
	if _, err := r.Next(); !errors.As(err, &over) || over.Size != 64<<20 {
		t.Fatalf("got %v", err)
	}
	if cap(over.Head) > 2*ends || cap(over.Tail) > 2*ends || cap(r.long) > 0 {
		t.Errorf("%d, %d and %d bytes are kept", cap(over.Head), cap(over.Tail), cap(r.long))
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// What a stream breaks off in can be told from a line.
func TestTornLines(t *testing.T) {
	for _, size := range []int{3, bufferSize + 3} {
		text := strings.Repeat("x", size)
		for limit, long := range map[int]bool{size: false, size - 1: true, 1: true} {
			t.Run(fmt.Sprint(size, limit), func(t *testing.T) {
				r := NewReader(io.MultiReader(strings.NewReader(text), iotest.ErrReader(os.ErrClosed)), limit)
				line, err := r.Next()
				var over *TooLong
				switch {
				case !long && (string(line) != text || err != os.ErrClosed):
					t.Errorf("got %d bytes, %v", len(line), err)
				case long && (!errors.As(err, &over) || over.Cause != os.ErrClosed || over.Size != size):
					t.Errorf("got %+v", err)
				}
				if line, err := r.Next(); err != os.ErrClosed || line != nil {
					t.Errorf("after it: got %q, %v", line, err)
				}
			})
		}
	}
}
