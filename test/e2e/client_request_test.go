package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

func TestMeta(t *testing.T) {
	t.Parallel()
	server, h := echoing(t, "")
	for name, change := range map[string]func(*Message){
		"no params":                  func(m *Message) { m.Params = nil },
		"no _meta":                   Param("_meta", nil),
		"_meta is no object":         Param("_meta", "meta"),
		"_meta is null":              Param("_meta", json.RawMessage("null")),
		"no version":                 Meta(metaVersion, nil),
		"version is no string":       Meta(metaVersion, 20260728),
		"no capabilities":            Meta(metaCapabilities, nil),
		"capabilities are no object": Meta(metaCapabilities, []any{}),
		"capability is no object":    Caps(`{"sampling":true}`),
		"clientInfo is no object":    Meta(metaClient, "e2e"),
		"clientInfo lacks its name":  Meta(metaClient, map[string]any{"version": "1"}),
		"log level is unknown":       Level("loud"),
		"log level is no string":     Meta(metaLevel, 3),
		"progress token is an array": Progress([]any{}),
		"progress token is fraction": Progress(json.RawMessage("1.5")),
		"folded name in _meta":       Meta("io.modelcontextprotocol/ProtocolVersion", modern),
		"folded progress token":      Meta("ProgressToken", "p"),
		"folded member of params":    Param("Name", "other"),
		"long s in arguments":        Param("argument\u017f", map[string]any{}),
		"name is no string":          Param("name", 1),
		"arguments are no object":    Param("arguments", []any{}),
	} {
		t.Run(name, func(t *testing.T) {
			message := CallTool("echo", nil, change)
			body := message.Body()
			if message.Params == nil {
				body = strings.Replace(body, `,"params":null`, "", 1)
			}
			reply := Post(t, h.URL, body, message.Header)
			reply.Request = message
			reply.Fails(t, http.StatusBadRequest, -32602, "invalid_params")
		})
	}
	if n := server.Count("tools/call"); n != 0 {
		t.Errorf("%d calls reached the server", n)
	}
	for name, change := range map[string]func(*Message){
		"no clientInfo":          Meta(metaClient, nil),
		"unknown member of meta": Meta("com.example/trace", map[string]any{"a": 1}),
		"unknown capability":     Caps(`{"roots":{"listChanged":true},"extensions":{"x":{}},"other":1}`),
		"number as token":        Progress(7),
	} {
		t.Run(name, func(t *testing.T) {
			h.Send(t, CallTool("echo", nil, change)).Completes(t)
		})
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	server, h := echoing(t, "")
	for name, change := range map[string]func(*Message){
		"no version":               Header("MCP-Protocol-Version", ""),
		"version differs":          Header("MCP-Protocol-Version", "2025-11-25"),
		"body's version differs":   Meta(metaVersion, "v999.0.0"),
		"no method":                Header("Mcp-Method", ""),
		"method differs":           Header("Mcp-Method", "tools/list"),
		"method in capitals":       Header("Mcp-Method", "TOOLS/CALL"),
		"no name":                  Header("Mcp-Name", ""),
		"name differs":             Header("Mcp-Name", "other"),
		"name in capitals":         Header("Mcp-Name", "ECHO"),
		"name with a control byte": Header("Mcp-Name", "ec\tho"),
		"sentinel of another name": Header("Mcp-Name", "=?base64?b3RoZXI=?="),
		"sentinel, bad padding":    Header("Mcp-Name", "=?base64?ZWNobw?="),
		"sentinel, bad alphabet":   Header("Mcp-Name", "=?base64?ZW!obw==?="),
		"sentinel, stray bits":     Header("Mcp-Name", "=?base64?ZWNobx==?="),
		"sentinel, no UTF-8":       Header("Mcp-Name", "=?base64?/w==?="),
	} {
		t.Run(name, func(t *testing.T) {
			h.Send(t, CallTool("echo", nil, change)).Fails(t, http.StatusBadRequest, -32020, "")
		})
	}
	if n := server.Count("tools/call"); n != 0 {
		t.Errorf("%d calls reached the server", n)
	}
	for name, change := range map[string]func(*Message){
		"spaces around the name": Header("Mcp-Name", "  echo  "),
		"sentinel":               Header("Mcp-Name", "=?base64?ZWNobw==?="),
		"lower case": func(m *Message) {
			m.Header["mcp-method"], m.Header["Mcp-Method"] = m.Header["Mcp-Method"], nil
			delete(m.Header, "Mcp-Method")
		},
	} {
		t.Run(name, func(t *testing.T) {
			h.Send(t, CallTool("echo", nil, change)).Completes(t)
		})
	}
}

// A name that no header can carry is possible only with the sentinel.
func TestNameThatNeedsTheSentinel(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{JSON: true})
	for _, name := range []string{"größe", "=?base64?ZWNobw==?="} {
		server.Tool(name, func(c *rawserver.Call) { c.Text("called " + name) })
	}
	h := Start(t, Options{Upstream: to(server)})
	for _, test := range []struct{ tool, header string }{
		{"größe", "=?base64?Z3LDtsOfZQ==?="},
		{"=?base64?ZWNobw==?=", "=?base64?PT9iYXNlNjQ/WldOb2J3PT0/PQ==?="},
	} {
		if got := h.Send(t, CallTool(test.tool, nil, Header("Mcp-Name", test.header))).Text(t); got != "called "+test.tool {
			t.Errorf("got %q", got)
		}
		h.Send(t, CallTool(test.tool, nil, Header("Mcp-Name", test.tool))).Fails(t, http.StatusBadRequest, -32020, "header_mismatch")
	}
	// Names of prompts and URIs of resources are mirrored as well.
	h.Send(t, Request("prompts/get", map[string]any{"name": "a"}, Header("Mcp-Name", "b"))).Fails(t, http.StatusBadRequest, -32020, "")
	h.Send(t, Request("resources/read", map[string]any{"uri": "x://a"}, Header("Mcp-Name", "x://b"))).Fails(t, http.StatusBadRequest, -32020, "")
	// Other methods have no name.
	h.Send(t, Request("tools/list", nil)).Completes(t)
}

