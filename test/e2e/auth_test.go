package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

const challenge = `Bearer resource_metadata="http://x.example/.well-known/oauth-protected-resource", scope="a b"`

// TestUnauthorized: the server's 401 and 403 reach the client as they are,
// whatever request met them. Spec 2026-07-28, basic/authorization.
func TestUnauthorized(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	for _, met := range []string{"initialize", "notifications/initialized", "tools/call"} {
		for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
			t.Run(met+" "+jsonText(status), func(t *testing.T) {
				t.Parallel()
				server := newServer(t, rawserver.Settings{})
				server.Tool("say", saying)
				server.Once(rawserver.ForMethod(met), func(x *rawserver.Exchange) {
					x.Reply(status, `{"error":"insufficient_scope"}`, "Content-Type", "application/json",
						"WWW-Authenticate", challenge, "WWW-Authenticate", `Basic realm="y"`, "Mcp-Session-Id", "s3cret")
				})
				h := Start(t, Options{Upstream: to(server)})
				call := CallTool("say", map[string]any{"say": "x"}, Bearer("old"))
				reply := h.Send(t, call)
				if reply.Status != status {
					t.Fatalf("HTTP %d, want %d\n%s", reply.Status, status, reply.Body)
				}
				if got := reply.Header.Values("WWW-Authenticate"); !slices.Equal(got, []string{challenge, `Basic realm="y"`}) {
					t.Errorf("WWW-Authenticate is %q", got)
				}
				if reply.Header.Get("Mcp-Session-Id") != "" {
					t.Error("the client is told a session id")
				}
				if got := string(reply.Body); got != `{"error":"insufficient_scope"}` {
					t.Errorf("the body is %s, want the server's", got)
				}
				if n := server.Count(met); n != 1 {
					t.Errorf("%s was sent %d times, want once", met, n)
				}
				if got := h.Send(t, CallTool("say", map[string]any{"say": "x"}, Bearer("new"))).Text(t); got != "said x" {
					t.Errorf("with another token: %q", got)
				}
			})
		}
	}
}

// TestUnauthorizedWithoutBody: there is always a body that a client can read.
func TestUnauthorizedWithoutBody(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Hook(func(x *rawserver.Exchange) bool {
		x.Reply(http.StatusUnauthorized, "", "WWW-Authenticate", challenge)
		return true
	})
	h := Start(t, Options{Upstream: to(server)})
	reply := h.Send(t, CallTool("say", nil))
	reply.Fails(t, http.StatusUnauthorized, -32600, "")
	if got := reply.Header.Get("WWW-Authenticate"); got != challenge {
		t.Errorf("WWW-Authenticate is %q", got)
	}
}

// TestUnauthorizedAnswer: where the server refuses the credentials of an
// answer, the call waits on for the same retry with better ones.
func TestUnauthorizedAnswer(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("greet", greeting)
	server.Hook(func(x *rawserver.Exchange) bool {
		old := x.R.Header.Get("Authorization") == "Bearer old"
		if answer := x.R.Method == "POST" && x.Record.Method() == ""; !answer || !old {
			return false
		}
		x.Unauthorized(challenge)
		return true
	})
	h := Start(t, Options{Upstream: to(server), Config: "principal: {header: X-User}"})
	first := h.Send(t, CallTool("greet", nil, Header("X-User", "ada"), Bearer("old")))
	first.Asks(t, "elicitation-1")
	refused := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")})
	if refused.Status != http.StatusUnauthorized || refused.Header.Get("WWW-Authenticate") != challenge {
		t.Fatalf("HTTP %d %v, want the server's 401", refused.Status, refused.Header)
	}
	last := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}, Bearer("new"))
	if got := last.Text(t); got != "Hello Ada" {
		t.Errorf("got %q", got)
	}
	if n := server.ToolCalls("greet"); n != 1 {
		t.Errorf("the tool was called %d times, want once", n)
	}
}

// TestUnauthorizedOthers: a refusal concerns the one who was refused.
func TestUnauthorizedOthers(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	all := newGate(t)
	server.Hook(func(x *rawserver.Exchange) bool {
		if x.Record.Method() != "initialize" {
			return false
		}
		x.Hold(all)
		bad := x.R.Header.Get("Authorization") == "Bearer bad"
		if bad {
			x.Unauthorized(challenge)
		}
		return bad
	})
	// One principal, two tokens: the handshake with the bad one is no answer to
	// the call with the good one that waits for it.
	h := Start(t, Options{Upstream: to(server), Config: "principal: {header: X-User}"})
	bad := h.Open(t, CallTool("say", nil, Header("X-User", "ada"), Bearer("bad")))
	server.WaitCount("initialize", 1)
	good := h.Open(t, CallTool("say", nil, Header("X-User", "ada"), Bearer("good")))
	reaches(t, h, "holdfast_rounds_in_flight", 2)
	all.open()
	if status, _ := bad.Header(); status != http.StatusUnauthorized {
		t.Errorf("the bad token got HTTP %d", status)
	}
	good.Reply().Completes(t)
}

