package e2e

import (
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// held makes the next GET of the server wait, so that what happens meanwhile
// happens while no GET stream stands.
func held(t *testing.T, server *rawserver.Server) gate {
	t.Helper()
	g := newGate(t)
	spent := make(chan struct{}, 1)
	server.Hook(func(x *rawserver.Exchange) bool {
		if x.R.Method != "GET" {
			return false
		}
		select {
		case spent <- struct{}{}:
			if !x.Hold(g) {
				x.Drop()
			}
		default:
		}
		return false
	})
	return g
}

// told checks that the next message is an update of a resource under this
// title, raw and "" where it has none: the proxy's own word has none.
func told(t *testing.T, stream *Stream, uri, title string) {
	t.Helper()
	updated := stream.Notification("notifications/resources/updated")
	if string(at(updated.Params, "uri")) != uri || string(at(updated.Params, "title")) != title {
		t.Fatalf("told %s, want an update of %s with the title %q", updated.Params, uri, title)
	}
}

// TestListenGap: without event ids a GET stream that breaks cannot go on where
// it was, and what the server said meanwhile is lost. The listener is told that
// all it asked for may have changed, once the stream stands again. Spec
// 2025-11-25, basic/transports, "Resumability and Redelivery".
func TestListenGap(t *testing.T) {
	onlyStreamable(t, "there is a stream beside those of calls")
	t.Parallel()
	server := newServer(t, rawserver.Settings{NoEventIDs: true})
	server.Tool("toggle", func(c *rawserver.Call) {
		c.Notify("notifications/resources/updated", `{"uri":"x:1","title":"in the gap"}`)
		c.Text("toggled")
	})
	h := Start(t, Options{Upstream: to(server), Config: "upstream: {retry_min: 1ms}"})
	all := h.Open(t, listenTo(everything("x:1", "x:2"), ID("all")))
	all.Notification(acknowledged)
	some := h.Open(t, listenTo(map[string]any{"promptsListChanged": true}, ID("some")))
	some.Notification(acknowledged)
	session := server.Session()
	for range 2 { // every gap counts, not only the first
		gets := server.HTTPCount("GET")
		gap := held(t, server)
		session.Cut()
		server.WaitHTTP("GET", gets+1)
		// A call of the session goes on, and so does what its stream tells.
		h.Send(t, CallTool("toggle", nil)).Completes(t)
		told(t, all, `"x:1"`, `"in the gap"`)
		gap.open()
		session.Notify("notifications/resources/updated", `{"uri":"x:2","title":"now"}`)

		for _, method := range []string{"notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed"} {
			subscribed(t, all.Notification(method).Params, `"all"`)
		}
		told(t, all, `"x:1"`, "")
		told(t, all, `"x:2"`, "")
		subscribed(t, some.Notification("notifications/prompts/list_changed").Params, `"some"`)
		// Nothing is told twice: the next one is what the server says now.
		told(t, all, `"x:2"`, `"now"`)
		session.Notify("notifications/prompts/list_changed", `{"_meta":{"now":true}}`)
		all.Notification("notifications/prompts/list_changed")
		if got := some.Notification("notifications/prompts/list_changed"); string(at(got.Params, "_meta", "now")) != "true" {
			t.Errorf("told %s, want what the server sent", got.Params)
		}
	}
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
}

// TestListenGapResumed: with event ids the server sends what came since, and
// the listener is told of that alone.
func TestListenGapResumed(t *testing.T) {
	onlyStreamable(t, "only event ids let a stream go on")
	t.Parallel()
	server := newServer(t, rawserver.Settings{Prime: true})
	h := Start(t, Options{Upstream: to(server), Config: "upstream: {retry_min: 1ms}"})
	stream := h.Open(t, listenTo(everything("x:1")))
	stream.Notification(acknowledged)
	session := server.Session()
	session.Notify("notifications/prompts/list_changed", "")
	stream.Notification("notifications/prompts/list_changed")
	gets := server.HTTPCount("GET")
	session.Cut()
	session.Notify("notifications/resources/updated", `{"uri":"x:1","title":"since"}`)
	server.WaitHTTP("GET", gets+1)
	told(t, stream, `"x:1"`, `"since"`)
	session.Notify("notifications/tools/list_changed", "")
	stream.Notification("notifications/tools/list_changed")
	if n := len(resumes(server)); n != 1 {
		t.Errorf("the stream was gone on with %d times, want once", n)
	}
}
