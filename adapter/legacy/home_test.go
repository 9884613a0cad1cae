package legacy

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

func TestReplicasShareOneSession(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, nil, "aa", "bb", "cc")
	key := m.key("bb", "aa", "cc")
	for _, name := range []string{"aa", "bb", "cc", "aa"} {
		s := m.lent(name, key)
		if s.id != raw.Session().ID {
			t.Errorf("at %s: session %q, want %q", name, s.id, raw.Session().ID)
		}
		if held := s.heldHere(); held != (name == "bb") {
			t.Errorf("at %s: GET stream: %v", name, held)
		}
		if s.Info().Version == "" || !s.Info().Logging {
			t.Errorf("at %s it is not known what the server said", name)
		}
	}
	if n, gets := raw.Count("initialize"), raw.HTTPCount(http.MethodGet); n != 1 || gets != 1 {
		t.Errorf("%d handshakes and %d GET streams, want one each", n, gets)
	}
	// Ordinary calls go straight to the server.
	s := mustAcquire(t, m.servers["cc"], key, true)
	c := call(t, s, "greet")
	asked := c.next(t)
	if err := s.Post(t.Context(), nil, answerText(asked.ID, "Cy")); err != nil {
		t.Fatal(err)
	}
	c.next(t)
	if got := c.next(t); string(got.Result) != `{"content":[{"type":"text","text":"Hello Cy"}]}` {
		t.Errorf("got %s%s", got.Result, got.Error)
	}
	<-c.ended
}

func TestStampedeOverReplicas(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, nil, "aa", "bb", "cc")
	key := m.key("cc", "aa", "bb")
	var all sync.WaitGroup
	start := make(chan struct{})
	for _, s := range m.servers {
		for range 20 {
			all.Go(func() {
				<-start
				session, err := s.Acquire(t.Context(), key, true, nil)
				if err != nil {
					t.Error(err)
					return
				}
				session.Return(true)
			})
		}
	}
	close(start)
	all.Wait()
	if n := raw.Count("initialize"); n != 1 {
		t.Errorf("%d handshakes, want 1", n)
	}
	sum := 0
	for _, s := range m.servers {
		sum += s.Sessions()
	}
	if sum != 1 {
		t.Errorf("the replicas count %d sessions in all, want 1: lent ones are not those of who borrows", sum)
	}
}

// Two replicas that take each other for the home do not wait for each other.
func TestTwoViewsOfTheHome(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, nil, "aa", "bb")
	key := m.key("aa", "bb")
	a, b := m.servers["aa"], m.servers["bb"]
	e, err := a.entry(key)
	if err != nil {
		t.Fatal(err)
	}
	e.mu.Lock()
	e.digest = digestKey("test", string(m.key("bb", "aa").appendText(nil)))
	e.mu.Unlock()
	var both sync.WaitGroup
	for _, s := range []*Server{a, b} {
		both.Go(func() {
			if session, err := s.Acquire(t.Context(), key, false, nil); err != nil {
				t.Error(err)
			} else {
				session.Return(false)
			}
		})
	}
	both.Wait()
	if n := raw.Count("initialize"); n < 1 || n > 2 {
		t.Errorf("%d handshakes", n)
	}
}

func TestHomeDiesAndItsSessionIsTakenOver(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, nil, "aa", "bb", "cc")
	key := m.key("aa", "bb", "cc")
	old := m.lent("cc", key)
	m.lent("bb", key)
	m.kill("aa")
	held := m.primaryOf("bb", key)
	eventually(t, "bb to hold the session", held.heldHere)
	raw.Session().WaitListening()
	if s := m.lent("cc", key); s != old || s.heldHere() {
		t.Error("cc has another session, or a GET stream")
	}
	if n := raw.Count("initialize"); n != 1 {
		t.Errorf("%d handshakes, want 1", n)
	}
	if n := raw.HTTPCount(http.MethodDelete); n != 0 {
		t.Errorf("%d sessions were deleted", n)
	}
	// A replica that comes later finds it too.
	m.add("dd", nil)
	if s := m.lent("dd", key); s.id != old.id {
		t.Error("a new replica has another session")
	}
}

