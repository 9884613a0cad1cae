package adapter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/modernserver"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// site is an address behind which a server can be exchanged for another.
type site struct {
	*httptest.Server
	behind atomic.Pointer[http.Handler]
}

func newSite(t *testing.T, behind http.Handler) *site {
	s := &site{}
	s.put(behind)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.behind.Load()).ServeHTTP(w, r) }))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *site) put(h http.Handler) { s.behind.Store(&h) }

func complete(text string) func(*modernserver.Exchange) {
	return func(x *modernserver.Exchange) {
		x.Result(`{"resultType":"complete","content":[{"type":"text","text":"` + text + `"}]}`)
	}
}

// What servers before 2026-07-28 answer to server/discover.
func TestLegacyIsRecognised(t *testing.T) {
	for name, answer := range map[string]func(*rawserver.Exchange){
		"method not found": func(x *rawserver.Exchange) {
			x.Reply(200, `{"jsonrpc":"2.0","id":"discover-1","error":{"code":-32601,"message":"?"}}`, "Content-Type", "application/json")
		},
		"no session": func(x *rawserver.Exchange) {
			x.Reply(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"?"}}`, "Content-Type", "application/json")
		},
		"404":      func(x *rawserver.Exchange) { x.Reply(404, "") },
		"405":      func(x *rawserver.Exchange) { x.Reply(405, "") },
		"500":      func(x *rawserver.Exchange) { x.Reply(500, "") },
		"accepted": func(x *rawserver.Exchange) { x.Reply(202, "") },
		"unknown to a modern": func(x *rawserver.Exchange) {
			x.Reply(400, `{"jsonrpc":"2.0","id":"discover-1","error":{"code":-32022,"message":"?","data":{"supported":["2025-11-25"]}}}`, "Content-Type", "application/json")
		},
		"legacy versions": func(x *rawserver.Exchange) {
			x.Reply(200, `{"jsonrpc":"2.0","id":"discover-1","result":{"supportedVersions":["2025-11-25"]}}`, "Content-Type", "application/json")
		},
		"silence": (*rawserver.Exchange).Silence,
	} {
		t.Run(name, func(t *testing.T) {
			raw := rawserver.New(t, rawserver.Settings{})
			raw.Tool("t", func(c *rawserver.Call) { c.Text("done") })
			raw.Once(rawserver.ForMethod(mcp.MethodDiscover), answer)
			r := newModernRig(t, []string{raw.URL}, func(_ *Settings, l *legacy.Settings, _ *rawserver.Settings) {
				if name == "silence" {
					l.OpenTimeout = 300 * time.Millisecond
				}
			})
			for range 2 {
				if got := r.play(toolCall("t")).text(t); got != "done" {
					t.Errorf("got %s", got)
				}
			}
			if n := raw.Count(mcp.MethodDiscover); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// Requests that come at once wait for one probe.
func TestOneProbe(t *testing.T) {
	server := modernserver.New(t)
	gate := make(chan struct{})
	server.Handle(mcp.MethodDiscover, func(x *modernserver.Exchange) {
		<-gate
		x.Result(modernserver.Discover)
	})
	server.Handle(mcp.MethodToolsCall, complete("done"))
	r := newModernRig(t, []string{server.URL})
	var all sync.WaitGroup
	for range 8 {
		v := r.mustBegin(toolCall("t"))
		all.Go(func() {
			if o, _, err := v.finish(); err != nil || !o.Raw {
				t.Errorf("%+v: %v", o, err)
			}
		})
	}
	server.Wait(t, mcp.MethodDiscover, 1)
	close(gate)
	all.Wait()
	if n := server.Count(mcp.MethodDiscover); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// A caller whom the server does not know learns it, and nobody else does.
func TestProbeUnauthorized(t *testing.T) {
	server := modernserver.New(t)
	server.Handle(mcp.MethodDiscover, func(x *modernserver.Exchange) {
		if x.Header.Get("Authorization") != "Bearer good" {
			x.Status(401, http.Header{"Www-Authenticate": {"Bearer"}}, "")
			return
		}
		x.Result(modernserver.Discover)
	})
	server.Handle(mcp.MethodToolsCall, complete("done"))
	r := newModernRig(t, []string{server.URL})
	_, _, err := r.mustBegin(toolCall("t")).finish()
	var auth *Unauthorized
	if !errors.As(err, &auth) || len(auth.Authenticate) != 1 {
		t.Fatalf("got %v, want the 401", err)
	}
	if o := r.play(toolCall("t").with(func(q *query) { q.auth = "Bearer good" })); o.text(t) != "done" {
		t.Errorf("got %s", o.Result)
	}
}

// A server is exchanged for one of the other era behind the same address, and
// no call is lost or runs twice.
func TestEraChanges(t *testing.T) {
	raw := rawserver.New(t, rawserver.Settings{})
	var runs atomic.Int64
	raw.Tool("t", func(c *rawserver.Call) {
		runs.Add(1)
		c.Text("legacy")
	})
	modern := modernserver.New(t)
	modern.Handle(mcp.MethodToolsCall, complete("modern"))
	s := newSite(t, raw)
	at, err := url.Parse(raw.URL)
	if err != nil {
		t.Fatal(err)
	}
	r := newModernRig(t, []string{s.URL + at.Path})
	for i, step := range []struct {
		behind http.Handler
		want   string
	}{{raw, "legacy"}, {modern, "modern"}, {raw, "legacy"}, {modern, "modern"}} {
		s.put(step.behind)
		for range 2 {
			if got := r.play(toolCall("t")).text(t); got != step.want {
				t.Errorf("step %d: answered by the %s server, want the %s one", i, got, step.want)
			}
		}
	}
	if n := runs.Load(); n != 4 {
		t.Errorf("the legacy server ran the tool %d times, want 4", n)
	}
	ran := 0
	for _, record := range modern.Records(mcp.MethodToolsCall) {
		if record.Header.Get("Mcp-Protocol-Version") == mcp.Modern {
			ran++
		}
	}
	if ran != 4 {
		t.Errorf("the modern server ran the tool %d times, want 4", ran)
	}
}

// A modern server that lacks a method is asked for its era no more often than
// once in a while, and its answer stands.
func TestOddAnswerOfModernServer(t *testing.T) {
	modern := modernserver.New(t)
	r := newModernRig(t, []string{modern.URL})
	q := query{method: mcp.MethodPromptsList}
	for range 3 {
		if o := r.play(q); o.Status != 404 || !strings.Contains(string(o.Error), "-32601") {
			t.Fatalf("got %d %s", o.Status, o.Error)
		}
	}
	if n := modern.Count(mcp.MethodDiscover); n != 1 {
		t.Errorf("asked %d times", n)
	}
	r.upstreams()["up"].asked.Store(time.Now().Add(-time.Hour).UnixNano())
	if o := r.play(q); o.Status != 404 || modern.Count(mcp.MethodDiscover) != 2 || modern.Count(mcp.MethodPromptsList) != 4 {
		t.Errorf("got %d, asked %d times for the era and %d for the prompts", o.Status, modern.Count(mcp.MethodDiscover), modern.Count(mcp.MethodPromptsList))
	}
}

// What a server answers that is still modern, as far as it says, is what the
// client is told: an error may come after the tool has run.
func TestErrorOfModernServerThatIsBusy(t *testing.T) {
	const odd = `{"code":-32000,"message":"?"}`
	for _, tt := range []struct {
		name   string
		status int
		again  func(*modernserver.Exchange) // what it says when it is asked for its era again
		asked  int
	}{
		{"it is overloaded", 400, func(x *modernserver.Exchange) { x.Status(503, nil, "") }, 2},
		{"it is silent", 404, func(x *modernserver.Exchange) { <-x.Gone() }, 2},
		{"its error is the tool's", 200, func(x *modernserver.Exchange) { x.Status(404, nil, "") }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			modern := modernserver.New(t)
			modern.Handle(mcp.MethodToolsCall, func(x *modernserver.Exchange) { x.Error(tt.status, odd) })
			r := newModernRig(t, []string{modern.URL}, func(_ *Settings, l *legacy.Settings, _ *rawserver.Settings) {
				l.OpenTimeout = 300 * time.Millisecond
			})
			r.play(query{method: mcp.MethodPromptsList}) // it says that it is modern
			up := r.upstreams()["up"]
			up.asked.Store(time.Now().Add(-time.Hour).UnixNano())
			modern.Handle(mcp.MethodDiscover, tt.again)
			if o := r.play(toolCall("t")); o.Status != tt.status || string(o.Error) != odd {
				t.Errorf("got %d %s", o.Status, o.Error)
			}
			if n := modern.Count(mcp.MethodInitialize); n > 0 {
				t.Errorf("%d handshakes", n)
			}
			if n := modern.Count(mcp.MethodToolsCall); n != 1 {
				t.Errorf("the call went out %d times", n)
			}
			if n := modern.Count(mcp.MethodDiscover); n != tt.asked {
				t.Errorf("asked %d times for its era, want %d", n, tt.asked)
			}
			if up.known() == legacy.EraLegacy {
				t.Error("it counts as legacy")
			}
		})
	}
}

const question = `{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{}}},"requestState":"s\u0031"}`

// asks is a modern tool that asks who it is, and wants its own request state
// back.
func asks(name string) func(*modernserver.Exchange) {
	return func(x *modernserver.Exchange) {
		switch state := x.Param("requestState"); {
		case state == "" && x.Param("inputResponses") == "":
			x.Result(strings.Replace(question, "s\\u0031", name, 1))
		case state != `"`+name+`"`:
			x.Error(400, `{"code":-32602,"message":"foreign state"}`)
		default:
			complete(name)(x)
		}
	}
}

// With several endpoints, a retry goes to the one whose state it brings.
func TestStateNamesEndpoint(t *testing.T) {
	var urls []string
	for i := range 3 {
		server := modernserver.New(t)
		server.Handle(mcp.MethodToolsCall, asks(fmt.Sprint("server", i)))
		urls = append(urls, server.URL)
	}
	r := newModernRig(t, urls)
	used := map[string]bool{}
	for i := 0; i < 16 || len(used) < 3 && i < 300; i++ { // their hashes are with the ports
		q := toolCall("t").with(func(q *query) { q.auth = fmt.Sprint("Bearer ", i) })
		o := r.play(q)
		text, _ := jsonrpc.Unquote(jsonrpc.Get(o.Result, "requestState"))
		if !o.Raw || strings.HasPrefix(text, "server") || jsonrpc.Get(jsonrpc.Get(o.Result, "inputRequests"), "who") == nil {
			t.Fatalf("got %s", o.Result)
		}
		got := r.play(q.with(func(q *query) { q.state, q.responses = text, `{"who":{"action":"accept"}}` })).text(t)
		used[got] = true
		other := q.with(func(q *query) { q.state, q.auth = text, "Bearer thief" })
		r.refused(other, ReasonStateForeign)
		r.refused(q.with(func(q *query) { q.state, q.params = text, `"name":"other"` }), ReasonStateForeign)
	}
	if len(used) != 3 {
		t.Errorf("callers went to %v, want all three", used)
	}
}

// With one endpoint, a modern server's state is passed as it is.
func TestStateOfOnlyEndpointIsUntouched(t *testing.T) {
	server := modernserver.New(t)
	server.Handle(mcp.MethodToolsCall, asks("only"))
	r := newModernRig(t, []string{server.URL})
	o := r.play(toolCall("t"))
	if want := strings.Replace(question, "s\\u0031", "only", 1); string(o.Result) != want {
		t.Errorf("got %s, want %s", o.Result, want)
	}
	if got := r.play(toolCall("t").with(func(q *query) { q.state = "only" })).text(t); got != "only" {
		t.Errorf("got %s", got)
	}
}

// New calls go to endpoints that can be reached; a state whose endpoint has gone
// is lost, unless running its request again is harmless.
func TestEndpointGone(t *testing.T) {
	a, b := modernserver.New(t), modernserver.New(t)
	for _, server := range []*modernserver.Server{a, b} {
		server.Handle(mcp.MethodToolsCall, asks(server.URL))
		server.Handle(mcp.MethodPromptsGet, asks(server.URL))
	}
	r := newModernRig(t, []string{a.URL, b.URL})
	tool, prompt := toolCall("t"), query{method: mcp.MethodPromptsGet, params: `"name":"p"`}
	first, second := r.play(tool), r.play(prompt)
	stateOf := func(o *Outcome) string {
		text, _ := jsonrpc.Unquote(jsonrpc.Get(o.Result, "requestState"))
		return text
	}
	served, other := a, b
	if b.Count(mcp.MethodToolsCall) > 0 {
		served, other = b, a
	}
	if other.Count("") != 0 {
		t.Error("one caller went to two endpoints")
	}
	served.Close()
	if got := r.play(prompt); !strings.Contains(string(got.Result), "input_required") || other.Count(mcp.MethodPromptsGet) != 1 {
		t.Errorf("a new prompt got %s", got.Result)
	}
	if got := r.play(tool); !strings.Contains(string(got.Result), "input_required") || other.Count(mcp.MethodToolsCall) != 1 {
		t.Errorf("a new call got %s", got.Result)
	}
	if got := r.refused(tool.with(func(q *query) { q.state, q.responses = stateOf(first), `{"who":{}}` }), ReasonUpstreamDown); got.MayHaveRun {
		t.Error("the retry reached nobody")
	}
	again := r.play(prompt.with(func(q *query) { q.state, q.responses = stateOf(second), `{"who":{}}` }))
	if !strings.Contains(string(again.Result), "input_required") {
		t.Fatalf("a prompt got %s", again.Result)
	}
	if got := r.play(prompt.with(func(q *query) { q.state, q.responses = stateOf(again), `{"who":{}}` })).text(t); got != other.URL {
		t.Errorf("got %s", got)
	}
}

// Parked calls of a legacy endpoint finish there, whatever becomes of the other.
func TestRollingUpgrade(t *testing.T) {
	raw := rawserver.New(t, rawserver.Settings{})
	raw.Tool("t", func(c *rawserver.Call) {
		c.Text("legacy " + c.Ask(mcp.MethodElicit, askFor("name")).Content("name"))
	})
	modern := modernserver.New(t)
	modern.Handle(mcp.MethodToolsCall, complete("modern"))
	r := newModernRig(t, []string{raw.URL, modern.URL})
	parked := map[string]*Outcome{}
	for i := range 16 {
		auth := fmt.Sprint("Bearer ", i)
		if o := r.play(toolCall("t").with(func(q *query) { q.auth = auth })); o.State != nil {
			parked[auth] = o
		} else if got := o.text(t); got != "modern" {
			t.Errorf("got %s", got)
		}
	}
	if len(parked) == 0 || len(parked) == 16 {
		t.Fatalf("%d of 16 callers went to the legacy endpoint", len(parked))
	}
	modern.Close()
	for auth, o := range parked {
		q := toolCall("t").with(func(q *query) { q.auth = auth })
		if got := r.play(q.retry(o, accept("elicitation-1", "name", "Ann"))).text(t); got != "legacy Ann" {
			t.Errorf("got %s", got)
		}
	}
	for i := range 16 { // whoever was at the modern one
		at := func(q *query) { q.auth = fmt.Sprint("Bearer ", i) }
		r.play(query{method: mcp.MethodToolsList}.with(at)) // what is harmless may meet the connection that was just cut
		if o := r.play(toolCall("t").with(at)); o.asked(t) != "elicitation-1" {
			t.Errorf("got %s", o.Result)
		}
	}
}

// A parked call whose legacy endpoint has gone runs again on another one where
// that is harmless, and is otherwise said to be lost.
func TestParkedCallsEndpointGone(t *testing.T) {
	raw := rawserver.New(t, rawserver.Settings{})
	ask := func(c *rawserver.Call) {
		if answer := c.Ask(mcp.MethodElicit, askFor("name")); answer.Action() != "" { // else it was closed
			c.Text(answer.Content("name"))
		}
	}
	raw.Declare("safe", `{"name":"safe","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, ask)
	raw.Tool("t", ask)
	modern := modernserver.New(t)
	modern.Handle(mcp.MethodToolsCall, complete("modern"))
	r := newModernRig(t, []string{raw.URL, modern.URL})
	at := r.servedBy(raw.URL)
	safe, tool := toolCall("safe").with(at), toolCall("t").with(at)
	first, second := r.play(safe), r.play(tool)
	raw.Close()
	answers := accept("elicitation-1", "name", "Ann")
	if got := r.play(safe.retry(first, answers)).text(t); got != "modern" {
		t.Errorf("got %s", got)
	}
	v, err := r.begin(tool.retry(second, answers))
	var o *Outcome
	if err == nil {
		o, _, err = v.finish()
	}
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Reason != ReasonUpstreamDown && refusal.Reason != ReasonUpstreamLost {
		t.Errorf("got %+v, %v", o, err)
	}
	if n := modern.Count(mcp.MethodToolsCall); n != 1 {
		t.Errorf("the modern endpoint was called %d times", n)
	}
}

