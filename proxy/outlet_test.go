//go:build unix

package proxy

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter"
)

// An answer that no socket takes at once arrives whole, and the connection
// serves on.
func TestLargeAnswer(t *testing.T) {
	text := `{"text":"` + strings.Repeat("0123456789", 3<<20) + `"}`
	s := start(t, settings(), answering(adapter.Outcome{Result: []byte(text)}))
	c := s.dial(t)
	if err := c.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c.send(post(callBody))
		resp, body := c.answer()
		if resp.StatusCode != 200 || !strings.Contains(body, text[1:len(text)-1]) {
			t.Fatalf("got %d and %d bytes, want the %d bytes of the result", resp.StatusCode, len(body), len(text))
		}
	}
}

// outletTo returns an outlet with its socket, and the client's end.
func outletTo(t *testing.T) (*outlet, net.Conn, net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	served, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		served.Close()
	})
	o := &outlet{}
	o.start(served)
	if !o.usable() {
		t.Fatal("not usable")
	}
	return o, served, client
}

func TestOutletKeepsTheWriteDeadline(t *testing.T) {
	o, served, _ := outletTo(t)
	answer := make([]byte, 64<<20) // more than the sockets hold
	if err := served.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	n, err := o.write(answer)
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() || n == 0 || n == len(answer) {
		t.Errorf("got %d of %d bytes, %v, want a part and a timeout", n, len(answer), err)
	}
}

func TestOutletTellsAClientThatIsGone(t *testing.T) {
	o, served, _ := outletTo(t)
	if err := served.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := o.write([]byte("x")); n != 0 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %d, %v, want EPIPE", n, err)
	}
	served.Close()
	if n, err := o.write([]byte("x")); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("after close: got %d, %v, want net.ErrClosed", n, err)
	}
}
