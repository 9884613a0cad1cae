package e2e

import (
	"fmt"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// TestOneSession: however many replicas there are, a server sees one session of
// each caller and set of capabilities, with one GET stream, which is ended once.
func TestOneSession(t *testing.T) {
	onlyStreamable(t, "a session is gone when its stream is, elsewhere")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	all := newGate(t)
	holdInitialize(server, all)
	h := StartFleet(t, Options{Upstream: to(server)})
	const each = 10
	var streams []*Stream
	for _, who := range []string{"alice", "bob"} {
		for i := range each * h.Size() {
			streams = append(streams, h.Replica(i%h.Size()).Open(t, CallTool("say", map[string]any{"say": who}, Bearer(who))))
		}
	}
	server.WaitCount("initialize", 2)
	all.open()
	for i, s := range streams {
		want := "said alice"
		if i >= each*h.Size() {
			want = "said bob"
		}
		if got := s.Reply().Text(t); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if n := server.Count("initialize"); n != 2 {
		t.Errorf("%d sessions of two callers, want 2", n)
	}
	if n := server.HTTPCount("GET"); n != 2 {
		t.Errorf("%d GET streams, want 2", n)
	}
	for _, r := range posted(server, "tools/call") {
		if got, want := sessionOf(r), sessionOf(posted(server, "tools/call")[0]); (got == want) != (r.Header.Get("Authorization") == posted(server, "tools/call")[0].Header.Get("Authorization")) {
			t.Errorf("a call with %s went to session %s", r.Header.Get("Authorization"), got)
		}
	}
	h.Stop()
	if n := server.HTTPCount("DELETE"); n != 2 {
		t.Errorf("%d DELETE, want 2", n)
	}
}

// TestOneSessionKeepsState: what a server keeps in a session is there for the
// next call, wherever that comes to.
func TestOneSessionKeepsState(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	cart := make(map[string]int)
	var last = make(chan int, 100)
	server.Tool("add", func(c *rawserver.Call) { // calls come one after the other
		cart[c.Session.ID]++
		last <- cart[c.Session.ID]
		c.Text("added")
	})
	h := StartFleet(t, Options{Upstream: to(server)})
	for i := range 3 * h.Size() {
		h.Send(t, CallTool("add", nil)).Completes(t)
		if got := receive(t, "call", last); got != i+1 {
			t.Errorf("the cart has %d things, want %d", got, i+1)
		}
	}
}

// TestAffinityNone: with sessions.affinity: none each replica opens its own.
func TestAffinityNone(t *testing.T) {
	t.Parallel()
	server := asking(t)
	h := StartFleet(t, Options{Upstream: to(server), Config: "sessions: {affinity: none}"})
	for i := range 2 * h.Size() {
		first := h.Replica(i%h.Size()).Send(t, CallTool("greet", nil))
		first.Asks(t, "elicitation-1")
		if got := h.Replica((i+1)%h.Size()).Retry(t, first, ada).Text(t); got != "greet Ada" {
			t.Errorf("got %q", got)
		}
	}
	if n := server.Count("initialize"); n != h.Size() {
		t.Errorf("%d sessions, want one of each of %d replicas", n, h.Size())
	}
}

// TestServerWithoutSessionIDs: it cannot tell the replicas apart, and needs
// nothing of all this.
func TestServerWithoutSessionIDs(t *testing.T) {
	onlyStreamable(t, "the other transports have none of these forms")
	t.Parallel()
	server := newServer(t, rawserver.Settings{NoSession: true})
	server.Tool("greet", greeting)
	h := StartFleet(t, Options{Upstream: to(server)})
	for i := range 2 * h.Size() {
		first := h.Replica(i%h.Size()).Send(t, CallTool("greet", nil))
		first.Asks(t, "elicitation-1")
		if got := h.Replica((i+1)%h.Size()).Retry(t, first, ada).Text(t); got != "Hello Ada" {
			t.Errorf("got %q", got)
		}
	}
	h.Stop()
	if n := server.HTTPCount("DELETE"); n != 0 {
		t.Errorf("%d DELETE to a server without sessions", n)
	}
}

// TestListenAnywhere: what arrives on the GET stream, which one replica holds,
// reaches the listeners of all.
func TestListenAnywhere(t *testing.T) {
	onlyStreamable(t, "a session of one stream ends with the replica that keeps it")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	h := StartFleet(t, Options{Upstream: to(server)})
	var streams []*Stream
	for i := range h.Size() {
		stream := h.Replica(i).Open(t, listenTo(everything("x:1"), ID(i)))
		subscribed(t, stream.Notification(acknowledged).Params, fmt.Sprint(i))
		streams = append(streams, stream)
	}
	if n := server.HTTPCount("GET"); n != 1 {
		t.Errorf("%d GET streams, want 1", n)
	}
	session := server.Session()
	for range 3 {
		for _, n := range []struct{ method, params string }{
			{"notifications/tools/list_changed", ""}, {"notifications/resources/updated", `{"uri":"x:1"}`},
		} {
			session.Notify(n.method, n.params)
			for i, stream := range streams {
				subscribed(t, stream.Notification(n.method).Params, fmt.Sprint(i))
			}
		}
	}
	if n := server.Count("resources/subscribe"); n != 1 {
		t.Errorf("%d subscriptions at the server, want 1", n)
	}
	for i, stream := range streams {
		if n := server.Count("resources/unsubscribe"); n != 0 {
			t.Errorf("%d of 3 listeners have gone, but the subscription has ended", i)
		}
		stream.Close()
	}
	server.WaitCount("resources/unsubscribe", 1)
}

// TestListenHomeLost: a listener hears on when the replica that holds the GET
// stream dies, and of all that it may have missed. Whichever that is: each but
// the listener's own dies in turn.
func TestListenHomeLost(t *testing.T) {
	onlyStreamable(t, "there is a stream beside those of calls")
	t.Parallel()
	server := newServer(t, rawserver.Settings{NoEventIDs: true})
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty + "upstream: {retry_min: 1ms}"})
	last := h.Size() - 1
	stream := h.Replica(last).Open(t, listenTo(map[string]any{"toolsListChanged": true}))
	stream.Notification(acknowledged)
	for i := range last {
		gets := server.HTTPCount("GET")
		session := server.Session()
		h.Replica(i).Kill()
		server.Wait("the GET stream", func() bool { return session.Listening() })
		h.Replica(last).waitPeers(t, last-1-i)
		session.Notify("notifications/tools/list_changed", `{"_meta":{"now":true}}`)
		for { // it may hear of the gap first
			got := stream.Notification("notifications/tools/list_changed")
			if string(at(got.Params, "_meta", "now")) == "true" {
				break
			}
		}
		if n := server.HTTPCount("GET"); n > gets+2 {
			t.Errorf("%d GET streams were opened after one replica died", n-gets)
		}
	}
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
}

