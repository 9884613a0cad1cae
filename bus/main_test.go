package bus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what must happen but has no time of its own.
const patience = 10 * time.Second

// brisk is an OwnerTimeout that keeps tests short on a busy machine.
const brisk = 600 * time.Millisecond

const echoKind, countKind = 'e', 'c'

func open(t testing.TB, s Settings) *Bus {
	t.Helper()
	if s.OwnerTimeout == 0 {
		s.OwnerTimeout = brisk
	}
	b, err := Open(s, zerolog.Nop())
	if err != nil {
		t.Fatalf("open %s: %v", s.Replica, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		b.Close(ctx)
	})
	return b
}

// Free ports are below those that systems give to outgoing connections, and so
// stay free until, or while, nobody listens there.
const firstPort, lastPort = 10000, 20000

var nextPort atomic.Int64

func init() { nextPort.Store(rand.Int64N(lastPort - firstPort)) }

// freePort is one that nobody listens on at this moment.
func freePort(t testing.TB) string {
	t.Helper()
	for range lastPort - firstPort {
		addr := net.JoinHostPort("127.0.0.1", strconv.FormatInt(firstPort+nextPort.Add(1)%(lastPort-firstPort), 10))
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return addr
		}
		_ = c.Close() // it was for nothing else
	}
	t.Fatal("no free port")
	return ""
}

// cluster opens n replicas r0, r1, … that have heard each other.
func cluster(t testing.TB, n int, change func(i int, s *Settings)) []*Bus {
	t.Helper()
	var all []*Bus
	var peers []string
	for range n {
		peers = append(peers, freePort(t))
	}
	for i := range n {
		s := Settings{
			Replica: fmt.Sprintf("r%d", i), Version: "test",
			Cluster: Cluster{Listen: peers[i], Peers: peers, Secret: "s3cret"},
		}
		if change != nil {
			change(i, &s)
		}
		all = append(all, open(t, s))
	}
	for _, b := range all {
		awaitPeers(t, b, n-1)
	}
	return all
}

// awaitPeers waits until b hears exactly n live peers.
func awaitPeers(t testing.TB, b *Bus, n int) {
	t.Helper()
	changed := make(chan struct{}, 1)
	defer b.Watch(func() { signal(changed) })()
	late := time.After(patience)
	for len(b.Peers()) != n {
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%s hears %d peers, want %d", b.Replica(), len(b.Peers()), n)
		}
	}
}

// await polls for what has no event to wait on: the passing of time.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// natsServer runs an external server on addr, or on a free port.
func natsServer(t testing.TB, addr string) (s *server.Server, url string) {
	t.Helper()
	return natsServerWith(t, addr, &server.Options{})
}

func natsServerWith(t testing.TB, addr string, o *server.Options) (s *server.Server, url string) {
	t.Helper()
	if addr == "" {
		addr = freePort(t)
	}
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", a.Port, true, true
	s, err = server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		t.Fatal("NATS server does not start")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s, "nats://" + addr
}

// serveEcho ends each stream with its first message.
func serveEcho(b *Bus) {
	b.Handle(echoKind, func(ctx context.Context, s *Stream, first []byte) { _ = s.End(ctx, first) })
}

// ask sends msg and returns the only answer.
func ask(t testing.TB, b *Bus, to, msg string) string {
	t.Helper()
	s, err := b.Ask(t.Context(), to, echoKind, []byte(msg))
	if err != nil {
		t.Fatalf("ask %s: %v", to, err)
	}
	defer s.Close()
	got, err := s.Recv(time.Now().Add(patience))
	if err != nil {
		t.Fatalf("answer of %s: %v", to, err)
	}
	return string(got)
}

// recv is Recv with the tests' patience.
func recv(t testing.TB, s *Stream) ([]byte, error) {
	t.Helper()
	msg, err := s.Recv(time.Now().Add(patience))
	if err == ErrDeadline {
		t.Fatal("nothing was received in time")
	}
	return msg, err
}

// served is what a handler was given.
type served struct {
	ctx   context.Context
	s     *Stream
	first []byte
}

// hold sets a handler that gives its streams to the test and keeps them open
// until the test releases it or the stream ends.
func hold(t testing.TB, b *Bus, kind byte) (streams <-chan served, release func()) {
	c, done := make(chan served, 16), make(chan struct{})
	release = sync.OnceFunc(func() { close(done) })
	t.Cleanup(release)
	b.Handle(kind, func(ctx context.Context, s *Stream, first []byte) {
		c <- served{ctx, s, first}
		select {
		case <-done:
		case <-ctx.Done():
		}
	})
	return c, release
}

// within returns what comes from c.
func within[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: not within %s", what, patience)
		panic("unreachable")
	}
}

func causeOf(h served) error { return context.Cause(h.ctx) }

// endWhenDone answers when its context has ended, with its first message.
func endWhenDone(ctx context.Context, s *Stream, first []byte) {
	<-ctx.Done()
	_ = s.End(context.WithoutCancel(ctx), first)
}

// serveLarge ends each stream with msg.
func serveLarge(b *Bus, msg []byte) {
	b.Handle(echoKind, func(ctx context.Context, s *Stream, _ []byte) { _ = s.End(ctx, msg) })
}
