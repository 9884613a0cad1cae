package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

func parse(t *testing.T, text []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// same compares JSON values; want is JSON text.
func same(t *testing.T, what string, got any, want string) {
	t.Helper()
	if w := parse(t, []byte(want)); !reflect.DeepEqual(got, w) {
		text, _ := json.Marshal(got)
		t.Errorf("%s is %s, want %s", what, text, want)
	}
}

const rawserverInfo = `{"name":"rawserver","version":"1.0.0"}`

func serverInfo(result map[string]any) any {
	meta, _ := result["_meta"].(map[string]any)
	return meta[metaServer]
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{
		Instructions: "Ask nicely.",
		Capabilities: `{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{},"tasks":{"list":{}},"experimental":{"x":{"y":1}}}`,
	})
	h := Start(t, Options{Upstream: to(server)})
	result := h.Send(t, Request("server/discover", nil)).Completes(t)
	same(t, "supportedVersions", result["supportedVersions"], `["2026-07-28"]`)
	same(t, "capabilities", result["capabilities"],
		`{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{},"experimental":{"x":{"y":1}},
		"extensions":{"io.modelcontextprotocol/tasks":{},"dev.holdfast/dialects":{"incomplete-result":{},"dependent-requests":{},"saga":{},"resume-token":{},"resumable":{}}}}`)
	same(t, "instructions", result["instructions"], `"Ask nicely."`)
	same(t, "serverInfo", serverInfo(result), rawserverInfo)
	same(t, "ttlMs", result["ttlMs"], `0`)
	same(t, "cacheScope", result["cacheScope"], `"private"`)
	for _, name := range []string{"serverInfo", "protocolVersion"} {
		if _, ok := result[name]; ok {
			t.Errorf("the result has the legacy member %s", name)
		}
	}
	h.Send(t, Request("server/discover", nil)).Completes(t)
	if n := server.Count("server/discover"); n > h.Size() {
		t.Errorf("the server was asked server/discover %d times: it does not know that, and is asked for its era once", n)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{JSON: true})
	server.Tool("echo", func(c *rawserver.Call) {
		c.Result(`{"content":[],"structuredContent":{"n":1.50},"_meta":{"com.example/a":1},"resultType":"server's own","unknown":[1]}`)
	})
	for method, result := range map[string]string{
		"resources/list":           `{"resources":[],"nextCursor":"c"}`,
		"resources/templates/list": `{"resourceTemplates":[]}`,
		"resources/read":           `{"contents":[]}`,
		"prompts/list":             `{"prompts":[]}`,
		"prompts/get":              `{"messages":[]}`,
		"completion/complete":      `{"completion":{"values":["a"]}}`,
	} {
		server.Handle(method, func(c *rawserver.Call) { c.Result(result) })
	}
	defaults := Start(t, Options{Upstream: to(server)})
	configured := Start(t, Options{Config: `upstreams: [{name: raw, ` + to(server).YAML() + `, path: /mcp, cache: {ttl: 90s, scope: public}}]`})
	for _, test := range []struct {
		request   *Message
		cacheable bool
	}{
		{Request("tools/list", nil), true},
		{Request("resources/list", nil), true},
		{Request("resources/templates/list", nil), true},
		{Request("resources/read", map[string]any{"uri": "x://y"}), true},
		{Request("prompts/list", nil), true},
		{Request("server/discover", nil), true},
		{Request("prompts/get", map[string]any{"name": "p"}), false},
		{Request("completion/complete", map[string]any{"ref": map[string]any{"type": "ref/prompt", "name": "p"}, "argument": map[string]any{"name": "a", "value": ""}}), false},
		{CallTool("echo", nil), false},
	} {
		t.Run(test.request.Method, func(t *testing.T) {
			for _, side := range []struct {
				h          *Holdfast
				ttl, scope string
			}{{defaults, `0`, `"private"`}, {configured, `90000`, `"public"`}} {
				result := side.h.Send(t, test.request).Completes(t)
				same(t, "resultType", result["resultType"], `"complete"`)
				same(t, "serverInfo", serverInfo(result), rawserverInfo)
				if test.cacheable {
					same(t, "ttlMs", result["ttlMs"], side.ttl)
					same(t, "cacheScope", result["cacheScope"], side.scope)
				} else if result["ttlMs"] != nil || result["cacheScope"] != nil {
					t.Errorf("caching hints where none belong: %v", result)
				}
			}
		})
	}
	reply := defaults.Send(t, CallTool("echo", nil))
	same(t, "the server's own _meta", reply.Completes(t)["_meta"], `{"com.example/a":1,"`+metaServer+`":`+rawserverInfo+`}`)
	if !bytes.Contains(reply.Body, []byte(`"structuredContent":{"n":1.50}`)) || !bytes.Contains(reply.Body, []byte(`"unknown":[1]`)) {
		t.Errorf("what needs no change was changed: %s", reply.Body)
	}
	if got := defaults.Send(t, Request("resources/list", nil)).Completes(t)["nextCursor"]; got != "c" {
		t.Errorf("nextCursor is %v", got)
	}
}

