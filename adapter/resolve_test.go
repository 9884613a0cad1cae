package adapter

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/modernserver"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A name leads to other addresses: new calls go there, parked ones finish where
// they are, and what nobody can come back to is closed.
func TestSetEndpoints(t *testing.T) {
	raw := rawserver.New(t, rawserver.Settings{})
	raw.Tool("t", func(c *rawserver.Call) { c.Text(c.Ask(mcp.MethodElicit, askFor("name")).Content("name")) })
	modern := modernserver.New(t)
	modern.Handle(mcp.MethodToolsCall, complete("modern"))
	gone := modernserver.New(t)
	r := newModernRig(t, []string{raw.URL, gone.URL}, func(s *Settings, l *legacy.Settings, _ *rawserver.Settings) {
		l.IdleTTL = time.Millisecond
	})
	at := func(url string) func(string) (Endpoint, error) {
		return func(id string) (Endpoint, error) {
			server, err := legacy.NewServer(legacySettings("up", url), zerolog.Nop())
			return Endpoint{ID: id, Server: server}, err
		}
	}
	set := func(id string, url string) {
		t.Helper()
		if err := r.SetEndpoints(context.Background(), "up", []string{id}, at(url)); err != nil {
			t.Fatal(err)
		}
	}
	set(EndpointID(raw.URL), raw.URL)
	parked := r.play(toolCall("t"))
	parked.asked(t)
	set("modern", modern.URL)
	for range 2 {
		if got := r.play(toolCall("t")).text(t); got != "modern" {
			t.Errorf("got %s", got)
		}
	}
	if got := r.play(toolCall("t").retry(parked, accept("elicitation-1", "name", "Ann"))).text(t); got != "Ann" {
		t.Errorf("got %s", got)
	}
	if n := len(r.upstreams()); n != 3 {
		t.Errorf("%d endpoints, want those of the name and two that have retired", n)
	}
	past := time.Now().Add(-r.settings.ParkTTL - r.settings.MaxDuration - time.Minute).UnixNano()
	for _, up := range r.upstreams() {
		if up.retired() {
			up.left.Store(past)
		}
	}
	eventually(t, "the idle session to end", func() bool { return r.upstreams()["up#"+EndpointID(raw.URL)].Server.Sessions() == 0 })
	set("modern", modern.URL)
	if n := len(r.upstreams()); n != 1 {
		t.Errorf("%d endpoints, want one", n)
	}
	if err := r.SetEndpoints(context.Background(), "up", nil, nil); err != nil || len(r.upstreams()) != 1 {
		t.Errorf("a name without addresses: %d endpoints, %v", len(r.upstreams()), err)
	}
}
