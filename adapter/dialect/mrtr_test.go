package dialect

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

const (
	meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"ExampleClient","version":"1.0.0"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	plainCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_weather","arguments":{"location":"Seattle, WA"},` + meta + `}}`
)

func decode(t testing.TB, text string) (adapter.Request, error) {
	t.Helper()
	msg, err := jsonrpc.ParseRequest([]byte(text), 64)
	if err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	var req adapter.Request
	err = MRTR{}.Decode(&msg, &req)
	return req, err
}

func request(method, params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`
}

func TestNullArgumentsAreNone(t *testing.T) {
	req, err := decode(t, request("tools/call", `"name":"x","arguments":null,`+meta))
	if err != nil || req.Args != nil || !req.NullArgs {
		t.Errorf("got %v, args %q, null %v; want none, as the Go SDK means it", err, req.Args, req.NullArgs)
	}
}

func TestDecodeFillsRequest(t *testing.T) {
	req, err := decode(t, `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"n\u00e4me","arguments":{"x":1},`+
		`"inputResponses":{"k":{"action":"accept"}},"requestState":"abc","_meta":{"progressToken":7,`+
		`"io.modelcontextprotocol/logLevel":"warning","io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{"roots":{}},"traceparent":"00-1"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, got, want string }{
		{"method", req.Method, "tools/call"},
		{"id", string(req.ID), `"a"`},
		{"name", string(req.Name), "näme"},
		{"args", string(req.Args), `{"x":1}`},
		{"responses", string(req.InputResponses), `{"k":{"action":"accept"}}`},
		{"state", string(req.RequestState), "abc"},
		{"token", string(req.ProgressToken), "7"},
		{"capabilities", string(req.Capabilities), `{"roots":{}}`},
		{"level", req.LogLevel.String(), "warning"},
		{"client info", string(req.ClientInfo), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s is %q, want %q", c.what, c.got, c.want)
		}
	}
}

func TestDecodeReadsResourceURI(t *testing.T) {
	req, err := decode(t, request("resources/read", `"uri":"file:///a","name":3,`+meta))
	if err != nil || string(req.Name) != "file:///a" {
		t.Fatalf("got %q, %v", req.Name, err)
	}
}

// Spec 2026-07-28, basic/patterns/mrtr, "Supported Requests": on other methods
// the two members mean nothing, whatever they are.
func TestDecodeIgnoresAnswersOnOtherMethods(t *testing.T) {
	req, err := decode(t, request("tools/list", `"inputResponses":3,"requestState":null,`+meta))
	if err != nil || req.InputResponses != nil || req.RequestState != nil {
		t.Fatalf("got %s, %s, %v", req.InputResponses, req.RequestState, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	const version = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	const capabilities = `"io.modelcontextprotocol/clientCapabilities":{}`
	withMeta := func(members string) string { return `"_meta":{` + version + `,` + capabilities + `,` + members + `}` }
	for name, c := range map[string]struct {
		text string
		code int
	}{
		"no params":                  {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, -32602},
		"no _meta":                   {request("tools/list", ``), -32602},
		"_meta no object":            {request("tools/list", `"_meta":"x"`), -32602},
		"no version":                 {request("tools/list", `"_meta":{`+capabilities+`}`), -32602},
		"version no string":          {request("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":1,`+capabilities+`}`), -32602},
		"no capabilities":            {request("tools/list", `"_meta":{`+version+`}`), -32602},
		"capabilities no object":     {request("tools/list", `"_meta":{`+version+`,"io.modelcontextprotocol/clientCapabilities":[]}`), -32602},
		"client info without name":   {request("tools/list", withMeta(`"io.modelcontextprotocol/clientInfo":{"version":"1"}`)), -32602},
		"client info version number": {request("tools/list", withMeta(`"io.modelcontextprotocol/clientInfo":{"name":"a","version":1}`)), -32602},
		"client info null":           {request("tools/list", withMeta(`"io.modelcontextprotocol/clientInfo":null`)), -32602},
		"client info too large":      {request("tools/list", withMeta(`"io.modelcontextprotocol/clientInfo":{"name":"a","version":"`+strings.Repeat("1", maxDeclared)+`"}`)), -32602},
		"capabilities too large":     {request("tools/list", `"_meta":{`+version+`,"io.modelcontextprotocol/clientCapabilities":{"x":"`+strings.Repeat("1", maxDeclared)+`"}}`), -32602},
		"unknown level":              {request("tools/list", withMeta(`"io.modelcontextprotocol/logLevel":"loud"`)), -32602},
		"empty level":                {request("tools/list", withMeta(`"io.modelcontextprotocol/logLevel":""`)), -32602},
		"token fraction":             {request("tools/list", withMeta(`"progressToken":1.5`)), -32602},
		"token null":                 {request("tools/list", withMeta(`"progressToken":null`)), -32602},
		"token object":               {request("tools/list", withMeta(`"progressToken":{}`)), -32602},
		"no name":                    {request("tools/call", meta), -32602},
		"name no string":             {request("prompts/get", `"name":1,`+meta), -32602},
		"no uri":                     {request("resources/read", `"name":"x",`+meta), -32602},
		"arguments array":            {request("tools/call", `"name":"x","arguments":[],`+meta), -32602},
		"responses array":            {request("tools/call", `"name":"x","inputResponses":[],`+meta), -32602},
		"responses null":             {request("tools/call", `"name":"x","inputResponses":null,`+meta), -32602},
		"state number":               {request("tools/call", `"name":"x","requestState":1,`+meta), -32602},
		"folded param":               {request("tools/call", `"name":"x","Arguments":{},`+meta), -32602},
		"folded param unicode":       {request("tools/call", `"name":"x","argument\u017f":{},`+meta), -32602},
		"folded meta":                {request("tools/list", withMeta(`"IO.modelcontextprotocol/protocolVersion":"x"`)), -32602},
		"other version":              {request("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}`), -32022},
		"version before method":      {request("no/such", `"_meta":{"io.modelcontextprotocol/protocolVersion":"x"}`), -32022},
		"unknown method":             {request("no/such", meta), -32601},
		"unknown before _meta":       {request("no/such", ``), -32601},
		"removed method":             {request("resources/subscribe", meta), -32601},
		"modern initialize":          {request("initialize", meta), -32601},
		"legacy initialize":          {request("initialize", `"protocolVersion":"2025-06-18","capabilities":{}`), -32022},
		"input request":              {request("elicitation/create", meta), -32601},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decode(t, c.text)
			if got := codeOf(err); got != c.code {
				t.Errorf("got code %d (%v), want %d", got, err, c.code)
			}
		})
	}
}

