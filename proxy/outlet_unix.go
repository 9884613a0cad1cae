//go:build unix

package proxy

import (
	"net"
	"os"
	"syscall"

	"github.com/holdfast-mcp/holdfast/adapter/socket"
)

// outlet writes to a socket by package socket.
type outlet struct {
	raw  syscall.RawConn // nil where there is none
	push func(fd uintptr) (done bool)
	rest []byte
	err  error
}

func (o *outlet) start(c net.Conn) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	o.raw = raw
	o.push = func(fd uintptr) bool {
		for len(o.rest) > 0 {
			n, err := socket.Write(fd, o.rest)
			if err == syscall.EAGAIN {
				return false
			}
			if err != nil {
				o.err = os.NewSyscallError("write", err)
				return true
			}
			o.rest = o.rest[n:]
		}
		return true
	}
}

func (o *outlet) usable() bool { return o.raw != nil }

// write writes all of p, within the connection's write deadline.
func (o *outlet) write(p []byte) (int, error) {
	o.rest, o.err = p, nil
	err := o.raw.Write(o.push)
	if err == nil {
		err = o.err
	}
	n := len(p) - len(o.rest)
	o.rest = nil
	return n, err
}
