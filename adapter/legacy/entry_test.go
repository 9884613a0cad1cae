package legacy

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// pool is a Server in front of a rawserver.
type pool struct {
	*Server
	t    *testing.T
	raw  *rawserver.Server
	caps Capabilities
}

func newPool(t *testing.T, change func(*Settings)) *pool {
	raw := rawserver.New(t, rawserver.Settings{JSON: true})
	settings := testSettings(raw.URL)
	if change != nil {
		change(&settings)
	}
	return &pool{Server: newTestServer(t, settings), t: t, raw: raw, caps: capabilities(t, `{"elicitation":{}}`)}
}

func (p *pool) key(name string) *Key { return &Key{Extra: []byte(name), Caps: p.caps} }

func (p *pool) acquire(name string, eligible bool) *Session {
	p.t.Helper()
	s, err := p.Acquire(p.t.Context(), p.key(name), eligible, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *pool) entryOf(name string) *entry {
	e, err := p.entry(p.key(name))
	if err != nil {
		p.t.Fatal(err)
	}
	return e
}

// lent is what an Acquire came to.
type lent struct {
	session *Session
	err     error
}

// acquireAll starts n calls of Acquire and returns once all wait in where.
func (p *pool) acquireAll(n int, where string, acquire func(int) (*Session, error)) <-chan lent {
	p.t.Helper()
	before := waiting(where)
	results := make(chan lent, n)
	for i := range n {
		go func() {
			s, err := acquire(i)
			results <- lent{s, err}
		}()
	}
	eventually(p.t, "the calls to wait", func() bool { return waiting(where) >= before+n })
	return results
}

// waiting counts the goroutines that wait inside a function.
func waiting(in string) (n int) {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		state, _, _ := strings.Cut(stack, "\n")
		if strings.Contains(state, "[select") && strings.Contains(stack, "legacy.(*entry)."+in+"(") {
			n++
		}
	}
	return n
}

// hold keeps the next request with a method waiting until the gate is closed.
func hold(raw *rawserver.Server, method string, then func(*rawserver.Exchange) bool) (arrived, gate chan struct{}) {
	arrived, gate = make(chan struct{}), make(chan struct{})
	first := true
	var mu sync.Mutex
	raw.Hook(func(x *rawserver.Exchange) bool {
		mu.Lock()
		mine := first && x.Record.Method() == method
		first = first && !mine
		mu.Unlock()
		if !mine {
			return false
		}
		close(arrived)
		x.Hold(gate)
		return then != nil && then(x)
	})
	return arrived, gate
}

func TestOneSessionIsOpenedForManyCalls(t *testing.T) {
	p := newPool(t, nil)
	arrived, gate := hold(p.raw, "initialize", nil)
	results := p.acquireAll(20, "primary", func(int) (*Session, error) { return p.Acquire(t.Context(), p.key("a"), true, nil) })
	<-arrived
	close(gate)
	var session *Session
	for range 20 {
		r := <-results
		if r.err != nil {
			t.Fatal(r.err)
		}
		if session == nil {
			session = r.session
		}
		if r.session != session {
			t.Error("two sessions were lent")
		}
	}
	if n := p.raw.Count("initialize"); n != 1 {
		t.Errorf("%d handshakes, want 1", n)
	}
	if session.users != 20 || session.eligible != 20 {
		t.Errorf("%d users, %d eligible; want 20 each", session.users, session.eligible)
	}
}

func TestFailureToOpenIsToldToAll(t *testing.T) {
	p := newPool(t, nil)
	arrived, gate := hold(p.raw, "initialize", func(x *rawserver.Exchange) bool {
		x.Reply(http.StatusServiceUnavailable, "busy")
		return true
	})
	results := p.acquireAll(20, "primary", func(int) (*Session, error) { return p.Acquire(t.Context(), p.key("a"), false, nil) })
	<-arrived
	close(gate)
	for range 20 {
		var status *StatusError
		if r := <-results; !errors.As(r.err, &status) || status.Status != 503 || r.session != nil {
			t.Fatalf("got %v, %v; want HTTP 503", r.session, r.err)
		}
	}
	if n := p.raw.Count("initialize"); n != 1 {
		t.Errorf("%d handshakes, want 1", n)
	}
	if n := p.Sessions(); n != 0 {
		t.Errorf("%d sessions are counted, want none", n)
	}
	p.acquire("a", false) // and the next one tries again
}

