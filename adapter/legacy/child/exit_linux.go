package child

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// leader is a handle of a process that leads a group, and of the group, which
// stays theirs when their number has become another's. It is nil where the kernel
// has no pidfd that does not block (before Linux 5.10).
type leader struct {
	file *os.File
	raw  syscall.RawConn
}

// lead returns the handle of a process that was not reaped.
func lead(pid int) *leader {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil
	}
	l := &leader{file: os.NewFile(uintptr(fd), "pidfd")}
	if l.raw, err = l.file.SyscallConn(); err != nil {
		_ = l.file.Close()
		return nil
	}
	return l
}

// awaitExit waits until the process has ended, which stays to be reaped. Reaping it
// right away would take a thread until then, of which the runtime allows a program
// ten thousand, and each costs memory.
func (l *leader) awaitExit() {
	if l == nil {
		return
	}
	_ = l.raw.Read(func(fd uintptr) bool { // an error: it cannot be waited for like this
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}

// signaller returns what signals the group that the process leads: by the handle
// where the kernel knows how (Linux 6.9).
func (l *leader) signaller(pid int) func(syscall.Signal) error {
	if l != nil && l.signal(0) == nil {
		return l.signal
	}
	return byNumber(pid)
}

func (l *leader) signal(sig syscall.Signal) (err error) {
	failed := l.raw.Control(func(fd uintptr) {
		err = unix.PidfdSendSignal(int(fd), sig, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	})
	if failed != nil {
		return failed
	}
	return err
}

func (l *leader) close() {
	if l != nil {
		_ = l.file.Close()
	}
}
