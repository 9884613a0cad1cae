package dialect

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter"
)

const info = `{"name":"srv","version":"2"}`

func TestAppendOutcome(t *testing.T) {
	const serverInfo = `"_meta":{"io.modelcontextprotocol/serverInfo":` + info + `}`
	for name, c := range map[string]struct {
		outcome adapter.Outcome
		want    string // the response's members after the id
	}{
		"result as it is": {
			adapter.Outcome{Method: "tools/call", Result: []byte("{ \"content\" : [],\n\"n\":1.50e3,\"u\":\"\\u00e9\" }")},
			"\"result\":{\"resultType\":\"complete\",\"content\" : [],\n\"n\":1.50e3,\"u\":\"\\u00e9\" }",
		},
		"empty result": {
			adapter.Outcome{Method: "tools/call", Result: []byte(`{ }`), ServerInfo: []byte(info)},
			`"result":{"resultType":"complete",` + serverInfo + `}`,
		},
		"cache hints": {
			adapter.Outcome{Method: "tools/list", Result: []byte(`{"tools":[]}`), Cache: adapter.Cache{TTLMillis: 5000, Scope: "public"}},
			`"result":{"resultType":"complete","ttlMs":5000,"cacheScope":"public","tools":[]}`,
		},
		"safe cache hints": {
			adapter.Outcome{Method: "resources/read", Result: []byte(`{"contents":[]}`)},
			`"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[]}`,
		},
		"no cache hints on a call": {
			adapter.Outcome{Method: "tools/call", Result: []byte(`{"ttlMs":3}`), Cache: adapter.Cache{TTLMillis: 5, Scope: "public"}},
			`"result":{"resultType":"complete","ttlMs":3}`,
		},
		"the server's valid hints": {
			adapter.Outcome{Method: "prompts/list", Result: []byte(`{"prompts":[],"ttlMs":7,"cacheScope":"public"}`), Cache: adapter.Cache{TTLMillis: 1, Scope: "public"}},
			`"result":{"resultType":"complete","prompts":[],"ttlMs":7,"cacheScope":"public"}`,
		},
		"the server's public without the operator's": {
			adapter.Outcome{Method: "prompts/list", Result: []byte(`{"prompts":[],"ttlMs":7,"cacheScope":"public"}`), Cache: adapter.Cache{TTLMillis: 1, Scope: "private"}},
			`"result":{"resultType":"complete","cacheScope":"private","prompts":[],"ttlMs":7}`,
		},
		"the server's private beside the operator's public": {
			adapter.Outcome{Method: "prompts/list", Result: []byte(`{"cacheScope":"private"}`), Cache: adapter.Cache{Scope: "public"}},
			`"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private"}`,
		},
		"the server's invalid hints": {
			adapter.Outcome{Method: "prompts/list", Result: []byte(`{"prompts":[],"ttlMs":-7,"cacheScope":"all"}`), Cache: adapter.Cache{TTLMillis: 1, Scope: "private"}},
			`"result":{"resultType":"complete","ttlMs":1,"cacheScope":"private","prompts":[]}`,
		},
		"the server's result type and task": {
			adapter.Outcome{Method: "tools/call", Result: []byte(`{"resultType":"odd","content":[ 1 ],"task":{"taskId":"t"}}`)},
			`"result":{"resultType":"complete","content":[ 1 ]}`,
		},
		"merged meta": {
			adapter.Outcome{Method: "tools/call", Result: []byte(`{"_meta":{"a/b": [1 ,2]},"content":[]}`), ServerInfo: []byte(info)},
			`"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":` + info + `,"a/b":[1 ,2]},"content":[]}`,
		},
		"meta of legacy tasks": {
			adapter.Outcome{Method: "tools/call", Result: []byte(`{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"},"a":1}}`)},
			`"result":{"resultType":"complete","_meta":{"a":1}}`,
		},
		"the server's own info": {
			adapter.Outcome{Method: "tools/call", Result: []byte(`{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"own","version":"1"}}}`), ServerInfo: []byte(info)},
			`"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"own","version":"1"}}}`,
		},
		"subscription": {
			adapter.Outcome{Method: "subscriptions/listen", Result: []byte(`{}`), Subscription: []byte(`"l:0"`)},
			`"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"l:0"}}`,
		},
		"tools without execution": {
			adapter.Outcome{Method: "tools/list", Result: []byte(`{"tools":[{"name":"a", "x": 1},{"name":"b","execution":{"taskSupport":"optional"},"y": {"execution":1}}],"nextCursor":"c"}`)},
			`"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"a", "x": 1},{"name":"b","y":{"execution":1}}],"nextCursor":"c"}`,
		},
		"result that is no object": {
			adapter.Outcome{Method: "tools/call", Result: []byte(`"{"`)},
			`"error":{"code":-32603,"message":"The server's result is no object","data":{"reason":"upstream_reply","mayHaveRun":true}}`,
		},
		"error as it is": {
			adapter.Outcome{Method: "tools/call", Error: []byte(`{"code":-32000,"message":"no", "data":1.0}`)},
			`"error":{"code":-32000,"message":"no", "data":1.0}`,
		},
		"a modern server's result": {
			adapter.Outcome{Method: "tools/list", Raw: true, Status: 200, Result: []byte(`{ "tools":[{"execution":{}}],"task":1}`), Cache: adapter.Cache{TTLMillis: 5}},
			`"result":{ "tools":[{"execution":{}}],"task":1}`,
		},
		"a modern server's error": {
			adapter.Outcome{Method: "tools/list", Raw: true, Status: 404, Error: []byte(`{ "code":-32601,"message":""}`)},
			`"error":{ "code":-32601,"message":""}`,
		},
		"input required": {
			adapter.Outcome{Method: "tools/call", State: []byte("s-1"), Inputs: []adapter.Input{
				{Key: `a"b`, Method: "elicitation/create", Params: []byte(`{"message":"?"}`)},
				{Key: "roots-1", Method: "roots/list"},
			}},
			`"result":{"resultType":"input_required","inputRequests":{"a\"b":{"method":"elicitation/create","params":{"message":"?"}},` +
				`"roots-1":{"method":"roots/list","params":{}}},"requestState":"s-1"}`,
		},
		"state only": {
			adapter.Outcome{Method: "tools/call", State: []byte("s-1"), ServerInfo: []byte(info)},
			`"result":{"resultType":"input_required","inputRequests":{},"requestState":"s-1",` + serverInfo + `}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := string(MRTR{}.AppendOutcome([]byte("x"), []byte(`"i"`), &c.outcome))
			want := `x{"jsonrpc":"2.0","id":"i",` + c.want + `}`
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if !json.Valid([]byte(got[1:])) {
				t.Errorf("not JSON: %s", got)
			}
		})
	}
}

var bigResult = []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("The weather is fine. ", 48) + `"}],"isError":false}`)

func TestAppendOutcomeAllocatesNothing(t *testing.T) {
	dst, id := make([]byte, 0, 4096), []byte("1")
	o := adapter.Outcome{Method: "tools/call", Result: bigResult, ServerInfo: []byte(info)}
	if n := testing.AllocsPerRun(100, func() { dst = MRTR{}.AppendOutcome(dst[:0], id, &o) }); n > 0 {
		t.Errorf("AppendOutcome allocates %v times", n)
	}
}

func BenchmarkAppendOutcome(b *testing.B) {
	for _, bench := range []struct {
		name string
		o    adapter.Outcome
	}{
		{"result", adapter.Outcome{Method: "tools/call", Result: bigResult, ServerInfo: []byte(info)}},
		{"input_required", adapter.Outcome{Method: "tools/call", State: []byte(strings.Repeat("s", 300)), Inputs: []adapter.Input{
			{Key: "elicitation-1", Method: "elicitation/create", Params: []byte(`{"message":"Which?","requestedSchema":{"type":"object"}}`)},
		}}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			dst, id := make([]byte, 0, 4096), []byte("1")
			b.ReportAllocs()
			for b.Loop() {
				dst = MRTR{}.AppendOutcome(dst[:0], id, &bench.o)
			}
		})
	}
}