// One caller's bad credentials are not another's.
func TestRefusedCredentialsAreOfOneCaller(t *testing.T) {
	p := newPool(t, nil)
	good, bad := Credentials{{"Authorization", "good"}}, Credentials{{"Authorization", "bad"}}
	arrived, gate := hold(p.raw, "initialize", nil)
	p.raw.Hook(func(x *rawserver.Exchange) bool {
		if x.R.Header.Get("Authorization") == "good" {
			return false
		}
		x.Unauthorized("Bearer")
		return true
	})
	first := p.acquireAll(2, "primary", func(int) (*Session, error) { return p.Acquire(t.Context(), p.key("a"), false, bad) })
	<-arrived
	second := p.acquireAll(2, "primary", func(int) (*Session, error) { return p.Acquire(t.Context(), p.key("a"), false, good) })
	close(gate)
	for range 2 {
		var status *StatusError
		if r := <-first; !errors.As(r.err, &status) || status.Status != 401 || len(status.Authenticate) != 1 {
			t.Errorf("with the bad credentials: %v, want HTTP 401 and its challenge", r.err)
		}
		if r := <-second; r.err != nil {
			t.Errorf("with the good credentials: %v", r.err)
		}
	}
	if n := p.raw.Count("initialize"); n != 2 {
		t.Errorf("%d handshakes, want 2", n)
	}
}

func TestCallerGivesUpWhileASessionOpens(t *testing.T) {
	p := newPool(t, nil)
	arrived, gate := hold(p.raw, "initialize", nil)
	ctx, cancel := context.WithCancel(t.Context())
	results := p.acquireAll(1, "primary", func(int) (*Session, error) { return p.Acquire(ctx, p.key("a"), false, nil) })
	<-arrived
	cancel()
	if r := <-results; !errors.Is(r.err, context.Canceled) {
		t.Fatalf("got %v, want %v", r.err, context.Canceled)
	}
	close(gate)
	s := p.acquire("a", false) // the handshake went on for others
	if n := p.raw.Count("initialize"); n != 1 {
		t.Errorf("%d handshakes, want 1", n)
	}
	s.Return(false)
}

// A server that pushes on the GET stream is asked by one call at a time on a
// session; who waits longest comes first.
func TestQueueIsFirstComeFirstServed(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.PushesOnGET, s.QueueEligible = true, true })
	session := p.acquire("a", true)
	turns := make(chan int, 5)
	for i := range 5 {
		before := waiting("wait")
		go func() {
			s, err := p.Acquire(t.Context(), p.key("a"), true, nil)
			if err != nil {
				t.Error(err)
			}
			turns <- i
			s.Return(true)
		}()
		eventually(t, "the call to queue", func() bool { return waiting("wait") > before })
	}
	if s := p.TryAcquire(p.key("a"), true); s != nil {
		t.Error("a call that came later was served first")
	}
	if s := p.TryAcquire(p.key("a"), false); s != session {
		t.Error("a call that is never asked had to wait")
	} else {
		s.Return(false)
	}
	session.Return(true)
	for i := range 5 {
		if got := <-turns; got != i {
			t.Errorf("turn %d was of call %d", i, got)
		}
	}
	if n := p.raw.Count("initialize"); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
}

