package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// The proxy and the server must never read two different requests out of one
// body.
func TestEnvelope(t *testing.T) {
	t.Parallel()
	server, h := echoing(t, "")
	header := CallTool("echo", nil).Header
	valid := CallTool("echo", nil, ID(77)).Body()
	params := strings.TrimSuffix(strings.SplitAfterN(valid, `"params":`, 2)[1], "}")
	with := func(members string) string { return `{"jsonrpc":"2.0",` + members + `}` }
	for _, test := range []struct {
		name, body string
		code       int
		id         string // "": none
	}{
		{"empty body", "", -32700, ""},
		{"no JSON", "hello", -32700, ""},
		{"cut", valid[:len(valid)-1], -32700, "77"},
		{"two values", valid + valid, -32700, "77"},
		{"trailing comma", with(`"id":77,"method":"tools/call","params":` + params + `,`), -32700, "77"},
		{"NaN", with(`"id":77,"method":"tools/call","params":NaN`), -32700, "77"},
		{"leading zero", with(`"id":077,"method":"tools/call"`), -32700, ""},
		{"invalid UTF-8", with(`"id":77,"method":"tools/call","params":{"name":"` + "\xff" + `"}`), -32700, "77"},
		{"lone surrogate", with(`"id":77,"method":"tools/call","params":{"name":"\ud800"}`), -32700, "77"},
		{"batch", "[" + valid + "]", -32600, ""},
		{"empty batch", "[]", -32600, ""},
		{"a string", `"tools/call"`, -32600, ""},
		{"id null", with(`"id":null,"method":"tools/call","params":` + params), -32600, ""},
		{"id fraction", with(`"id":1.5,"method":"tools/call","params":` + params), -32600, ""},
		{"id exponent", with(`"id":1e3,"method":"tools/call","params":` + params), -32600, ""},
		{"id boolean", with(`"id":true,"method":"tools/call","params":` + params), -32600, ""},
		{"id object", with(`"id":{},"method":"tools/call","params":` + params), -32600, ""},
		{"id too long", with(`"id":"` + strings.Repeat("x", 300) + `","method":"tools/call","params":` + params), -32600, ""},
		{"no jsonrpc", `{"id":77,"method":"tools/call","params":` + params + `}`, -32600, "77"},
		{"jsonrpc 1.0", `{"jsonrpc":"1.0","id":77,"method":"tools/call","params":` + params + `}`, -32600, "77"},
		{"method is no string", with(`"id":77,"method":7,"params":` + params), -32600, "77"},
		{"params an array", with(`"id":77,"method":"tools/call","params":[1]`), -32600, "77"},
		{"method and result", with(`"id":77,"method":"tools/call","result":{},"params":` + params), -32600, "77"},
		{"duplicate method", with(`"id":77,"method":"tools/list","method":"tools/call","params":` + params), -32600, "77"},
		{"duplicate, escaped", with(`"id":77,"method":"tools/call","meth\u006fd":"tools/list","params":` + params), -32600, "77"},
		{"duplicate id", with(`"id":77,"id":78,"method":"tools/call","params":` + params), -32600, ""},
		{"duplicate in params", with(`"id":77,"method":"tools/call","params":{"name":"a","name":"echo"}`), -32600, "77"},
		{"duplicate deep down", with(`"id":77,"method":"tools/call","params":{"arguments":{"a":[{"b":1,"b":2}]}}`), -32600, "77"},
		{"folded method", with(`"id":77,"Method":"tools/list","method":"tools/call","params":` + params), -32600, "77"},
		{"folded params", with(`"id":77,"method":"tools/call","param\u017f":{},"params":` + params), -32600, "77"},
		{"a response", with(`"id":77,"result":{}`), -32600, ""},
		{"an error response", with(`"id":77,"error":{"code":1,"message":"x"}`), -32600, ""},
		{"nothing", `{}`, -32600, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			reply := Post(t, h.URL, test.body, header)
			reply.Fails(t, http.StatusBadRequest, test.code, "")
			got := string(reply.ID)
			if got == "null" {
				got = ""
			}
			if got != test.id {
				t.Errorf("the error has id %q, want %q\n%s", got, test.id, reply.Body)
			}
		})
	}
	if n := len(server.Records()); n != 0 {
		t.Errorf("%d requests reached the server", n)
	}
}

