package legacy

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// noticing is a listener that a test waits on.
type noticing struct {
	got   chan string
	ended chan error
}

func newNoticing() *noticing {
	return &noticing{got: make(chan string, 100), ended: make(chan error, 1)}
}

func (l *noticing) Notify(m *jsonrpc.Message) { l.got <- m.Method + string(m.Params) }
func (l *noticing) Missed()                   { l.got <- "missed" }
func (l *noticing) End(err error)             { l.ended <- err }

func (l *noticing) next(t testing.TB) string {
	t.Helper()
	select {
	case got := <-l.got:
		return got
	case <-time.After(10 * time.Second):
		t.Fatal("the listener was told nothing")
		return ""
	}
}

// A home that comes later gets the session that another replica holds, once
// that one does not use it, and with it the GET stream from where it was.
func TestSessionMovesToItsHome(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, nil, "aa", "bb", "cc")
	m.split(-1, "aa")
	key := m.key("aa", "bb", "cc")
	held := mustAcquire(t, m.servers["bb"], key, false)
	borrowed := m.lent("cc", key)
	l := newNoticing()
	listening := mustAcquire(t, m.servers["cc"], key, false)
	if !listening.Listen(l) {
		t.Fatal("cc cannot listen")
	}
	raw.Session().Notify(mcp.NotifyPromptsChanged, `{"n":1}`)
	if got := l.next(t); got != mcp.NotifyPromptsChanged+`{"n":1}` {
		t.Errorf("cc was told %s", got)
	}
	m.split(0, "aa")
	eventually(t, "bb to offer the session", func() bool {
		held.entry.mu.Lock()
		defer held.entry.mu.Unlock()
		return held.offered == "aa"
	})
	if !held.heldHere() {
		t.Fatal("the session was handed over in use")
	}
	if s := m.lent("aa", key); s.id != held.id || s.heldHere() {
		t.Fatal("the home has opened another session, or a GET stream")
	}
	held.Return(false)
	m.servers["bb"].PeersChanged()
	home := m.primaryOf("aa", key)
	eventually(t, "aa to hold the session", home.heldHere)
	eventually(t, "bb to let go of it", func() bool { return !held.heldHere() })
	raw.Session().Notify(mcp.NotifyPromptsChanged, `{"n":2}`)
	if got := l.next(t); got != mcp.NotifyPromptsChanged+`{"n":2}` {
		t.Errorf("cc was told %s", got)
	}
	listening.Unlisten(l)
	if n, gets := raw.Count("initialize"), raw.HTTPCount(http.MethodDelete); n != 1 || gets != 0 {
		t.Errorf("%d handshakes and %d deletes", n, gets)
	}
	var events []string
	for _, r := range raw.Records() {
		if r.HTTP == http.MethodGet {
			events = append(events, r.Header.Get("Last-Event-ID"))
		}
	}
	if last := events[len(events)-1]; last == "" {
		t.Errorf("the GET stream was not gone on with: %q", events)
	}
	if borrowed.id != home.id {
		t.Error("cc has another session")
	}
}

// Without event ids something may have come in between, and the listeners hear so.
func TestMovedStreamMayHaveMissedSomething(t *testing.T) {
	raw := asking(t, rawserver.Settings{NoEventIDs: true})
	m := newMesh(t, raw, nil, "aa", "bb", "cc")
	m.split(-1, "aa")
	key := m.key("aa", "bb", "cc")
	m.lent("bb", key)
	s := mustAcquire(t, m.servers["cc"], key, false)
	l := newNoticing()
	if !s.Listen(l) {
		t.Fatal("cc cannot listen")
	}
	defer s.Unlisten(l)
	m.split(0, "aa")
	eventually(t, "aa to know the session", func() bool { return m.servers["aa"].existing(key) != nil })
	eventually(t, "aa to hold the session", func() bool {
		m.servers["bb"].PeersChanged()
		held := m.primaryOf("aa", key)
		return held != nil && held.heldHere()
	})
	if got := l.next(t); got != "missed" {
		t.Errorf("cc was told %s", got)
	}
}

