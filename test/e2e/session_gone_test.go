package e2e

import (
	"sync/atomic"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// TestSessionGone: 404 means a new session, and the request, which has not run,
// is sent once more. Spec 2025-11-25, basic/transports, "Session Management".
func TestSessionGone(t *testing.T) {
	onlyStreamable(t, "a session is gone when its stream is, elsewhere")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	var ran atomic.Int64
	server.Tool("count", func(c *rawserver.Call) {
		ran.Add(1)
		c.Text("said " + c.Argument("say"))
	})
	h := Start(t, Options{Upstream: to(server)})
	h.Send(t, Request("tools/list", nil)).Completes(t)
	server.WaitHTTP("GET", 1)
	// The GET stream must not tell the proxy first: only the call meets the 404.
	server.Once(rawserver.ForMethod("tools/call"), func(x *rawserver.Exchange) {
		server.Session().Expire()
		x.Reply(404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`, "Content-Type", "application/json")
	})
	if got := h.Send(t, CallTool("count", map[string]any{"say": "x"})).Text(t); got != "said x" {
		t.Errorf("got %q", got)
	}
	if n := ran.Load(); n != 1 {
		t.Errorf("the tool ran %d times, want once", n)
	}
	if got := sessionsOf(server, "tools/call"); len(got) != 2 || got[0] == got[1] {
		t.Errorf("the call was sent on the sessions %q, want two different ones", got)
	}
	if n := server.Count("initialize"); n != 2 {
		t.Errorf("%d handshakes, want 2", n)
	}
	h.Stop()
	for _, r := range sent(server, "DELETE") {
		if sessionOf(r) != "session-2" {
			t.Errorf("DELETE for %s, which the server does not know any more", sessionOf(r))
		}
	}
}

// TestSessionGoneForMany: calls that meet the same end share the next session.
func TestSessionGoneForMany(t *testing.T) {
	onlyStreamable(t, "a session is gone when its stream is, elsewhere")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	var ran atomic.Int64
	server.Tool("count", func(c *rawserver.Call) {
		ran.Add(1)
		c.Text("said " + c.Argument("say"))
	})
	h := Start(t, Options{Upstream: to(server)})
	h.Send(t, Request("tools/list", nil)).Completes(t)
	all := newGate(t)
	server.Hook(func(x *rawserver.Exchange) bool {
		if x.Record.Method() != "tools/call" || sessionOf(x.Record) != "session-1" {
			return false
		}
		x.Hold(all)
		x.Reply(404, "")
		return true
	})
	const calls = 20
	var streams []*Stream
	for range calls {
		streams = append(streams, h.Open(t, CallTool("count", map[string]any{"say": "x"})))
	}
	server.WaitCount("tools/call", calls)
	all.open()
	for _, s := range streams {
		if got := s.Reply().Text(t); got != "said x" {
			t.Errorf("got %q", got)
		}
	}
	if n := ran.Load(); n != calls {
		t.Errorf("the tool ran %d times for %d calls", n, calls)
	}
	if n := server.Count("initialize"); n != 2 {
		t.Errorf("%d handshakes, want 2", n)
	}
}

// TestSessionGoneTwice: a server that knows no session at all is not tried
// for ever.
func TestSessionGoneTwice(t *testing.T) {
	onlyStreamable(t, "a session is gone when its stream is, elsewhere")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Hook(func(x *rawserver.Exchange) bool {
		call := x.Record.Method() == "tools/call"
		if call {
			x.Reply(404, "")
		}
		return call
	})
	h := Start(t, Options{Upstream: to(server)})
	reply := h.Send(t, CallTool("any", nil))
	reply.Fails(t, 200, -32603, "upstream_lost")
	if n := server.Count("tools/call"); n != 2 {
		t.Errorf("tools/call was sent %d times, want twice", n)
	}
	if mayHaveRun(t, reply) {
		t.Error("the call is said to have run perhaps, but no session took it")
	}
}

// TestSessionGoneInCall: a call that had begun is not sent again.
func TestSessionGoneInCall(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("leave", func(c *rawserver.Call) {
		c.Log("info", "x")
		c.Session.Expire() // ends the stream; going on with it is answered with 404
	})
	h := Start(t, Options{Upstream: to(server)})
	reply := h.Send(t, CallTool("leave", nil))
	reply.Fails(t, 200, -32603, "upstream_lost")
	if !mayHaveRun(t, reply) {
		t.Errorf("the error does not say that the call may have run: %s", reply.Body)
	}
	if n := server.Count("tools/call"); n != 1 {
		t.Errorf("tools/call was sent %d times, want once", n)
	}
	server.Tool("say", saying)
	h.Send(t, CallTool("say", nil)).Completes(t)
}

// TestSessionGoneWhileParked: the answer to a question that nobody asks any
// more ends the call with an error, and nothing runs again.
func TestSessionGoneWhileParked(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("greet", greeting)
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("greet", nil))
	first.Asks(t, "elicitation-1")
	server.Session().Expire()
	reply := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")})
	reply.Fails(t, 200, -32603, "upstream_lost")
	if !mayHaveRun(t, reply) {
		t.Errorf("the error does not say that the call may have run: %s", reply.Body)
	}
	if n := server.ToolCalls("greet"); n != 1 {
		t.Errorf("the tool was called %d times, want once", n)
	}
	reaches(t, h, "holdfast_calls_parked", 0)
}

// TestServerRestarted: an idle proxy notices on its GET stream that its session
// is gone, and the next call has a new one at once.
func TestServerRestarted(t *testing.T) {
	onlyStreamable(t, "a session is gone when its stream is, elsewhere")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	h := Start(t, Options{Upstream: to(server), Config: "upstream: {retry_min: 1ms}"})
	h.Send(t, CallTool("say", nil)).Completes(t)
	server.WaitHTTP("GET", 1)
	server.Session().Expire()
	reaches(t, h, "holdfast_upstream_sessions", 0)
	h.Send(t, CallTool("say", nil)).Completes(t)
	if got := sessionsOf(server, "tools/call"); len(got) != 2 || got[1] != "session-2" {
		t.Errorf("the calls went to %q", got)
	}
}

// TestStandingStreamBroken: the GET stream is opened again when it breaks, and
// goes on where it was.
func TestStandingStreamBroken(t *testing.T) {
	onlyStreamable(t, "there is a stream beside those of calls")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	h := Start(t, Options{Upstream: to(server), Config: "upstream: {retry_min: 1ms}"})
	h.Send(t, Request("tools/list", nil)).Completes(t)
	session := server.Session()
	if answer := session.Push("ping", "").Wait(); !answer.OK() {
		t.Fatal("no answer to the first ping")
	}
	session.Cut()
	if answer := session.Push("ping", "").Wait(); !answer.OK() {
		t.Fatal("no answer to a ping after the stream was cut")
	}
	gets := sent(server, "GET")
	if len(gets) < 2 || gets[1].Header.Get("Last-Event-ID") != "get-0" {
		t.Errorf("%d GET requests, want a second one after event get-0", len(gets))
	}
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d handshakes, want 1", n)
	}
}
