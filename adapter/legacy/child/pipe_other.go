//go:build !linux || 386 || race

package child

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// readPipe and writePipe are read(2) and write(2) of a pipe that does not block, and
// pollPipe reports whether reading it would do something.
func readPipe(fd uintptr, b []byte) (int, error) { return again(syscall.Read, fd, b) }

func writePipe(fd uintptr, b []byte) (int, error) { return again(syscall.Write, fd, b) }

func pollPipe(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 || err != nil // after an error, reading tells more
}

func again(call func(fd int, b []byte) (int, error), fd uintptr, b []byte) (int, error) {
	for {
		n, err := call(int(fd), b)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}
