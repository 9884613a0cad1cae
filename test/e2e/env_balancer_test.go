package e2e

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// balancer is a plain TCP load balancer without any memory: each connection
// goes to the next replica in turn. One that does not take it is passed over,
// as balancers do.
type balancer struct {
	listener net.Listener
	backends []string
	next     atomic.Uint64
	work     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

// balance starts a balancer that ends with the test.
func balance(t testing.TB, backends []string) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: listener, backends: backends, conns: map[net.Conn]struct{}{}}
	b.work.Go(b.accept)
	t.Cleanup(b.close)
	return b
}

func (b *balancer) close() {
	_ = b.listener.Close() // nobody waits for it
	b.mu.Lock()
	b.closed = true
	for c := range b.conns {
		_ = c.Close() // it ends its goroutines
	}
	b.mu.Unlock()
	b.work.Wait()
}

func (b *balancer) accept() {
	for {
		client, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.work.Go(func() { b.serve(client) })
	}
}

// own keeps a connection, to be closed with the balancer at the latest.
func (b *balancer) own(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.conns[c] = struct{}{}
	}
	return !b.closed
}

func (b *balancer) disown(c net.Conn) {
	_ = c.Close() // twice is fine
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c)
}

func (b *balancer) serve(client net.Conn) {
	defer b.disown(client)
	if !b.own(client) {
		return
	}
	backend := b.dial()
	if backend == nil {
		return
	}
	defer b.disown(backend)
	if !b.own(backend) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { pass(backend, client) })
	pass(client, backend)
	both.Wait()
}

func (b *balancer) dial() net.Conn {
	for range b.backends {
		at := b.backends[(b.next.Add(1)-1)%uint64(len(b.backends))]
		if backend, err := net.Dial("tcp", at); err == nil {
			return backend
		}
	}
	return nil
}

// pass carries bytes from one side to the other, and then says that no more
// will come: the other way may go on. A connection that breaks takes the other
// one with it.
func pass(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		_, _ = to.Close(), from.Close()
		return
	}
	_ = to.(*net.TCPConn).CloseWrite() // the other side may be gone already
}
