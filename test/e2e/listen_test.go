package e2e

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

const acknowledged = "notifications/subscriptions/acknowledged"

// listenTo makes a subscriptions/listen for these notifications.
func listenTo(notifications map[string]any, changes ...func(*Message)) *Message {
	return Request("subscriptions/listen", map[string]any{"notifications": notifications}, changes...)
}

// everything is a filter with all that there is.
func everything(uris ...string) map[string]any {
	uris = append([]string{}, uris...) // a list, even if it is empty
	return map[string]any{"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": uris}
}

// subscribed checks that a message belongs to a subscription.
func subscribed(t testing.TB, params []byte, id string) {
	t.Helper()
	if got := string(at(params, "_meta", metaSubscription)); got != id {
		t.Errorf("subscriptionId is %s, want %s: %s", got, id, params)
	}
}

// TestListen: acknowledged first, told of what was asked for and nothing else,
// always under the subscription's id. Spec 2026-07-28,
// basic/patterns/subscriptions.
func TestListen(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	h := Start(t, Options{Upstream: to(server)})
	stream := h.Open(t, listenTo(map[string]any{"toolsListChanged": true, "resourceSubscriptions": []string{"file:///a"}}, ID("listen:0")))
	status, header := stream.Header()
	if status != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("HTTP %d %s, want a stream", status, header.Get("Content-Type"))
	}
	ack := stream.Notification(acknowledged)
	subscribed(t, ack.Params, `"listen:0"`)
	want := `{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}`
	if got := at(ack.Params, "notifications"); !sameJSON(t, got, []byte(want)) {
		t.Errorf("acknowledges %s, want %s", got, want)
	}
	session := server.Session()
	session.Notify("notifications/prompts/list_changed", "")
	session.Notify("notifications/resources/list_changed", "")
	session.Notify("notifications/resources/updated", `{"uri":"file:///b"}`)
	session.Notify("notifications/message", `{"level":"error","data":"x"}`)
	session.Notify("notifications/tools/list_changed", "")
	subscribed(t, stream.Notification("notifications/tools/list_changed").Params, `"listen:0"`)
	session.Notify("notifications/resources/updated", `{"uri":"file:///a","title":"A","_meta":{"x":1}}`)
	updated := stream.Notification("notifications/resources/updated")
	want = `{"uri":"file:///a","title":"A","_meta":{"x":1,"` + metaSubscription + `":"listen:0"}}`
	if !sameJSON(t, updated.Params, []byte(want)) {
		t.Errorf("got %s, want %s", updated.Params, want)
	}
}

// TestListenKinds: every kind of notification arrives.
func TestListenKinds(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	h := Start(t, Options{Upstream: to(server)})
	stream := h.Open(t, listenTo(everything("x:1", "x:2"), ID(77)))
	subscribed(t, stream.Notification(acknowledged).Params, "77")
	session := server.Session()
	for _, n := range []struct{ method, params string }{
		{"notifications/tools/list_changed", ""}, {"notifications/prompts/list_changed", "{}"},
		{"notifications/resources/list_changed", ""}, {"notifications/resources/updated", `{"uri":"x:2"}`},
	} {
		session.Notify(n.method, n.params)
		subscribed(t, stream.Notification(n.method).Params, "77")
	}
	var uris []string
	for _, m := range server.Received("resources/subscribe") {
		uris = append(uris, string(at(m.Params, "uri")))
	}
	if strings.Join(uris, " ") != `"x:1" "x:2"` {
		t.Errorf("subscribed to %v", uris)
	}
}

