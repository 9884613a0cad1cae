package legacy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// crowded is how many turns there are.
func (p *pool) crowded() int {
	p.crowd.mu.Lock()
	defer p.crowd.mu.Unlock()
	return len(p.crowd.turns)
}

// queues starts a call that has to wait, and returns once it does.
func (p *pool) queues(ctx context.Context, name string, eligible bool) <-chan lent {
	p.t.Helper()
	e, before := p.entryOf(name), p.crowded()
	e.mu.Lock()
	waited := len(e.waiters)
	e.mu.Unlock()
	got := make(chan lent, 1)
	go func() {
		s, err := p.Acquire(ctx, p.key(name), eligible, nil)
		got <- lent{s, err}
	}()
	eventually(p.t, "the call to queue", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return p.crowded() > before || len(e.waiters) > waited
	})
	return got
}

func (l lent) of(t *testing.T, name string) *Session {
	t.Helper()
	if l.err != nil {
		t.Fatalf("%s was told %v", name, l.err)
	}
	if got := string(l.session.entry.key.Extra); got != name {
		t.Fatalf("%s got a session of %s", name, got)
	}
	return l.session
}

// Callers that have no session wait for room for one in the order in which they
// came, and get that of who has none to do with it any more.
func TestCrowdIsFirstComeFirstServed(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.MaxSessions = 1 })
	session := p.acquire("a", false)
	names := []string{"b", "c", "d", "a"}
	var turns []<-chan lent
	for _, name := range names[:3] {
		turns = append(turns, p.queues(t.Context(), name, name == "c"))
	}
	session.Return(false)
	turns = append(turns, p.queues(t.Context(), "a", false))
	for i, turn := range turns {
		for _, later := range turns[i+1:] {
			if len(later) > 0 {
				t.Fatal("a call that came later was served first")
			}
		}
		if n := p.Sessions(); n != 1 {
			t.Errorf("%d sessions, want one at a time", n)
		}
		s := (<-turn).of(t, names[i])
		s.Return(names[i] == "c")
	}
	if n := p.raw.Count("initialize"); n != 5 {
		t.Errorf("%d sessions were opened, want 5", n)
	}
	p.raw.WaitHTTP(http.MethodDelete, 4)
}

// Who waits for a session of its key comes after who has waited longer for room
// for one.
func TestWaiterComesAfterTheCrowd(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.MaxSessions, s.PushesOnGET = 1, true })
	session := p.acquire("a", true)
	first := p.queues(t.Context(), "b", true)
	second := p.queues(t.Context(), "a", true)
	session.Return(true)
	b := (<-first).of(t, "b")
	if len(second) > 0 {
		t.Error("a call that came later was served at the same time")
	}
	b.Return(true)
	a := (<-second).of(t, "a")
	if a == session {
		t.Error("two sessions were there")
	}
	a.Return(true)

	// And before who comes later.
	session = p.acquire("a", true)
	first = p.queues(t.Context(), "a", true)
	second = p.queues(t.Context(), "b", true)
	session.Return(true)
	if s := (<-first).of(t, "a"); s != session {
		t.Error("the session was not handed on")
	} else if len(second) > 0 {
		t.Error("a call that came later was served at the same time")
	} else {
		s.Return(true)
	}
	(<-second).of(t, "b").Return(true)
}

// A call that waits for a session of its key opens another one when there is room.
func TestRoomForWhoWaits(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.MaxSessions, s.PushesOnGET = 2, true })
	a, b := p.acquire("a", true), p.acquire("b", false)
	waits := p.queues(t.Context(), "a", true)
	b.Return(false)
	if len(waits) > 0 {
		t.Error("a session that others may want was ended for the overflow")
	}
	p.entryOf("b").expire(time.Now().Add(24 * time.Hour))
	second := (<-waits).of(t, "a")
	if second == a {
		t.Error("two calls have one session")
	}
	a.Return(true)
	second.Return(true)
	if n := p.crowded(); n != 0 {
		t.Errorf("%d turns are left", n)
	}
}