// servedBy makes queries those of a caller whom an endpoint serves.
func (r *rig) servedBy(url string) func(*query) {
	r.t.Helper()
	for i := range 64 {
		at := func(q *query) { q.auth = fmt.Sprint("Bearer ", i) }
		v := r.decode(toolCall("t").with(at))
		caps, err := r.caps.get(v.req.Capabilities)
		if err != nil {
			r.t.Fatal(err)
		}
		key := r.key(v.req, caps)
		if r.groups["up"].order(&key)[0].id == EndpointID(url) {
			return at
		}
	}
	r.t.Fatal("the endpoint serves nobody")
	return nil
}

// A harmless request whose connections a legacy endpoint cuts goes on at the
// other one, and so does any whose session it cuts while it is opened. What may
// have run, and may not run twice, stays lost.
func TestLegacyEndpointCuts(t *testing.T) {
	prompt := query{method: mcp.MethodPromptsGet, params: `"name":"p"`}
	for _, tt := range []struct {
		name string
		at   string // the method whose connection is cut
		q    query
		lost bool
		away bool // so is the other endpoint
	}{
		{name: "a prompt", at: mcp.MethodPromptsGet, q: prompt},
		{name: "a prompt, with nobody else there", at: mcp.MethodPromptsGet, q: prompt, lost: true, away: true},
		{name: "the handshake of a prompt", at: mcp.MethodInitialize, q: prompt},
		{name: "a tool", at: mcp.MethodToolsCall, q: toolCall("t"), lost: true},
		{name: "the handshake of a tool", at: mcp.MethodInitialize, q: toolCall("t")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			raw := rawserver.New(t, rawserver.Settings{NoEventIDs: true})
			raw.Tool("t", func(c *rawserver.Call) { c.Text("legacy") })
			for range 8 {
				raw.Once(rawserver.ForMethod(tt.at), (*rawserver.Exchange).Drop)
			}
			modern := modernserver.New(t)
			modern.Handle(mcp.MethodToolsCall, complete("modern"))
			modern.Handle(mcp.MethodPromptsGet, complete("modern"))
			r := newModernRig(t, []string{raw.URL, modern.URL})
			at := r.servedBy(raw.URL)
			if tt.away {
				modern.Close()
			}
			if !tt.lost {
				if got := r.play(tt.q.with(at)).text(t); got != "modern" {
					t.Errorf("got %q", got)
				}
				return
			}
			_, _, err := r.mustBegin(tt.q.with(at)).finish()
			var refusal *Refusal
			if !errors.As(err, &refusal) || !refusal.MayHaveRun {
				t.Errorf("got %v, want that it may have run", err)
			}
			if n := modern.Count(tt.q.method); n > 0 {
				t.Errorf("the other endpoint got it %d times", n)
			}
		})
	}
}

