package legacy

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

func pushes(s *Settings) { s.PushesOnGET = true }

func queues(s *Settings) { s.PushesOnGET, s.QueueEligible = true, true }

// left returns the calls and eligible calls that a replica counts on a session.
func left(s *Session) [2]int {
	s.entry.mu.Lock()
	defer s.entry.mu.Unlock()
	return [2]int{s.users, s.eligible}
}

// Where the server pushes, a session takes one eligible call, over all replicas.
func TestPlacesAreGivenOutByTheHome(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, pushes)
	home := m.lent("aa", key)
	if s := m.servers["bb"].TryAcquire(key, true); s != nil {
		t.Fatal("a borrower took a place without asking")
	}
	if s := m.servers["bb"].TryAcquire(key, false); s == nil {
		t.Fatal("a call that is never asked had to wait")
	} else {
		s.Return(false)
	}
	one := mustAcquire(t, m.servers["bb"], key, true)
	if one.id != home.id {
		t.Errorf("a call alone is on session %s, not on the key's %s", one.id, home.id)
	}
	two := mustAcquire(t, m.servers["cc"], key, true)
	three := mustAcquire(t, m.servers["aa"], key, true)
	if one.id == two.id || two.id == three.id || one.id == three.id {
		t.Errorf("eligible calls share a session: %s, %s, %s", one.id, two.id, three.id)
	}
	if got := left(home); got != [2]int{1, 1} {
		t.Errorf("the home counts %v on its session", got)
	}
	// The overflow is as good a session for its call: the holder routes to it.
	c := call(t, two, "wait")
	for _, s := range raw.Sessions() {
		if s.ID == two.id {
			s.Push(mcp.MethodElicit, formParams)
		}
	}
	if got := c.next(t); got.Method != mcp.MethodElicit {
		t.Errorf("got %s", got.Method)
	}
	c.Abort()
	<-c.ended
	one.Return(true)
	three.Return(true)
	eventually(t, "the places to be free", func() bool { return left(home) == [2]int{} })
	again := mustAcquire(t, m.servers["cc"], key, true)
	if again.id != home.id {
		t.Error("a call alone is not on the key's session")
	}
	again.Return(true)
	// Overflow ends when it is idle, at the home alone.
	for _, name := range []string{"cc", "bb", "aa"} {
		e := m.entryOf(name, key)
		eventually(t, "the idle sessions to end", func() bool {
			e.expire(time.Now().Add(2 * overflowTTL))
			e.mu.Lock()
			defer e.mu.Unlock()
			return len(e.sessions) == 1 && len(e.adopted) == 0
		})
	}
	raw.WaitHTTP(http.MethodDelete, 2)
}

func TestCallsOfAllReplicasQueueForOnePlace(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, queues)
	one := mustAcquire(t, m.servers["bb"], key, true)
	turns := make(chan string, 2)
	for _, name := range []string{"cc", "aa"} {
		before := waiting("wait")
		go func() {
			s, err := m.servers[name].Acquire(t.Context(), key, true, nil)
			if err != nil {
				t.Error(err)
				return
			}
			turns <- name
			s.Return(true)
		}()
		eventually(t, name+" to queue", func() bool { return waiting("wait") > before })
	}
	one.Return(true)
	if first, second := <-turns, <-turns; first != "cc" || second != "aa" {
		t.Errorf("%s came before %s", first, second)
	}
	if n := raw.Count("initialize"); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
	// Who gives up leaves no place behind.
	one = mustAcquire(t, m.servers["bb"], key, true)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := m.servers["cc"].Acquire(ctx, key, true, nil)
		gone <- err
	}()
	eventually(t, "cc to queue", func() bool { return waiting("wait") > 0 })
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	one.Return(true)
	home := m.lent("aa", key)
	eventually(t, "the place to be free", func() bool { return left(home) == [2]int{} })
}

func TestPlacesOfADeadReplicaAreFree(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, queues)
	mustAcquire(t, m.servers["bb"], key, true)
	m.kill("bb")
	s := mustAcquire(t, m.servers["cc"], key, true)
	s.Return(true)
}

// The news that a place is free was lost.
func TestPlacesAreRecounted(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, queues)
	home := m.lent("aa", key)
	e := home.entry
	used := mustAcquire(t, m.servers["bb"], key, true)
	e.mu.Lock()
	e.lend(home, true)
	home.grant("cc")
	home.granted = time.Now().Add(-2 * recountAfter)
	e.mu.Unlock()
	e.recount(t.Context())
	if got := left(home); got != [2]int{1, 1} {
		t.Errorf("the home counts %v, want the place that is used", got)
	}
	used.Return(true)
	eventually(t, "the place to be free", func() bool { return left(home) == [2]int{} })
}

// A new home knows of the calls that were there before it.
func TestNewHomeCountsTheCalls(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, queues)
	used := mustAcquire(t, m.servers["cc"], key, true)
	m.kill("aa")
	held := m.primaryOf("bb", key)
	eventually(t, "bb to hold the session", held.heldHere)
	if s := m.servers["bb"].TryAcquire(key, true); s != nil {
		t.Fatal("the place was given out twice")
	}
	used.Return(true)
	eventually(t, "the place to be free", func() bool { return left(held) == [2]int{} })
	s := mustAcquire(t, m.servers["bb"], key, true)
	s.Return(true)
}

// A call that goes on elsewhere takes its place with it.
func TestAdoptedCallIsCountedAtTheHome(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, queues)
	home := m.lent("aa", key)
	s := mustAdopt(t, m.servers["cc"], key, Position{Session: home.id, Version: mcp.Latest})
	eventually(t, "the home to count it", func() bool { return left(home) == [2]int{1, 1} })
	s.Return(true)
	eventually(t, "the place to be free", func() bool { return left(home) == [2]int{} })
}

