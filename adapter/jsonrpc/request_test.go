package jsonrpc_test

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

func TestParseRequest(t *testing.T) {
	for _, tt := range []struct {
		text string
		want jsonrpc.Message
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`,
			jsonrpc.Message{ID: []byte(`1`), Method: "tools/call", Params: []byte(`{"name":"x"}`)}},
		{` { "method" : "vendor/own" , "params" : { } , "jsonrpc" : "2\u002e0" , "id" : "a\u0062" } ` + "\n",
			jsonrpc.Message{ID: []byte(`"a\u0062"`), Method: "vendor/own", Params: []byte(`{ }`)}},
		{`{"jsonrpc":"2.0","id":-0,"method":"tools\/\u006cist","extra":{"id":2}}`,
			jsonrpc.Message{ID: []byte(`-0`), Method: "tools/list"}},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
			jsonrpc.Message{Method: "notifications/cancelled", Params: []byte(`{"requestId":1}`)}},
		{`{"jsonrpc":"2.0","id":"","result":null}`, jsonrpc.Message{ID: []byte(`""`), Result: []byte(`null`)}},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, jsonrpc.Message{ID: []byte(`1`), Error: []byte(`{"code":1}`)}},
		{`{"jsonrpc":"2.0","error":{"code":1}}`, jsonrpc.Message{Error: []byte(`{"code":1}`)}},
		{`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", jsonrpc.MaxIDBytes) + `","method":"ping"}`,
			jsonrpc.Message{ID: []byte(`"` + strings.Repeat("x", jsonrpc.MaxIDBytes) + `"`), Method: "ping"}},
	} {
		got, err := jsonrpc.ParseRequest([]byte(tt.text), 8)
		if err != nil || !same(got, tt.want) {
			t.Errorf("ParseRequest(%s) = %s, %v, want %s", tt.text, show(got), err, show(tt.want))
		}
	}
}

func TestParseRequestRefuses(t *testing.T) {
	long := strings.Repeat("x", jsonrpc.MaxIDBytes+1)
	for _, tt := range []struct {
		text  string
		code  int
		cause error
		id    string
	}{
		{``, jsonrpc.CodeParse, jsonrpc.ErrSyntax, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"`, jsonrpc.CodeParse, jsonrpc.ErrSyntax, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}}`, jsonrpc.CodeParse, jsonrpc.ErrSyntax, "1"},
		{`{"jsonrpc":"2.0","id":12`, jsonrpc.CodeParse, jsonrpc.ErrSyntax, ""},
		{`{"jsonrpc":"2.0","id":12x,"method":"ping"}`, jsonrpc.CodeParse, jsonrpc.ErrSyntax, ""},
		{`{"jsonrpc":"2.0","params":{]},"id":12}`, jsonrpc.CodeParse, jsonrpc.ErrSyntax, ""},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", jsonrpc.CodeParse, jsonrpc.ErrUTF8, "1"},
		{`{"method":"ping","params":{"a":"\udc00\""},"jsonrpc":"2.0","id":"n1"}`, jsonrpc.CodeParse, jsonrpc.ErrUTF8, `"n1"`},
		{`not json`, jsonrpc.CodeParse, jsonrpc.ErrSyntax, ""},

		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2}}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrDuplicate, "1"},
		{`{"method":"ping","method":"ping","jsonrpc":"2.0","id":1}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrDuplicate, "1"},
		{`{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrDuplicate, ""},
		{`{"jsonrpc":"2.0","id":1,"i\u0064":2,"method":"ping"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrDuplicate, ""},
		{`{"params":{"a":{"a":{"a":{"a":{}}}}},"jsonrpc":"2.0","id":3,"method":"ping"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrDepth, "3"},

		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, ""},
		{`[]`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, ""},
		{`"ping"`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, ""},
		{`{}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, ""},
		{`{"jsonrpc":"2.0","id":1}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, "1"},
		{`{"id":1,"method":"ping"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, "1"},
		{`{"jsonrpc":"1.0","id":1,"method":"ping"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, "1"},
		{`{"jsonrpc":2.0,"id":1,"method":"ping"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, "1"},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, ""},
		{`{"jsonrpc":"2.0","id":true,"method":"ping"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, ""},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, ""},
		{`{"jsonrpc":"2.0","id":[1],"method":"ping"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, ""},
		{`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, ""},
		{`{"jsonrpc":"2.0","id":1e3,"method":"ping"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, ""},
		{`{"jsonrpc":"2.0","id":"` + long + `","method":"ping"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, ""},
		{`{"jsonrpc":"2.0","id":1` + strings.Repeat("0", jsonrpc.MaxIDBytes) + `,"method":"ping"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, ""},
		{`{"jsonrpc":"2.0","id":1,"method":""}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":7}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":null}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, "1"},
		{`{"jsonrpc":"2.0","result":{}}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, ""},
		{`{"jsonrpc":"2.0","id":1,"error":"x"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, "1"},

		{`{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","param\u017f":{}}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","paramſ":{}}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, "1"},
		{`{"jsonrpc":"2.0","ID":1,"method":"ping"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","jsonRPC":"2.0"}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","Error":{}}`, jsonrpc.CodeInvalidRequest, jsonrpc.ErrInvalid, "1"},
	} {
		m, err := jsonrpc.ParseRequest([]byte(tt.text), 4)
		var e *jsonrpc.Error
		if !errors.As(err, &e) || e.Code != tt.code || !errors.Is(err, tt.cause) || string(m.ID) != tt.id {
			t.Errorf("ParseRequest(%s) = id %q, %v, want id %q, code %d, %v", tt.text, m.ID, err, tt.id, tt.code, tt.cause)
		}
	}
}

func TestMessageKinds(t *testing.T) {
	for _, tt := range []struct {
		m                               jsonrpc.Message
		request, notification, response bool
	}{
		{m: jsonrpc.Message{}},
		{m: jsonrpc.Message{ID: []byte("1")}},
		{m: jsonrpc.Message{ID: []byte("1"), Method: "x"}, request: true},
		{m: jsonrpc.Message{Method: "x"}, notification: true},
		{m: jsonrpc.Message{ID: []byte("1"), Result: []byte("{}")}, response: true},
		{m: jsonrpc.Message{Error: []byte("{}")}, response: true},
	} {
		if got := tt.m.IsRequest(); got != tt.request {
			t.Errorf("IsRequest of %s = %v", show(tt.m), got)
		}
		if got := tt.m.IsNotification(); got != tt.notification {
			t.Errorf("IsNotification of %s = %v", show(tt.m), got)
		}
		if got := tt.m.IsResponse(); got != tt.response {
			t.Errorf("IsResponse of %s = %v", show(tt.m), got)
		}
	}
}

func TestParseRequestAllocatesNothing(t *testing.T) {
	needExactAllocations(t)
	for _, method := range knownMethods {
		text := bytes.Replace(call(200), []byte("tools/call"), []byte(method), 1)
		if n := testing.AllocsPerRun(100, func() {
			m, err := jsonrpc.ParseRequest(text, 64)
			if err != nil || m.Method != method || !m.IsRequest() {
				t.Fatal(show(m), err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0", method, n)
		}
	}
}

// The methods of both revisions' schemas.
var knownMethods = []string{
	"server/discover", "tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list", "resources/templates/list",
	"resources/read", "completion/complete", "subscriptions/listen", "initialize", "ping", "logging/setLevel",
	"resources/subscribe", "resources/unsubscribe", "elicitation/create", "sampling/createMessage", "roots/list",
	"notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/message",
	"notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
	"notifications/resources/updated", "notifications/roots/list_changed", "notifications/subscriptions/acknowledged",
	"notifications/elicitation/complete",
}

var integer = regexp.MustCompile(`^-?[0-9]+$`)

// wellFormed is the envelope's rules, written once more over an independent
// reading of a valid text.
func wellFormed(data []byte) bool {
	m := members(data, false)
	if m == nil {
		return false
	}
	for name := range m {
		for _, known := range []string{"jsonrpc", "id", "method", "params", "result", "error"} {
			if name != known && strings.EqualFold(name, known) {
				return false
			}
		}
	}
	kind := func(name string) jsontext.Kind { return jsontext.Value(m[name]).Kind() }
	has := func(name string) bool { return m[name] != "" }
	text := func(name string) string { s, _ := jsontext.AppendUnquote(nil, m[name]); return string(s) }
	id := kind("id") == '"' && len(m["id"])-2 <= jsonrpc.MaxIDBytes || integer.MatchString(m["id"]) && len(m["id"]) <= jsonrpc.MaxIDBytes
	switch {
	case kind("jsonrpc") != '"' || text("jsonrpc") != "2.0", has("id") && !id:
		return false
	case has("method"):
		return kind("method") == '"' && text("method") != "" && !has("result") && !has("error") && (!has("params") || kind("params") == '{')
	case has("error"):
		return !has("result") && kind("error") == '{'
	}
	return has("result") && has("id")
}

func FuzzParseRequest(f *testing.F) {
	for _, text := range append(clientMessages, serverMessages...) {
		f.Add([]byte(text))
	}
	f.Add(call(50))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := jsonrpc.ParseRequest(data, oracleDepth)
		if want := valid(data, false) && wellFormed(data); want != (err == nil) {
			t.Fatalf("ParseRequest(%q) = %s, %v, want accepted: %v", data, show(m), err, want)
		}
		if err != nil {
			var e *jsonrpc.Error
			if !errors.As(err, &e) {
				t.Fatalf("ParseRequest(%q) = %v, which is no *Error", data, err)
			}
			if e.Code == jsonrpc.CodeInvalidRequest && errors.Is(err, jsonrpc.ErrInvalid) && !valid(data, false) {
				t.Fatalf("ParseRequest(%q) = %v, but it is no JSON", data, err)
			}
			if answer := jsonrpc.AppendError(nil, m.ID, e); !valid(answer, false) {
				t.Fatalf("the answer to %q is %q, which is not valid", data, answer)
			}
			return
		}
		if want := asMessage(members(data, false)); !same(m, want) {
			t.Fatalf("ParseRequest(%q) = %s, want %s", data, show(m), show(want))
		}
	})
}

// asMessage makes the message of members that are well formed.
func asMessage(m map[string]string) jsonrpc.Message {
	raw := func(name string) []byte {
		if v := m[name]; v != "" && v != "null" {
			return []byte(v)
		}
		return nil
	}
	method, _ := jsontext.AppendUnquote(nil, m["method"])
	want := jsonrpc.Message{ID: raw("id"), Method: string(method), Params: raw("params"), Result: raw("result"), Error: raw("error")}
	if m["result"] == "null" && want.Error == nil && want.Method == "" {
		want.Result = []byte("null")
	}
	return want
}

func same(a, b jsonrpc.Message) bool { return show(a) == show(b) }

// show tells nil from empty.
func show(m jsonrpc.Message) string {
	s := fmt.Sprintf("method %q", m.Method)
	for _, part := range []struct {
		name string
		raw  []byte
	}{{"id", m.ID}, {"params", m.Params}, {"result", m.Result}, {"error", m.Error}} {
		if part.raw != nil {
			s += fmt.Sprintf(", %s %q", part.name, part.raw)
		}
	}
	return s
}
