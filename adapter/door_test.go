package adapter

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// door is an address in front of a server. Shut, it refuses connections.
type door struct {
	t       *testing.T
	address string
	work    sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
	to       string
}

func newDoor(t *testing.T) *door {
	d := &door{t: t, address: "127.0.0.1:0"}
	d.open()
	d.address = d.listener.Addr().String()
	t.Cleanup(func() { d.shut(); d.work.Wait() })
	return d
}

// leadTo says where connections are passed on to.
func (d *door) leadTo(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to = address
}

// open undoes shut.
func (d *door) open() {
	d.t.Helper()
	listener, err := net.Listen("tcp", d.address)
	if err != nil {
		d.t.Fatal(err)
	}
	d.mu.Lock()
	d.listener = listener
	d.mu.Unlock()
	d.work.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			d.work.Go(func() { d.pass(in) })
		}
	})
}

// pass passes a connection on.
func (d *door) pass(in net.Conn) {
	d.mu.Lock()
	to := d.to
	d.mu.Unlock()
	out, err := net.Dial("tcp", to)
	if err != nil {
		_ = in.Close()
		return
	}
	d.mu.Lock()
	d.conns = append(d.conns, in, out)
	d.mu.Unlock()
	d.work.Go(func() { _, _ = io.Copy(out, in); _ = out.Close() })
	_, _ = io.Copy(in, out) // either side may end it
	_ = in.Close()
}

// shut ends all connections.
func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.listener.Close()
	for _, c := range d.conns {
		_ = c.Close()
	}
	d.conns = nil
}

// A call that lasts, and may run again, outlives a moment in which its server
// cannot be reached, although it has had no round but the first.
func TestLastingCallWhoseServerIsAway(t *testing.T) {
	d := newDoor(t)
	r := newRig(t, func(s *Settings, up *legacy.Settings, raw *rawserver.Settings) {
		s.Replay, raw.NoEventIDs, up.URL = ReplayAlways, true, "http://"+d.address+"/mcp"
	})
	d.leadTo(strings.TrimSuffix(strings.TrimPrefix(r.raw.URL, "http://"), "/mcp"))
	r.raw.Tool("t", func(c *rawserver.Call) {
		if r.raw.ToolCalls("t") > 1 {
			c.Text("done")
			return
		}
		<-c.Context().Done()
	})
	begun := r.play(toolCall("t").lasting()).handle(t)
	c := r.calls.get(r.callOf(begun))
	d.shut()
	eventually(t, "an attempt to go on", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.strandings > 1 || c.phase == done
	})
	d.open()
	if got := r.until(begun, mcp.TaskCompleted).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
}