// Two homes opened a session each while they did not see each other. The calls
// of the one that loses go on; new ones go to the other.
func TestSecondSessionDrains(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, nil, "aa", "bb", "cc")
	key := m.key("aa", "bb", "cc")
	m.split(1, "bb", "cc")
	winner := m.lent("aa", key)
	loser := mustAcquire(t, m.servers["bb"], key, true)
	if winner.id == loser.id {
		t.Fatal("there is one session only")
	}
	at := m.lent("cc", key)
	if at.id != loser.id {
		t.Fatal("cc has not borrowed the session")
	}
	c := call(t, loser, "greet")
	asked := c.next(t)
	lost := mustAcquire(t, m.servers["cc"], key, false)
	l := newNoticing()
	if !lost.Listen(l) {
		t.Fatal("cc cannot listen")
	}
	m.split(0, "bb", "cc")
	select {
	case <-l.ended: // the client is told to listen anew, on the other session
	case <-time.After(10 * time.Second):
		t.Fatal("cc still listens on the lost session")
	}
	eventually(t, "the others to use aa's session", func() bool {
		for _, name := range []string{"bb", "cc"} {
			if s := m.lent(name, key); s.id != winner.id {
				return false
			}
		}
		return true
	})
	e := m.entryOf("bb", key)
	e.expire(time.Now().Add(2 * overflowTTL))
	if n := raw.HTTPCount(http.MethodDelete); n != 0 {
		t.Fatal("the lost session has ended under its call")
	}
	if err := loser.Post(t.Context(), nil, answerText(asked.ID, "Lou")); err != nil {
		t.Fatal(err)
	}
	c.next(t)
	if got := c.next(t); string(got.Result) != `{"content":[{"type":"text","text":"Hello Lou"}]}` {
		t.Errorf("got %s%s", got.Result, got.Error)
	}
	<-c.ended
	lost.Unlisten(l)
	e.expire(time.Now().Add(2 * overflowTTL))
	raw.WaitHTTP(http.MethodDelete, 1)
	if id := raw.Records()[len(raw.Records())-1].Header.Get("Mcp-Session-Id"); id != loser.id {
		t.Errorf("session %s was deleted, want %s", id, loser.id)
	}
}

// A replica that stops hands over what others use, and deletes the rest.
func TestShutdownHandsSessionsOver(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, nil, "aa", "bb", "cc")
	shared, let, alone := m.keyOf("shared", "aa", "cc", "bb"), m.keyOf("let", "aa", "bb", "cc"), m.keyOf("alone", "aa", "bb", "cc")
	a := m.servers["aa"]
	m.lent("aa", shared)
	m.lent("bb", shared)
	kept := mustAcquire(t, a, let, true) // for a call that was let go
	kept.Hold()
	kept.Return(true)
	gone := m.lent("aa", alone)
	a.Close(t.Context())
	m.split(-1, "aa")
	raw.WaitHTTP(http.MethodDelete, 1)
	var deleted []string
	for _, r := range raw.Records() {
		if r.HTTP == http.MethodDelete {
			deleted = append(deleted, r.Header.Get("Mcp-Session-Id"))
		}
	}
	if len(deleted) != 1 || deleted[0] != gone.id {
		t.Errorf("deleted: %q, want %q alone", deleted, gone.id)
	}
	eventually(t, "cc to hold the shared session", func() bool { return m.primaryOf("cc", shared).heldHere() })
	eventually(t, "bb to hold the other", func() bool { return m.primaryOf("bb", let).heldHere() })
	if s := m.primaryOf("bb", let); s.id != kept.id {
		t.Error("bb has another session")
	}
	// The last one deletes them.
	m.servers["cc"].Close(t.Context())
	m.split(-1, "cc")
	m.servers["bb"].Close(t.Context())
	if n := raw.HTTPCount(http.MethodDelete); n != 3 {
		t.Errorf("%d sessions were deleted in all, want 3", n)
	}
}

// A replica that is not heard may still use a session, or its calls may be taken
// over: whoever stops meanwhile leaves the session to one that is heard, and if
// there is none, at the server.
func TestShutdownWhileAReplicaIsMissing(t *testing.T) {
	for name, others := range map[string][]string{"another is heard": {"bb"}, "nobody is": nil} {
		t.Run(name, func(t *testing.T) {
			raw := asking(t, rawserver.Settings{})
			m := newMesh(t, raw, nil, append([]string{"aa", "cc"}, others...)...)
			key := m.key("aa", "cc")
			id := m.lent("aa", key).id
			used := mustAcquire(t, m.servers["cc"], key, false)
			m.split(-1, "cc")
			m.mu.Lock()
			m.missing = map[string]bool{"aa": true}
			m.mu.Unlock()
			m.servers["aa"].Close(t.Context())
			if n := raw.HTTPCount(http.MethodDelete); n != 0 {
				t.Error("the session was deleted")
			}
			if others != nil {
				left := m.servers["bb"].known(id)
				if left == nil || !left.heldHere() {
					t.Error("the session is not left to the other one")
				}
			}
			used.Return(false)
		})
	}
}

func TestShutdownWithoutPeersDeletes(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, nil, "aa")
	m.lent("aa", m.key("aa"))
	m.servers["aa"].Close(t.Context())
	if n := raw.HTTPCount(http.MethodDelete); n != 1 {
		t.Errorf("%d sessions were deleted, want 1", n)
	}
}

