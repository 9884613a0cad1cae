package adapter

import (
	"slices"
	"testing"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// idleCall is a call with the upstream id r1-7 that is never sent.
func idleCall(t testing.TB) *call {
	t.Helper()
	server, err := legacy.NewServer(legacySettings("up", "http://127.0.0.1:1/mcp"), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(t.Context()) })
	return &call{up: &upstream{Name: "up", Server: server}, msgID: 7}
}

func requestOf(method, params string) *Request {
	req := &Request{Method: method, Params: []byte(params)}
	req.Meta = jsonrpc.Get(req.Params, "_meta")
	req.ProgressToken = jsonrpc.Get(req.Meta, "progressToken")
	return req
}

const modernMeta = `"` + mcp.MetaProtocolVersion + `":"2026-07-28","` + mcp.MetaClientInfo + `":{"name":"c","version":"1"},"` +
	mcp.MetaClientCapabilities + `":{},"` + mcp.MetaLogLevel + `":"debug"`

func TestAppendRequest(t *testing.T) {
	c := idleCall(t)
	for _, tt := range []struct{ name, method, params, want string }{
		{"nothing", mcp.MethodToolsList, `{"_meta":{` + modernMeta + `}}`, `{}`},
		{"a cursor", mcp.MethodToolsList, `{"cursor":"x","_meta":{` + modernMeta + `}}`, `{"cursor":"x"}`},
		{
			"members in their order and spelling", mcp.MethodToolsCall,
			`{ "arguments" : {"b": 1.50, "a":1e2,"big":12345678901234567890, "s":"\u0061\/" } ,"_meta":{` + modernMeta + `},"name":"t"}`,
			`{"arguments":{"b": 1.50, "a":1e2,"big":12345678901234567890, "s":"\u0061\/" },"name":"t"}`,
		},
		{
			"what only this revision has", mcp.MethodToolsCall,
			`{"name":"t","inputResponses":{"a":{}},"requestState":"x","task":{"ttl":1},"_meta":{` + modernMeta + `}}`,
			`{"name":"t"}`,
		},
		{
			"the same spelled with escapes", mcp.MethodToolsCall,
			`{"name":"t","requ\u0065stState":"x","t\u0061sk":{},"_meta":{"progress\u0054oken":7}}`,
			`{"name":"t","_meta":{"progressToken":"r1-7"}}`,
		},
		{
			"the same names further in", mcp.MethodToolsCall,
			`{"name":"t","arguments":{"task":1,"_meta":{"progressToken":2},"requestState":3,"inputResponses":4}}`,
			`{"name":"t","arguments":{"task":1,"_meta":{"progressToken":2},"requestState":3,"inputResponses":4}}`,
		},
		{
			"unknown members", mcp.MethodPromptsGet,
			`{"name":"p","future":[{}],"_meta":{` + modernMeta + `,"traceparent":"00-x","own":{"n":1.0}}}`,
			`{"name":"p","future":[{}],"_meta":{"traceparent":"00-x","own":{"n":1.0}}}`,
		},
		{
			"a progress token", mcp.MethodToolsCall, `{"name":"t","_meta":{` + modernMeta + `,"progressToken":"mine"}}`,
			`{"name":"t","_meta":{"progressToken":"r1-7"}}`,
		},
		{
			"a progress token beside others", mcp.MethodToolsCall, `{"_meta":{"a":1,"progressToken":17,"b":2},"name":"t"}`,
			`{"name":"t","_meta":{"a":1,"b":2,"progressToken":"r1-7"}}`,
		},
	} {
		got := string(c.appendRequest(nil, requestOf(tt.method, tt.params)))
		if want := `{"jsonrpc":"2.0","id":"r1-7","method":"` + tt.method + `","params":` + tt.want + `}`; got != want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, want)
		}
		if err := jsonrpc.Validate([]byte(got), jsonrpc.Strict, 100); err != nil {
			t.Errorf("%s: %v in %s", tt.name, err, got)
		}
	}
}

func TestCredentials(t *testing.T) {
	if got := credentials(&Request{}); got != nil {
		t.Errorf("of nothing: %v", got)
	}
	got := credentials(&Request{Credentials: Credentials{Authorization: "Bearer x", Forward: []Field{{"X-A", "1"}, {"X-B", "2"}}}})
	if want := (legacy.Credentials{{Name: "Authorization", Value: "Bearer x"}, {Name: "X-A", Value: "1"}, {Name: "X-B", Value: "2"}}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	got = credentials(&Request{Credentials: Credentials{Forward: []Field{{"X-A", "1"}}}})
	if want := (legacy.Credentials{{Name: "X-A", Value: "1"}}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

const typicalParams = `{"name":"search","arguments":{"query":"weather in Berlin","limit":10,"options":{"units":"metric","language":"de"}},"_meta":{` +
	modernMeta + `,"progressToken":"p-17"}}`

func TestAppendRequestAllocatesNothing(t *testing.T) {
	c := idleCall(t)
	req := requestOf(mcp.MethodToolsCall, typicalParams)
	dst := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { dst = c.appendRequest(dst[:0], req) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkAppendRequest(b *testing.B) {
	c := idleCall(b)
	req := requestOf(mcp.MethodToolsCall, typicalParams)
	dst := make([]byte, 0, 4096)
	b.ReportAllocs()
	b.SetBytes(int64(len(typicalParams)))
	for b.Loop() {
		dst = c.appendRequest(dst[:0], req)
	}
}