// TestForwarded: a request's Authorization and the configured headers go
// upstream with this request, and nothing else does.
func TestForwarded(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("greet", greeting)
	h := Start(t, Options{Config: `
principal: {header: X-User}
upstreams:
- ` + to(server).YAML() + `
  headers: {X-Own: own}
  forward_headers: [X-Tenant, Traceparent]
`})
	first := h.Send(t, CallTool("greet", nil, Header("X-User", "ada"), Bearer("one"),
		Header("X-Tenant", "t1"), Header("X-Other", "o"), Header("Cookie", "c=1"), Header("Mcp-Session-Id", "forged")))
	first.Asks(t, "elicitation-1")
	h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}, Bearer("two"), Header("X-Tenant", "t2")).Completes(t)
	h.Send(t, Request("tools/list", nil, Header("X-User", "ada"), Bearer("three"), Header("X-Tenant", ""))).Completes(t)
	h.Stop()

	want := map[string][2]string{ // what brought it, by JSON-RPC method
		"initialize": {"Bearer one", "t1"}, "notifications/initialized": {"Bearer one", "t1"}, "tools/call": {"Bearer one", "t1"},
		"": {"Bearer two", "t2"}, // the answer
	}
	for _, r := range server.Records() {
		if got := r.Header.Get("X-Own"); got != "own" {
			t.Errorf("%s %s has X-Own %q", r.HTTP, r.Method(), got)
		}
		for _, name := range []string{"X-Other", "Cookie", "X-User", "Origin", "Traceparent"} {
			if got := r.Header.Get(name); got != "" {
				t.Errorf("%s %s has %s %q", r.HTTP, r.Method(), name, got)
			}
		}
		if sessionOf(r) == "forged" {
			t.Errorf("%s %s names a session that a client made up", r.HTTP, r.Method())
		}
		if w, ok := want[r.Method()]; ok && r.HTTP == "POST" {
			if got := [2]string{r.Header.Get("Authorization"), r.Header.Get("X-Tenant")}; got != w {
				t.Errorf("POST %s has %q, want %q", r.Method(), got, w)
			}
		}
	}
	lists := posted(server, "tools/list")
	last := lists[len(lists)-1]
	if last.Header.Get("Authorization") != "Bearer three" || last.Header.Get("X-Tenant") != "" {
		t.Errorf("tools/list has Authorization %q, X-Tenant %q", last.Header.Get("Authorization"), last.Header.Get("X-Tenant"))
	}
	if got := sent(server, "DELETE")[0].Header.Get("Authorization"); got != "Bearer three" {
		t.Errorf("DELETE has Authorization %q, want what last used the session", got)
	}
	for _, secret := range []string{"Bearer one", "Bearer two", "Bearer three"} {
		if n := h.Logs.Count(secret); n > 0 {
			t.Errorf("the log has %q", secret)
		}
	}
}

// TestForwardedToOneUpstream: credentials for one upstream do not reach another.
func TestForwardedToOneUpstream(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	a, b := newServer(t, rawserver.Settings{}), newServer(t, rawserver.Settings{})
	h := Start(t, Options{Config: `
upstreams:
- {name: a, ` + to(a).YAML() + `, path: /a, forward_headers: [X-For-A]}
- {name: b, ` + to(b).YAML() + `, path: /b}
`})
	h.At("/a").Send(t, Request("tools/list", nil, Bearer("for-a"), Header("X-For-A", "1"))).Completes(t)
	h.At("/b").Send(t, Request("tools/list", nil, Bearer("for-b"), Header("X-For-A", "1"))).Completes(t)
	for _, r := range b.Records() {
		if got := r.Header.Get("Authorization"); got != "Bearer for-b" || r.Header.Get("X-For-A") != "" {
			t.Errorf("b got %s %s with Authorization %q and X-For-A %q", r.HTTP, r.Method(), got, r.Header.Get("X-For-A"))
		}
	}
	for _, r := range a.Records() {
		if got := r.Header.Get("Authorization"); got != "Bearer for-a" || r.Header.Get("X-For-A") != "1" {
			t.Errorf("a got %s %s with Authorization %q and X-For-A %q", r.HTTP, r.Method(), got, r.Header.Get("X-For-A"))
		}
	}
}

