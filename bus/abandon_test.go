package bus

import (
	"context"
	"errors"
	"testing"
)

// A side that abandons a stream has not let go on purpose, so far as the other
// can tell.
func TestAbandon(t *testing.T) {
	a, b := pair(t)
	s, h := opened(t, a, b)
	await(t, "the first message to be taken", s.Taken)
	s.Abandon()
	s.Close()
	within(t, h.ctx.Done(), "end of the handler's context")
	if err := causeOf(h); !errors.Is(err, ErrLost) || errors.Is(err, ErrReset) {
		t.Errorf("cause %v, want ErrLost", err)
	}
	if _, err := recv(t, s); err != ErrClosed {
		t.Errorf("opener receives %v, want ErrClosed", err)
	}
	b.Handle(echoKind, func(_ context.Context, s *Stream, _ []byte) { s.Abandon() })
	s, err := a.Ask(t.Context(), "r1", echoKind, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := recv(t, s); !errors.Is(err, ErrLost) {
		t.Errorf("opener receives %v, want ErrLost", err)
	}
}

// A handler that panics loses its stream, and nothing else.
func TestHandlerPanics(t *testing.T) {
	a, b := pair(t)
	b.Handle('p', func(context.Context, *Stream, []byte) { panic("on purpose") })
	s, err := a.Ask(t.Context(), "r1", 'p', nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := recv(t, s); !errors.Is(err, ErrLost) {
		t.Errorf("%v, want ErrLost", err)
	}
	serveEcho(b)
	if got := ask(t, a, "r1", "still there"); got != "still there" {
		t.Errorf("echo %q", got)
	}
}

// An answer that is too large is known at once where it is waited for.
func TestAnswerTooLarge(t *testing.T) {
	all := cluster(t, 2, func(_ int, s *Settings) { s.MaxMessage = 1 << 20 })
	serveLarge(all[1], make([]byte, 1<<20+1))
	s, err := all[0].Ask(t.Context(), "r1", echoKind, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := recv(t, s); err != ErrTooLarge {
		t.Errorf("%v, want ErrTooLarge", err)
	}
}

// A peer whose heartbeats are of another version lives, although nothing can be
// asked of it: nobody may take it for dead.
func TestHeartbeatOfAnotherVersion(t *testing.T) {
	b, p := withFake(t, nil)
	p.to = b.alive
	f := frame{typ: typeBeat, from: []byte("fake"), payload: []byte("unheard of")}
	send := func() {
		raw := f.encode()
		raw[0] = 2
		p.raw(raw)
	}
	known := func() (heard, required, left bool) {
		b.peers.mu.Lock()
		defer b.peers.mu.Unlock()
		r := b.peers.m["fake"]
		return r != nil && r.heard != 0, r != nil && r.required, r != nil && r.left
	}
	send()
	await(t, "a sign of life", func() bool { heard, _, _ := known(); return heard })
	if _, required, _ := known(); required {
		t.Error("its word is required through external servers")
	}
	if n := len(b.Peers()); n != 0 {
		t.Errorf("%d peers to be asked, want none", n)
	}
	f.flags = flagBye
	send()
	await(t, "its goodbye", func() bool { _, left := b.HeardAgo("fake"); return left })
	inCluster := &Bus{mode: Clustered, peers: newPeers(Clustered)}
	inCluster.hearForeign("other", 0, 1)
	if !inCluster.peers.m["other"].required {
		t.Error("in a cluster it is not there to be cut off from")
	}
}