func TestParamHeaders(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{JSON: true})
	server.Declare("route", `{"name":"route","inputSchema":{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"count":{"type":"integer","x-mcp-header":"Count"},
		"urgent":{"type":"boolean","x-mcp-header":"Urgent"},
		"to":{"type":"object","properties":{"city":{"type":"string","x-mcp-header":"City"}}},
		"query":{"type":"string"}}}}`, func(c *rawserver.Call) { c.Text(string(c.Arguments())) })
	h := Start(t, Options{Upstream: to(server)})
	all := map[string]any{"region": "Hello", "count": 42, "urgent": true, "to": map[string]any{"city": "Köln"}, "query": "q"}
	headers := map[string]string{"Region": "Hello", "Count": "42", "Urgent": "true", "City": "=?base64?S8O2bG4=?="}
	with := func(arguments map[string]any, changes map[string]string) *Message {
		m := CallTool("route", arguments)
		for name, value := range headers {
			m.Header.Set("Mcp-Param-"+name, value)
		}
		for name, value := range changes {
			if value == "" {
				m.Header.Del("Mcp-Param-" + name)
			} else {
				m.Header.Set("Mcp-Param-"+name, value)
			}
		}
		return m
	}
	without := func(name string) map[string]any {
		rest := map[string]any{}
		for n, v := range all {
			if n != name {
				rest[n] = v
			}
		}
		return rest
	}
	// The first call does not know the tool's schema yet.
	h.Send(t, with(all, map[string]string{"Region": "Elsewhere"})).Fails(t, http.StatusBadRequest, -32020, "header_mismatch")
	for name, message := range map[string]*Message{
		"a header is missing":           with(all, map[string]string{"Region": ""}),
		"a nested one is missing":       with(all, map[string]string{"City": ""}),
		"string differs":                with(all, map[string]string{"Region": "hello"}),
		"integer differs":               with(all, map[string]string{"Count": "43"}),
		"integer is no number":          with(all, map[string]string{"Count": "042"}),
		"boolean differs":               with(all, map[string]string{"Urgent": "false"}),
		"boolean in capitals":           with(all, map[string]string{"Urgent": "True"}),
		"bad padding":                   with(all, map[string]string{"Region": "=?base64?SGVsbG8?="}),
		"bad alphabet":                  with(all, map[string]string{"Region": "=?base64?SGVs!!!bG8=?="}),
		"argument absent":               with(without("region"), nil),
		"argument null":                 with(map[string]any{"region": nil, "count": 42, "urgent": true, "to": map[string]any{"city": "Köln"}}, nil),
		"argument of the wrong type":    with(map[string]any{"region": 1, "count": 42, "urgent": true, "to": map[string]any{"city": "Köln"}}, map[string]string{"Region": "1"}),
		"nested argument not there":     with(without("to"), nil),
		"raw bytes instead of sentinel": with(all, map[string]string{"City": "Köln"}),
	} {
		t.Run(name, func(t *testing.T) {
			h.Send(t, message).Fails(t, http.StatusBadRequest, -32020, "header_mismatch")
		})
	}
	repeated := with(all, nil)
	repeated.Header.Add("Mcp-Param-Region", "Hello")
	h.Send(t, repeated).Fails(t, http.StatusBadRequest, -32020, "")
	if n := server.Count("tools/call"); n != 0 {
		t.Errorf("%d calls reached the server", n)
	}
	for name, message := range map[string]*Message{
		"all":                    with(all, nil),
		"sentinel":               with(all, map[string]string{"Region": "=?base64?SGVsbG8=?="}),
		"42.0 is 42":             with(all, map[string]string{"Count": "42.0"}),
		"unknown headers":        with(all, map[string]string{"Other": "ignored"}),
		"neither":                with(without("region"), map[string]string{"Region": ""}),
		"half a sentinel":        with(map[string]any{"region": "=?base64?SGVsbG8="}, map[string]string{"Region": "=?base64?SGVsbG8=", "Count": "", "Urgent": "", "City": ""}),
		"Base64 without markers": with(map[string]any{"region": "SGVsbG8="}, map[string]string{"Region": "SGVsbG8=", "Count": "", "Urgent": "", "City": ""}),
	} {
		t.Run(name, func(t *testing.T) { h.Send(t, message).Completes(t) })
	}
}