// TestSessionsOfPrincipals: no principal sees another's session, whatever the
// first one did before.
func TestSessionsOfPrincipals(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("greet", greeting)
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("greet", nil, Bearer("a")))
	first.Asks(t, "elicitation-1")
	h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Eve")}, Bearer("b")).Fails(t, 400, -32602, "state_foreign")
	h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Eve")}, Header("Authorization", "")).Fails(t, 400, -32602, "state_foreign")
	if n := len(server.Responses()); n != 0 {
		t.Errorf("%d answers of a stranger reached the server", n)
	}
	h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Completes(t)
}

// TestProtectedResource: the server's metadata is passed through, without
// any client's credentials (RFC 9728).
func TestProtectedResource(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	serve := func(who string) *rawserver.Server {
		server := newServer(t, rawserver.Settings{})
		server.Hook(func(x *rawserver.Exchange) bool {
			place, ok := strings.CutPrefix(x.R.URL.Path, "/.well-known/oauth-protected-resource")
			if ok {
				x.Reply(200, `{"resource":"`+who+place+`"}`, "Content-Type", "application/json")
			}
			return ok
		})
		return server
	}
	get := func(t *testing.T, url string) *Reply {
		t.Helper()
		return Do(t, "GET", url, "", http.Header{"Authorization": {"Bearer x"}, "X-Tenant": {"t"}})
	}
	t.Run("one upstream", func(t *testing.T) {
		t.Parallel()
		server := serve("a")
		h := Start(t, Options{Config: "upstreams: [{" + to(server).YAML() + ", headers: {X-Own: own}, forward_headers: [X-Tenant]}]"})
		for path, want := range map[string]string{"": `{"resource":"a"}`, "/mcp": `{"resource":"a/mcp"}`} {
			reply := get(t, h.Base+"/.well-known/oauth-protected-resource"+path)
			if reply.Status != 200 || string(reply.Body) != want || reply.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: HTTP %d %s, want %s", path, reply.Status, reply.Body, want)
			}
		}
		if reply := get(t, h.Base+"/.well-known/oauth-protected-resource/other"); reply.Status != 404 {
			t.Errorf("metadata of a path that is not served: HTTP %d", reply.Status)
		}
		for _, r := range server.Records() {
			if r.Header.Get("Authorization")+r.Header.Get("X-Tenant") != "" {
				t.Errorf("metadata was asked for with credentials: %v", r.Header)
			}
			if r.Header.Get("X-Own") != "own" {
				t.Errorf("metadata was asked for without the upstream's own header: %v", r.Header)
			}
		}
		if reply := Do(t, "POST", h.Base+"/.well-known/oauth-protected-resource", "{}", nil); reply.Status != 405 {
			t.Errorf("POST: HTTP %d, want 405", reply.Status)
		}
	})
	t.Run("several upstreams", func(t *testing.T) {
		t.Parallel()
		a, b := serve("a"), serve("b")
		h := Start(t, Options{Config: `
upstreams:
- {name: a, ` + to(a).YAML() + `, path: /one}
- {name: b, ` + to(b).YAML() + `, path: /two/three}
`})
		for path, want := range map[string]string{"/one": `{"resource":"a/mcp"}`, "/two/three": `{"resource":"b/mcp"}`} {
			if reply := get(t, h.Base+"/.well-known/oauth-protected-resource"+path); reply.Status != 200 || string(reply.Body) != want {
				t.Errorf("%s: HTTP %d %s, want %s", path, reply.Status, reply.Body, want)
			}
		}
		if reply := get(t, h.Base+"/.well-known/oauth-protected-resource"); reply.Status != 404 {
			t.Errorf("nobody can say whose metadata this is: HTTP %d, want 404", reply.Status)
		}
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		server := newServer(t, rawserver.Settings{})
		h := Start(t, Options{Upstream: to(server)})
		if reply := get(t, h.Base+"/.well-known/oauth-protected-resource"); reply.Status != 404 {
			t.Errorf("HTTP %d, want the server's 404", reply.Status)
		}
		away(t, server)
		if reply := get(t, h.Base+"/.well-known/oauth-protected-resource"); reply.Status != 502 {
			t.Errorf("HTTP %d, want 502 when the server is away", reply.Status)
		}
	})
}
