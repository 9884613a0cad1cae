package proxy

import "golang.org/x/sys/unix"

// poller asks which connections their peer has closed. POLLRDHUP tells a FIN
// apart from bytes that wait in front of it, such as a pipelined request or
// TLS's close_notify. A half-closed connection counts as closed, as it does
// for net/http.
type poller struct{ fds []unix.PollFd }

func (p *poller) start() { p.fds = p.fds[:0] }

func (p *poller) add(fd int) {
	p.fds = append(p.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLRDHUP})
}

func (p *poller) hungUp(yield func(fd int)) {
	if len(p.fds) == 0 {
		return
	}
	// An interrupted poll is made up for by the next tick.
	if n, err := unix.Poll(p.fds, 0); n == 0 || err != nil {
		return
	}
	for i := range p.fds {
		if p.fds[i].Revents != 0 {
			yield(int(p.fds[i].Fd))
		}
	}
}