// The server's own caching hints stay, as far as they are valid; but whether
// every caller sees the same only the operator knows.
func TestCachingHintsOfTheServer(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{JSON: true})
	h := Start(t, Options{Upstream: to(server)})
	for _, test := range []struct{ hints, ttl, scope string }{
		{`"ttlMs":5,"cacheScope":"private"`, `5`, `"private"`},
		{`"ttlMs":5,"cacheScope":"public"`, `5`, `"private"`},
		{`"ttlMs":-1,"cacheScope":"everyone"`, `0`, `"private"`},
		{`"ttlMs":"soon"`, `0`, `"private"`},
	} {
		server.Handle("prompts/list", func(c *rawserver.Call) { c.Result(`{"prompts":[],` + test.hints + `}`) })
		result := h.Send(t, Request("prompts/list", nil)).Completes(t)
		same(t, "ttlMs", result["ttlMs"], test.ttl)
		same(t, "cacheScope", result["cacheScope"], test.scope)
	}
}

func TestLegacyMembersAreHidden(t *testing.T) {
	t.Parallel()
	onlyNewest(t, "tasks")
	server := newServer(t, rawserver.Settings{})
	server.Declare("long", `{"name":"long","execution":{"taskSupport":"required"},"inputSchema":{"type":"object","properties":{"execution":{"type":"string"}}}}`, func(c *rawserver.Call) {
		created := c.Ask("elicitation/create", `{"message":"?","task":{"ttl":1},"_meta":{"dev.holdfast/key":"k","progressToken":1,"io.modelcontextprotocol/related-task":{"taskId":"t"},"com.example/kept":1},"requestedSchema":{"type":"object","properties":{}}}`)
		c.Ask("tasks/result", `{"taskId":`+string(at(created.Result, "task", "taskId"))+`}`)
		c.Result(`{"content":[],"task":{"taskId":"t"}}`)
	})
	server.Tool("plain", func(c *rawserver.Call) { c.Text("") })
	h := Start(t, Options{Upstream: to(server)})

	tools := h.Send(t, Request("tools/list", nil)).Completes(t)["tools"]
	same(t, "tools", tools, `[{"name":"long","inputSchema":{"type":"object","properties":{"execution":{"type":"string"}}}},
		{"name":"plain","description":"plain","inputSchema":{"type":"object"}}]`)
	first := h.Send(t, CallTool("long", nil))
	first.Asks(t, "k")
	same(t, "the question", parse(t, first.Inputs["k"].Params),
		`{"message":"?","_meta":{"com.example/kept":1},"requestedSchema":{"type":"object","properties":{}}}`)
	if result := h.Retry(t, first, Answers{"k": Accept()}).Completes(t); result["task"] != nil {
		t.Errorf("the result has a task: %v", result)
	}
	// Tasks are the proxy's own, not the client's.
	h.Send(t, Request("tools/list", nil, Caps(`{"tasks":{"list":{}}}`))).Completes(t)
	h.Send(t, Request("tools/list", nil, Caps(`{"sampling":{},"tasks":{"list":{}}}`))).Completes(t)
	for _, m := range server.Received("initialize") {
		if bytes.Contains(at(m.Params, "capabilities", "tasks"), []byte("list")) {
			t.Errorf("the legacy capability tasks was passed on: %s", m.Params)
		}
	}
}

// basic/index, "Error Codes".
func TestErrorsOfTheServer(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{JSON: true})
	h := Start(t, Options{Upstream: to(server)})
	reply := h.Send(t, Request("resources/read", map[string]any{"uri": "x://nowhere"}))
	if reply.Error == nil || reply.Error.Code != -32602 {
		t.Fatalf("an unknown resource: %s, want code -32602", reply.Body)
	}
	same(t, "data", parse(t, reply.Error.Data), `{"uri":"x://nowhere"}`)
	if reply.Error.Message != "Resource not found" {
		t.Errorf("message is %q", reply.Error.Message)
	}
	server.Tool("fail", func(c *rawserver.Call) { c.Error(-32099, "no luck", `{"luck":0.00}`) })
	reply = h.Send(t, CallTool("fail", nil))
	if !bytes.Contains(reply.Body, []byte(`"code":-32099`)) || !bytes.Contains(reply.Body, []byte(`{"luck":0.00}`)) {
		t.Errorf("the server's error was changed: %s", reply.Body)
	}
	reply.checkID(t)
	// The server does not know the method: for a modern client there is none.
	server.Handle("completion/complete", func(c *rawserver.Call) { c.Error(-32601, "Method not found", "") })
	h.Send(t, Request("completion/complete", map[string]any{
		"ref": map[string]any{"type": "ref/prompt", "name": "p"}, "argument": map[string]any{"name": "a", "value": ""},
	})).
		Fails(t, http.StatusNotFound, -32601, "")
	// A tool's own failure is a result.
	server.Tool("sad", func(c *rawserver.Call) { c.Result(`{"content":[{"type":"text","text":"sad"}],"isError":true}`) })
	if result := h.Send(t, CallTool("sad", nil)).Completes(t); result["isError"] != true {
		t.Errorf("isError is %v", result["isError"])
	}
}