func TestOverflowIsBounded(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.PushesOnGET, s.MaxPerKey = true, 3 })
	sessions := map[*Session]bool{}
	var first *Session
	for range 3 {
		s := p.acquire("a", true)
		if first == nil {
			first = s
		}
		sessions[s] = true
	}
	if len(sessions) != 3 {
		t.Fatalf("%d sessions for 3 eligible calls, want one each", len(sessions))
	}
	results := p.acquireAll(1, "wait", func(int) (*Session, error) { return p.Acquire(t.Context(), p.key("a"), true, nil) })
	first.Return(true)
	if r := <-results; r.session != first || r.err != nil {
		t.Errorf("the freed session was not handed over: %v", r.err)
	}
	// Sequential calls stay on the primary session.
	for s := range sessions {
		s.Return(true)
	}
	for range 3 {
		s := p.acquire("a", true)
		if s != first {
			t.Error("a call alone was not served by the primary session")
		}
		s.Return(true)
	}
}

func TestQueueIsBounded(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.PushesOnGET, s.QueueEligible, s.Queue = true, true, 2 })
	session := p.acquire("a", true)
	ctx, cancel := context.WithCancel(t.Context())
	results := p.acquireAll(2, "wait", func(int) (*Session, error) { return p.Acquire(ctx, p.key("a"), true, nil) })
	if _, err := p.Acquire(t.Context(), p.key("a"), true, nil); !errors.Is(err, ErrFull) {
		t.Errorf("third in a queue of two: %v, want ErrFull", err)
	}
	cancel()
	for range 2 {
		if r := <-results; !errors.Is(r.err, context.Canceled) {
			t.Errorf("got %v, want %v", r.err, context.Canceled)
		}
	}
	if n := len(p.entryOf("a").waiters); n != 0 {
		t.Errorf("%d still queue after they gave up", n)
	}
	session.Return(true)
	if session.eligible != 0 || session.users != 0 {
		t.Errorf("%d users and %d eligible are left", session.users, session.eligible)
	}
}

func TestQueueTimesOut(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.PushesOnGET, s.QueueEligible, s.QueueTimeout = true, true, time.Millisecond })
	p.acquire("a", true)
	if _, err := p.Acquire(t.Context(), p.key("a"), true, nil); !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	if n := len(p.entryOf("a").waiters); n != 0 {
		t.Errorf("%d still queue after their time", n)
	}
}

func TestPushIsNotKnownBeforehand(t *testing.T) {
	p := newPool(t, nil)
	if a, b := p.acquire("a", true), p.acquire("a", true); a != b {
		t.Error("calls did not share the session")
	}
	p.learnPush()
	if !p.PushesOnGET() {
		t.Error("not learned")
	}
	if s := p.TryAcquire(p.key("a"), true); s != nil {
		t.Error("the session was lent to a third eligible call")
	}
}

func TestUnusedSessionMakesRoom(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.MaxSessions, s.QueueTimeout = 2, time.Millisecond })
	a := p.acquire("a", false)
	p.acquire("b", false)
	if _, err := p.Acquire(t.Context(), p.key("c"), false, nil); !errors.Is(err, ErrFull) {
		t.Fatalf("got %v, want ErrFull while every session is in use", err)
	}
	a.Return(false)
	p.acquire("c", false)
	p.raw.WaitHTTP(http.MethodDelete, 1)
	eventually(t, "the count", func() bool { return p.Sessions() == 2 })
	if _, err := p.Acquire(t.Context(), p.key("a"), false, nil); !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
}

// The limit holds too where many callers come at once.
func TestSessionsAreBounded(t *testing.T) {
	const limit = 3
	p := newPool(t, func(s *Settings) { s.MaxSessions, s.QueueTimeout = limit, time.Millisecond })
	arrived := make(chan struct{}, 100)
	gate := make(chan struct{})
	p.raw.Hook(func(x *rawserver.Exchange) bool {
		if x.Record.Method() == "initialize" {
			arrived <- struct{}{}
			x.Hold(gate)
		}
		return false
	})
	const callers = 40
	results := make(chan lent, callers)
	start := make(chan struct{})
	for i := range callers {
		go func() {
			<-start
			s, err := p.Acquire(t.Context(), p.key(string(rune('A'+i))), false, nil)
			results <- lent{s, err}
		}()
	}
	close(start)
	full := 0
	for range callers - limit {
		if r := <-results; !errors.Is(r.err, ErrFull) {
			t.Fatalf("got %v, want ErrFull", r.err)
		}
		full++
	}
	close(gate)
	for range limit {
		if r := <-results; r.err != nil {
			t.Error(r.err)
		}
	}
	if n := p.raw.Count("initialize"); n != limit || p.Sessions() != limit {
		t.Errorf("%d handshakes and %d sessions, want %d", n, p.Sessions(), limit)
	}
}

