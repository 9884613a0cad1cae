//go:build linux && !386 && !race

package child

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readPipe and writePipe are read(2) and write(2) of a pipe that does not block, and
// pollPipe reports whether reading it would do something: calls of the system which the scheduler of the runtime need not know of: see package socket. What is
// written wakes a process that may be put in this one's place, and the scheduler
// would take that for a call which lasts.
func readPipe(fd uintptr, b []byte) (int, error) { return call(syscall.SYS_READ, fd, b) }

func writePipe(fd uintptr, b []byte) (int, error) { return call(syscall.SYS_WRITE, fd, b) }

func pollPipe(fd uintptr) bool {
	p := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	var now unix.Timespec
	n, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return n > 0 || errno != 0 // after an error, reading tells more
}

func call(number, fd uintptr, b []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