func TestVersionNotSupported(t *testing.T) {
	t.Parallel()
	server, h := echoing(t, "")
	for _, version := range []string{"v999.0.0", "2025-11-25", "2099-01-01"} {
		reply := h.Send(t, CallTool("echo", nil, Meta(metaVersion, version), Header("MCP-Protocol-Version", version)))
		reply.Fails(t, http.StatusBadRequest, -32022, "")
		checkVersions(t, reply, version)
	}
	if n := len(server.Records()); n != 0 {
		t.Errorf("%d requests reached the server", n)
	}
}

func checkVersions(t *testing.T, reply *Reply, requested string) {
	t.Helper()
	var data struct {
		Supported []string
		Requested *string
	}
	if err := json.Unmarshal(reply.Error.Data, &data); err != nil {
		t.Fatal(err)
	}
	if len(data.Supported) != 1 || data.Supported[0] != modern || data.Requested == nil || *data.Requested != requested {
		t.Errorf("data is %s, want supported [%s] and requested %s", reply.Error.Data, modern, requested)
	}
}

func TestUnknownMethods(t *testing.T) {
	t.Parallel()
	server, h := echoing(t, "")
	for _, method := range []string{
		"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
		"tasks/result", "tasks/list", "elicitation/create", "unknown/method", "Tools/call", "tools/call ", "größe",
	} {
		message := Request(method, nil)
		if strings.Contains(method, "ö") {
			message.Header.Set("Mcp-Method", "x")
			h.Send(t, message).Fails(t, http.StatusBadRequest, -32020, "")
			continue
		}
		if method == "tools/call " {
			message.Header["Mcp-Method"] = []string{"tools/call"} // which a header cannot say otherwise
			if reply := h.Send(t, message); reply.Error == nil {
				t.Errorf("%q was answered with %s", method, reply.Body)
			}
			continue
		}
		h.Send(t, message).Fails(t, http.StatusNotFound, -32601, "method_not_found")
	}
	if n := len(server.Records()); n != 0 {
		t.Errorf("%d requests reached the server", n)
	}
}

// A legacy client that knocks is told what is spoken here: basic/versioning,
// "Backward Compatibility".
func TestInitialize(t *testing.T) {
	t.Parallel()
	server, h := echoing(t, "")
	for _, header := range []http.Header{
		{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}},
		{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2025-11-25"}},
	} {
		reply := Post(t, h.URL, `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`, header)
		reply.Fails(t, http.StatusBadRequest, -32022, "")
		checkVersions(t, reply, "2025-11-25")
		if string(reply.ID) != `"init"` {
			t.Errorf("id is %s", reply.ID)
		}
	}
	if n := len(server.Records()); n != 0 {
		t.Errorf("%d requests reached the server", n)
	}
}
