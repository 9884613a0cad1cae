package schema_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/schema"
)

// small is a schema of the kind that the protocol has, with two requests.
const small = `{"$schema":"https://json-schema.org/draft/2020-12/schema","$defs":{
"Envelope":{"type":"object","required":["jsonrpc"],"properties":{"jsonrpc":{"const":"2.0"}}},
"ClientRequest":{"anyOf":[{"$ref":"#/$defs/CallRequest"}]},
"ClientNotification":{"properties":{"method":{"const":"notifications/over"}}},
"ServerRequest":{"anyOf":[{"$ref":"#/$defs/ElicitRequest"}]},
"CallRequest":{"allOf":[{"$ref":"#/$defs/Envelope"}],"required":["params"],"properties":{"method":{"const":"call"},"params":{"type":"object"}}},
"CallResult":{"required":["content"],"properties":{"content":{"type":"array"}}},
"InputRequiredResult":{"required":["requestState"]},
"CreateTaskResult":{"required":["task"]},
"ElicitRequest":{"properties":{"method":{"const":"ask"}}},
"ElicitResult":{"required":["action"]},
"NumberSchema":{"properties":{"default":{"type":"integer"}}},
"JSONRPCResultResponse":{"allOf":[{"$ref":"#/$defs/Envelope"}],"properties":{"id":{"type":["string","integer"]}}},
"JSONRPCErrorResponse":{"properties":{"id":{"type":["string","integer"]}}},
"OddError":{"required":["id"],"properties":{"error":{"allOf":[{"properties":{"code":{"const":-32020}}},{"required":["data"]}]}}}
}}`

// in writes a folder of schemas.
func in(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCheck(t *testing.T) {
	set, err := schema.Load(in(t, map[string]string{"2025-11-25.json": small}))
	if err != nil {
		t.Fatal(err)
	}
	call := schema.Request{Method: "call"}
	for _, test := range []struct {
		from     schema.Side
		message  string
		answered schema.Request
		valid    bool
	}{
		{schema.Client, `{"jsonrpc":"2.0","id":1,"method":"call","params":{}}`, schema.Request{}, true},
		{schema.Client, `{"jsonrpc":"2.0","id":1,"method":"call"}`, schema.Request{}, false},
		{schema.Client, `{"id":1,"method":"call","params":{}}`, schema.Request{}, false},
		{schema.Client, `{"jsonrpc":"2.0","id":1,"method":"unheard/of"}`, schema.Request{}, false},
		{schema.Server, `{"jsonrpc":"2.0","id":1,"method":"call","params":{}}`, schema.Request{}, false},
		{schema.Server, `{"jsonrpc":"2.0","id":1,"method":"ask"}`, schema.Request{}, true},
		{schema.Client, `{"jsonrpc":"2.0","method":"notifications/over"}`, schema.Request{}, true},
		{schema.Client, `{"jsonrpc":"2.0","method":"notifications/else"}`, schema.Request{}, false},
		{schema.Server, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, call, true},
		{schema.Server, `{"jsonrpc":"2.0","id":1,"result":{}}`, call, false},
		{schema.Server, `{"jsonrpc":"2.0","id":1,"result":{}}`, schema.Request{}, true},
		{schema.Server, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s"}}`, call, true},
		{schema.Server, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`, call, false},
		{schema.Server, `{"jsonrpc":"2.0","id":null,"result":{"content":[]}}`, call, false},
		{schema.Client, `{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`, schema.Request{Method: "ask"}, true},
		{schema.Client, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, schema.Request{Method: "ask"}, false},
		{schema.Client, `{"jsonrpc":"2.0","id":1,"result":{"task":{}}}`, schema.Request{Method: "ask", Task: true}, true},
		{schema.Server, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"m"}}`, call, true},
		{schema.Server, `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"m"}}`, call, false},
		{schema.Server, `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"m"}}`, call, false},
		{schema.Server, `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"m","data":{}}}`, call, true},
		{schema.Server, `{"jsonrpc":"2.0","id":1}`, call, false},
		{schema.Server, `{"status":"ready"}`, call, false},
		{schema.Server, `[]`, call, false},
		{schema.Server, `{`, call, false},
	} {
		if err := set.Check("2025-11-25", test.from, []byte(test.message), test.answered); (err == nil) != test.valid {
			t.Errorf("%s %s, an answer to %+v: %v, want valid %v", test.from, test.message, test.answered, err, test.valid)
		}
	}
	if err := set.Check("2025-06-18", schema.Client, []byte(`{}`), call); err == nil {
		t.Error("a revision without a schema finds a message valid")
	}
}

func TestLoad(t *testing.T) {
	set, err := schema.Load(in(t, map[string]string{"2024-11-05.json": small, "2026-07-28/schema.json": small, "README.md": ""}))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := set.Missing(), []string{"2025-03-26", "2025-06-18", "2025-11-25"}; !slices.Equal(got, want) {
		t.Errorf("missing %v, want %v", got, want)
	}
	for name, files := range map[string]map[string]string{
		"nothing":   nil,
		"no schema": {"2024-11-05.json": "{"},
	} {
		if _, err := schema.Load(in(t, files)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
