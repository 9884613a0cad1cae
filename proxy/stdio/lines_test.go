package stdio

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// FuzzLines holds lines to the plain way of doing it, whatever the pieces that
// the text comes in.
func FuzzLines(f *testing.F) {
	for _, text := range []string{
		call("1", "say") + "\n", call("1", "say") + "\r\n" + cancel("1") + "\n", "\n\n \n", "a", "a\nb", "{\n}\n",
		strings.Repeat("x", 40), strings.Repeat("x", 41) + "\nok\n", strings.Repeat("x", readBuffer) + "\nok", strings.Repeat("x", 3*readBuffer), "\r\r\n", "\x00\xff\n",
	} {
		f.Add([]byte(text), uint16(40), uint8(7))
	}
	f.Fuzz(func(t *testing.T, text []byte, limit uint16, piece uint8) {
		max := int(limit) + 1
		var r io.Reader = bytes.NewReader(text)
		if piece == 0 {
			r = iotest.DataErrReader(r)
		} else {
			r = pieces{r, int(piece)}
		}
		l := newLines(r, max)
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			line = bytes.TrimRight(line, "\r")
			want := bytes.Trim(line, " \t\r\n")
			if len(line) > max {
				if _, err := l.next(); !errors.Is(err, errLong) {
					t.Fatalf("a line of %d bytes, limit %d: got %v", len(line), max, err)
				}
				continue
			}
			if len(want) == 0 {
				continue
			}
			got, err := l.next()
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("got %q, %v, want %q", got, err, want)
			}
		}
		if line, err := l.next(); err != io.EOF || line != nil {
			t.Fatalf("at the end: got %q, %v", line, err)
		}
		if cap(l.long) > maxKept {
			t.Fatalf("%d bytes are kept", cap(l.long))
		}
	})
}

// pieces reads a few bytes at a time.
type pieces struct {
	r io.Reader
	n int
}

func (p pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.n)]) }

// A line above the limit does not fill the memory.
func TestLongLinesAreNotKept(t *testing.T) {
	l := newLines(io.LimitReader(endless{}, 64<<20), 1000)
	if _, err := l.next(); !errors.Is(err, errLong) {
		t.Fatalf("got %v", err)
	}
	if cap(l.long) > 4*readBuffer {
		t.Errorf("%d bytes are kept", cap(l.long))
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
