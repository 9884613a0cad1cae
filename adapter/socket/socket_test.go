//go:build unix

package socket_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/socket"
)

// pair returns two ends of a connection, the first for package socket.
func pair(t *testing.T) (syscall.RawConn, *net.TCPConn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		near.Close()
		far.Close()
	})
	raw, err := near.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := near.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return raw, near.(*net.TCPConn), far.(*net.TCPConn)
}

// read waits until call has something to say other than EAGAIN.
func read(t *testing.T, raw syscall.RawConn, call func(uintptr, []byte) (int, error), p []byte) (n int, err error) {
	t.Helper()
	if e := raw.Read(func(fd uintptr) bool {
		n, err = call(fd, p)
		return err != syscall.EAGAIN
	}); e != nil {
		t.Fatal(e)
	}
	return n, err
}

func TestRead(t *testing.T) {
	raw, _, far := pair(t)
	room := make([]byte, 8)
	if err := raw.Control(func(fd uintptr) {
		for _, call := range []func(uintptr, []byte) (int, error){socket.Read, socket.Peek} {
			if n, err := call(fd, room); n != 0 || err != syscall.EAGAIN {
				t.Errorf("nothing to read: got %d, %v, want 0, EAGAIN", n, err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := far.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if n, err := read(t, raw, socket.Peek, room[:1]); n != 1 || room[0] != 'h' || err != nil {
		t.Errorf("peek: got %d, %q, %v", n, room[:1], err)
	}
	if n, err := read(t, raw, socket.Read, room); string(room[:n]) != "hello" || err != nil {
		t.Errorf("read: got %q, %v", room[:n], err)
	}
	if err := far.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for _, call := range []func(uintptr, []byte) (int, error){socket.Peek, socket.Read} {
		if n, err := read(t, raw, call, room); n != 0 || err != nil {
			t.Errorf("at the end: got %d, %v, want 0", n, err)
		}
	}
}

func TestWrite(t *testing.T) {
	raw, near, far := pair(t)
	text := bytes.Repeat([]byte("0123456789"), 1<<20)
	arrived := make(chan []byte, 1)
	full := false
	begin := make(chan struct{})
	go func() {
		<-begin
		all, _ := io.ReadAll(far)
		arrived <- all
	}()
	rest := text
	if err := raw.Write(func(fd uintptr) bool {
		for len(rest) > 0 {
			n, err := socket.Write(fd, rest)
			if err == syscall.EAGAIN {
				if !full {
					full = true
					close(begin)
				}
				return false
			}
			if err != nil {
				t.Error(err)
				return true
			}
			rest = rest[n:]
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if !full {
		t.Fatal("the socket took all at once: nothing was tested")
	}
	near.Close()
	if !bytes.Equal(<-arrived, text) {
		t.Error("what arrived is not what was written")
	}
}

// A peer that is gone is an error, not a signal that ends the process.
func TestWriteToNobody(t *testing.T) {
	raw, near, _ := pair(t)
	if err := near.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	var n int
	var err error
	if e := raw.Control(func(fd uintptr) { n, err = socket.Write(fd, []byte("x")) }); e != nil {
		t.Fatal(e)
	}
	if n != 0 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %d, %v, want 0, EPIPE", n, err)
	}
}

func TestAllocations(t *testing.T) {
	raw, _, far := pair(t)
	var room [64]byte
	var failed error
	once := func(fd uintptr) {
		if _, err := socket.Write(fd, room[:]); err != nil {
			failed = err
		}
		if n, err := socket.Peek(fd, room[:]); err != syscall.EAGAIN {
			failed = fmt.Errorf("peek: %d, %v", n, err)
		}
		if n, err := socket.Read(fd, room[:]); err != syscall.EAGAIN {
			failed = fmt.Errorf("read: %d, %v", n, err)
		}
	}
	got := testing.AllocsPerRun(100, func() {
		if err := raw.Control(once); err != nil {
			failed = err
		}
	})
	if failed != nil {
		t.Fatal(failed)
	}
	if got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
	if _, err := io.ReadFull(far, make([]byte, 101*len(room))); err != nil {
		t.Error(err)
	}
}
