package bus

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"
)

// pair is a cluster of two.
func pair(t *testing.T) (a, b *Bus) {
	t.Helper()
	all := cluster(t, 2, nil)
	return all[0], all[1]
}

// opened asks b for a held stream and returns both ends.
func opened(t *testing.T, a, b *Bus) (*Stream, served) {
	t.Helper()
	streams, _ := hold(t, b, countKind)
	s, err := a.Ask(t.Context(), b.Replica(), countKind, []byte("first"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	h := within(t, streams, "stream")
	if string(h.first) != "first" || h.s.Peer() != a.Replica() {
		t.Fatalf("first message %q from %s", h.first, h.s.Peer())
	}
	await(t, "the handler's first sign of life", func() bool { return !s.untaken() })
	return s, h
}

func TestOrderBothWays(t *testing.T) {
	a, b := pair(t)
	s, h := opened(t, a, b)
	const n = 2000
	run := func(from, to *Stream) {
		sent := make(chan error, 1)
		go func() {
			for i := range n {
				msg := binary.BigEndian.AppendUint32(nil, uint32(i))
				if err := from.Send(t.Context(), append(msg, make([]byte, i)...)); err != nil {
					sent <- err
					return
				}
			}
			sent <- from.End(t.Context(), []byte{})
		}()
		for i := range n {
			m, err := recv(t, to)
			if err != nil || len(m) != 4+i || binary.BigEndian.Uint32(m) != uint32(i) {
				t.Fatalf("message %d: %d bytes, %v", i, len(m), err)
			}
		}
		if m, err := recv(t, to); err != nil || m == nil || len(m) != 0 {
			t.Fatalf("last message %v, %v; want an empty one", m, err)
		}
		for range 2 {
			if _, err := recv(t, to); err != io.EOF {
				t.Fatalf("after the last: %v, want io.EOF", err)
			}
		}
		if err := within(t, sent, "sender"); err != nil {
			t.Fatal(err)
		}
		if err := from.Send(t.Context(), nil); !errors.Is(err, ErrClosed) {
			t.Errorf("sending after the end: %v, want ErrClosed", err)
		}
	}
	run(s, h.s)
	run(h.s, s)
}

func TestEndWithoutMessage(t *testing.T) {
	a, b := pair(t)
	s, h := opened(t, a, b)
	if err := h.s.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if m, err := recv(t, s); err != io.EOF {
		t.Errorf("%q, %v; want io.EOF at once", m, err)
	}
}

func TestLargeMessagesBothWays(t *testing.T) {
	a, b := pair(t)
	large := make([]byte, 10<<20)
	random := rand.NewChaCha8([32]byte{1})
	random.Read(large)
	serveEcho(b)
	s, err := a.Ask(t.Context(), "r1", echoKind, large)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := recv(t, s)
	if err != nil || !bytes.Equal(got, large) {
		t.Fatalf("%d bytes, %v; want the same %d", len(got), err, len(large))
	}
}

// A receiver that does not read holds up its own sender, within the window,
// and nobody else.
func TestSlowReceiver(t *testing.T) {
	all := cluster(t, 2, func(_ int, s *Settings) { s.Window, s.Chunk = 64<<10, 16<<10 })
	a, b := all[0], all[1]
	s, h := opened(t, a, b)
	const n, size = 200, 8 << 10
	sent := make(chan int, n)
	failed := make(chan error, 1)
	go func() {
		defer close(sent)
		for i := range n {
			if err := h.s.Send(h.ctx, make([]byte, size)); err != nil {
				failed <- err
				return
			}
			sent <- i
		}
	}()
	await(t, "a full window", func() bool {
		h.s.mu.Lock()
		defer h.s.mu.Unlock()
		_, ok := h.s.fits(size, size, 64<<10)
		return !ok
	})
	// Longer than the silence that ends streams: both ends say they are there.
	serveEcho(b)
	for until := time.Now().Add(3 * brisk / 2); time.Now().Before(until); {
		if got := ask(t, a, "r1", "quick"); got != "quick" {
			t.Fatalf("answer %q", got)
		}
	}
	if held := len(sent); held > 64<<10/size {
		t.Errorf("%d messages of %d bytes were sent to one who does not read, the window is 64 KiB", held, size)
	}
	for i := range n {
		if m, err := recv(t, s); err != nil || len(m) != size {
			t.Fatalf("message %d: %d bytes, %v", i, len(m), err)
		}
	}
	for range sent {
	}
	select {
	case err := <-failed:
		t.Error(err)
	default:
	}
}

func TestRecvDeadline(t *testing.T) {
	a, b := pair(t)
	s, h := opened(t, a, b)
	if _, err := s.Recv(time.Now().Add(time.Millisecond)); err != ErrDeadline {
		t.Errorf("%v, want ErrDeadline", err)
	}
	if err := h.s.Send(h.ctx, []byte("later")); err != nil {
		t.Fatal(err)
	}
	if m, err := recv(t, s); string(m) != "later" {
		t.Errorf("%q, %v; want later", m, err)
	}
}

// The opener lets go on purpose: the handler can tell.
func TestCloseResets(t *testing.T) {
	a, b := pair(t)
	s, h := opened(t, a, b)
	s.Close()
	s.Close()
	start := time.Now()
	within(t, h.ctx.Done(), "end of the handler's context")
	if took := time.Since(start); took > brisk/2 {
		t.Errorf("took %s", took)
	}
	if err := causeOf(h); err != ErrReset {
		t.Errorf("cause %v, want ErrReset", err)
	}
	if _, err := recv(t, h.s); err != ErrReset {
		t.Errorf("handler receives %v, want ErrReset", err)
	}
	if err := h.s.Send(t.Context(), nil); err != ErrReset {
		t.Errorf("handler sends %v, want ErrReset", err)
	}
	if _, err := s.Recv(time.Time{}); err != ErrClosed {
		t.Errorf("opener receives %v, want ErrClosed", err)
	}
}

func TestCloseWakesRecv(t *testing.T) {
	a, b := pair(t)
	s, _ := opened(t, a, b)
	got := make(chan error, 1)
	go func() {
		_, err := s.Recv(time.Time{})
		got <- err
	}()
	s.Close()
	if err := within(t, got, "Recv"); err != ErrClosed {
		t.Errorf("%v, want ErrClosed", err)
	}
}

// A handler that returns without End has let go; what it sent still arrives.
func TestHandlerReturns(t *testing.T) {
	a, b := pair(t)
	b.Handle(echoKind, func(ctx context.Context, s *Stream, first []byte) { _ = s.Send(ctx, first) })
	s, err := a.Ask(t.Context(), "r1", echoKind, []byte("half"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if m, err := recv(t, s); string(m) != "half" {
		t.Errorf("%q, %v; want half", m, err)
	}
	if _, err := recv(t, s); err != ErrReset {
		t.Errorf("%v, want ErrReset", err)
	}
}

func TestRefusals(t *testing.T) {
	all := cluster(t, 2, func(_ int, s *Settings) { s.MaxStreams = 1 })
	a, b := all[0], all[1]
	refused := func(kind byte, text string) {
		t.Helper()
		s, err := a.Ask(t.Context(), "r1", kind, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := recv(t, s); !errors.Is(err, ErrRefused) || !bytes.Contains([]byte(err.Error()), []byte(text)) {
			t.Errorf("%v; want ErrRefused saying %q", err, text)
		}
	}
	await(t, "time for Handle to be over", func() bool { return b.now() >= b.timeout()/2 })
	refused('?', "kind 63")
	s, _ := opened(t, a, b)
	refused(countKind, "1 streams")
	s.Close()
	await(t, "room for a stream", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.serving == 0 })
	opened(t, a, b)
}

func TestTooLarge(t *testing.T) {
	all := cluster(t, 2, func(i int, s *Settings) { s.MaxMessage = (i + 1) << 20 })
	small, large := all[0], all[1]
	if _, err := small.Ask(t.Context(), "r1", echoKind, make([]byte, 1<<20+1)); err != ErrTooLarge {
		t.Errorf("asking: %v, want ErrTooLarge", err)
	}
	s, h := opened(t, small, large)
	if err := s.Send(t.Context(), make([]byte, 1<<20+1)); err != ErrTooLarge {
		t.Errorf("sending: %v, want ErrTooLarge", err)
	}
	// The other side allows it; this one does not take it.
	go func() { _ = h.s.Send(h.ctx, make([]byte, 2<<20)) }()
	if _, err := recv(t, s); err != ErrTooLarge {
		t.Errorf("receiving: %v, want ErrTooLarge", err)
	}
	within(t, h.ctx.Done(), "end at the sender")
}

// A message that is broken off ends the stream: half of one is never taken for
// a whole.
func TestSendBrokenOff(t *testing.T) {
	a, b := pair(t)
	s, h := opened(t, a, b)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- h.s.Send(ctx, make([]byte, 4<<20)) }()
	await(t, "a full window", func() bool {
		h.s.mu.Lock()
		defer h.s.mu.Unlock()
		_, ok := h.s.fits(128<<10, 128<<10, 1<<20)
		return h.s.outSeq > 0 && !ok
	})
	cancel()
	if err := within(t, failed, "Send"); err != context.Canceled {
		t.Errorf("%v, want context.Canceled", err)
	}
	if _, err := recv(t, s); !errors.Is(err, ErrLost) {
		t.Errorf("peer receives %v, want ErrLost", err)
	}
}

// A peer that is not there yet is asked again until it is.
func TestAskBeforeThePeerIsThere(t *testing.T) {
	_, url := natsServer(t, "")
	a := open(t, Settings{Replica: "a", URL: url, OwnerTimeout: 5 * time.Second})
	s, err := a.Ask(t.Context(), "b", echoKind, []byte("early"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	await(t, "no responders", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.pause > retryMin })
	serveEcho(open(t, Settings{Replica: "b", URL: url, OwnerTimeout: 5 * time.Second}))
	if m, err := recv(t, s); string(m) != "early" {
		t.Errorf("%q, %v; want early", m, err)
	}
}

func TestAskNobody(t *testing.T) {
	a, _ := pair(t)
	start := time.Now()
	s, err := a.Ask(t.Context(), "nobody", echoKind, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := recv(t, s); err != ErrNoReplica {
		t.Errorf("%v, want ErrNoReplica", err)
	}
	if took := time.Since(start); took < brisk {
		t.Errorf("given up after %s, want to ask for %s", took, brisk)
	}
	if _, err := a.Ask(t.Context(), "nobody", echoKind, make([]byte, 1<<20)); !errors.Is(err, ErrNoReplica) {
		t.Errorf("with a large first message: %v, want ErrNoReplica", err)
	}
}