func codeOf(err error) int {
	var envelope *jsonrpc.Error
	var refusal *adapter.Refusal
	switch {
	case errors.As(err, &envelope):
		return envelope.Code
	case errors.As(err, &refusal):
		return map[adapter.Reason]int{
			adapter.ReasonInvalidParams: -32602, adapter.ReasonMethodNotFound: -32601,
		}[refusal.Reason]
	}
	return 0
}

func TestVersionErrorsNameTheVersions(t *testing.T) {
	for text, want := range map[string]string{
		request("initialize", `"protocolVersion":"2025-06-18"`):                                 "2025-06-18",
		request("initialize", ``):                                                               "",
		request("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"v999.0.0"}`): "v999.0.0",
	} {
		_, err := decode(t, text)
		var envelope *jsonrpc.Error
		if !errors.As(err, &envelope) {
			t.Fatalf("%s: %v", text, err)
		}
		var data struct {
			Supported []string
			Requested *string
		}
		if err := json.Unmarshal(envelope.Data, &data); err != nil {
			t.Fatal(err)
		}
		if len(data.Supported) != 1 || data.Supported[0] != mcp.Modern || data.Requested == nil || *data.Requested != want {
			t.Errorf("%s: data is %s, want requested %q", text, envelope.Data, want)
		}
	}
}

func TestErrorsRepeatLittleOfTheClient(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for _, text := range []string{
		request("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"`+long+`"}`),
		request(long, meta),
		request("initialize", `"protocolVersion":"`+long+`"`),
	} {
		_, err := decode(t, text)
		var envelope *jsonrpc.Error
		if errors.As(err, &envelope) && len(envelope.Data) > 300 || err == nil || len(err.Error()) > 300 {
			t.Errorf("an error repeats too much: %.400v", err)
		}
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	msg, err := jsonrpc.ParseRequest([]byte(plainCall), 64)
	if err != nil {
		t.Fatal(err)
	}
	var req adapter.Request
	if n := testing.AllocsPerRun(100, func() {
		if err := (MRTR{}).Decode(&msg, &req); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("Decode allocates %v times", n)
	}
}

func BenchmarkDecode(b *testing.B) {
	msg, err := jsonrpc.ParseRequest([]byte(plainCall), 64)
	if err != nil {
		b.Fatal(err)
	}
	var req adapter.Request
	b.ReportAllocs()
	for b.Loop() {
		if err := (MRTR{}).Decode(&msg, &req); err != nil {
			b.Fatal(err)
		}
	}
}
