package legacy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

func letterText(n int) []byte {
	return fmt.Appendf(getText(0), `{"jsonrpc":"2.0","method":"notifications/%d"}`, n)
}

func TestOutboxPostsInOrderAndIsBounded(t *testing.T) {
	p := newPool(t, nil)
	s := p.acquire("a", false)
	defer s.Return(false)
	arrived, gate := hold(p.raw, "notifications/0", nil)
	s.enqueue(nil, letterText(0))
	<-arrived
	for n := range outboxSize + 10 {
		s.enqueue(nil, letterText(n+1))
	}
	if n := len(s.outbox.queue); n != outboxSize {
		t.Errorf("%d messages wait, want %d", n, outboxSize)
	}
	close(gate)
	last := fmt.Sprintf("notifications/%d", outboxSize)
	p.raw.WaitCount(last, 1)
	var got []string
	for _, r := range p.raw.Records() {
		if m := r.Method(); len(m) > len("notifications/") && m[14] >= '0' && m[14] <= '9' {
			got = append(got, m)
		}
	}
	if len(got) != outboxSize+1 {
		t.Errorf("%d messages were posted, want %d", len(got), outboxSize+1)
	}
	for i, m := range got {
		if want := fmt.Sprintf("notifications/%d", i); m != want {
			t.Fatalf("message %d is %s, want %s", i, m, want)
		}
	}
}

func TestOutboxIsBoundedInBytes(t *testing.T) {
	p := newPool(t, nil)
	s := p.acquire("a", false)
	defer s.Return(false)
	arrived, gate := hold(p.raw, "notifications/0", nil)
	s.enqueue(nil, letterText(0))
	<-arrived
	large := func(n int) []byte {
		return fmt.Appendf(getText(0), `{"jsonrpc":"2.0","method":"notifications/%d","params":{"x":%q}}`, n, strings.Repeat("x", outboxBytes/2))
	}
	for n := range 3 {
		s.enqueue(nil, large(n+1))
	}
	if n := len(s.outbox.queue); n != 1 {
		t.Errorf("%d large messages wait, want 1", n)
	}
	close(gate)
	p.raw.WaitCount("notifications/1", 1)
	s.enqueue(nil, large(4)) // there is room again
	p.raw.WaitCount("notifications/4", 1)
}

// What the server does not take does not keep the rest from it.
func TestOutboxGoesOnAfterAFailure(t *testing.T) {
	p := newPool(t, nil)
	s := p.acquire("a", false)
	defer s.Return(false)
	p.raw.Once(rawserver.ForMethod("notifications/0"), func(x *rawserver.Exchange) { x.Reply(500, "no") })
	p.raw.Once(rawserver.ForMethod("notifications/1"), func(x *rawserver.Exchange) { x.Drop() })
	for n := range 3 {
		s.enqueue(nil, letterText(n))
	}
	p.raw.WaitCount("notifications/2", 1)
}

func TestClosedOutboxTakesNothing(t *testing.T) {
	p := newPool(t, nil)
	s := p.acquire("a", false)
	s.enqueue(nil, letterText(1))
	s.outbox.close(t.Context())
	s.enqueue(nil, letterText(2))
	s.outbox.close(t.Context())
	if a, b := p.raw.Count("notifications/1"), p.raw.Count("notifications/2"); a != 1 || b != 0 {
		t.Errorf("posted %d before and %d after the end, want 1 and 0", a, b)
	}
	s.Return(false)
}
