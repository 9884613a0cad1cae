package adapter

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/test/fixture/modernserver"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// newModernRig is an Engine in front of endpoints, all of which are asked for
// their era.
func newModernRig(t *testing.T, urls []string, changes ...change) *rig {
	t.Helper()
	settings := testSettings()
	settings.DownTTL = time.Hour
	u := Upstream{Name: "up", Cache: Cache{TTLMillis: 5, Scope: "private"}}
	for _, url := range urls {
		at := legacySettings("up", url)
		for _, c := range changes {
			c(&settings, &at, nil)
		}
		server, err := legacy.NewServer(at, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		end := Endpoint{Server: server}
		if len(urls) > 1 {
			end.ID = EndpointID(url)
		}
		u.Endpoints = append(u.Endpoints, end)
	}
	ring, err := state.NewRing(state.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Engine: NewEngine(settings, []Upstream{u}, ring, zerolog.Nop(), nil), t: t}
	t.Cleanup(r.end)
	return r
}

// Nothing of what passes is touched, on the first request and on the next, which
// finds an idle connection.
func TestModernPassesUnchanged(t *testing.T) {
	server := modernserver.New(t)
	const result = `{ "content":[{"text":"\u0061","type":"text"}],"n":1.50,"resultType":"complete","ttlMs":7 }`
	const note = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":9,"progress":1e0}}`
	server.Handle(mcp.MethodToolsCall, func(x *modernserver.Exchange) {
		x.Notify(note)
		x.Comment()
		x.Result(result)
	})
	server.Handle(mcp.MethodToolsList, func(x *modernserver.Exchange) { x.Result(`{"tools":[{"execution":{}}]}`) })
	r := newModernRig(t, []string{server.URL})
	q := query{method: mcp.MethodToolsCall, params: `"name":"hé", "arguments":{"a":1.0},"task":{}`, token: "9", auth: "Bearer x", state: "own", responses: `{"who":{}}`}
	for range 2 {
		v := r.decode(q)
		sent := string(v.req.Params)
		var err error
		if v.Round, err = r.Begin(v.req); err != nil {
			t.Fatal(err)
		}
		o, told, err := v.finish()
		if err != nil || !o.Raw || o.Status != 200 || string(o.Result) != result || len(told) != 1 || told[0] != note {
			t.Fatalf("%+v, told %q: %v", o, told, err)
		}
		records := server.Records(mcp.MethodToolsCall)
		got := records[len(records)-1]
		if want := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + sent + `}`; got.Body != want {
			t.Errorf("the server got %s, want %s", got.Body, want)
		}
		for name, want := range map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Authorization": "Bearer x", "Mcp-Session-Id": "",
			"Mcp-Name": "hé", "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		} {
			if got := got.Header.Get(name); got != mcpHeader(name, want) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
	if o := r.play(query{method: mcp.MethodToolsList}); string(o.Result) != `{"tools":[{"execution":{}}]}` {
		t.Errorf("the list was changed: %s", o.Result)
	}
	if n := server.Count(mcp.MethodDiscover); n != 1 {
		t.Errorf("the server was asked for its era %d times", n)
	}
	if n := server.Count(mcp.MethodInitialize); n != 0 {
		t.Errorf("%d handshakes with a modern server", n)
	}
}

func mcpHeader(name, want string) string {
	if name == "Mcp-Name" {
		return mcp.HeaderValue(want)
	}
	return want
}

func TestModernErrorsPassWithTheirStatus(t *testing.T) {
	server := modernserver.New(t)
	r := newModernRig(t, []string{server.URL})
	for _, tt := range []struct {
		status int
		raw    string
	}{
		{404, `{"code":-32601,"message":"no such"}`}, {400, `{"code":-32021,"message":"?","data":{"requiredCapabilities":{"roots":{}}}}`},
		{400, `{"code":-32602,"message":"x"}`}, {200, `{"code":-32603,"message":"x"}`}, {500, `{"code":-32603,"message":"x"}`},
	} {
		server.Handle(mcp.MethodToolsCall, func(x *modernserver.Exchange) { x.Error(tt.status, tt.raw) })
		if o := r.play(toolCall("t")); o.Status != tt.status || string(o.Error) != tt.raw {
			t.Errorf("got %d %s, want %d %s", o.Status, o.Error, tt.status, tt.raw)
		}
	}
	server.Handle(mcp.MethodToolsCall, func(x *modernserver.Exchange) {
		x.Status(401, http.Header{"Www-Authenticate": {"Bearer realm=x"}}, "no")
	})
	_, _, err := r.mustBegin(toolCall("t")).finish()
	var auth *Unauthorized
	if !errors.As(err, &auth) || auth.Status != 401 || strings.Join(auth.Authenticate, "") != "Bearer realm=x" {
		t.Errorf("got %v, want the server's 401", err)
	}
	server.Handle(mcp.MethodToolsCall, func(x *modernserver.Exchange) { x.Notify(`{"jsonrpc":"2.0","id":5,"method":"roots/list"}`) })
	if got := r.refused(toolCall("t"), ReasonUpstreamReply); !got.MayHaveRun {
		t.Error("the call may have run")
	}
	server.Handle(mcp.MethodToolsCall, func(*modernserver.Exchange) {})
	before := server.Count(mcp.MethodToolsCall)
	if got := r.refused(toolCall("t"), ReasonUpstreamLost); !got.MayHaveRun || server.Count(mcp.MethodToolsCall) != before+1 {
		t.Error("a tool call whose connection was cut went out twice, or is said not to have run")
	}
}

// What is harmless is asked once more where the connection was cut.
func TestModernHarmlessOnceMore(t *testing.T) {
	server := modernserver.New(t)
	r := newModernRig(t, []string{server.URL})
	server.Handle(mcp.MethodPromptsGet, func(x *modernserver.Exchange) {
		if server.Count(mcp.MethodPromptsGet) > 1 {
			x.Result(`{"messages":[]}`)
		}
	})
	if o := r.play(query{method: mcp.MethodPromptsGet, params: `"name":"p"`}); string(o.Result) != `{"messages":[]}` {
		t.Errorf("got %s", o.Result)
	}
}

// A client that leaves closes the server's connection, which cancels.
func TestModernClientGone(t *testing.T) {
	server := modernserver.New(t)
	cancelled := make(chan struct{})
	server.Handle(mcp.MethodToolsCall, func(x *modernserver.Exchange) {
		x.Stream()
		<-x.Gone()
		close(cancelled)
	})
	r := newModernRig(t, []string{server.URL})
	v := r.mustBegin(toolCall("t"))
	go func() {
		server.Wait(t, mcp.MethodToolsCall, 1)
		v.Gone()
	}()
	if _, _, err := v.finish(); !errors.Is(err, ErrGone) {
		t.Errorf("got %v", err)
	}
	select {
	case <-cancelled:
	case <-time.After(time.Second):
		t.Error("the server was not told within a second")
	}
}

func TestModernListens(t *testing.T) {
	server := modernserver.New(t)
	const ack = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"notifications":{}}}`
	server.Handle(mcp.MethodListen, func(x *modernserver.Exchange) {
		x.Notify(ack)
		<-x.Gone()
	})
	r := newModernRig(t, []string{server.URL}, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.Timeout = 50 * time.Millisecond })
	v := r.mustBegin(query{method: mcp.MethodListen, params: `"notifications":{"toolsListChanged":true}`})
	ev, err := v.Next(time.Now().Add(10 * time.Second))
	if err != nil || string(ev.Notification) != ack {
		t.Fatalf("%s: %v", ev.Notification, err)
	}
	if _, err := v.Next(time.Now().Add(200 * time.Millisecond)); !errors.Is(err, ErrDeadline) {
		t.Fatalf("a listener ended after calls.timeout: %v", err)
	}
	r.mu.Lock()
	listeners := len(r.listeners)
	r.mu.Unlock()
	if listeners != 1 {
		t.Errorf("%d listeners", listeners)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		r.Shutdown(ctx)
	}()
	if ev, err = v.Next(time.Now().Add(10 * time.Second)); err != nil || ev.Outcome == nil || string(ev.Outcome.Subscription) != "1" {
		t.Errorf("no graceful end: %+v, %v", ev, err)
	}
	v.close()
	<-ended
}

func TestModernSilentServer(t *testing.T) {
	server := modernserver.New(t)
	server.Handle(mcp.MethodToolsCall, func(x *modernserver.Exchange) {
		x.Stream()
		<-x.Gone()
	})
	r := newModernRig(t, []string{server.URL}, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.Timeout = 100 * time.Millisecond })
	r.refused(toolCall("t"), ReasonCallTimeout)
}

// Shutdown waits for what is passed through, as long as it has time.
func TestModernDrains(t *testing.T) {
	server := modernserver.New(t)
	release := make(chan struct{})
	server.Handle(mcp.MethodToolsCall, func(x *modernserver.Exchange) {
		<-release
		x.Result(`{}`)
	})
	r := newModernRig(t, []string{server.URL})
	v := r.mustBegin(toolCall("t"))
	server.Wait(t, mcp.MethodToolsCall, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Shutdown(context.Background())
	}()
	for !r.draining.Load() {
		runtime.Gosched()
	}
	close(release)
	if o, _, err := v.finish(); err != nil || string(o.Result) != `{}` {
		t.Errorf("%+v: %v", o, err)
	}
	<-ended
}
