package bus

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// What NATS drops because this replica does not keep up is counted, and the
// stream that it belonged to is lost, not short of a message.
func TestSlowConsumer(t *testing.T) {
	a, b := pair(t)
	s, h := opened(t, a, b)
	blocked, release := make(chan struct{}), make(chan struct{})
	b.HandleTell('t', func(string, []byte) { close(blocked); <-release })
	for _, i := range b.inboxes {
		if strings.HasPrefix(i.Subject, b.inbox) {
			if err := i.SetPendingLimits(2, -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := a.Tell("r1", 't', nil); err != nil {
		t.Fatal(err)
	}
	within(t, blocked, "dispatch to block")
	for range 10 {
		if err := s.Send(t.Context(), []byte("one of ten")); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "drops", func() bool { return b.Status().Dropped > 0 })
	close(release)
	n := 0
	var err error
	for err == nil {
		if _, err = recv(t, h.s); err == nil {
			n++
		}
	}
	if !errors.Is(err, ErrLost) || n == 10 {
		t.Errorf("after %d of 10 messages: %v, want ErrLost", n, err)
	}
	if _, err := recv(t, s); !errors.Is(err, ErrLost) {
		t.Errorf("sender receives %v, want ErrLost", err)
	}
}

// A replica that was frozen does not trust what it knew before, even when it
// is alone, and does not count its own absence as the silence of others.
func TestFrozen(t *testing.T) {
	var freeze atomic.Bool
	frozen, thaw := make(chan struct{}), make(chan struct{})
	b := open(t, Settings{
		Replica: "r", Cluster: Cluster{Listen: freePort(t), Secret: "x"},
		About: func() []byte {
			if freeze.CompareAndSwap(true, false) {
				close(frozen)
				<-thaw
			}
			return nil
		},
	})
	if !b.Confirmed() {
		t.Fatal("a replica that is alone has no lease")
	}
	freeze.Store(true)
	within(t, frozen, "freeze")
	await(t, "end of the lease", func() bool { return !b.Confirmed() })
	start := time.Now()
	close(thaw)
	await(t, "lease again", b.Confirmed)
	if took := time.Since(start); took < brisk/6 {
		t.Errorf("confirmed itself %s after the thaw, want to listen first", took)
	}
	if ago, _ := b.HeardAgo("other"); ago > brisk {
		t.Errorf("counts %s of silence, most of it frozen", ago)
	}
}