func TestIDsComeBackAsTheyAre(t *testing.T) {
	t.Parallel()
	_, h := echoing(t, "")
	for _, id := range []string{`0`, `-7`, `9007199254740993`, `"a \"quoted\" id"`, `"größe"`, `""`} {
		reply := h.Send(t, CallTool("echo", nil, ID(json.RawMessage(id))))
		reply.Completes(t) // checks the id
		h.Send(t, Request("unknown/method", nil, ID(json.RawMessage(id)))).Fails(t, http.StatusNotFound, -32601, "")
	}
	// Escapes stay, too.
	m := CallTool("echo", nil)
	body := strings.Replace(CallTool("echo", nil, ID("ID")).Body(), `"ID"`, `"\u0041"`, 1)
	if reply := Post(t, h.URL, body, m.Header); string(reply.ID) != `"\u0041"` {
		t.Errorf("id is %s, want %s", reply.ID, `"\u0041"`)
	}
}

// Clients that know nothing of each other use the same ids at the same time.
func TestSameIDAtOnce(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	running, gate := make(chan struct{}, 2), newGate(t)
	server.Tool("who", func(c *rawserver.Call) {
		running <- struct{}{}
		<-gate
		c.Text(c.Argument("name"))
	})
	h := Start(t, Options{Upstream: to(server)})
	one, two := h.Open(t, CallTool("who", map[string]any{"name": "one"}, ID(1))), h.Open(t, CallTool("who", map[string]any{"name": "two"}, ID(1)))
	receive(t, "call", running)
	receive(t, "call", running)
	close(gate)
	if a, b := one.Reply().Text(t), two.Reply().Text(t); a != "one" || b != "two" {
		t.Errorf("got %q and %q", a, b)
	}
}

// What a client of this revision notifies of means nothing to this transport.
func TestNotificationsAreTaken(t *testing.T) {
	t.Parallel()
	server, h := echoing(t, "")
	m := Request("notifications/cancelled", nil)
	reply := Post(t, h.URL, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, m.Header)
	if reply.Status != http.StatusAccepted || len(reply.Body) > 0 {
		t.Errorf("HTTP %d %q, want 202 and no body", reply.Status, reply.Body)
	}
	if n := len(server.Records()); n != 0 {
		t.Errorf("%d requests reached the server: a client's notification means nothing there", n)
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	server, h := echoing(t, "http: {max_body: 8KiB, max_header: 4KiB, max_depth: 16}")
	fits := CallTool("echo", map[string]any{"text": strings.Repeat("x", 4<<10)})
	h.Send(t, fits).Completes(t)
	before := server.Count("tools/call")
	t.Run("body", func(t *testing.T) {
		reply := h.Send(t, CallTool("echo", map[string]any{"text": strings.Repeat("x", 16<<10)}))
		reply.Request = nil // the body was not read, and no id with it
		reply.Fails(t, http.StatusRequestEntityTooLarge, -32600, "body_size")
	})
	t.Run("header", func(t *testing.T) {
		reply := h.Send(t, CallTool("echo", nil, Header("X-Long", strings.Repeat("x", 8<<10))))
		reply.Request = nil
		reply.Fails(t, http.StatusRequestHeaderFieldsTooLarge, -32600, "header_size")
	})
	t.Run("depth", func(t *testing.T) {
		h.Send(t, CallTool("echo", map[string]any{"a": json.RawMessage(strings.Repeat("[", 20) + strings.Repeat("]", 20))})).
			Fails(t, http.StatusBadRequest, -32600, "")
		h.Send(t, CallTool("echo", map[string]any{"a": json.RawMessage(strings.Repeat("[", 10) + strings.Repeat("]", 10))})).Completes(t)
	})
	// A client that is still sending gets the answer, too, and no reset.
	t.Run("while the client sends", func(t *testing.T) {
		for range 20 {
			reply := h.Send(t, CallTool("echo", map[string]any{"text": strings.Repeat("x", 2<<20)}))
			reply.Request = nil
			reply.Fails(t, http.StatusRequestEntityTooLarge, -32600, "body_size")
			reply = h.Send(t, CallTool("echo", nil, Header("X-Long", strings.Repeat("x", 512<<10))))
			reply.Request = nil
			reply.Fails(t, http.StatusRequestHeaderFieldsTooLarge, -32600, "header_size")
		}
	})
	if n := server.Count("tools/call"); n != before+1 {
		t.Errorf("%d calls reached the server, want 1", n-before)
	}
}