func TestIdleSessionsExpire(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.PushesOnGET = true })
	primary, overflow := p.acquire("a", true), p.acquire("a", true)
	used := p.acquire("b", false)
	e := p.entryOf("a")
	e.expire(time.Now().Add(24 * time.Hour))
	if len(e.sessions) != 2 {
		t.Fatal("a session in use has expired")
	}
	primary.Return(true)
	overflow.Return(true)
	e.expire(time.Now().Add(overflowTTL + time.Second))
	if len(e.sessions) != 1 || e.sessions[0] != primary {
		t.Fatal("overflow has not expired, or the primary session has")
	}
	p.raw.WaitHTTP(http.MethodDelete, 1)
	e.expire(time.Now().Add(24 * time.Hour))
	p.raw.WaitHTTP(http.MethodDelete, 2)
	if p.entryOf("a") == e {
		t.Error("an entry without sessions is still on the books")
	}
	eventually(t, "the count", func() bool { return p.Sessions() == 1 })
	if s := p.acquire("a", false); s == primary {
		t.Error("a session was lent that has expired")
	}
	used.Return(false)
}

func TestEphemeralSessionServesOneCall(t *testing.T) {
	p := newPool(t, nil)
	key := p.key("a")
	key.Ephemeral = true
	s, err := p.Acquire(t.Context(), key, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Return(true)
	p.raw.WaitHTTP(http.MethodDelete, 1)
	eventually(t, "the count", func() bool { return p.Sessions() == 0 })
}

// The server forgot the session: whoever queues for it looks again.
func TestSessionThatIsGoneIsReplaced(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.PushesOnGET, s.QueueEligible = true, true })
	old := p.acquire("a", true)
	results := p.acquireAll(2, "wait", func(int) (*Session, error) { return p.Acquire(t.Context(), p.key("a"), true, nil) })
	p.raw.Session().Expire()
	if _, err := old.Request(t.Context(), nil, mcp.MethodPing, nil); !errors.Is(err, ErrSessionGone) {
		t.Fatalf("got %v, want ErrSessionGone", err)
	}
	r := <-results
	if r.err != nil || r.session == old {
		t.Fatalf("got %p, %v; want another session than %p", r.session, r.err, old)
	}
	old.Return(true)
	r.session.Return(true)
	if r := <-results; r.err != nil {
		t.Fatal(r.err)
	}
	if n := p.raw.Count("initialize"); n != 2 {
		t.Errorf("%d handshakes, want 2", n)
	}
	if n := p.raw.HTTPCount(http.MethodDelete); n != 0 {
		t.Errorf("%d sessions were deleted that the server does not know", n)
	}
}

