//go:build linux && !386 && !race

package socket

import (
	"syscall"
	"unsafe"
)

// Read reads what has come, as read(2) does: zero bytes are the end of the
// connection, and EAGAIN says that nothing has come.
//
// Hot: twice per call.
func Read(fd uintptr, p []byte) (int, error) { return call(syscall.SYS_RECVFROM, fd, p, 0) }

// Write writes what there is room for, as write(2) does. EAGAIN says that there
// is none.
//
// Hot: twice per call.
func Write(fd uintptr, p []byte) (int, error) {
	return call(syscall.SYS_SENDTO, fd, p, syscall.MSG_NOSIGNAL)
}

// Peek is Read of bytes that stay to be read.
func Peek(fd uintptr, p []byte) (int, error) {
	return call(syscall.SYS_RECVFROM, fd, p, syscall.MSG_PEEK)
}

func call(number, fd uintptr, p []byte, flags uintptr) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), flags, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
