package legacy

import "golang.org/x/sys/unix"

// closedByPeer looks for the end of the connection only, not for bytes.
func closedByPeer(fd int) bool {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(fds[:], 0)
	return err != nil || n > 0
}
