package legacy

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// endpoint is one HTTP address: how requests to it begin, and its idle
// connections.
type endpoint struct {
	settings *Settings
	address  string // host:port
	host     string // Host header
	path     string // request target
	tls      *tls.Config
	partings partings

	mu     sync.Mutex
	idle   []*conn // the last used is the last
	closed bool
}

func newEndpoint(s *Settings) (*endpoint, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %w", s.Name, err)
	}
	e := &endpoint{settings: s, host: u.Host, path: u.RequestURI()}
	port := u.Port()
	switch u.Scheme {
	case "http":
		if port == "" {
			port = "80"
		}
	case "https":
		if port == "" {
			port = "443"
		}
		e.tls = s.TLS.Clone() // nil stays nil
		if e.tls == nil {
			e.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		e.tls.ServerName = u.Hostname()
		e.tls.NextProtos = []string{"http/1.1"}
	default:
		return nil, fmt.Errorf("upstream %s: the URL's scheme is %q, not http or https", s.Name, u.Scheme)
	}
	if e.address = s.Address; e.address == "" {
		e.address = net.JoinHostPort(u.Hostname(), port)
	}
	return e, nil
}

// idleConn returns a connection that can be used at once, or nil.
//
// Hot: once per request.
func (e *endpoint) idleConn() *conn {
	now := time.Now()
	var pending [passedOver]*conn // the end of their last body is still on its way
	n := 0
	var found *conn
	for found == nil && n < passedOver {
		c := e.pop()
		if c == nil {
			break
		}
		idle := now.Sub(c.idleAt)
		switch ready, dead := c.ready(idle); {
		case ready:
			c.reused, c.lentAt = true, now
			found = c
		case dead || idle >= time.Second:
			c.close()
			c.free()
		default:
			pending[n] = c
			n++
		}
	}
	if n > 0 {
		e.push(pending[:n]...)
	}
	return found
}

// passedOver is how many connections idleConn passes over.
const passedOver = 4

// pop takes the connection that was used last.
func (e *endpoint) pop() *conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := len(e.idle) - 1
	if last < 0 {
		return nil
	}
	c := e.idle[last]
	e.idle[last] = nil
	e.idle = e.idle[:last]
	return c
}

// push keeps connections for the next request, or closes them once the
// endpoint is closed.
func (e *endpoint) push(conns ...*conn) {
	e.mu.Lock()
	closed := e.closed
	if !closed {
		e.idle = append(e.idle, conns...)
	}
	e.mu.Unlock()
	if closed {
		closeAll(conns)
	}
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		c.close()
		c.free()
	}
}

// dial opens a connection. An error wraps ErrUnreachable: nothing was sent.
func (e *endpoint) dial(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, e.settings.ConnectTimeout)
	defer cancel()
	d := net.Dialer{KeepAlive: 30 * time.Second}
	nc, err := d.DialContext(ctx, "tcp", e.address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if e.tls != nil {
		t := tls.Client(nc, e.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			_ = nc.Close()
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		nc = t
	}
	return newConn(nc), nil
}

// conn returns an idle connection or a new one.
func (e *endpoint) conn(ctx context.Context) (*conn, error) {
	if c := e.idleConn(); c != nil {
		return c, nil
	}
	return e.dial(ctx)
}

// release takes a connection back whose response was read, or nearly: the
// rest of its body may still be on its way.
//
// Hot: once per request.
func (e *endpoint) release(c *conn) {
	if !c.resp.keep || !c.resp.done && c.raw == nil {
		c.close()
		c.free()
		return
	}
	for !c.resp.done && c.r < c.w {
		if !c.skip() {
			break
		}
	}
	if c.resp.done && c.r != c.w { // bytes that nobody asked for
		c.close()
		c.free()
		return
	}
	c.dropEmpty()
	// The read deadline of the last use stays set: the next use sets its own,
	// and the check for a closed peer does not heed it.
	c.idleAt = time.Now()
	e.push(c)
}

// expire closes the connections that were idle for too long, and some of what
// is beyond MaxIdleConns: when thousands of parked calls end at once, closing
// their connections at once would cost the calls that follow.
func (e *endpoint) expire(now time.Time) {
	e.mu.Lock()
	n := min(max(len(e.idle)-e.settings.MaxIdleConns, 0), surplus)
	for n < len(e.idle) && now.Sub(e.idle[n].idleAt) > e.settings.IdleConnTTL {
		n++
	}
	old := slices.Clone(e.idle[:n])
	e.idle = slices.Delete(e.idle, 0, n)
	e.mu.Unlock()
	closeAll(old)
}

// surplus is how many connections beyond the limit are closed in a second.
const surplus = 1000

func (e *endpoint) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, c := range e.idle {
		c.close()
		c.free()
	}
	e.idle = nil
}