// A round that goes another way than it began, because its server has become one of
// the other era, is ended by Shutdown as all others are.
func TestShutdownEndsMovedRounds(t *testing.T) {
	raw := rawserver.New(t, rawserver.Settings{})
	raw.Tool("t", func(c *rawserver.Call) { c.Text("legacy") })
	modern := modernserver.New(t)
	modern.Handle(mcp.MethodToolsCall, func(x *modernserver.Exchange) {
		x.Notify(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"here"}}`)
		<-x.Gone()
	})
	s := newSite(t, raw)
	at, err := url.Parse(raw.URL)
	if err != nil {
		t.Fatal(err)
	}
	r := newModernRig(t, []string{s.URL + at.Path})
	r.play(toolCall("t"))
	s.put(modern)
	v := r.mustBegin(toolCall("t"))
	if ev := v.next(t); !strings.Contains(string(ev.Notification), "here") {
		t.Fatalf("got %+v, want what the modern server says", ev)
	}
	r.mu.Lock()
	n := len(r.routes)
	r.mu.Unlock()
	if n != 1 {
		t.Errorf("Shutdown knows %d rounds that pass through, want the one", n)
	}
	end := v.goes()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	r.Shutdown(ctx)
	if ctx.Err() != nil {
		t.Error("Shutdown took all its time")
	}
	var refusal *Refusal
	if o := endOf(t, end); !errors.As(o.err, &refusal) || refusal.Reason != ReasonShutdown || !refusal.MayHaveRun {
		t.Errorf("got %s, want that the replica stops, and the tool may have run", o.describe())
	}
}
