package adapter

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// cutter is a relay in front of a server that can reset its connections.
type cutter struct {
	net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex
	to    string // the server's address
	conns []*net.TCPConn
}

func newCutter(t *testing.T) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l}
	c.wg.Go(c.serve)
	t.Cleanup(func() {
		_ = l.Close()
		c.cut()
		c.wg.Wait()
	})
	return c
}

func (c *cutter) serve() {
	for {
		near, err := c.Accept()
		if err != nil {
			return
		}
		c.mu.Lock()
		far, err := net.Dial("tcp", c.to)
		if err != nil {
			c.mu.Unlock()
			_ = near.Close()
			continue
		}
		c.conns = append(c.conns, near.(*net.TCPConn))
		c.mu.Unlock()
		relay := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			_ = to.Close()
		}
		c.wg.Go(func() { relay(near, far) })
		c.wg.Go(func() { relay(far, near) })
	}
}

// cut resets all connections.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
	c.conns = nil
}

// The connection that a request was about to go out on is reset: the request
// has not run, and goes out on another, once.
func TestRequestThatWasNotSentIsSentElsewhere(t *testing.T) {
	relay := newCutter(t)
	r := newRig(t, func(_ *Settings, upstream *legacy.Settings, shape *rawserver.Settings) {
		upstream.URL = "http://" + relay.Addr().String() + "/mcp"
		shape.JSON = true
	})
	relay.mu.Lock()
	relay.to = strings.TrimSuffix(strings.TrimPrefix(r.raw.URL, "http://"), "/mcp")
	relay.mu.Unlock()
	r.raw.Tool("echo", func(c *rawserver.Call) { c.Text("done") })
	if _, _, err := r.mustBegin(toolCall("echo")).finish(); err != nil { // opens the session, learns the tools
		t.Fatal(err)
	}
	v := r.mustBegin(toolCall("echo")) // its connection is chosen, and Next sends
	if n := r.raw.ToolCalls("echo"); n != 1 {
		t.Fatalf("the server has seen %d calls, want 1: nothing is left to send", n)
	}
	relay.cut()
	o, _, err := v.finish()
	if err != nil || o.text(t) != "done" {
		t.Fatal(o, err)
	}
	if n := r.raw.ToolCalls("echo"); n != 2 {
		t.Errorf("the server has seen %d calls, want 2", n)
	}
}
