package adapter

import (
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

func TestRequestDigest(t *testing.T) {
	base := requestDigest(requestOf(mcp.MethodToolsCall, `{"name":"t","arguments":{"a":1,"b":[1,2]}}`))
	for _, tt := range []struct {
		name, method, params string
		same                 bool
	}{
		{"the same", mcp.MethodToolsCall, `{"name":"t","arguments":{"a":1,"b":[1,2]}}`, true},
		{"another order", mcp.MethodToolsCall, `{"arguments":{"b":[1,2],"a":1},"name":"t"}`, true},
		{"other white space", mcp.MethodToolsCall, "{ \"name\" :\t\"t\",\r\n\"arguments\":{\"a\":1,\"b\":[1, 2]} }", true},
		{"other escapes", mcp.MethodToolsCall, `{"n\u0061me":"\u0074","arguments":{"a":1,"b":[1,2]}}`, true},
		{"another token, level and capabilities", mcp.MethodToolsCall, `{"name":"t","arguments":{"a":1,"b":[1,2]},"_meta":{` + modernMeta + `,"progressToken":9}}`, true},
		{"answers", mcp.MethodToolsCall, `{"name":"t","arguments":{"a":1,"b":[1,2]},"inputResponses":{"x":{}},"requestState":"y"}`, true},
		{"another method", mcp.MethodPromptsGet, `{"name":"t","arguments":{"a":1,"b":[1,2]}}`, false},
		{"another name", mcp.MethodToolsCall, `{"name":"u","arguments":{"a":1,"b":[1,2]}}`, false},
		{"another argument", mcp.MethodToolsCall, `{"name":"t","arguments":{"a":2,"b":[1,2]}}`, false},
		{"a number as a string", mcp.MethodToolsCall, `{"name":"t","arguments":{"a":"1","b":[1,2]}}`, false},
		{"another order of elements", mcp.MethodToolsCall, `{"name":"t","arguments":{"a":1,"b":[2,1]}}`, false},
		{"an argument more", mcp.MethodToolsCall, `{"name":"t","arguments":{"a":1,"b":[1,2],"c":null}}`, false},
		{"an argument less", mcp.MethodToolsCall, `{"name":"t","arguments":{"a":1}}`, false},
		{"a member more", mcp.MethodToolsCall, `{"name":"t","arguments":{"a":1,"b":[1,2]},"x":1}`, false},
		{"a member moved", mcp.MethodToolsCall, `{"name":"t","arguments":{"a":1},"b":[1,2]}`, false},
		{"per-round names further in", mcp.MethodToolsCall, `{"name":"t","arguments":{"a":1,"b":[1,2],"requestState":"y"}}`, false},
		{"nothing", mcp.MethodToolsCall, `{}`, false},
	} {
		if same := requestDigest(requestOf(tt.method, tt.params)) == base; same != tt.same {
			t.Errorf("%s: same %v, want %v", tt.name, same, tt.same)
		}
	}
}

// The method ends before the params begin.
func TestRequestDigestKeepsMethodAndParamsApart(t *testing.T) {
	a := requestDigest(&Request{Method: "a", Params: []byte(`"b"`)})
	b := requestDigest(&Request{Method: `a"b`, Params: nil})
	if a == b {
		t.Error("two requests have one digest")
	}
}

func BenchmarkRequestDigest(b *testing.B) {
	req := requestOf(mcp.MethodToolsCall, typicalParams)
	b.ReportAllocs()
	b.SetBytes(int64(len(typicalParams)))
	for b.Loop() {
		requestDigest(req)
	}
}