// The home dies while calls of others are on sessions beyond the key's own: who
// has the call hears what its server asks.
func TestOverflowOfADeadHomeIsHeard(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, pushes)
	first := mustAcquire(t, m.servers["bb"], key, true)
	second := mustAcquire(t, m.servers["cc"], key, true)
	m.kill("aa")
	m.split(0, "bb")
	eventually(t, "cc to hold the session of its call", second.heldHere)
	c := call(t, second, "wait")
	for _, s := range raw.Sessions() {
		if s.ID != second.id {
			continue
		}
		// The connection of the dead home may still stand, and swallow some.
		for heard := false; !heard; {
			s.Notify(mcp.NotifyMessage, `{"level":"info","data":"anyone?"}`)
			select {
			case <-c.got:
				heard = true
			case <-time.After(10 * time.Millisecond):
			}
		}
		s.Push(mcp.MethodElicit, formParams)
	}
	for got := c.next(t); got.Method != mcp.MethodElicit; got = c.next(t) {
		if got.Method != mcp.NotifyMessage {
			t.Errorf("got %s", got.Method)
		}
	}
	c.Abort()
	<-c.ended
	first.Return(true)
}

// The old home counts no places any more, which are told free to the new one.
func TestPlacesMoveToTheNewHome(t *testing.T) {
	raw := pushing(t)
	m := newMesh(t, raw, queues, "aa", "bb", "cc")
	m.split(-1, "aa")
	key := m.key("aa", "bb", "cc")
	old := m.lent("bb", key)
	used := mustAcquire(t, m.servers["cc"], key, true)
	m.split(0, "aa")
	eventually(t, "the old home to forget the place", func() bool { return left(old) == [2]int{} })
	home := m.lent("aa", key)
	if home.id != old.id {
		t.Fatal("the new home has another session")
	}
	if s := m.servers["aa"].TryAcquire(key, true); s != nil {
		t.Fatal("the place was given out twice")
	}
	used.Return(true)
	eventually(t, "the place to be free", func() bool { return left(home) == [2]int{} })
}

// A call ends, and the next one comes to another replica before the news that
// its place is free: it gets the same session all the same.
func TestCallsOneAfterTheOtherShareASession(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, pushes)
	home := m.lent("aa", key)
	for i := range 30 {
		name := []string{"bb", "cc", "aa"}[i%3]
		s := mustAcquire(t, m.servers[name], key, true)
		if s.id != home.id {
			t.Fatalf("call %d is on session %s, not on the key's %s", i, s.id, home.id)
		}
		s.Return(true)
	}
	eventually(t, "the place to be free", func() bool { return left(home) == [2]int{} })
}

// Likewise where an overflow session of earlier calls is free.
func TestCallsReturnToTheKeysSession(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, pushes)
	home := m.lent("aa", key)
	one, two := mustAcquire(t, m.servers["bb"], key, true), mustAcquire(t, m.servers["aa"], key, true)
	if one.id != home.id || two.id == home.id {
		t.Fatalf("calls are on the sessions %s and %s, want the key's %s and another one", one.id, two.id, home.id)
	}
	two.Return(true)
	m.lose(tellFree)
	one.Return(true)
	three := mustAcquire(t, m.servers["aa"], key, true)
	if three.id != home.id {
		t.Errorf("a call alone is on session %s, not on the key's %s", three.id, home.id)
	}
	three.Return(true)
}

// A call that must queue does so before peers are asked about places: the next
// one, for which that may go faster, comes after it.
func TestCallsQueueBeforePeersAreAsked(t *testing.T) {
	raw := pushing(t)
	for name, change := range map[string]func(*Settings){
		"queue":       queues,
		"max_per_key": func(s *Settings) { s.PushesOnGET, s.MaxPerKey = true, 1 },
		"max":         func(s *Settings) { s.PushesOnGET, s.MaxSessions = true, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			m, key := onMesh(t, raw, change)
			one := mustAcquire(t, m.servers["bb"], key, true)
			e := m.entryOf("aa", key)
			queued := make(chan int, 10)
			m.onAsk(func(k kind) {
				if k != askUsing {
					return
				}
				e.mu.Lock()
				defer e.mu.Unlock()
				queued <- len(e.waiters)
			})
			got := make(chan error)
			go func() {
				s, err := m.servers["aa"].Acquire(t.Context(), key, true, nil)
				if err == nil {
					s.Return(true)
				}
				got <- err
			}()
			if n := <-queued; n != 1 {
				t.Errorf("%d calls are in the queue while peers are asked, want 1", n)
			}
			one.Return(true)
			if err := <-got; err != nil {
				t.Error(err)
			}
		})
	}
}

// What a replica gives back counts once, however often and late it is heard of.
func TestPlacesThatAreGivenBackCountOnce(t *testing.T) {
	s := &Session{remote: map[string]int{"bb": 3}}
	for i, test := range []struct {
		now  returned
		want int
	}{
		{returned{100, 1}, 1},
		{returned{100, 1}, 0},
		{returned{100, 4}, 3}, // of which two were heard of on no other way
		{returned{100, 3}, 0},
		{returned{200, 1}, 1}, // the session was forgotten and borrowed again
		{returned{100, 9}, 0},
		{returned{200, 9}, 3}, // there were no more
		{returned{}, 1},
	} {
		if got := s.seeReturned("bb", test.now); got != test.want {
			t.Errorf("%d: %d places are free, want %d", i, got, test.want)
		}
	}
}
