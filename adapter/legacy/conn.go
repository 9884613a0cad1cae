package legacy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/socket"
)

// bufferSize holds the response header and, mostly, the whole first message.
const bufferSize = 8 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// conn is one HTTP/1.1 connection to an upstream. It holds a read buffer only
// while there are unread bytes: thousands of parked calls each keep a
// connection, and a buffer each would be most of their memory. net/http and
// fasthttp both keep one.
type conn struct {
	nc   net.Conn
	raw  syscall.RawConn // nil for TLS, whose records need a buffer of their own
	peer syscall.RawConn // the socket, under TLS too; only stale looks at it

	buf  *[bufferSize]byte // nil while r == w
	r, w int

	// readable is what raw.Read calls; made once, so that a read allocates
	// nothing. got and gotErr are its results.
	readable func(fd uintptr) bool
	got      int
	gotErr   error
	checkHup func(fd uintptr) // what raw.Control calls; hup is its result
	hup      bool
	readNow  func(fd uintptr) // what raw.Control calls to read without waiting
	again    bool             // it would have had to wait

	// unsent is a request that the next read sends before it waits; nil: none.
	unsent    *[]byte
	begun     bool          // some of it has gone out
	unsentErr error         // why the rest has not
	patience  time.Duration // how long the rest may take

	dry        bool      // reading more is an error: errDry
	deadline   time.Time // what the read deadline is set to
	writeUntil time.Time // likewise the write deadline
	idleAt     time.Time
	lentAt     time.Time // when it was last taken into use, about the time of a send
	reused     bool

	resp response
}

func newConn(nc net.Conn) *conn {
	c := &conn{nc: nc, lentAt: time.Now()}
	if sc, ok := nc.(*net.TCPConn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw, c.peer = raw, raw
			c.readable = c.tryRead
			c.checkHup = func(fd uintptr) { c.hup = hungUp(fd) }
			c.readNow = func(fd uintptr) { c.again = !c.tryRead(fd) }
		}
	} else if t, ok := nc.(*tls.Conn); ok {
		if sc, ok := t.NetConn().(*net.TCPConn); ok {
			if raw, err := sc.SyscallConn(); err == nil {
				// Unread bytes may be a session ticket, which is no reason to worry.
				c.peer = raw
				c.checkHup = func(fd uintptr) { c.hup = closedByPeer(int(fd)) }
			}
		}
	}
	return c
}

// tryRead takes a buffer only when there is something to put into it.
func (c *conn) tryRead(fd uintptr) bool {
	if c.unsent != nil {
		return c.trySend(fd)
	}
	if c.buf == nil {
		c.buf = buffers.Get().(*[bufferSize]byte)
		c.r, c.w = 0, 0
	}
	c.got, c.gotErr = socket.Read(fd, c.buf[c.w:])
	if c.gotErr == syscall.EAGAIN {
		c.dropEmpty()
		return false
	}
	return true
}

func (c *conn) dropEmpty() {
	if c.buf != nil && c.r == c.w {
		buffers.Put(c.buf)
		c.buf, c.r, c.w = nil, 0, 0
	}
}

// fill reads at least one more byte. It returns io.EOF at the end of the
// connection, ErrDeadline when the read deadline passes.
//
// Hot: once or twice per response.
func (c *conn) fill() error {
	if c.dry {
		return errDry
	}
	if c.r > 0 {
		if c.r < c.w {
			copy(c.buf[:], c.buf[c.r:c.w])
		}
		c.w -= c.r
		c.r = 0
	}
	if c.w == bufferSize {
		return fmt.Errorf("%w: response header over %d bytes", ErrMalformed, bufferSize)
	}
	if c.raw == nil {
		if c.unsent != nil {
			if err := c.sendRest(); err != nil {
				return err
			}
		}
		if c.buf == nil {
			c.buf = buffers.Get().(*[bufferSize]byte)
		}
		n, err := c.nc.Read(c.buf[c.w:])
		c.w += n
		if n > 0 {
			return nil
		}
		c.dropEmpty()
		return readError(err)
	}
	c.got, c.gotErr = 0, nil
	err := c.raw.Read(c.readable)
	if err == nil && c.unsent != nil { // it was not sent whole
		if err := c.sendRest(); err != nil {
			return err
		}
		err = c.raw.Read(c.readable)
	}
	if err != nil {
		c.dropEmpty()
		return readError(err)
	}
	switch {
	case c.gotErr != nil:
		c.dropEmpty()
		return c.gotErr
	case c.got == 0:
		c.dropEmpty()
		return io.EOF
	}
	c.w += c.got
	return nil
}

// await is fill with the end of the connection as an error.
func (c *conn) await() error {
	err := c.fill()
	if err == io.EOF {
		if c.resp.status == 0 && c.r == c.w {
			return errNoHead
		}
		return io.ErrUnexpectedEOF
	}
	return err
}

func readError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrDeadline
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// setDeadline bounds the reads that follow; the zero time means no bound.
// setDeadlineNear is setDeadline for a read that may as well end a little
// earlier: a deadline that is near enough stays, because each costs a timer.
func (c *conn) setDeadlineNear(t time.Time) {
	if early := t.Sub(c.deadline); early < 0 || early > nearEnough {
		c.setDeadline(t)
	}
}

const nearEnough = 20 * time.Millisecond

func (c *conn) setDeadline(t time.Time) {
	if !t.Equal(c.deadline) {
		c.deadline = t
		_ = c.nc.SetReadDeadline(t) // fails only on a closed connection, which the read reports
	}
}

// stale reports whether an idle connection was closed by the server, or has
// bytes that nobody asked for. It reads nothing and does not block.
func (c *conn) stale() bool {
	if c.peer == nil {
		return false
	}
	err := c.peer.Control(c.checkHup)
	return c.hup || err != nil
}

// hungUp: an idle connection that is readable was closed, or is out of step.
func hungUp(fd uintptr) bool {
	var b [1]byte
	_, err := socket.Peek(fd, b[:])
	return err != syscall.EAGAIN
}

func (c *conn) close() {
	_ = c.nc.Close()
}

// free gives the buffers back. The connection must not be read again.
func (c *conn) free() {
	c.dropUnsent()
	c.r, c.w = 0, 0
	c.dropEmpty()
}
