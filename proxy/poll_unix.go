//go:build unix && !linux

package proxy

import "golang.org/x/sys/unix"

// poller asks which connections their peer has closed. Without POLLRDHUP a
// peek has to do, which bytes of a pipelined request in front of the end can
// hide.
type poller struct{ fds []int }

func (p *poller) start() { p.fds = p.fds[:0] }

func (p *poller) add(fd int) { p.fds = append(p.fds, fd) }

func (p *poller) hungUp(yield func(fd int)) {
	var b [1]byte
	for _, fd := range p.fds {
		n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if n == 0 && err == nil || err == unix.ECONNRESET {
			yield(fd)
		}
	}
}