// The owner of a call dies; its session is known nowhere else. Who takes the
// call over makes it the key's session again.
func TestSessionOfADeadReplicaIsAdopted(t *testing.T) {
	for name, adopter := range map[string]string{"at its home": "bb", "elsewhere": "cc"} {
		t.Run(name, func(t *testing.T) {
			raw := asking(t, rawserver.Settings{})
			m := newMesh(t, raw, nil, "aa", "bb", "cc")
			key := m.key("aa", "bb", "cc")
			owned := mustAcquire(t, m.servers["aa"], key, true)
			one := call(t, owned, "greet")
			asked := one.next(t)
			at := one.Position()
			one.Release()
			<-one.ended
			m.kill("aa")
			b := m.servers[adopter]
			s := mustAdopt(t, b, key, at)
			k := newTeller()
			x := s.Resume(at.Request, at.Event, k, nil, true, true, mcp.LevelNone)
			if err := x.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			two := drive(t, x, k)
			eventually(t, "the home to hold the session", func() bool {
				if m.servers["bb"].existing(key) == nil {
					return false
				}
				s := m.primaryOf("bb", key)
				return s != nil && s.heldHere()
			})
			if err := s.Post(t.Context(), nil, answerText(asked.ID, "Di")); err != nil {
				t.Fatal(err)
			}
			two.next(t)
			if got := two.next(t); string(got.Result) != `{"content":[{"type":"text","text":"Hello Di"}]}` {
				t.Errorf("got %s%s", got.Result, got.Error)
			}
			<-two.ended
			for _, name := range []string{"bb", "cc"} {
				if got := m.lent(name, key); got.id != at.Session {
					t.Errorf("%s has another session", name)
				}
			}
			if n := raw.Count("initialize"); n != 1 {
				t.Errorf("%d handshakes, want 1", n)
			}
		})
	}
}

// What a server can do is asked of peers where no handshake was seen.
func TestAdoptedSessionIsDescribedByPeers(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, func(s *Settings) { s.Affinity = false }, "aa", "bb")
	owned := m.lent("aa", m.key("aa", "bb"))
	s, err := m.servers["bb"].Adopt(context.Background(), m.key("aa", "bb"), Position{Session: owned.id, Version: mcp.Latest}, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Info().Logging || !s.Info().Subscribe {
		t.Errorf("what the server said is not known: %+v", s.Info())
	}
	s.Return(true)
	// It is another replica's to delete.
	m.entryOf("bb", m.key("aa", "bb")).expire(time.Now().Add(24 * time.Hour))
	eventually(t, "bb to forget the session", func() bool { return m.servers["bb"].Sessions() == 0 })
	if n := raw.HTTPCount(http.MethodDelete); n != 0 {
		t.Errorf("%d sessions were deleted", n)
	}
}

// Two replicas hold a session: the home keeps it, else one of the two.
func TestOnlyOneHolderStays(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m, key := onMesh(t, raw, nil)
	m.kill("aa") // bb is the home now
	b, c := m.primaryOf("bb", key), m.primaryOf("cc", key)
	eventually(t, "bb to hold the session", b.heldHere)
	c.hold(nil)
	eventually(t, "cc to let go of it", func() bool {
		c.entry.mu.Lock()
		defer c.entry.mu.Unlock()
		return c.holder == "bb"
	})
	eventually(t, "the GET stream of cc to end", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.stands == nil
	})
	if !b.heldHere() {
		t.Error("nobody holds the session")
	}
}

// Sessions that are not shared go to another replica too where calls were let go
// on them, and stay there until they are used, or no more.
func TestShutdownHandsOverSessionsOfItsOwn(t *testing.T) {
	for name, ephemeral := range map[string]bool{"affinity none": false, "of one call": true} {
		t.Run(name, func(t *testing.T) {
			raw := asking(t, rawserver.Settings{})
			m := newMesh(t, raw, func(s *Settings) { s.Affinity = ephemeral }, "aa", "bb")
			key := m.key("aa", "bb")
			key.Ephemeral = ephemeral
			s := mustAcquire(t, m.servers["aa"], key, true)
			one := call(t, s, "greet")
			asked := one.next(t)
			at := one.Position()
			s.Hold()
			one.Release()
			<-one.ended
			m.servers["aa"].Close(t.Context())
			m.split(-1, "aa")
			if n := raw.HTTPCount(http.MethodDelete); n != 0 {
				t.Fatal("the session was deleted under its call")
			}
			e := m.entryOf("bb", key)
			e.expire(time.Now().Add(2 * overflowTTL))
			b := mustAdopt(t, m.servers["bb"], key, at)
			k := newTeller()
			two := drive(t, b.Resume(at.Request, at.Event, k, nil, true, true, mcp.LevelNone), k)
			if err := b.Post(t.Context(), nil, answerText(asked.ID, "Eve")); err != nil {
				t.Fatal(err)
			}
			two.next(t)
			if got := two.next(t); string(got.Result) != `{"content":[{"type":"text","text":"Hello Eve"}]}` {
				t.Errorf("got %s%s", got.Result, got.Error)
			}
			<-two.ended
			e.expire(time.Now().Add(24 * time.Hour))
			raw.WaitHTTP(http.MethodDelete, 1)
		})
	}
}