// The new home has never heard of the key.
func TestNewHomeIsTold(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, nil, "aa", "bb", "cc")
	key := m.key("aa", "bb", "cc")
	m.lent("aa", key)
	m.lent("cc", key)
	m.kill("aa")
	eventually(t, "bb to hold the session", func() bool {
		e := m.servers["bb"].existing(key)
		if e == nil {
			return false
		}
		s := m.primaryOf("bb", key)
		return s != nil && s.heldHere()
	})
	raw.Session().WaitListening()
	if n := raw.Count("initialize"); n != 1 {
		t.Errorf("%d handshakes, want 1", n)
	}
}

// A server that forgot the session tells a borrower first: one new one is
// opened, for all.
func TestSessionIsGoneAtABorrower(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, nil, "aa", "bb", "cc")
	key := m.key("aa", "bb", "cc")
	old := m.lent("bb", key)
	m.lent("cc", key)
	raw.Session().Expire()
	if err := old.Post(t.Context(), nil, letterText(1)); !errors.Is(err, ErrSessionGone) {
		t.Fatalf("got %v, want ErrSessionGone", err)
	}
	id := m.lent("bb", key).id
	if id == old.id {
		t.Fatal("the session that is gone was lent again")
	}
	for _, name := range []string{"aa", "cc"} {
		if s := m.lent(name, key); s.id != id {
			t.Errorf("%s has session %s, want %s", name, s.id, id)
		}
	}
	if n := raw.Count("initialize"); n != 2 {
		t.Errorf("%d handshakes, want 2", n)
	}
}

func TestServerWithoutIDsNeedsNoHome(t *testing.T) {
	raw := asking(t, rawserver.Settings{NoSession: true})
	m := newMesh(t, raw, nil, "aa", "bb")
	key := m.key("aa", "bb")
	for range 2 {
		for _, name := range []string{"bb", "aa"} {
			if s := m.lent(name, key); s.id != "" {
				t.Errorf("session %q", s.id)
			}
		}
	}
	if n := raw.Count("initialize"); n != 2 {
		t.Errorf("%d handshakes, want one for each replica", n)
	}
	if !m.servers["bb"].noIDs.Load() {
		t.Error("it was not learned")
	}
}

func TestWithoutAffinityReplicasHaveTheirOwn(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, func(s *Settings) { s.Affinity = false }, "aa", "bb")
	key := m.key("aa", "bb")
	a, b := m.lent("aa", key), m.lent("bb", key)
	if a.id == b.id || raw.Count("initialize") != 2 {
		t.Error("the replicas share a session")
	}
	for _, name := range []string{"aa", "bb"} {
		m.servers[name].Close(t.Context())
	}
	if n := raw.HTTPCount(http.MethodDelete); n != 2 {
		t.Errorf("%d sessions were deleted, want 2", n)
	}
}

func TestEphemeralSessionsAreNotShared(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, nil, "aa", "bb")
	key := m.key("aa", "bb")
	key.Ephemeral = true
	for _, name := range []string{"aa", "bb"} {
		m.lent(name, key)
	}
	raw.WaitHTTP(http.MethodDelete, 2)
	if n := raw.Count("initialize"); n != 2 {
		t.Errorf("%d handshakes, want 2", n)
	}
}

// What opening comes to is told as if it had been done here.
func TestFailureAtTheHome(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, func(s *Settings) { s.MaxSessions, s.QueueTimeout = 1, 200*time.Millisecond }, "aa", "bb")
	raw.Once(rawserver.ForMethod("initialize"), func(x *rawserver.Exchange) { x.Unauthorized(`Bearer realm="x"`) })
	key := m.key("aa", "bb")
	_, err := m.servers["bb"].Acquire(t.Context(), key, false, Credentials{{"Authorization", "Bearer bad"}})
	var status *StatusError
	if !errors.As(err, &status) || status.Status != 401 || len(status.Authenticate) != 1 || status.Authenticate[0] != `Bearer realm="x"` {
		t.Errorf("got %v, want HTTP 401 and its challenge", err)
	}
	good := Credentials{{"Authorization", "Bearer good"}}
	s, err := m.servers["bb"].Acquire(t.Context(), key, false, good)
	if err != nil {
		t.Fatal(err)
	}
	last := raw.Received("initialize")
	if len(last) != 2 || raw.Records()[1].Header.Get("Authorization") != "Bearer good" {
		t.Error("the handshake was not done with the caller's credentials")
	}
	s.Return(false)
	// The home is full, its only session in use, and stays so.
	busy := mustAcquire(t, m.servers["aa"], key, false)
	defer busy.Return(false)
	other := m.keyOf("other", "aa", "bb")
	if _, err := m.servers["bb"].Acquire(t.Context(), other, false, nil); !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
}

