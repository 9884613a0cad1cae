package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// doors counts and limits the connections of all listeners of a server. It
// stands in for fasthttp's MaxConnsPerIP and Concurrency, whose wrapper hides
// the descriptor that the watcher needs.
type doors struct {
	limit   int           // 0: none
	plain   bool          // no TLS: refusals can be told in plain HTTP, and reads are requests
	read    time.Duration // for a whole request from its first byte
	idle    time.Duration // for the first byte of the next request
	write   time.Duration // for each write
	metrics *metrics
	closing chan struct{}

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// listener is a net.Listener whose connections doors counts.
type listener struct {
	net.Listener
	doors *doors
}

// tooManyConnections is the whole answer to a connection above the limit.
const tooManyConnections = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n" +
	"Content-Type: application/json\r\nContent-Length: 142\r\n\r\n" +
	`{"jsonrpc":"2.0","error":{"code":-32603,"message":"This replica has all the connections that it may have","data":{"reason":"overload"}}}` + "\r\n\r\n\r\n"

// Accept waits for the next connection below the limit. Running out of
// descriptors does not end it, which would end fasthttp's server.
func (l *listener) Accept() (net.Conn, error) {
	var pause time.Duration
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			if !exhausted(err) {
				return nil, err
			}
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			select {
			case <-l.doors.closing:
				return nil, net.ErrClosed
			case <-time.After(pause):
			}
			continue
		}
		if admitted := l.doors.admit(c); admitted != nil {
			return admitted, nil
		}
	}
}

func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}

func (d *doors) admit(c net.Conn) *conn {
	admitted := &conn{Conn: c, doors: d, fd: descriptor(c)}
	admitted.ahead.start(c)
	if d.plain {
		admitted.outlet.start(c)
	}
	d.mu.Lock()
	full := d.limit > 0 && len(d.conns) >= d.limit
	if !full {
		d.conns[admitted] = struct{}{}
		d.metrics.connections.Set(float64(len(d.conns)))
	}
	d.mu.Unlock()
	if !full {
		return admitted
	}
	d.metrics.connectionsRefused.Inc()
	if d.plain {
		// A new connection's send buffer takes this without waiting.
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = c.Write([]byte(tooManyConnections))
	}
	_ = c.Close()
	return nil
}

// closeAll cuts every connection that is still open.
func (d *doors) closeAll() {
	d.mu.Lock()
	open := make([]*conn, 0, len(d.conns))
	for c := range d.conns {
		open = append(open, c)
	}
	d.mu.Unlock()
	for _, c := range open {
		c.linger.Store(false)
		_ = c.Close()
	}
}

// conn is a client's connection.
type conn struct {
	net.Conn
	doors *doors
	fd    int // -1 when there is none
	once  sync.Once
	// linger has Close read on for a moment, because the client has not sent all
	// of what was refused.
	linger atomic.Bool

	// Only the connection's own goroutine uses these.
	began      bool      // a request has come
	rest       time.Time // by when the current request must have come whole; zero: it came at once
	readUntil  time.Time // what the read deadline is
	writeUntil time.Time // and the write deadline
	reads      int       // of the socket
	served     int       // reads when the last request was handled
	ahead      ahead
	outlet     outlet // not for TLS, which may also write when it is closed
}

// Read reads from the connection.
//
// Hot: twice per request.
func (c *conn) Read(p []byte) (int, error) {
	if c.ahead.empty() {
		c.reads++
		// fasthttp asks for the first byte of a request alone.
		first := len(p) == 1
		if c.doors.plain {
			if err := c.allow(first); err != nil {
				return 0, err
			}
		}
		if !first || !c.ahead.usable() {
			n, err := c.Conn.Read(p)
			c.began = c.began || first
			return n, err
		}
		if err := c.ahead.read(); err != nil {
			return 0, err
		}
		c.began = true
	}
	return c.ahead.take(p), nil
}

// allow bounds the read that follows. fasthttp would set two deadlines for each
// request, and each costs a timer; here one lasts for many requests, at the
// price of an idle timeout that is up to an eighth shorter.
func (c *conn) allow(first bool) error {
	now := time.Now()
	if !first {
		if c.rest.IsZero() { // the first read of it took what had come at once
			c.rest = now.Add(c.doors.read)
		}
		return c.setRead(c.rest)
	}
	c.rest = time.Time{}
	limit := c.doors.idle
	if !c.began { // nothing has ever come
		limit = c.doors.read
	}
	if left := c.readUntil.Sub(now); left > limit-limit/8 && left <= limit {
		return nil
	}
	return c.setRead(now.Add(limit))
}

func (c *conn) setRead(until time.Time) error {
	if until.Equal(c.readUntil) {
		return nil
	}
	c.readUntil = until
	return c.Conn.SetReadDeadline(until)
}

// Write writes to the connection, within the write timeout or at least half
// of it.
//
// Hot: once per request.
func (c *conn) Write(p []byte) (int, error) {
	if now := time.Now(); c.writeUntil.Sub(now) < c.doors.write/2 {
		c.writeUntil = now.Add(c.doors.write)
		if err := c.Conn.SetWriteDeadline(c.writeUntil); err != nil {
			return 0, err
		}
	}
	if c.outlet.usable() {
		return c.outlet.write(p)
	}
	return c.Conn.Write(p)
}

// Close closes the connection and gives its place back.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.doors.mu.Lock()
		delete(c.doors.conns, c)
		c.doors.metrics.connections.Set(float64(len(c.doors.conns)))
		c.doors.mu.Unlock()
	})
	if c.linger.Load() {
		c.drain()
	}
	return c.Conn.Close()
}

// drain reads what the client is still sending. To close a connection with
// bytes unread resets it, and a reset can take the answer away from the client
// (RFC 9112, section 9.6).
func (c *conn) drain() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c.Conn, maxLinger) // ends as it may
}

// Bounds of drain.
const (
	lingerTime = 500 * time.Millisecond
	maxLinger  = 64 << 20
)

// pipelined reports whether a request came without a read of its own, that
// is, in the bytes that the one before it was read from.
func (c *conn) pipelined() bool {
	same := c.reads == c.served
	c.served = c.reads
	return same
}

// connOf finds the connection below fasthttp's and TLS's wrappers.
func connOf(c net.Conn) *conn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

func descriptor(c net.Conn) int {
	fd := -1
	sc, ok := c.(syscall.Conn)
	if !ok {
		return fd
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return fd
	}
	if raw.Control(func(p uintptr) { fd = int(p) }) != nil {
		return -1
	}
	return fd
}
