//go:build unix && (!linux || 386 || race)

package socket

import "syscall"

// Read reads what has come, as read(2) does: zero bytes are the end of the
// connection, and EAGAIN says that nothing has come.
func Read(fd uintptr, p []byte) (int, error) { return again(syscall.Read, fd, p) }

// Write writes what there is room for, as write(2) does. EAGAIN says that there
// is none.
func Write(fd uintptr, p []byte) (int, error) { return again(syscall.Write, fd, p) }

// Peek is Read of bytes that stay to be read.
func Peek(fd uintptr, p []byte) (int, error) {
	return again(func(fd int, p []byte) (int, error) {
		n, _, err := syscall.Recvfrom(fd, p, syscall.MSG_PEEK)
		return n, err
	}, fd, p)
}

func again(call func(fd int, p []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		n, err := call(int(fd), p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}