// The rank spreads keys evenly, and a replica that goes moves its own only.
func TestRankIsRendezvous(t *testing.T) {
	names := []string{"1f2e3d4c", "1f2e3d4d", "00000001", "deadbeef"}
	won := make(map[string]int)
	for i := range 4000 {
		digest := digestKey("up", fmt.Sprint("key ", i))
		best := func(names []string) (best string) {
			for _, n := range names {
				if best == "" || rank(digest, n) > rank(digest, best) {
					best = n
				}
			}
			return best
		}
		all := best(names)
		won[all]++
		if less := best(names[1:]); all != names[0] && less != all {
			t.Fatalf("key %d moved from %s to %s", i, all, less)
		}
	}
	for _, n := range names {
		if won[n] < 800 || won[n] > 1200 {
			t.Errorf("%s is home of %d of 4000 keys", n, won[n])
		}
	}
}

func TestIdleSessionThatAPeerUsesStays(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, nil, "aa", "bb")
	key := m.key("aa", "bb")
	home := m.lent("aa", key)
	used := mustAcquire(t, m.servers["bb"], key, false)
	e := m.entryOf("aa", key)
	late := time.Now().Add(24 * time.Hour)
	asked := home.lastUse
	e.expire(late)
	eventually(t, "the peer to be asked", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return !home.ending && home.lastUse.After(asked)
	})
	if m.primaryOf("aa", key) != home || raw.HTTPCount(http.MethodDelete) != 0 {
		t.Fatal("the session has ended under its user")
	}
	used.Return(false)
	// A borrower just forgets it.
	m.entryOf("bb", key).expire(late)
	eventually(t, "bb to forget the session", func() bool { return m.servers["bb"].Sessions() == 0 })
	if n := raw.HTTPCount(http.MethodDelete); n != 0 {
		t.Fatal("a borrower has deleted the session")
	}
	e.expire(late)
	raw.WaitHTTP(http.MethodDelete, 1)
	eventually(t, "aa to forget the session", func() bool { return m.servers["aa"].Sessions() == 0 })
}

// The holder ends a session that nobody uses: the borrowers need not find out by
// a call that fails.
func TestBorrowersHearOfTheEnd(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, nil, "aa", "bb")
	key := m.key("aa", "bb")
	m.lent("aa", key)
	idle := m.lent("bb", key)
	idle.entry.mu.Lock()
	idle.lastUse = time.Now().Add(-24 * time.Hour)
	idle.entry.mu.Unlock()
	m.entryOf("aa", key).expire(time.Now().Add(24 * time.Hour))
	eventually(t, "bb to hear of it", func() bool { return m.primaryOf("bb", key) == nil })
	raw.WaitHTTP(http.MethodDelete, 1)
	if s := m.lent("bb", key); s.id == idle.id {
		t.Error("the session that has ended was lent again")
	}
}

// Of two sessions that peers have, the one that somebody holds is the key's.
func TestHomeAdoptsTheSessionThatIsHeld(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, nil, "aa", "bb", "cc")
	key := m.key("aa", "bb", "cc")
	m.split(1, "aa")
	m.split(2, "bb")
	e, err := m.servers["bb"].entry(key)
	if err != nil {
		t.Fatal(err)
	}
	e.mu.Lock()
	e.tending = true // it does not find out that the server knows no such session
	e.mu.Unlock()
	left := mustAdopt(t, m.servers["bb"], key, Position{Session: "nosuch", Version: mcp.Latest})
	e.mu.Lock()
	e.promote(left)
	e.mu.Unlock()
	held := m.lent("cc", key)
	m.mu.Lock() // without a word to anybody
	clear(m.groups)
	m.mu.Unlock()
	if s := m.lent("aa", key); s.id != held.id {
		t.Errorf("the home has session %s, want %s", s.id, held.id)
	}
	left.Return(true)
}
