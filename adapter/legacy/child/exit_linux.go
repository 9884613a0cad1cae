package child

import (
	"os"

	"golang.org/x/sys/unix"
)

// awaitExit waits until a process has ended, which stays to be reaped. Reaping it
// right away would take a thread until then, of which the runtime allows a program
// ten thousand, and each costs memory. Where the kernel has no pidfd that does not
// block (Linux 5.10), it returns at once.
func awaitExit(pid int) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool { // an error: it cannot be waited for like this
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}
