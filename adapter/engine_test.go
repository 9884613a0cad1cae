package adapter

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// testSettings are settings under which nothing expires during a test.
func testSettings() Settings {
	return Settings{
		Replica: "r1", Timeout: time.Minute, MaxDuration: time.Hour, Gather: 5 * time.Millisecond,
		ParkTTL: time.Hour, OutcomeTTL: time.Hour, MaxOutcomeBytes: 1 << 20,
		MaxCalls: 1000, MaxParked: 1000, MaxParkedPerPrincipal: 1000, MaxRounds: 20, MaxInputs: 8, MaxState: 4096, Buffer: 16, BufferBytes: 1 << 20,
		MaxListeners: 10, MaxListenersPerPrincipal: 10, MaxURIs: 10, MaxLasting: 1000, MaxLastingPerPrincipal: 1000,
		MaxUndelivered: 8, MaxUndeliveredBytes: 4096, MaxUndeliveredOverall: 1 << 20,
	}
}

func legacySettings(name, url string) legacy.Settings {
	return legacy.Settings{
		Name: name, URL: url,
		ConnectTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, PostTimeout: 10 * time.Second,
		OpenTimeout: 10 * time.Second, StreamWait: 10 * time.Second,
		MaxMessage: 1 << 20, MaxLine: 1 << 20, MaxDepth: 100, MaxIdleConns: 100, IdleConnTTL: time.Minute,
		RetryMin: time.Millisecond, RetryMax: 10 * time.Millisecond, MaxResumes: 3,
		MaxSessions: 100, MaxPerKey: 10, IdleTTL: time.Hour, Queue: 100, QueueTimeout: 10 * time.Second,
		CancelWait: 2 * time.Second, MaxOrphans: 4, OrphanTTL: time.Hour, ToolsTTL: time.Hour,
		ClientName: "holdfast", ClientVersion: "test", IDPrefix: "r1",
	}
}

// rig is an Engine in front of a rawserver.
type rig struct {
	*Engine
	t   *testing.T
	raw *rawserver.Server
}

type change func(*Settings, *legacy.Settings, *rawserver.Settings)

