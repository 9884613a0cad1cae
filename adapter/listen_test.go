package adapter

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

func TestParseFilter(t *testing.T) {
	for _, tt := range []struct {
		name, params string
		want         filter
	}{
		{"nothing", `{"notifications":{}}`, filter{}},
		{"all", `{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a","b"]}}`,
			filter{tools: true, prompts: true, resources: true, uris: []string{"a", "b"}}},
		{"some refused", `{"notifications":{"toolsListChanged":false,"promptsListChanged":true}}`, filter{prompts: true}},
		{"unknown kinds", `{"notifications":{"moonPhaseChanged":"yes","toolsListChanged":true}}`, filter{tools: true}},
		{"no URIs", `{"notifications":{"resourceSubscriptions":[]}}`, filter{}},
		{"escapes", `{"notifications":{"tools\u004cistChanged":true,"resourceSubscriptions":["file:\/\/\u0061"]}}`, filter{tools: true, uris: []string{"file://a"}}},
	} {
		got, err := parseFilter([]byte(tt.params), 2)
		if err != nil || got.tools != tt.want.tools || got.prompts != tt.want.prompts || got.resources != tt.want.resources || !slices.Equal(got.uris, tt.want.uris) {
			t.Errorf("%s: %+v, %v; want %+v", tt.name, got, err, tt.want)
		}
	}
	for _, params := range []string{
		``, `{}`, `{"notifications":null}`, `{"notifications":[]}`, `{"notifications":true}`,
		`{"notifications":{"toolsListChanged":1}}`, `{"notifications":{"toolsListChanged":"true"}}`, `{"notifications":{"promptsListChanged":null}}`,
		`{"notifications":{"resourceSubscriptions":"a"}}`, `{"notifications":{"resourceSubscriptions":{}}}`, `{"notifications":{"resourceSubscriptions":[1]}}`,
		`{"notifications":{"resourceSubscriptions":["a",null]}}`, `{"notifications":{"resourceSubscriptions":["a","b","c"]}}`,
	} {
		var refusal *Refusal
		if f, err := parseFilter([]byte(params), 2); !errors.As(err, &refusal) || refusal.Reason != ReasonInvalidParams {
			t.Errorf("%s: %+v, %v; want a refusal for invalid_params", params, f, err)
		}
	}
}

func TestFilterIsHonouredAsFarAsTheServerCan(t *testing.T) {
	all := filter{tools: true, prompts: true, resources: true, uris: []string{`a"b`}}
	for _, tt := range []struct {
		info legacy.Info
		want string
	}{
		{legacy.Info{}, `{}`},
		{legacy.Info{ToolsList: true}, `{"toolsListChanged":true}`},
		{legacy.Info{PromptsList: true, ResList: true}, `{"promptsListChanged":true,"resourcesListChanged":true}`},
		{legacy.Info{Subscribe: true}, `{"resourceSubscriptions":["a\"b"]}`},
		{legacy.Info{ToolsList: true, PromptsList: true, ResList: true, Subscribe: true},
			`{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a\"b"]}`},
	} {
		if got := string(all.honoured(&tt.info).append(nil)); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.info, got, tt.want)
		}
	}
	if got := string(filter{}.honoured(&legacy.Info{ToolsList: true}).append(nil)); got != "{}" {
		t.Errorf("what nobody wants is served: %s", got)
	}
}

func TestFilterAdmits(t *testing.T) {
	updated := func(params string) jsonrpc.Message {
		return jsonrpc.Message{Method: mcp.NotifyResourceUpdated, Params: []byte(params)}
	}
	f := filter{tools: true, uris: []string{"file:///a"}}
	for _, tt := range []struct {
		m    jsonrpc.Message
		want bool
	}{
		{jsonrpc.Message{Method: mcp.NotifyToolsChanged}, true},
		{jsonrpc.Message{Method: mcp.NotifyPromptsChanged}, false},
		{jsonrpc.Message{Method: mcp.NotifyResourcesChanged}, false},
		{jsonrpc.Message{Method: mcp.NotifyMessage}, false},
		{updated(`{"uri":"file:///a"}`), true},
		{updated(`{"uri":"file:\/\/\/a"}`), true},
		{updated(`{"uri":"file:///ab"}`), false},
		{updated(`{}`), false},
		{updated(``), false},
	} {
		if got := f.admits(&tt.m); got != tt.want {
			t.Errorf("%s %s: %v, want %v", tt.m.Method, tt.m.Params, got, tt.want)
		}
	}
}