// -32042 becomes input_required, and the retry sends the original request
// again.
func TestURLElicitationRequired(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	visited := make(chan struct{})
	server.Tool("authorize", func(c *rawserver.Call) {
		select {
		case <-visited:
			c.Text("authorized with " + string(c.Arguments()))
		default:
			c.Error(-32042, "URL elicitation required", `{"elicitations":[
				{"mode":"url","elicitationId":"e1","url":"https://example.com/a","message":"One"},
				{"elicitationId":"e2","url":"https://example.com/b","message":"Two"}]}`)
		}
	})
	h := Start(t, Options{Upstream: to(server)})
	call := CallTool("authorize", map[string]any{"scope": "all"})
	first := h.Send(t, call)
	first.Asks(t, "elicitation-1", "elicitation-2")
	for key, want := range map[string]string{
		"elicitation-1": `{"mode":"url","url":"https://example.com/a","message":"One"}`,
		"elicitation-2": `{"mode":"url","url":"https://example.com/b","message":"Two"}`,
	} {
		if first.Inputs[key].Method != "elicitation/create" {
			t.Errorf("method is %s", first.Inputs[key].Method)
		}
		same(t, key, parse(t, first.Inputs[key].Params), want)
	}
	consent := Answers{"elicitation-1": map[string]any{"action": "accept"}, "elicitation-2": map[string]any{"action": "accept"}}
	// The user was not there yet: the server says so again.
	second := h.Retry(t, first, consent)
	if second.Type != "input_required" {
		t.Fatalf("got %s, want input_required", second.Body)
	}
	close(visited)
	answers := Answers{}
	for key := range second.Inputs {
		answers[key] = map[string]any{"action": "accept"}
	}
	if got := h.Retry(t, second, answers).Text(t); got != `authorized with {"scope":"all"}` {
		t.Errorf("got %q", got)
	}
	if n := server.ToolCalls("authorize"); n != 3 {
		t.Errorf("the tool was called %d times, want 3", n)
	}
	if n := len(server.Responses()); n != 0 {
		t.Errorf("%d answers were posted to a server that had asked nothing", n)
	}
	for _, m := range server.Received("tools/call") {
		if bytes.Contains(m.Params, []byte("requestState")) || bytes.Contains(m.Params, []byte("inputResponses")) {
			t.Errorf("the server was sent what is the proxy's: %s", m.Params)
		}
	}
	// A client that cannot be sent anywhere learns what it lacks.
	reply := h.Send(t, CallTool("authorize", nil, Caps(`{"elicitation":{}}`)))
	if reply.Text(t) == "" {
		t.Error("authorized, but no text")
	}
}

func TestURLElicitationRequiredOfAClientThatCannot(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("authorize", func(c *rawserver.Call) {
		c.Error(-32042, "URL elicitation required", `{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://example.com/a","message":"One"}]}`)
	})
	h := Start(t, Options{Upstream: to(server)})
	for _, capabilities := range []string{NoCapabilities, `{"elicitation":{}}`, `{"elicitation":{"form":{}},"sampling":{}}`} {
		reply := h.Send(t, CallTool("authorize", nil, Caps(capabilities)))
		reply.Fails(t, http.StatusBadRequest, -32021, "")
		same(t, "requiredCapabilities", parse(t, reply.Error.Data).(map[string]any)["requiredCapabilities"], `{"elicitation":{"url":{}}}`)
	}
}

// What the client sends reaches the server without the members that the
// modern revision adds.
func TestRequestsReachTheServerAsLegacyOnes(t *testing.T) {
	t.Parallel()
	server, h := echoing(t, "")
	h.Send(t, CallTool("echo", map[string]any{"n": json.RawMessage("1.50"), "s": "größe"},
		Meta("com.example/trace", "t"), Param("com.example", json.RawMessage(`{"kept":1e3}`)))).Completes(t)
	received := server.Received("tools/call")[0]
	for _, part := range []string{`"n":1.50`, `"größe"`, `"com.example/trace":"t"`, `{"kept":1e3}`} {
		if !strings.Contains(string(received.Params), part) {
			t.Errorf("the server got %s, want %s in it", received.Params, part)
		}
	}
	for _, part := range []string{metaVersion, metaClient, metaCapabilities} {
		if strings.Contains(string(received.Params), part) {
			t.Errorf("the server got %s, which no legacy client sends", received.Params)
		}
	}
	for _, record := range spoken(server) {
		for _, name := range []string{"Mcp-Method", "Mcp-Name"} {
			if record.Header.Get(name) != "" {
				t.Errorf("the server got the header %s", name)
			}
		}
		if v := record.Header.Get("MCP-Protocol-Version"); v != "" && v != versionHeader(t) {
			t.Errorf("the server got the version %s", v)
		}
	}
}
