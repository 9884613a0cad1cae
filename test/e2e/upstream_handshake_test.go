package e2e

import (
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// TestHandshake follows a session from its first to its last request: spec
// 2025-11-25, basic/lifecycle and basic/transports.
func TestHandshake(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	for name, capabilities := range map[string]string{
		"all":          AllCapabilities,
		"none":         NoCapabilities,
		"form":         `{"elicitation":{}}`,
		"experimental": `{"roots":{},"experimental":{"x.example/y":{"z":[1,2]}},"extensions":{"a.example/b":{}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			server.Tool("say", saying)
			h := Start(t, Options{Upstream: to(server)})
			reply := h.Send(t, CallTool("say", map[string]any{"say": "x"}, Caps(capabilities), Client("someone")))
			if got := reply.Text(t); got != "said x" {
				t.Errorf("got %q", got)
			}
			if id := reply.Header.Get("Mcp-Session-Id"); id != "" {
				t.Errorf("the client is told the session id %s", id)
			}
			server.WaitHTTP("GET", 1)
			h.Stop()

			records := spoken(server)
			first := records[0]
			if first.Method() != "initialize" {
				t.Fatalf("first comes %s %s, want initialize", first.HTTP, first.Method())
			}
			params := first.Messages[0].Params
			if got := string(at(params, "protocolVersion")); got != `"2025-11-25"` {
				t.Errorf("initialize offers %s, want the latest legacy revision", got)
			}
			want, err := mcp.ParseCapabilities([]byte(capabilities))
			if err != nil {
				t.Fatal(err)
			}
			if got := at(params, "capabilities"); !sameJSON(t, got, want.Declared()) {
				t.Errorf("initialize declares %s, want %s", got, want.Declared())
			}
			if got := at(params, "clientInfo"); !sameJSON(t, got, []byte(`{"name":"someone","version":"1"}`)) {
				t.Errorf("initialize names %s, want the client", got)
			}
			if id := sessionOf(first); id != "" {
				t.Errorf("initialize names session %s", id)
			}
			if got := records[1].Method(); got != "notifications/initialized" {
				t.Errorf("second comes %s, want notifications/initialized", got)
			}
			for _, r := range records[1:] {
				if got := sessionOf(r); got != "session-1" {
					t.Errorf("%s %s names session %q, want session-1", r.HTTP, r.Method(), got)
				}
				if got := r.Header.Get("MCP-Protocol-Version"); got != versionHeader(t) {
					t.Errorf("%s %s has MCP-Protocol-Version %q", r.HTTP, r.Method(), got)
				}
			}
			for _, r := range spoken(server) {
				if r.HTTP != "POST" {
					continue
				}
				if got := r.Header.Get("Content-Type"); got != "application/json" {
					t.Errorf("%s has Content-Type %q", r.Method(), got)
				}
				for _, header := range []string{"Mcp-Method", "Mcp-Name"} {
					if got := r.Header.Get(header); got != "" {
						t.Errorf("%s has %s, which no legacy client sends", r.Method(), header)
					}
				}
				if strings.Contains(string(r.Body), "io.modelcontextprotocol/") {
					t.Errorf("the server is told what only the modern revision has: %s", r.Body)
				}
			}
			get := sent(server, "GET")[0]
			if got := get.Header.Get("Accept"); !strings.Contains(got, "text/event-stream") {
				t.Errorf("GET has Accept %q", got)
			}
			last := records[len(records)-1]
			if last.HTTP != "DELETE" || len(sent(server, "DELETE")) != 1 {
				t.Errorf("last comes %s %s, want the only DELETE", last.HTTP, last.Method())
			}
		})
	}
}

// TestRevisions: what the server chose at initialize is said from then on, if its
// revision has a way to.
func TestRevisions(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-06-18", "2025-03-26", "2024-11-05"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{Version: version})
			server.Tool("greet", greeting)
			h := Start(t, Options{Upstream: to(server)})
			first := h.Send(t, CallTool("greet", nil))
			first.Asks(t, "elicitation-1")
			if got := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Text(t); got != "Hello Ada" {
				t.Errorf("got %q", got)
			}
			if oneStream(t) {
				return // without headers that say so
			}
			server.WaitHTTP("GET", 1)
			h.Stop()
			for _, r := range spoken(server)[1:] {
				want := version
				if version < "2025-06-18" {
					want = ""
				}
				if got := r.Header.Get("MCP-Protocol-Version"); got != want {
					t.Errorf("%s %s has MCP-Protocol-Version %q, want %q", r.HTTP, r.Method(), got, want)
				}
			}
		})
	}
}

// TestRevisionUnknown: a server that chooses a revision that nobody knows is
// not used, and its session does not stay behind.
func TestRevisionUnknown(t *testing.T) {
	onlyStreamable(t, "it is answered in HTTP")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Once(rawserver.ForMethod("initialize"), func(x *rawserver.Exchange) {
		x.Reply(200, `{"jsonrpc":"2.0","id":`+string(x.Record.Messages[0].ID)+
			`,"result":{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`,
			"Content-Type", "application/json", "Mcp-Session-Id", "odd")
	})
	h := Start(t, Options{Upstream: to(server)})
	h.Send(t, Request("tools/list", nil)).Fails(t, 200, -32603, "upstream_reply")
	server.WaitHTTP("DELETE", 1)
	if got := sessionOf(sent(server, "DELETE")[0]); got != "odd" {
		t.Errorf("DELETE names session %q, want odd", got)
	}
	reaches(t, h, "holdfast_upstream_sessions", 0)
	h.Send(t, Request("tools/list", nil)).Completes(t) // the next one is better
}

// TestHandshakeBroken: a session whose handshake fails half way does not stay
// behind at the server.
func TestHandshakeBroken(t *testing.T) {
	onlyStreamable(t, "it is answered in HTTP")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Once(rawserver.ForMethod("notifications/initialized"), func(x *rawserver.Exchange) { x.Reply(500, "no") })
	h := Start(t, Options{Upstream: to(server)})
	h.Send(t, Request("tools/list", nil)).Fails(t, 200, -32603, "upstream_status")
	server.Wait("the end of the session", func() bool { return len(server.Sessions()) == 0 })
	h.Send(t, Request("tools/list", nil)).Completes(t)
}

// TestHandshakeRefused: the server's own error at initialize is a clear error.
func TestHandshakeRefused(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Handle("initialize", func(c *rawserver.Call) { c.Error(-32000, "not today", "") })
	h := Start(t, Options{Upstream: to(server)})
	reply := h.Send(t, Request("tools/list", nil))
	if reply.Error == nil || mayHaveRun(t, reply) {
		t.Errorf("got HTTP %d %s, want an error that says nothing of a call that may have run", reply.Status, reply.Body)
	}
	reaches(t, h, "holdfast_upstream_sessions", 0)
}

// TestHandshakeSilent: sessions.open_timeout bounds the handshake.
func TestHandshakeSilent(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Handle("initialize", func(*rawserver.Call) {})
	h := Start(t, Options{Upstream: to(server), Config: "sessions: {open_timeout: 1s}"})
	reply := h.Send(t, Request("tools/list", nil))
	reply.Fails(t, 200, -32603, "upstream_down")
	reaches(t, h, "holdfast_upstream_sessions", 0)
}

// TestUpstreamAway: nothing listens at the server's address.
func TestUpstreamAway(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	away(t, server)
	h := Start(t, Options{Upstream: to(server)})
	reply := h.Send(t, CallTool("say", nil))
	reply.Fails(t, 200, -32603, "upstream_down")
	if mayHaveRun(t, reply) {
		t.Error("the call is said to have run perhaps, but nobody got it")
	}
}

// TestStreamAtOnce: a new session's GET stream is opened without a pause; the
// pause is for streams that broke.
func TestStreamAtOnce(t *testing.T) {
	onlyStreamable(t, "there is a stream beside those of calls")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	h := Start(t, Options{Upstream: to(server), Config: "upstream: {retry_min: 1m, retry_max: 1m}"})
	h.Send(t, Request("tools/list", nil)).Completes(t)
	server.WaitHTTP("GET", 1)
}

// TestServerShapes: what legacy servers may leave out.
func TestServerShapes(t *testing.T) {
	onlyStreamable(t, "the other transports have none of these forms")
	t.Parallel()
	for name, settings := range map[string]rawserver.Settings{
		"JSON bodies":      {JSON: true},
		"no event ids":     {NoEventIDs: true},
		"priming":          {Prime: true},
		"late headers":     {LateHeaders: true},
		"no session":       {NoSession: true},
		"no GET stream":    {NoGET: true},
		"no DELETE":        {NoDELETE: true},
		"nothing optional": {JSON: true, NoEventIDs: true, NoSession: true, NoGET: true, NoDELETE: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, settings)
			server.Tool("say", saying)
			server.Tool("greet", greeting)
			h := Start(t, Options{Upstream: to(server)})
			if got := h.Send(t, CallTool("say", map[string]any{"say": "x"})).Text(t); got != "said x" {
				t.Errorf("got %q", got)
			}
			first := h.Send(t, CallTool("greet", nil))
			first.Asks(t, "elicitation-1")
			if got := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Text(t); got != "Hello Ada" {
				t.Errorf("got %q", got)
			}
			most := 1
			if settings.NoSession {
				most = h.Size() // nothing could be lent: each replica shakes hands for itself
			}
			if n := server.Count("initialize"); n < 1 || n > most {
				t.Errorf("%d handshakes, want 1, at most %d", n, most)
			}
			h.Stop()
			if settings.NoSession {
				if n := server.HTTPCount("DELETE"); n != 0 {
					t.Errorf("%d DELETE to a server without sessions", n)
				}
				for _, r := range server.Records() {
					if _, ok := r.Header["Mcp-Session-Id"]; ok {
						t.Errorf("%s %s names a session, but the server gave none", r.HTTP, r.Method())
					}
				}
			}
		})
	}
}
