//go:build unix

package proxy

import (
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/holdfast-mcp/holdfast/adapter/socket"
)

// ahead is what was read of a request together with its first byte. With
// ReduceMemoryUsage fasthttp asks for that byte alone, so as to hold no
// buffer while a connection is idle; read literally, that costs each request
// a system call.
type ahead struct {
	raw  syscall.RawConn // nil where there is none
	fill func(fd uintptr) (done bool)
	buf  *[aheadSize]byte // nil when there is nothing left in it
	rest []byte
	err  error
}

// aheadSize is enough for the whole of an ordinary call.
const aheadSize = 4 << 10

var aheads = sync.Pool{New: func() any { return new([aheadSize]byte) }}

// start makes a ready. A buffer is held from the moment that there is
// something to read.
func (a *ahead) start(c net.Conn) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	a.raw = raw
	a.fill = func(fd uintptr) bool {
		buf := aheads.Get().(*[aheadSize]byte)
		n, err := socket.Read(fd, buf[:])
		if n > 0 {
			a.buf, a.rest, a.err = buf, buf[:n], nil
			return true
		}
		aheads.Put(buf)
		if err == syscall.EAGAIN {
			return false
		}
		if a.err = err; err == nil {
			a.err = io.EOF
		}
		return true
	}
}

func (a *ahead) usable() bool { return a.raw != nil }
func (a *ahead) empty() bool  { return a.buf == nil }

// read waits for the first bytes of a request.
func (a *ahead) read() error {
	if err := a.raw.Read(a.fill); err != nil {
		return err
	}
	return a.err
}

// take gives out what was read.
func (a *ahead) take(p []byte) int {
	n := copy(p, a.rest)
	if a.rest = a.rest[n:]; len(a.rest) == 0 {
		aheads.Put(a.buf)
		a.buf = nil
	}
	return n
}