// TestListenHonoured: the acknowledgement names only what the server can do.
func TestListenHonoured(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ capabilities, want string }{
		"lists":     {`{"tools":{"listChanged":true},"prompts":{},"resources":{"listChanged":false}}`, `{"toolsListChanged":true}`},
		"resources": {`{"resources":{"subscribe":true}}`, `{"resourceSubscriptions":["x:ok"]}`},
		"nothing":   {`{}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{Capabilities: test.capabilities})
			server.Handle("resources/subscribe", func(c *rawserver.Call) {
				if string(at(c.Params, "uri")) == `"x:ok"` {
					c.Result(`{}`)
					return
				}
				c.Error(-32002, "Resource not found", "")
			})
			h := Start(t, Options{Upstream: to(server)})
			stream := h.Open(t, listenTo(everything("x:ok", "x:unknown")))
			ack := stream.Notification(acknowledged)
			if got := at(ack.Params, "notifications"); !sameJSON(t, got, []byte(test.want)) {
				t.Errorf("acknowledges %s, want %s", got, test.want)
			}
			if !strings.Contains(test.capabilities, "subscribe") && server.Count("resources/subscribe") > 0 {
				t.Error("a server that cannot do so was asked to subscribe")
			}
		})
	}
}

// TestListenKeepAlive: silence is filled with comments.
func TestListenKeepAlive(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	h := Start(t, Options{Upstream: to(server), Config: "stream: {keepalive: 20ms}"})
	stream := h.Open(t, listenTo(everything()))
	stream.Notification(acknowledged)
	stream.Comment()
	stream.Comment()
}

// TestListenCounted: two listeners of one resource are one subscription at the
// server, which ends with the last of them.
func TestListenCounted(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	h := Start(t, Options{Upstream: to(server)})
	one := h.Open(t, listenTo(everything("x:1"), ID("one")))
	one.Notification(acknowledged)
	two := h.Open(t, listenTo(everything("x:1", "x:2"), ID("two")))
	two.Notification(acknowledged)
	server.Session().Notify("notifications/resources/updated", `{"uri":"x:1"}`)
	subscribed(t, one.Notification("notifications/resources/updated").Params, `"one"`)
	subscribed(t, two.Notification("notifications/resources/updated").Params, `"two"`)
	two.Close()
	server.WaitCount("resources/unsubscribe", 1)
	server.Session().Notify("notifications/resources/updated", `{"uri":"x:1"}`)
	one.Notification("notifications/resources/updated")
	one.Close()
	server.WaitCount("resources/unsubscribe", 2)
	var uris []string
	for _, method := range []string{"resources/subscribe", "resources/unsubscribe"} {
		for _, m := range server.Received(method) {
			uris = append(uris, string(at(m.Params, "uri")))
		}
	}
	if got, want := strings.Join(uris, " "), `"x:1" "x:2" "x:2" "x:1"`; got != want {
		t.Errorf("subscribed and unsubscribed %s, want %s", got, want)
	}
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
	reaches(t, h, "holdfast_listeners", 0)
}

// TestListenShares: the listener and the calls of one principal with the same
// capabilities share a session, because servers notify per session.
func TestListenShares(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("toggle", func(c *rawserver.Call) {
		c.Session.Notify("notifications/resources/updated", `{"uri":"x:1"}`)
		c.Text("toggled")
	})
	h := Start(t, Options{Upstream: to(server)})
	one := h.One() // stopping, which ends its listeners, is of each replica
	stream := h.Open(t, listenTo(everything("x:1"), Bearer("a")))
	stream.Notification(acknowledged)
	h.Send(t, CallTool("toggle", nil, Bearer("a"))).Completes(t)
	stream.Notification("notifications/resources/updated")
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
	// Nobody else hears of it.
	other := one.Open(t, listenTo(everything("x:1"), Bearer("b"), ID("b")))
	other.Notification(acknowledged)
	h.Send(t, CallTool("toggle", nil, Bearer("a"))).Completes(t)
	stream.Notification("notifications/resources/updated")
	h.Send(t, CallTool("toggle", nil, Bearer("b"))).Completes(t)
	subscribed(t, other.Notification("notifications/resources/updated").Params, `"b"`)
	one.Signal(syscall.SIGTERM)
	if rest := other.Reply(); len(rest.Messages) != 1 {
		t.Errorf("a listener heard of another principal's session: %s", rest.Body)
	}
	one.ends(t)
}

// TestListenClosed: when the proxy stops, the listener's request is answered.
// Spec 2026-07-28, basic/patterns/subscriptions, "Graceful Closure".
func TestListenClosed(t *testing.T) {
	onlyStreamable(t, "there is a stream beside those of calls")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	h := Start(t, Options{Upstream: to(server)})
	stream := h.Open(t, listenTo(everything("x:1"), ID("L")))
	stream.Notification(acknowledged)
	h.Signal(syscall.SIGTERM)
	last := stream.Reply()
	last.Completes(t)
	subscribed(t, last.Result, `"L"`)
	if len(last.Messages) != 1 {
		t.Errorf("got %s, want the result alone", last.Body)
	}
	h.ends(t)
	if n := server.HTTPCount("DELETE"); n != 1 {
		t.Errorf("%d DELETE, want 1", n)
	}
}

// TestListenSessionLost: the listener outlives its session, and is told of all
// that may have changed unseen.
func TestListenSessionLost(t *testing.T) {
	onlyStreamable(t, "there is a stream beside those of calls")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	h := Start(t, Options{Upstream: to(server), Config: "upstream: {retry_min: 1ms}"})
	stream := h.Open(t, listenTo(map[string]any{"toolsListChanged": true, "resourceSubscriptions": []string{"x:1"}}, ID("L")))
	stream.Notification(acknowledged)
	for round := 2; round <= 3; round++ {
		server.Session().Expire()
		subscribed(t, stream.Notification("notifications/tools/list_changed").Params, `"L"`)
		updated := stream.Notification("notifications/resources/updated")
		if got := string(at(updated.Params, "uri")); got != `"x:1"` {
			t.Errorf("told of %s, want x:1", got)
		}
		if n := server.Count("initialize"); n != round {
			t.Errorf("%d handshakes, want %d", n, round)
		}
		if n := server.Count("resources/subscribe"); n != round {
			t.Errorf("%d subscriptions, want one for each of %d sessions", n, round)
		}
	}
	server.Session().Notify("notifications/resources/updated", `{"uri":"x:1"}`)
	stream.Notification("notifications/resources/updated")
	if n := server.Count("resources/unsubscribe"); n != 0 {
		t.Errorf("%d unsubscriptions on sessions that were gone", n)
	}
}

// TestListenStreamBroken: a GET stream that breaks and is opened again loses
// the listener nothing.
func TestListenStreamBroken(t *testing.T) {
	onlyStreamable(t, "there is a stream beside those of calls")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	h := Start(t, Options{Upstream: to(server), Config: "upstream: {retry_min: 1ms}"})
	stream := h.Open(t, listenTo(everything()))
	stream.Notification(acknowledged)
	session := server.Session()
	session.Notify("notifications/tools/list_changed", "")
	stream.Notification("notifications/tools/list_changed")
	session.Cut()
	session.Notify("notifications/prompts/list_changed", "")
	stream.Notification("notifications/prompts/list_changed")
}

// TestListenRefused: an error before the acknowledgement is the answer.
func TestListenRefused(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Once(rawserver.ForMethod("initialize"), func(x *rawserver.Exchange) { x.Unauthorized(`Bearer realm="x"`) })
	h := Start(t, Options{Upstream: to(server)})
	reply := h.Send(t, listenTo(everything()))
	if reply.Status != 401 || reply.Header.Get("WWW-Authenticate") != `Bearer realm="x"` {
		t.Errorf("HTTP %d %v, want the server's 401", reply.Status, reply.Header)
	}
	reaches(t, h, "holdfast_listeners", 0)
}

// TestListenLimits: listeners.max, listeners.max_per_principal and
// listeners.max_uris.
func TestListenLimits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config       string
		status, code int
		reason       string
		other        bool // another principal may listen
	}{
		"max":               {"listeners: {max: 1}", http.StatusServiceUnavailable, -32603, "overload", false},
		"max_per_principal": {"listeners: {max_per_principal: 1}", http.StatusTooManyRequests, -32603, "quota", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			h := Start(t, Options{Upstream: to(server), Config: test.config}).One() // each replica has so many places
			first := h.Open(t, listenTo(everything(), Bearer("a")))
			first.Notification(acknowledged)
			refused := h.Send(t, listenTo(everything(), Bearer("a")))
			refused.Fails(t, test.status, test.code, test.reason)
			if refused.Header.Get("Retry-After") == "" {
				t.Error("the refusal does not say when to try again")
			}
			if test.other {
				h.Open(t, listenTo(everything(), Bearer("b"))).Notification(acknowledged)
			}
			first.Close()
			settles(t, h, "holdfast_listeners", "room", func(n float64) bool { return n == 0 || test.other && n == 1 })
			h.Open(t, listenTo(everything(), Bearer("a"))).Notification(acknowledged)
		})
	}
	t.Run("max_uris", func(t *testing.T) {
		t.Parallel()
		server := newServer(t, rawserver.Settings{})
		h := Start(t, Options{Upstream: to(server), Config: "listeners: {max_uris: 2}"})
		h.Send(t, listenTo(everything("x:1", "x:2", "x:3"))).Fails(t, 400, -32602, "invalid_params")
		h.Open(t, listenTo(everything("x:1", "x:2"))).Notification(acknowledged)
	})
}

// TestListenEnds: what a closed listener leaves behind, and that its stream
// does not end by itself.
func TestListenEnds(t *testing.T) {
	onlyStreamable(t, "there is a stream beside those of calls")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	h := Start(t, Options{Upstream: to(server), Config: "sessions: {idle_ttl: 10ms}"})
	stream := h.Open(t, listenTo(everything("x:1")))
	stream.Notification(acknowledged)
	// The session is kept by its listener, however idle.
	h.Send(t, Request("tools/list", nil, Bearer("other"))).Completes(t)
	server.WaitHTTP("DELETE", 1)
	if got := sent(server, "DELETE")[0].Header.Get("Authorization"); got != "Bearer other" {
		t.Errorf("the session of the listener was ended")
	}
	stream.Close()
	server.WaitCount("resources/unsubscribe", 1)
	server.WaitHTTP("DELETE", 2)
	if _, err := stream.Frame(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v before its client closed it", err)
	}
	reaches(t, h, "holdfast_upstream_sessions", 0)
}
