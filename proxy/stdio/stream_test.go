//go:build unix

package stdio

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
)

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Close() // a test may have
		_ = w.Close()
	})
	return r, w
}

func stream(t *testing.T, f *os.File) *Stream {
	t.Helper()
	s, err := Open(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStreamCarriesWhatIsWritten(t *testing.T) {
	r, w := pipe(t)
	in, out := stream(t, r), stream(t, w)
	want := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	failed := make(chan error, 1)
	go func() {
		_, err := out.Write(want)
		failed <- errors.Join(err, w.Close())
	}()
	got, err := io.ReadAll(in)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d bytes, %v, want %d", len(got), err, len(want))
	}
	if err := <-failed; err != nil {
		t.Error(err)
	}
}

// Close ends a Read that waits, and what comes after it; the file stays open.
func TestStreamCloseEndsRead(t *testing.T) {
	r, w := pipe(t)
	in := stream(t, r)
	ended := make(chan error, 1)
	go func() {
		_, err := in.Read(make([]byte, 1))
		ended <- err
	}()
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("the Read that waited: %v", err)
	}
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a later Read: %v", err)
	}
	if _, err := w.WriteString("x"); err != nil {
		t.Errorf("the file is closed: %v", err)
	}
}

// Close ends a Write that nobody reads.
func TestStreamCloseEndsWrite(t *testing.T) {
	_, w := pipe(t)
	out := stream(t, w)
	ended := make(chan error, 1)
	go func() {
		n, err := out.Write(make([]byte, 8<<20))
		if n == 8<<20 {
			err = errAny
		}
		ended <- err
	}()
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("the Write that waited: %v", err)
	}
}

func TestStreamWithoutReader(t *testing.T) {
	r, w := pipe(t)
	out := stream(t, w)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v", err)
	}
}

// Hangup ends when the other end is closed, or the Stream.
func TestStreamHangup(t *testing.T) {
	for name, end := range map[string]struct {
		close func(s *Stream, r *os.File) error
		want  error
	}{
		"the reader closes": {func(_ *Stream, r *os.File) error { return r.Close() }, nil},
		"the writer closes": {func(s *Stream, _ *os.File) error { return s.Close() }, os.ErrClosed},
	} {
		r, w := pipe(t)
		out := stream(t, w)
		ended := make(chan error, 1)
		go func() { ended <- out.Hangup() }()
		if _, err := out.Write([]byte("x")); err != nil {
			t.Errorf("%s: a write beside it: %v", name, err)
		}
		if err := end.close(out, r); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, end.want) {
			t.Errorf("%s: got %v, want %v", name, err, end.want)
		}
	}
}
