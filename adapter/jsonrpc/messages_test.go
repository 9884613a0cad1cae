package jsonrpc_test

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Messages of real conversations: what modern clients post, and what legacy
// servers send.
var clientMessages = []string{
	`{"jsonrpc":"2.0","id":"listen:0","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"ExampleClient","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
	`{"method":"tools/call","params":{"name":"get_weather","arguments":{"location":"New York","units":["c","f"],"days":3,"exact":false},"_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"ExampleClient","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}},"traceparent":"00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"}},"jsonrpc":"2.0","id":2}`,
	`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"book","arguments":{"r\u00e9sum\u00e9":"caf\u00e9 \ud83d\ude00 日本語","text":"line\n\"quoted\"\t\\"},"inputResponses":{"elicitation-1":{"action":"accept","content":{"name":"Ada","age":36.5e0}}},"requestState":"AAECAwQFBgcICQ"}}`,
	`{"jsonrpc":"2.0","id":"9","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a","file:///b"]}}}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"user"}}`,
	"{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 1,\n  \"method\": \"initialize\",\n  \"params\": {\"protocolVersion\": \"2025-11-25\", \"capabilities\": {}, \"clientInfo\": {\"name\": \"x\", \"version\": \"0\"}}\n}\n",
	`{"jsonrpc":"2.0","id":1,"result":{}}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no","data":[1]}}`,
	`{"jsonrpc":"2.0","id":1,"Method":"tools/call"}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","param\u017f":{}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","meth\u006fd":"tools/list"}`,
	`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`,
}

var serverMessages = []string{
	`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"everything","version":"2026.1.26"},"instructions":"Use it."}}`,
	`{"result":{"content":[{"type":"text","text":"Weather in \u4eac: 72\u00b0F"},{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}],"isError":false},"jsonrpc":"2.0","id":4}`,
	`{"method":"elicitation/create","params":{"message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string","title":"Name","minLength":1},"age":{"type":"integer","minimum":0}},"required":["name"]},"_meta":{"dev.holdfast/key":"who"}},"jsonrpc":"2.0","id":0}`,
	`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":17,"progress":1,"total":5,"message":"working"}}`,
	`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":null,"id":null}`,
	`{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"Method not found"}}`,
	`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`,
	`[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}},{"jsonrpc":"2.0","id":5,"result":{}}]`,
	"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{\"text\":\"\xff\xfe \\ud800 ok\"}}",
	`{"jsonrpc":"2.0","id":6,"result":{"a":1,"\u0061":2}}`,
}

// call is a tools/call as a modern client sends it, with an argument of n bytes.
func call(n int) []byte {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", n/45+1)[:n]
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"echo","arguments":{"message":%q},"_meta":{"progressToken":"p-42","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"ExampleClient","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"roots":{}}}}}`, text)
}

// tools is a tools/list result of about n bytes: many small values, as lists
// and structured content have them.
func tools(n int) []byte {
	b := []byte(`{"jsonrpc":"2.0","id":42,"result":{"tools":[`)
	for i := 0; len(b) < n; i++ {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"name":"tool_%d","title":"Tool %d","description":"Does \"thing\" %d.\nThen stops.","inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"Where"},"limit":{"type":"integer","minimum":0,"maximum":100.5},"deep":{"type":"array","items":{"enum":["a","b",null,true]}}},"required":["path"]},"annotations":{"readOnlyHint":true}}`, i, i, i)
	}
	return append(b, `]}}`...)
}

// object is an object with n members whose names are made by name.
func object(n int, name func(i int) string) []byte {
	b := []byte{'{'}
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), name(i)...), `":0`...)
	}
	return append(b, '}')
}

// oracleDepth is how deep jsontext lets a text nest.
const oracleDepth = 10000

// valid is what an independent implementation thinks of a text.
func valid(data []byte, lenient bool) bool {
	return jsontext.Value(data).IsValid(jsontext.AllowInvalidUTF8(lenient))
}

// members returns the members of an object as an independent implementation
// reads them.
func members(data []byte, lenient bool) map[string]string {
	d := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowInvalidUTF8(lenient))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return nil
	}
	m := map[string]string{}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return nil
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil
		}
		m[name] = string(value)
	}
	return m
}
