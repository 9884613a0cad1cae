package legacy

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// Of many streams that are let go in one second, the connections beyond some are
// reset, so that their ports can be used again.
func TestManyPartings(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// ended says how a connection ends at its other side.
	ended := func(p *partings, now time.Time, secure bool) error {
		t.Helper()
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		peer, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer peer.Close()
		if secure {
			nc = tls.Client(nc, &tls.Config{ServerName: "server", MinVersion: tls.VersionTLS12})
		}
		c := newConn(nc)
		p.part(c, now)
		c.close()
		c.free()
		if err := peer.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, err = peer.Read(make([]byte, 1))
		return err
	}
	var p partings
	now := time.Unix(1000, 0)
	for i := range politely {
		if err := ended(&p, now, false); !errors.Is(err, io.EOF) {
			t.Fatalf("connection %d of a second ended with %v, want its end", i+1, err)
		}
	}
	for _, secure := range []bool{false, true} {
		if err := ended(&p, now.Add(999*time.Millisecond), secure); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("one more, TLS %v, ended with %v, want a reset", secure, err)
		}
	}
	if err := ended(&p, now.Add(time.Second), false); !errors.Is(err, io.EOF) {
		t.Errorf("one of the next second ended with %v, want its end", err)
	}
}