func TestCloseDeletesTheSessions(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.PushesOnGET = true })
	for _, name := range []string{"a", "a", "b", "c"} {
		p.acquire(name, true)
	}
	for _, e := range p.all() {
		for _, s := range e.sessions {
			s.Return(true)
		}
	}
	p.Close(t.Context())
	if n := p.raw.HTTPCount(http.MethodDelete); n != 4 {
		t.Errorf("%d sessions were deleted, want 4", n)
	}
	if n := p.Sessions(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
	if _, err := p.Acquire(t.Context(), p.key("a"), false, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// A server that hangs does not hold up the end.
func TestCloseEndsWithItsContext(t *testing.T) {
	p := newPool(t, nil)
	s := p.acquire("a", false)
	arrived := make(chan struct{}, 10)
	p.raw.Hook(func(x *rawserver.Exchange) bool {
		if x.R.Method == http.MethodGet {
			return false
		}
		arrived <- struct{}{}
		x.Silence()
		return true
	})
	s.enqueue(nil, append(getText(0), `{"jsonrpc":"2.0","method":"notifications/x"}`...))
	<-arrived
	s.Return(false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	p.Close(ctx)
	if took := time.Since(began); took > p.settings.PostTimeout/2 {
		t.Errorf("Close took %v after its context had ended", took)
	}
}

// The server has a session from its answer to initialize on, whatever happens next.
func TestHandshakeThatFailsLateLeavesNoSession(t *testing.T) {
	for name, spoil := range map[string]func(*rawserver.Server){
		"initialized refused": func(raw *rawserver.Server) {
			raw.Once(rawserver.ForMethod("notifications/initialized"), func(x *rawserver.Exchange) { x.Reply(500, "no") })
		},
		"too much to say": func(raw *rawserver.Server) {
			raw.Once(rawserver.ForMethod("initialize"), func(x *rawserver.Exchange) {
				x.Reply(200, `{"jsonrpc":"2.0","id":`+string(x.Record.Messages[0].ID)+`,"result":{"protocolVersion":"2025-11-25","instructions":"`+
					strings.Repeat("x", maxInfo)+`"}}`, "Content-Type", "application/json", "Mcp-Session-Id", "s1")
			})
		},
		"another version": func(raw *rawserver.Server) {
			raw.Once(rawserver.ForMethod("initialize"), func(x *rawserver.Exchange) {
				x.Reply(200, `{"jsonrpc":"2.0","id":`+string(x.Record.Messages[0].ID)+`,"result":{"protocolVersion":"1999-01-01","capabilities":{}}}`,
					"Content-Type", "application/json", "Mcp-Session-Id", "s1")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, nil)
			spoil(p.raw)
			if _, err := p.Acquire(t.Context(), p.key("a"), false, nil); err == nil {
				t.Fatal("a session was lent")
			}
			p.raw.WaitHTTP(http.MethodDelete, 1)
			eventually(t, "the count", func() bool { return p.Sessions() == 0 })
		})
	}
}

// Who queues because a session is being opened gets its turn when that fails,
// before whoever comes later.
func TestFailedOverflowWakesWhoWaits(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.PushesOnGET, s.MaxPerKey = true, 2 })
	p.acquire("a", true) // and stays
	arrived, gate := hold(p.raw, "initialize", func(x *rawserver.Exchange) bool {
		x.Reply(http.StatusServiceUnavailable, "busy")
		return true
	})
	failed := make(chan error, 1)
	go func() {
		_, err := p.Acquire(t.Context(), p.key("a"), true, nil)
		failed <- err
	}()
	<-arrived
	queued := p.acquireAll(1, "wait", func(int) (*Session, error) { return p.Acquire(t.Context(), p.key("a"), true, nil) })
	close(gate)
	var status *StatusError
	if err := <-failed; !errors.As(err, &status) || status.Status != 503 {
		t.Errorf("the first was told %v, want HTTP 503", err)
	}
	if r := <-queued; r.err != nil {
		t.Errorf("the second was told %v", r.err)
	}
}

// A call that finds others waiting has the first of them look again, and queues.
func TestNewcomerQueues(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.PushesOnGET, s.MaxPerKey = true, 1 })
	one := p.acquire("a", true)
	queued := p.acquireAll(1, "wait", func(int) (*Session, error) { return p.Acquire(t.Context(), p.key("a"), true, nil) })
	e := p.entryOf("a")
	e.mu.Lock()
	p.settings.MaxPerKey = 2 // there is room, of which nobody has heard
	e.mu.Unlock()
	late := make(chan lent, 1)
	go func() {
		s, err := p.Acquire(t.Context(), p.key("a"), true, nil)
		late <- lent{s, err}
	}()
	first := <-queued
	if first.err != nil || first.session == one {
		t.Fatalf("the first in the queue was told %v", first.err)
	}
	first.session.Return(true)
	if r := <-late; r.err != nil || r.session != first.session {
		t.Errorf("the newcomer was told %v", r.err)
	}
}
