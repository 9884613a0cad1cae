package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// holdInitialize keeps handshakes waiting.
func holdInitialize(server *rawserver.Server, until gate) { server.Hold("initialize", until) }

// TestNoStampede: however many calls come at once, their session is opened
// once.
func TestNoStampede(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	all := newGate(t)
	holdInitialize(server, all)
	h := Start(t, Options{Upstream: to(server)})
	const calls = 50
	capabilities := func(*Message) {}
	if oneStream(t) {
		capabilities = Caps(`{}`) // calls that may be asked something get a session each
	}
	var streams []*Stream
	for i := range calls {
		streams = append(streams, h.Open(t, CallTool("say", map[string]any{"say": fmt.Sprint(i)}, ID(1), capabilities)))
	}
	reaches(t, h, "holdfast_rounds_in_flight", calls)
	all.open()
	for i, s := range streams {
		if got, want := s.Reply().Text(t), fmt.Sprint("said ", i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d handshakes for %d calls at once, want 1", n, calls)
	}
	if n := server.HTTPCount("GET"); n != 1 && !oneStream(t) {
		t.Errorf("%d GET streams, want 1", n)
	}
}

// TestStampedeFails: calls that wait for one handshake all hear of its failure.
func TestStampedeFails(t *testing.T) {
	onlyStreamable(t, "it is answered in HTTP")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	all := newGate(t)
	server.Hook(func(x *rawserver.Exchange) bool {
		x.Hold(all)
		x.Reply(500, "")
		return true
	})
	h := Start(t, Options{Upstream: to(server)})
	var streams []*Stream
	for range 10 {
		streams = append(streams, h.Open(t, CallTool("say", nil)))
	}
	reaches(t, h, "holdfast_rounds_in_flight", 10)
	all.open()
	for _, s := range streams {
		reply := s.Reply()
		reply.Fails(t, 200, -32603, "upstream_status")
		if mayHaveRun(t, reply) {
			t.Error("the call is said to have run perhaps, but there was no session to run on")
		}
	}
	reaches(t, h, "holdfast_upstream_sessions", 0)
}

// TestSessionKeys: who shares a session with whom.
func TestSessionKeys(t *testing.T) {
	t.Parallel()
	type caller []func(*Message)
	bearer := func(token string) func(*Message) { return Bearer(token) }
	for name, test := range map[string]struct {
		config   string
		a, b     caller
		together bool
	}{
		"same again":                {a: caller{Client("a")}, b: caller{Client("a")}, together: true},
		"client-info":               {a: caller{Client("a")}, b: caller{Client("b")}},
		"capabilities":              {a: caller{Caps(`{"roots":{}}`)}, b: caller{Caps(`{"sampling":{}}`)}},
		"capabilities, other order": {a: caller{Caps(`{"roots":{},"sampling":{}}`)}, b: caller{Caps(`{ "sampling": {}, "roots": {} }`)}, together: true},
		"credentials":               {a: caller{bearer("a")}, b: caller{bearer("b")}},
		"with and without":          {a: caller{bearer("a")}, b: caller{}},
		"same credentials":          {a: caller{bearer("a"), Client("a")}, b: caller{bearer("a"), Client("b")}, together: true},
		"same credentials, other capabilities": {
			a: caller{bearer("a"), Caps(`{"roots":{}}`)}, b: caller{bearer("a"), Caps(`{}`)}},
		"shared":                   {config: "sessions: {anonymous: shared}", a: caller{Client("a")}, b: caller{Client("b")}, together: true},
		"shared, capabilities":     {config: "sessions: {anonymous: shared}", a: caller{Caps(`{"roots":{}}`)}, b: caller{Caps(`{}`)}},
		"shared, credentials":      {config: "sessions: {anonymous: shared}", a: caller{bearer("a")}, b: caller{}},
		"call":                     {config: "sessions: {anonymous: call}", a: caller{Client("a")}, b: caller{Client("a")}},
		"call, credentials":        {config: "sessions: {anonymous: call}", a: caller{bearer("a")}, b: caller{bearer("a")}, together: true},
		"principal header":         {config: "principal: {header: X-User}", a: caller{Header("X-User", "a"), bearer("x")}, b: caller{Header("X-User", "b"), bearer("x")}},
		"principal header, tokens": {config: "principal: {header: X-User}", a: caller{Header("X-User", "a"), bearer("x")}, b: caller{Header("X-User", "a"), bearer("y")}, together: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			server.Tool("say", saying)
			h := Start(t, Options{Upstream: to(server), Config: test.config})
			for _, who := range []caller{test.a, test.b} {
				h.Send(t, CallTool("say", nil, who...)).Completes(t)
			}
			got := sessionsOf(server, "tools/call")
			if len(got) != 2 || (got[0] == got[1]) != test.together {
				t.Errorf("the calls went to the sessions %q, want one session: %v", got, test.together)
			}
		})
	}
}