// TestPushAnywhere: a question on the GET stream reaches the replica whose call
// it belongs to.
func TestPushAnywhere(t *testing.T) {
	onlyStreamable(t, "there is a stream beside those of calls")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("push", pushing)
	h := StartFleet(t, Options{Upstream: to(server)})
	for i := range 2 * h.Size() {
		first := h.Replica(i%h.Size()).Send(t, CallTool("push", map[string]any{"from": fmt.Sprint(i)}))
		first.Asks(t, "elicitation-1")
		last := h.Replica((i+1)%h.Size()).Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")})
		if got, want := last.Text(t), fmt.Sprint("Hello Ada from ", i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d sessions for calls one after the other, want 1", n)
	}
}

// TestPushAnywhereAtOnce: calls of different replicas that may be asked at the
// same time get a session each, where the server pushes.
func TestPushAnywhereAtOnce(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("push", pushing)
	h := StartFleet(t, pushes(server, ""))
	var parked []*Reply
	for i := range 2 * h.Size() {
		first := h.Replica(i%h.Size()).Send(t, CallTool("push", map[string]any{"from": fmt.Sprint(i)}))
		first.Asks(t, "elicitation-1")
		parked = append(parked, first)
	}
	if got := sessionsOf(server, "tools/call"); distinct(got) != len(parked) {
		t.Errorf("%d calls at once took the sessions %q, want one each", len(parked), got)
	}
	for i, first := range parked {
		last := h.Replica((i+1)%h.Size()).Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")})
		if got, want := last.Text(t), fmt.Sprint("Hello Ada from ", i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestOrphanAnywhere: a question outside any call waits for the next call that
// can carry it, at whichever replica.
func TestOrphanAnywhere(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	h := StartFleet(t, Options{Upstream: to(server)})
	h.Send(t, Request("tools/list", nil)).Completes(t)
	session := server.Session()
	for i := range h.Size() {
		q := session.Push("roots/list", "")
		if answer := session.Push("ping", "").Wait(); !answer.OK() { // it has been read by now
			t.Fatal("no answer to a ping")
		}
		first := h.Replica(i).Send(t, CallTool("say", map[string]any{"say": "x"}))
		first.Asks(t, "roots-1")
		if got := h.Replica((i+1)%h.Size()).Retry(t, first, Answers{"roots-1": Roots("file:///r")}).Text(t); got != "said x" {
			t.Errorf("got %q", got)
		}
		if got := string(at(q.Wait().Result, "roots")); got != `[{"uri":"file:///r"}]` {
			t.Errorf("the server got the roots %s", got)
		}
	}
}

// TestSessionGoneAnywhere: a session that the server has forgotten is opened
// anew once, for all replicas.
func TestSessionGoneAnywhere(t *testing.T) {
	onlyStreamable(t, "a session is gone when its stream is, elsewhere")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	h := StartFleet(t, Options{Upstream: to(server)})
	for round := 1; round <= 3; round++ {
		for i := range h.Size() {
			if got := h.Replica(i).Send(t, CallTool("say", map[string]any{"say": "x"})).Text(t); got != "said x" {
				t.Errorf("got %q", got)
			}
		}
		if n := server.Count("initialize"); n != round {
			t.Errorf("%d sessions, want %d", n, round)
		}
		server.Session().Expire()
	}
}

// TestNewestCredentials: a session is ended with the credentials that used it
// last, also where that was at a replica that has left before the others.
func TestNewestCredentials(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty + "principal: {header: X-User}"})
	want := map[string]string{} // by session
	for i := range 2 * h.Size() {
		user := fmt.Sprint("user ", i) // so that each replica is the home of some
		for replica := h.Size() - 1; replica >= 0; replica-- {
			token := fmt.Sprintf("%d-of-%d", i, replica)
			h.Replica(replica).Send(t, CallTool("say", nil, Header("X-User", user), Bearer(token))).Completes(t)
			calls := posted(server, "tools/call")
			want[sessionOf(calls[len(calls)-1])] = "Bearer " + token
		}
	}
	if len(want) != 2*h.Size() {
		t.Fatalf("%d sessions of %d callers", len(want), 2*h.Size())
	}
	if n := h.Metric(t, "holdfast_upstream_sessions"); n != float64(len(want)) {
		t.Errorf("the replicas count %v sessions together, want %d: one that is lent is no further one", n, len(want))
	}
	h.Replica(0).Stop()
	h.Stop()
	ended := sent(server, "DELETE")
	if len(ended) != len(want) {
		t.Errorf("%d DELETE for %d sessions", len(ended), len(want))
	}
	for _, r := range ended {
		if got := r.Header.Get("Authorization"); got != want[sessionOf(r)] {
			t.Errorf("session %s was ended with %q, want %q", sessionOf(r), got, want[sessionOf(r)])
		}
	}
}
