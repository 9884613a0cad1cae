package legacy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

const answer202 = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"

// request returns a request as sendByRead takes it.
func request(text string) *[]byte {
	b := append((*texts.Get().(*[]byte))[:0], text...)
	return &b
}

func TestReadSendsTheRequest(t *testing.T) {
	for name, size := range map[string]int{"small": 100, "more than fits into the sockets": 16 << 20} {
		t.Run(name, func(t *testing.T) {
			c, server := pair(t)
			text := bytes.Repeat([]byte("x"), size)
			arrived := make(chan bool, 1)
			go func() {
				got := make([]byte, size)
				_, err := io.ReadFull(server, got)
				arrived <- err == nil && bytes.Equal(got, text)
				_, _ = server.Write([]byte(answer202))
			}()
			c.sendByRead(request(string(text)), 10*time.Second)
			c.setDeadline(time.Now().Add(10 * time.Second))
			if err := c.readHead(); err != nil {
				t.Fatal(err)
			}
			if !<-arrived {
				t.Error("the request did not arrive as it was")
			}
			if c.unsent != nil {
				t.Error("the request is held although it was sent")
			}
		})
	}
}

// A deadline that passes before the read can begin leaves the request to the
// next read, which sends it once.
func TestReadSendsTheRequestAfterADeadline(t *testing.T) {
	c, server := pair(t)
	c.sendByRead(request("request"), time.Second)
	c.setDeadline(time.Unix(1, 0))
	if err := c.readHead(); !errors.Is(err, ErrDeadline) {
		t.Fatalf("got %v, want ErrDeadline", err)
	}
	c.setDeadline(time.Now().Add(time.Millisecond))
	if err := c.readHead(); !errors.Is(err, ErrDeadline) {
		t.Fatalf("got %v, want ErrDeadline", err)
	}
	write(t, server, answer202)
	c.setDeadline(time.Now().Add(10 * time.Second))
	if err := c.readHead(); err != nil {
		t.Fatal(err)
	}
	c.close()
	if got, err := io.ReadAll(server); string(got) != "request" {
		t.Errorf("%q arrived, %v", got, err)
	}
}

func TestReadTellsThatNothingWasSent(t *testing.T) {
	c, _ := pair(t)
	if err := c.nc.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.sendByRead(request("request"), time.Second)
	if err := c.readHead(); !errors.Is(err, ErrUnsent) || !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v, want ErrUnsent, an ErrUnreachable", err)
	}
}

// A write that ends after some bytes: the server may have got the request.
func TestReadTellsThatSomeWasSent(t *testing.T) {
	c, server := pair(t)
	go func() {
		_, _ = io.ReadFull(server, make([]byte, 1<<20))
		_ = server.SetLinger(0)
		_ = server.Close()
	}()
	c.sendByRead(request(string(make([]byte, 64<<20))), 10*time.Second)
	if err := c.readHead(); !errors.Is(err, ErrBroken) || errors.Is(err, ErrUnsent) {
		t.Errorf("got %v, want ErrBroken", err)
	}
}

// failing keeps the error that an exchange ends with.
type failing struct{ err error }

func (f *failing) Receive(*jsonrpc.Message, bool) {}
func (f *failing) Fail(err error)                 { f.err = err }

// An exchange on a connection that turns out to be closed still has its
// request, to be sent elsewhere.
func TestUnsentExchangeKeepsItsRequest(t *testing.T) {
	p := newPool(t, nil)
	s := p.acquire("a", false)
	p.endpoint.mu.Lock()
	for _, c := range p.endpoint.idle {
		_ = c.nc.(*net.TCPConn).CloseWrite()
		c.idleAt, c.reused = time.Now().Add(time.Hour), true // so that it is not looked at
	}
	idle := len(p.endpoint.idle)
	p.endpoint.mu.Unlock()
	if idle == 0 {
		t.Fatal("no idle connection")
	}
	sink := &failing{}
	x := s.Prepare(p.NextID(), sink, nil, false, false, mcp.LevelNone)
	x.SetMessage(append(Text(), "request"...))
	if err := x.Send(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if err := x.Step(time.Now().Add(10 * time.Second)); err != nil || !errors.Is(sink.err, ErrUnsent) {
		t.Errorf("step: %v; the sink heard %v, want ErrUnsent", err, sink.err)
	}
	if got := x.TakeMessage(); string(got) != "request" {
		t.Errorf("the request is %q", got)
	}
	x.Finish()
}

// A posting whose first wait was too short to send anything says so.
func TestPostingThatWasNotSent(t *testing.T) {
	p := newPool(t, nil)
	s := p.acquire("a", false)
	defer s.Return(false)
	posting := s.TryPost(nil, letterText(1))
	if posting == nil {
		t.Fatal("no idle connection")
	}
	if err := posting.Wait(time.Unix(1, 0)); !errors.Is(err, ErrDeadline) {
		t.Fatalf("got %v, want ErrDeadline", err)
	}
	_ = posting.conn.nc.(*net.TCPConn).CloseWrite()
	if err := posting.Wait(time.Now().Add(10 * time.Second)); !errors.Is(err, ErrUnsent) {
		t.Errorf("got %v, want ErrUnsent", err)
	}
}