// newRig ends with the test, and fails it when anything of a call is left.
func newRig(t *testing.T, changes ...change) *rig {
	t.Helper()
	settings, upstream, shape := testSettings(), legacySettings("up", ""), rawserver.Settings{}
	for _, c := range changes {
		c(&settings, &upstream, &shape)
	}
	raw := rawserver.New(t, shape)
	if upstream.URL == "" {
		upstream.URL = raw.URL
	}
	server, err := legacy.NewServer(upstream, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ring, err := state.NewRing(state.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	e := NewEngine(settings, []Upstream{{Name: "up", Endpoints: []Endpoint{{Server: server, Protocol: ProtocolLegacy}}}}, ring, zerolog.Nop(), nil)
	r := &rig{Engine: e, t: t, raw: raw}
	t.Cleanup(r.end)
	return r
}

func (r *rig) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r.Shutdown(ctx)
	if err := ctx.Err(); err != nil {
		r.t.Errorf("Shutdown: %v", err)
	}
	c := &r.calls
	if n := r.rounds.Load(); n != 0 || c.parked != 0 || c.lasting != 0 || len(c.lastingOf) != 0 || len(c.perCaller) != 0 || len(c.live) != 0 || len(c.named) != 0 || c.kept.Len() != 0 || c.keptBytes != 0 {
		r.t.Errorf("left over: %d rounds, %d parked of %d callers, %d live, %d named, %d kept of %d bytes",
			n, c.parked, len(c.perCaller), len(c.live), len(c.named), c.kept.Len(), c.keptBytes)
	}
	r.checkStock("the end")
	for _, up := range r.upstreams() {
		if n := up.Server.Sessions(); n != 0 {
			r.t.Errorf("%d sessions left", n)
		}
	}
	if n := r.watches.Load(); len(r.routes) != 0 || len(r.listeners) != 0 || len(r.watching.of) != 0 || n != 0 {
		r.t.Errorf("left over: %d rounds that pass through, %d listeners, %d watches, of which %d count", len(r.routes), len(r.listeners), len(r.watching.of), n)
	}
}

// query is what a client asks.
type query struct {
	method, params   string // params without braces
	caps, info, auth string
	state, responses string
	token            string
	level            mcp.Level
	upstream         string
	headers          ParamChecker
	wrapped, carried bool
	stays            bool
	hold             time.Duration
	after, lasts     time.Duration
	away             time.Duration
	original         string // id
}

func toolCall(tool string) query {
	return query{method: mcp.MethodToolsCall, params: `"name":"` + tool + `"`}
}

func (q query) with(change func(*query)) query {
	change(&q)
	return q
}

// retry is the query with what the client got and its answers.
func (q query) retry(o *Outcome, responses string) query {
	q.state, q.responses = string(o.State), responses
	return q
}

const allCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`

// visit is one round of a client, with the memory of its HTTP request.
type visit struct {
	Round
	t    *testing.T
	text []byte
	req  *Request
}

// decode decodes as a dialect does: every slice aliases one text.
func (r *rig) decode(q query) *visit {
	r.t.Helper()
	if q.caps == "" {
		q.caps = allCapabilities
	}
	if q.info == "" {
		q.info = `{"name":"client","version":"1"}`
	}
	if q.upstream == "" {
		q.upstream = "up"
	}
	text := "{"
	if q.params != "" {
		text += q.params + ","
	}
	if q.responses != "" {
		text += `"inputResponses":` + q.responses + ","
	}
	if q.state != "" {
		text += `"requestState":"` + q.state + `",`
	}
	text += `"_meta":{"` + mcp.MetaProtocolVersion + `":"2026-07-28","` + mcp.MetaClientInfo + `":` + q.info +
		`,"` + mcp.MetaClientCapabilities + `":` + q.caps
	if q.token != "" {
		text += `,"progressToken":` + q.token
	}
	text += `}}`
	if err := jsonrpc.Validate([]byte(text), jsonrpc.Strict, 100); err != nil {
		r.t.Fatalf("bad query %s: %v", text, err)
	}
	v := &visit{t: r.t, text: []byte(text)}
	meta := jsonrpc.Get(v.text, "_meta")
	name := jsonrpc.Get(v.text, "name")
	if name == nil {
		name = jsonrpc.Get(v.text, "uri")
	}
	req := &Request{
		Upstream: q.upstream, Method: q.method, ID: []byte("1"), Params: v.text, Args: jsonrpc.Get(v.text, "arguments"),
		Meta: meta, ClientInfo: jsonrpc.Get(meta, mcp.MetaClientInfo), Capabilities: jsonrpc.Get(meta, mcp.MetaClientCapabilities),
		ProgressToken: jsonrpc.Get(meta, "progressToken"), LogLevel: q.level,
		InputResponses: jsonrpc.Get(v.text, "inputResponses"),
		Credentials:    Credentials{Authorization: q.auth}, Headers: q.headers,
		Wrapped: q.wrapped, Carried: q.carried, Hold: q.hold, LastingAfter: q.after, Lasting: q.lasts, Stays: q.stays, Away: q.away,
	}
	if q.original != "" {
		req.Original = []byte(q.original)
	}
	if name != nil {
		req.Name = name[1 : len(name)-1]
	}
	if state := jsonrpc.Get(v.text, "requestState"); state != nil {
		req.RequestState = state[1 : len(state)-1]
	}
	v.req = req
	return v
}

func (r *rig) begin(q query) (*visit, error) {
	r.t.Helper()
	v := r.decode(q)
	round, err := r.Begin(v.req)
	v.Round = round
	if err != nil {
		v.scribble()
		return nil, err
	}
	return v, nil
}

func (r *rig) mustBegin(q query) *visit {
	r.t.Helper()
	v, err := r.begin(q)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// scribble is what happens to a request's memory when the next one is read.
func (v *visit) scribble() {
	for i := range v.text {
		v.text[i] = '#'
	}
}

func (v *visit) close() {
	v.Close()
	v.scribble()
}

// finish drives the round to its end, as the proxy does: a short wait, then
// longer ones.
func (v *visit) finish() (o *Outcome, told []string, err error) {
	defer v.close()
	wait := 20 * time.Millisecond
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); wait = time.Second {
		ev, err := v.Next(time.Now().Add(wait))
		switch {
		case errors.Is(err, ErrDeadline):
		case err != nil:
			return nil, told, err
		case ev.Outcome != nil:
			return ev.Outcome.clone(), told, nil
		default:
			told = append(told, string(ev.Notification))
		}
	}
	v.t.Error("the round did not end")
	return nil, told, ErrDeadline
}

// play drives a whole round that must have an outcome.
func (r *rig) play(q query) *Outcome {
	r.t.Helper()
	o, _, err := r.mustBegin(q).finish()
	if err != nil {
		r.t.Fatalf("%s %s: %v", q.method, q.params, err)
	}
	return o
}

// refused drives a round that must be refused, and returns why.
func (r *rig) refused(q query, want Reason) *Refusal {
	r.t.Helper()
	v, err := r.begin(q)
	var o *Outcome
	if err == nil {
		o, _, err = v.finish()
	}
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Reason != want {
		r.t.Fatalf("%s: got outcome %v, error %v; want a refusal for %s", q.params, o, err, want)
	}
	return refusal
}

// asked returns the keys of the questions that a round ended with.
func (o *Outcome) asked(t *testing.T) string {
	t.Helper()
	if len(o.State) == 0 {
		t.Fatalf("the round did not park: result %s, error %s", o.Result, o.Error)
	}
	keys := make([]string, 0, len(o.Inputs))
	for _, in := range o.Inputs {
		keys = append(keys, in.Key)
	}
	return strings.Join(keys, " ")
}

func (o *Outcome) text(t *testing.T) string {
	t.Helper()
	content := jsonrpc.Array(jsonrpc.Get(o.Result, "content"))
	if !content.Next() {
		t.Fatalf("no content: result %s, error %s, %d inputs", o.Result, o.Error, len(o.Inputs))
	}
	s, _ := jsonrpc.Unquote(jsonrpc.Get(content.Value(), "text"))
	return s
}

func accept(key, name, value string) string {
	return `{"` + key + `":{"action":"accept","content":{"` + name + `":"` + value + `"}}}`
}

func askFor(name string) string {
	return `{"message":"?","requestedSchema":{"type":"object","properties":{"` + name + `":{"type":"string"}},"required":["` + name + `"]}}`
}

func hinted(key, name string) string {
	return `{"_meta":{"` + mcp.MetaKeyHint + `":"` + key + `"},` + askFor(name)[1:]
}

// eventually waits for what other goroutines of the engine do.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
