package legacy

import (
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// partings is how connections end that this side closes in mid-response. The system
// keeps such a connection for a minute (TIME_WAIT, RFC 9293, section 3.6), and its
// port with it, of which there are some 28,000 to one address. Streams that are let
// go may be thousands in a second: those beyond what ports last for are reset, which
// leaves nothing behind. The others are not, because a reset that is lost on its way
// is not sent again, and the server would believe its stream open.
type partings struct {
	mu     sync.Mutex // guards what follows
	second int64      // in Unix time
	n      int        // connections in it
}

// politely is how many connections are closed in one second without a reset: 12,000
// in a minute. Beyond some 14,000 connecting to one address becomes slow.
const politely = 200

// part prepares a connection that is about to be closed.
func (p *partings) part(c *conn, now time.Time) {
	p.mu.Lock()
	if p.second != now.Unix() {
		p.second, p.n = now.Unix(), 0
	}
	p.n++
	reset := p.n > politely
	p.mu.Unlock()
	if reset {
		c.resetOnClose()
	}
}

// resetOnClose has close reset the connection. What has not been sent is lost.
func (c *conn) resetOnClose() {
	nc := c.nc
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	if t, ok := nc.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // else it is closed like others
	}
}