// freshly used connections are not checked once they have been used again: a
// peer that closes does so after its first response, after an idle time, or
// says so in its response, and the check costs a system call.
const freshly = time.Millisecond

// ready reports whether an idle connection can carry a request, and whether
// it never will. It does not block.
func (c *conn) ready(idle time.Duration) (ready, dead bool) {
	if !c.resp.done {
		if !c.drain() {
			return false, true
		}
		if !c.resp.done {
			return false, false
		}
	}
	if c.r != c.w || !c.resp.keep || (idle > freshly || !c.reused) && c.stale() {
		return false, true
	}
	return true, false
}

// drain reads what has arrived of a body whose end nobody waited for. False
// means that the connection is of no more use.
func (c *conn) drain() bool {
	for !c.resp.done {
		if c.r < c.w {
			if ok := c.skip(); !ok {
				return false
			}
			continue
		}
		c.dropEmpty()
		if err := c.raw.Control(c.readNow); err != nil {
			return false
		}
		if c.again {
			return true
		}
		if c.got <= 0 {
			c.dropEmpty()
			return false
		}
		c.w += c.got
	}
	c.dropEmpty()
	return true
}

// skip drops the buffered bytes of a body that only a terminator can follow.
func (c *conn) skip() bool {
	r := &c.resp
	if !r.chunked || r.chunk > 0 {
		return false // more data than a finished stream should have
	}
	// What remains is the end of a chunk and the last chunk; servers send the
	// two in one piece or in two.
	if r.inChunk && bytes.HasPrefix(c.unread(), []byte("\r\n")) {
		c.r += 2
		r.inChunk = false
		return true
	}
	rest := "\r\n0\r\n\r\n"
	if !r.inChunk {
		rest = rest[2:]
	}
	b := c.unread()
	switch {
	case string(b) == rest:
		c.r = c.w
		r.done = true
		return true
	case len(b) < len(rest) && rest[:len(b)] == string(b):
		return c.more()
	}
	return false
}

// more waits for nothing: it reads what is there behind a partial terminator.
func (c *conn) more() bool {
	if err := c.raw.Control(c.readNow); err != nil {
		return false
	}
	if c.again || c.got <= 0 {
		return false
	}
	c.w += c.got
	return true
}

// appendHead appends the request line and the fields that every request has. An
// empty target is the endpoint's own.
func (e *endpoint) appendHead(dst []byte, method, target string) []byte {
	dst = append(dst, method...)
	dst = append(dst, ' ')
	if target == "" {
		target = e.path
	}
	dst = append(dst, target...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, e.host...)
	dst = append(dst, "\r\n"...)
	for _, f := range e.settings.Headers {
		dst = appendField(dst, f.Name, f.Value)
	}
	return dst
}

// appendCredentials appends what a client's request brought. A field that the
// configuration sets for the upstream wins: the operator's word, not the
// client's, and never both.
func (e *endpoint) appendCredentials(dst []byte, creds Credentials) []byte {
	for _, f := range creds {
		if !e.overrides(f.Name) {
			dst = appendField(dst, f.Name, f.Value)
		}
	}
	return dst
}

func (e *endpoint) overrides(name string) bool {
	for _, f := range e.settings.Headers {
		if strings.EqualFold(f.Name, name) {
			return true
		}
	}
	return false
}

// appendField appends a header field. A line break in a value ends the value:
// nothing that a client sends may begin a field of its own.
func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	for i := range len(value) {
		if value[i] == '\r' || value[i] == '\n' || value[i] == 0 {
			break
		}
		dst = append(dst, value[i])
	}
	return append(dst, "\r\n"...)
}

func appendLength(dst []byte, n int) []byte {
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, "\r\n\r\n"...)
}