func TestListenerNotificationsCarryTheSubscription(t *testing.T) {
	l := &listenRound{id: []byte(`"s"`)}
	for params, want := range map[string]string{
		``:                      `{"_meta":{"` + mcp.MetaSubscriptionID + `":"s"}}`,
		`{"uri":"a"}`:           `{"uri":"a","_meta":{"` + mcp.MetaSubscriptionID + `":"s"}}`,
		`{"_meta":{"own":1.0}}`: `{"_meta":{"own":1.0,"` + mcp.MetaSubscriptionID + `":"s"}}`,
		`{"_meta":{"` + mcp.MetaSubscriptionID + `":"forged"},"uri":"a"}`: `{"uri":"a","_meta":{"` + mcp.MetaSubscriptionID + `":"s"}}`,
	} {
		got := string(l.notification(mcp.NotifyResourceUpdated, []byte(params)))
		if want = `{"jsonrpc":"2.0","method":"` + mcp.NotifyResourceUpdated + `","params":` + want + `}`; got != want {
			t.Errorf("%s: got %s, want %s", params, got, want)
		}
	}
}

// One unsubscription that the server refuses keeps it from none of the others.
func TestListenerLeavesEveryResource(t *testing.T) {
	r := newRig(t)
	r.raw.Once(rawserver.ForMethod(mcp.MethodUnsubscribe), func(x *rawserver.Exchange) {
		x.Reply(http.StatusOK, `{"jsonrpc":"2.0","id":`+string(x.Record.Messages[0].ID)+`,"error":{"code":-32603,"message":"no"}}`, "Content-Type", "application/json")
	})
	v := r.mustBegin(query{method: mcp.MethodListen, params: `"notifications":{"resourceSubscriptions":["file:///a","file:///b"]}`})
	if _, err := v.Next(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	v.close()
	r.raw.WaitCount(mcp.MethodUnsubscribe, 2)
}

// A listener that comes while Shutdown begins is refused: nobody would end it.
func TestListenerThatComesWithShutdown(t *testing.T) {
	r := newRig(t)
	r.draining.Store(true)
	defer r.draining.Store(false) // Shutdown does it again
	caps, err := r.caps.get([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	req := requestOf(mcp.MethodListen, `{"notifications":{}}`)
	if round, err := r.beginListen(r.upstreams()["up"], req, caps); refusalFor(err) != ReasonShutdown {
		t.Errorf("got %v, want a refusal for shutdown", err)
		if err == nil {
			round.Close()
		}
	}
}

func TestListener(t *testing.T) {
	r := newRig(t)
	q := query{method: mcp.MethodListen, params: `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}`}
	v := r.mustBegin(q)
	next := func() Event {
		t.Helper()
		ev, err := v.Next(time.Now().Add(10 * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		return ev
	}
	if got := string(next().Notification); !strings.Contains(got, mcp.NotifyAcknowledged) ||
		!strings.Contains(got, `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}`) {
		t.Fatalf("first came %s", got)
	}
	r.raw.Session().Notify(mcp.NotifyPromptsChanged, "")
	r.raw.Session().Notify(mcp.NotifyResourceUpdated, `{"uri":"file:///b"}`)
	r.raw.Session().Notify(mcp.NotifyToolsChanged, "")
	if got := string(next().Notification); !strings.Contains(got, mcp.NotifyToolsChanged) {
		t.Errorf("told %s", got)
	}
	r.raw.Session().Notify(mcp.NotifyResourceUpdated, `{"uri":"file:///a"}`)
	if got := string(next().Notification); !strings.Contains(got, `"uri":"file:///a"`) {
		t.Errorf("told %s", got)
	}
	shut := make(chan struct{})
	go func() {
		defer close(shut)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		r.Shutdown(ctx)
	}()
	if o := next().Outcome; o == nil || string(o.Result) != "{}" || string(o.Subscription) != "1" {
		t.Errorf("ended with %+v", o)
	}
	v.close()
	<-shut
	if n := r.raw.Count(mcp.MethodUnsubscribe); n != 1 {
		t.Errorf("%d resources were unsubscribed, want 1", n)
	}
	if _, err := r.begin(q); refusalFor(err) != ReasonShutdown {
		t.Errorf("got %v, want a refusal for shutdown", err)
	}
}

func TestListenersAreBounded(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) {
		s.MaxListeners, s.MaxListenersPerPrincipal = 2, 1
	})
	q := query{method: mcp.MethodListen, params: `"notifications":{"toolsListChanged":true}`}
	as := func(auth string) query { return q.with(func(q *query) { q.auth = auth }) }
	a := r.mustBegin(as("a"))
	r.refused(as("a"), ReasonQuota)
	b := r.mustBegin(as("b"))
	r.refused(as("c"), ReasonOverload)
	a.Gone()
	if _, err := a.Next(time.Now().Add(time.Minute)); !errors.Is(err, ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
	a.close()
	c := r.mustBegin(as("c"))
	b.close()
	c.close()
}
