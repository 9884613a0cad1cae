package legacy

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

func TestAdoptedSessionIsNoNewCallsSession(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.MaxSessions = 2 })
	at := Position{Session: "elsewhere", Version: mcp.Latest}
	if _, err := p.Adopt(t.Context(), p.key("a"), Position{Version: mcp.Latest}, true, nil); !errors.Is(err, ErrSessionGone) {
		t.Errorf("without an id: %v, want ErrSessionGone", err)
	}
	if _, err := p.Adopt(t.Context(), p.key("a"), Position{Session: "x", Version: "2026-07-28"}, true, nil); !errors.Is(err, ErrSessionGone) {
		t.Errorf("of a modern revision: %v, want ErrSessionGone", err)
	}
	adopted := mustAdopt(t, p.Server, p.key("a"), at)
	if again := mustAdopt(t, p.Server, p.key("a"), at); again != adopted || adopted.users != 2 || adopted.eligible != 2 {
		t.Errorf("two calls of one session: %d users, %d eligible", adopted.users, adopted.eligible)
	}
	if info := adopted.Info(); info.Version != mcp.Latest || info.Logging || info.Tools {
		t.Errorf("more is known than the version: %+v", info)
	}
	if s := p.TryAcquire(p.key("a"), false); s != nil {
		t.Error("a new call was lent the adopted session")
	}
	own := p.acquire("a", false)
	if own == adopted || p.Sessions() != 2 {
		t.Errorf("a new call was lent the adopted session, or it is not counted: %d sessions", p.Sessions())
	}
	if _, err := p.Adopt(t.Context(), p.key("a"), Position{Session: "third", Version: mcp.Latest}, true, nil); !errors.Is(err, ErrFull) {
		t.Errorf("beyond sessions.max: %v, want ErrFull", err)
	}
	if at.Session = own.id; mustAdopt(t, p.Server, p.key("a"), at) != own {
		t.Error("the key's own session was not lent by its id")
	}
	own.Return(true)
	own.Return(false)
	adopted.Return(true)
	e := p.entryOf("a")
	e.expire(time.Now().Add(overflowTTL + time.Second))
	if len(e.adopted) != 1 {
		t.Fatal("a session in use has expired")
	}
	adopted.Return(true)
	e.expire(time.Now().Add(overflowTTL + time.Second))
	if len(e.adopted) != 0 {
		t.Error("the adopted session has not expired")
	}
	p.raw.WaitHTTP(http.MethodDelete, 1)
	eventually(t, "the count", func() bool { return p.Sessions() == 1 })
}

// The newest handshake tells what a server can do, on every session.
func TestAdoptedSessionKnowsTheServer(t *testing.T) {
	p := newPool(t, nil)
	own := p.acquire("a", false)
	defer own.Return(false)
	s := mustAdopt(t, p.Server, p.key("b"), Position{Session: "x", Version: mcp.Latest})
	if s.Info() != own.Info() {
		t.Error("what the server said is not known")
	}
	old := mustAdopt(t, p.Server, p.key("c"), Position{Session: "y", Version: "2025-03-26"})
	if info := old.Info(); info.Version != "2025-03-26" || info.Tools {
		t.Errorf("of another revision the same is believed: %+v", info)
	}
	s.Return(true)
	old.Return(true)
}

// The server forgot the session that a call stood on.
func TestAdoptedSessionThatIsGone(t *testing.T) {
	p := newPool(t, nil)
	s := mustAdopt(t, p.Server, p.key("a"), Position{Session: "nosuch", Version: mcp.Latest})
	if err := s.Post(t.Context(), nil, letterText(1)); !errors.Is(err, ErrSessionGone) {
		t.Errorf("got %v, want ErrSessionGone", err)
	}
	s.Return(true)
	eventually(t, "the count", func() bool { return p.Sessions() == 0 })
	if n := p.raw.HTTPCount(http.MethodDelete); n != 0 {
		t.Error("a session was deleted that the server does not know")
	}
}

// A request state may bring the id of a session again that the server does not
// know any more: nobody adopts it, so that no new call is put on it.
func TestSessionThatIsGoneIsNotAdopted(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m := newMesh(t, raw, nil, "aa", "bb")
	key := m.key("aa", "bb")
	at := Position{Session: "gone", Version: mcp.Latest, Event: "1", Request: "aa-1"}
	s, err := m.servers["bb"].Adopt(t.Context(), key, at, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.markGone()
	s.Return(true)
	for _, name := range []string{"aa", "bb"} {
		eventually(t, name+" to hear of it", func() bool { return m.servers[name].isGone("gone") })
		if _, err := m.servers[name].Adopt(t.Context(), key, at, true, nil); !errors.Is(err, ErrSessionGone) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	eventually(t, "a new call to be put on another", func() bool { return m.lent("bb", key).id != "gone" })
}
