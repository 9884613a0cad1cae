//go:build unix

package stdio

import (
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Stream is one of the process's standard streams, in blocking mode, as others
// that have it expect it to be. A Read or Write that waits ends when the Stream
// is closed, which os.File does not offer in this mode; and a client that is
// gone makes Write fail, where os.File would end the process (os/signal,
// "SIGPIPE").
type Stream struct {
	file       *os.File
	wake, woke *os.File // a pipe: closing wake ends waiting

	mu       sync.Mutex // held by Read and Write
	watching sync.Mutex // held by Hangup
	closed   sync.Once
}

// Open makes a Stream of a file, which stays open when the Stream is closed.
func Open(file *os.File) (*Stream, error) {
	woke, wake, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &Stream{file: file, wake: wake, woke: woke}, nil
}

// Read implements io.Reader.
func (s *Stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if err := s.wait(unix.POLLIN); err != nil {
			return 0, err
		}
		n, err := unix.Read(int(s.file.Fd()), p)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// atOnce is what a pipe that is ready takes without waiting (POSIX: at least
// PIPE_BUF, which is no less than 512; Linux: a page), and a socket too.
const atOnce = 4 << 10

// Write implements io.Writer.
func (s *Stream) Write(p []byte) (written int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for written < len(p) {
		if err := s.wait(unix.POLLOUT); err != nil {
			return written, err
		}
		n, err := unix.Write(int(s.file.Fd()), p[written:min(len(p), written+atOnce)])
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
		case err != nil:
			return written, os.NewSyscallError("write", err)
		default:
			written += n
		}
	}
	return written, nil
}

// Hangup waits until nobody is left at the other end. It returns os.ErrClosed once
// the Stream is closed.
func (s *Stream) Hangup() error {
	s.watching.Lock()
	defer s.watching.Unlock()
	return s.wait(0)
}

// wait returns nil when the stream is ready, or at its end, and os.ErrClosed
// once it is closed.
func (s *Stream) wait(events int16) error {
	for {
		woke := int32(s.woke.Fd())
		if woke < 0 {
			return os.ErrClosed
		}
		ready := []unix.PollFd{{Fd: int32(s.file.Fd()), Events: events}, {Fd: woke, Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err == unix.EINTR {
			continue
		} else if err != nil {
			return os.NewSyscallError("poll", err)
		}
		if ready[1].Revents != 0 {
			return os.ErrClosed
		}
		return nil
	}
}

// Close ends what waits, and returns once it has.
func (s *Stream) Close() error {
	s.closed.Do(func() {
		_ = s.wake.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watching.Lock()
		defer s.watching.Unlock()
		_ = s.woke.Close()
	})
	return nil
}