func TestCrowdIsBounded(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.MaxSessions, s.Queue = 1, 2 })
	session := p.acquire("a", false)
	ctx, cancel := context.WithCancel(t.Context())
	turns := []<-chan lent{p.queues(ctx, "b", false), p.queues(ctx, "c", false)}
	for _, name := range []string{"d", "e"} {
		if _, err := p.Acquire(t.Context(), p.key(name), false, nil); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "sessions.queue is full") {
			t.Errorf("%s: %v, want that the queue is full", name, err)
		}
	}
	more := p.acquireAll(1, "primary", func(int) (*Session, error) { return p.Acquire(ctx, p.key("b"), false, nil) })
	if _, err := p.Acquire(t.Context(), p.key("b"), false, nil); !errors.Is(err, ErrFull) {
		t.Errorf("third of one key: %v, want ErrFull", err)
	}
	cancel()
	for _, turn := range append(turns, more) {
		if r := <-turn; !errors.Is(r.err, context.Canceled) {
			t.Errorf("got %v, want %v", r.err, context.Canceled)
		}
	}
	eventually(t, "the crowd to go", func() bool { return p.crowded() == 0 })
	session.Return(false)
	p.acquire("b", false).Return(false)
}

func TestCrowdTimesOut(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.MaxSessions, s.QueueTimeout = 1, time.Millisecond })
	session := p.acquire("a", false)
	if _, err := p.Acquire(t.Context(), p.key("b"), false, nil); !errors.Is(err, errNoRoom) {
		t.Errorf("got %v, want %v", err, errNoRoom)
	}
	if n := p.crowded(); n != 0 || p.Sessions() != 1 {
		t.Errorf("%d turns and %d sessions are left", n, p.Sessions())
	}
	session.Return(false)
	p.acquire("b", false).Return(false)
}

// Room that is given to who gives up at that moment goes to the next.
func TestRoomIsNotLost(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.MaxSessions, s.PushesOnGET = 1, true })
	for range 200 {
		session := p.acquire("a", true)
		ctx, cancel := context.WithCancel(t.Context())
		leaves := p.queues(ctx, "b", true)
		stays := p.queues(t.Context(), "c", true)
		also := p.queues(ctx, "a", true)
		go cancel()
		session.Return(true)
		for _, turn := range []<-chan lent{leaves, also} {
			go func() {
				if r := <-turn; r.err == nil {
					r.session.Return(true)
				}
			}()
		}
		(<-stays).of(t, "c").Return(true)
	}
	eventually(t, "one session", func() bool { return p.Sessions() == 1 && p.crowded() == 0 })
}

// A caller whose home is another replica waits for room there too, and gets it as
// soon as that has some. What it has of its own replica's others may use meanwhile.
func TestRoomAtTheHome(t *testing.T) {
	for name, eligible := range map[string]bool{"a call": false, "an eligible call": true} {
		t.Run(name, func(t *testing.T) {
			raw := asking(t, rawserver.Settings{})
			m := newMesh(t, raw, func(s *Settings) { s.MaxSessions, s.QueueTimeout, s.PushesOnGET = 1, 5*time.Second, true }, "aa", "bb")
			a, b := m.servers["aa"], m.servers["bb"]
			busy := mustAcquire(t, a, m.keyOf("busy", "aa", "bb"), false)
			key := m.keyOf("waits", "aa", "bb")
			refused := make(chan struct{}, 100)
			m.onAsk(func(k kind) {
				if k == askLend {
					refused <- struct{}{}
				}
			})
			got := make(chan lent, 1)
			go func() {
				s, err := b.Acquire(t.Context(), key, eligible, nil)
				got <- lent{s, err}
			}()
			for range 2 {
				select {
				case <-refused:
				case l := <-got:
					t.Fatalf("the caller did not wait: %v", l.err)
				}
			}
			mustAcquire(t, b, m.keyOf("own", "bb", "aa"), false).Return(false) // its place is free
			busy.Return(false)
			l := <-got
			if l.err != nil {
				t.Fatalf("the caller was told %v", l.err)
			}
			l.session.Return(eligible)
		})
	}
}

// It waits no longer than others do.
func TestNoRoomAtTheHome(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	const patience = 500 * time.Millisecond
	m := newMesh(t, raw, func(s *Settings) { s.MaxSessions, s.QueueTimeout = 1, patience }, "aa", "bb")
	busy := mustAcquire(t, m.servers["aa"], m.keyOf("busy", "aa", "bb"), false)
	defer busy.Return(false)
	began := time.Now()
	_, err := m.servers["bb"].Acquire(t.Context(), m.keyOf("waits", "aa", "bb"), false, nil)
	if took := time.Since(began); !errors.Is(err, ErrFull) || took < patience || took > 10*patience {
		t.Errorf("the caller was told %v after %v", err, took)
	}
}