// TestSessionOfEachCall: with sessions.anonymous: call a session ends with its
// call, and not before.
func TestSessionOfEachCall(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("greet", greeting)
	h := Start(t, Options{Upstream: to(server), Config: "sessions: {anonymous: call}"})
	first := h.Send(t, CallTool("greet", nil))
	first.Asks(t, "elicitation-1")
	other := h.Send(t, CallTool("greet", nil))
	if got := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Text(t); got != "Hello Ada" {
		t.Errorf("got %q", got)
	}
	if got := server.WaitEnded(1); got != sessionsOf(server, "tools/call")[0] {
		t.Errorf("session %s has ended, want that of the call that has ended", got)
	}
	if got := h.Retry(t, other, Answers{"elicitation-1": Accept("name", "Bob")}).Text(t); got != "Hello Bob" {
		t.Errorf("got %q", got)
	}
	server.WaitEnded(2)
	reaches(t, h, "holdfast_upstream_sessions", 0)
}

// TestIDsNeverCollide: clients with equal ids and equal progress tokens share
// a session, and each gets what is its own.
func TestIDsNeverCollide(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	const calls = 40
	server.Tool("say", func(c *rawserver.Call) {
		c.Progress(1, 2)
		server.WaitCount("tools/call", calls) // all are in flight at once
		c.Progress(2, 2)
		c.Text("said " + c.Argument("say"))
	})
	h := Start(t, Options{Upstream: to(server), Config: "sessions: {anonymous: shared}"})
	var streams []*Stream
	for i := range calls {
		streams = append(streams, h.Open(t, CallTool("say", map[string]any{"say": fmt.Sprint(i)},
			ID("same"), Progress("same"), Client(fmt.Sprint("client ", i%4)))))
	}
	for i, s := range streams {
		reply := s.Reply()
		if got, want := reply.Text(t), fmt.Sprint("said ", i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		progress := reply.Notifications("notifications/progress")
		if len(progress) != 2 {
			t.Errorf("%d progress notifications, want 2:\n%s", len(progress), reply.Body)
		}
		for _, n := range progress {
			if got := string(at(n.Params, "progressToken")); got != `"same"` {
				t.Errorf("progress under %s, want the client's own token", got)
			}
		}
	}
	var ids, tokens []string
	for _, m := range server.Received("tools/call") {
		ids = append(ids, string(m.ID))
		tokens = append(tokens, string(at(m.Params, "_meta", "progressToken")))
	}
	if distinct(ids) != calls || distinct(tokens) != calls {
		t.Errorf("%d different ids and %d different tokens for %d calls", distinct(ids), distinct(tokens), calls)
	}
	want := 1
	if oneStream(t) {
		want = calls
	}
	if n := distinct(sessionsOf(server, "tools/call")); n != want {
		t.Errorf("the calls took %d sessions, want %d", n, want)
	}
}

// TestMaxSessions: sessions.max is kept, with an error that says when to try
// again; a session that nobody uses makes room.
func TestMaxSessions(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	hold := newGate(t)
	server.Tool("hold", hold.holding)
	// sessions.max is of each replica, and what one ends to make room may be a
	// session that another has lent it: the server would not hear of that.
	h := StartAlone(t, Options{Upstream: to(server), Config: "sessions: {max: 2, affinity: none, queue_timeout: 50ms}"})
	a := h.Open(t, CallTool("hold", nil, Bearer("a")))
	b := h.Open(t, CallTool("hold", nil, Bearer("b")))
	server.WaitCount("tools/call", 2)
	refused := h.Send(t, CallTool("hold", nil, Bearer("c")))
	refused.Fails(t, http.StatusServiceUnavailable, -32603, "overload")
	if !strings.Contains(refused.Error.Message, "sessions.max") {
		t.Errorf("the refusal does not say which limit it is: %s", refused.Error.Message)
	}
	if refused.Header.Get("Retry-After") == "" {
		t.Error("the refusal does not say when to try again")
	}
	if mayHaveRun(t, refused) {
		t.Error("the call is said to have run perhaps")
	}
	hold.open()
	a.Reply().Completes(t)
	b.Reply().Completes(t)
	h.Send(t, CallTool("hold", nil, Bearer("c"))).Completes(t)
	server.WaitEnded(1)
	if n := len(server.Sessions()); n > 2 {
		t.Errorf("the server has %d sessions, want at most 2", n)
	}
}

// TestCallersWaitForRoom: where sessions.max is reached, callers without a session
// wait for room for one, in the order in which they came.
func TestCallersWaitForRoom(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	holds := map[string]gate{}
	for _, name := range []string{"a", "b", "c"} {
		holds[name] = newGate(t)
		server.Tool(name, holds[name].holding)
	}
	h := StartAlone(t, Options{Upstream: to(server), Config: "{sessions: {max: 1}, stream: {after: 10m}}"})
	streams := map[string]*Stream{"a": h.Open(t, CallTool("a", nil, Bearer("a")))}
	server.Wait("the call", func() bool { return server.ToolCalls("a") == 1 })
	for i, name := range []string{"b", "c"} {
		streams[name] = h.Open(t, CallTool(name, nil, Bearer(name)))
		h.Logs.WaitNth(t, i+1, `"message":"call waits for room for a session"`)
	}
	for next, name := range map[string]string{"b": "a", "c": "b"} {
		if server.ToolCalls(next) != 0 {
			t.Fatalf("the call of %s did not wait for that of %s", next, name)
		}
	}
	for i, name := range []string{"a", "b", "c"} {
		server.Wait("the call", func() bool { return server.ToolCalls(name) == 1 })
		if i == 1 && server.ToolCalls("c") != 0 {
			t.Error("who came last was served at the same time")
		}
		holds[name].open()
		streams[name].Reply().Completes(t)
	}
}

// TestMaxSessionsBurst: the limit holds while sessions are being opened.
func TestMaxSessionsBurst(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	all := newGate(t)
	holdInitialize(server, all)
	h := StartAlone(t, Options{Upstream: to(server), Config: "sessions: {max: 3, queue_timeout: 50ms}"}) // sessions.max is of each replica
	var streams []*Stream
	for i := range 30 {
		streams = append(streams, h.Open(t, CallTool("say", nil, Bearer(fmt.Sprint(i)))))
	}
	// All but those that wait for their handshake are refused.
	settles(t, h, "holdfast_http_errors_total", "27", func(got float64) bool { return got >= 27 })
	all.open()
	served := 0
	for _, s := range streams {
		if reply := s.Reply(); reply.Error == nil {
			served++
			reply.Completes(t)
		} else {
			reply.Fails(t, http.StatusServiceUnavailable, -32603, "overload")
		}
	}
	if served != 3 || server.Count("initialize") != 3 {
		t.Errorf("%d calls served with %d handshakes, want 3 each", served, server.Count("initialize"))
	}
}

// TestIdleSessions: a session without use is ended at the server; one with a
// parked call is in use.
func TestIdleSessions(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	server.Tool("greet", greeting)
	h := Start(t, Options{Upstream: to(server), Config: "sessions: {idle_ttl: 10ms}"})
	parked := h.Send(t, CallTool("greet", nil, Bearer("a")))
	parked.Asks(t, "elicitation-1")
	h.Send(t, CallTool("say", nil, Bearer("b"))).Completes(t) // used later than the parked one's
	if got, want := server.WaitEnded(1), sessionsOf(server, "tools/call")[1]; got != want {
		t.Errorf("session %s has ended, want the idle one %s", got, want)
	}
	if oneStream(t) { // that is all there is to its end
	} else if got := sent(server, "DELETE")[0].Header.Get("Authorization"); got != "Bearer b" {
		t.Errorf("DELETE with Authorization %q, want what last used the session", got)
	}
	if got := h.Retry(t, parked, Answers{"elicitation-1": Accept("name", "Ada")}).Text(t); got != "Hello Ada" {
		t.Errorf("got %q", got)
	}
	server.WaitEnded(2)
	reaches(t, h, "holdfast_upstream_sessions", 0)
	if n := len(server.Sessions()); n != 0 {
		t.Errorf("the server has %d sessions left", n)
	}
	h.Send(t, CallTool("say", nil, Bearer("b"))).Completes(t) // with a new one
}
