package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// The header comes first, then the form of the request, then what is configured.
func TestDialectOfARequest(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) { c.Text(c.Ask("elicitation/create", question("a")).Content("a")) })
	// Two replicas that stop at once and have parked calls wait for each other's
	// clients: these calls end soon.
	h := Start(t, Options{Config: "calls: {park_ttl: 2s}\nupstreams: [{" + to(server).YAML() + "}, {name: saga, path: /saga, " + to(server).YAML() + ", dialect: dependent-requests}]"})
	const call = `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask"}}`
	const saga = `{"jsonrpc": "2.0", "id": 1, "method": "tools/callSaga", "params": {"name": "ask"}}`
	for _, test := range []struct{ path, header, body, has string }{
		{"/mcp", "incomplete-result", call, `"requestState":`},
		{"/mcp", "dependent-requests", call, `"dependent_requests":`},
		{"/saga", "", call, `"dependent_requests":`},
		{"/saga", "incomplete-result", call, `"requestState":`},
		{"/saga", "", saga, `"sagaToken":`},
	} {
		reply := Post(t, h.At(test.path).URL, test.body, bare(test.header))
		if body := string(reply.Body); reply.Status != http.StatusOK || !strings.Contains(body, test.has) || strings.Contains(body, "resultType") {
			t.Errorf("%s with header %q, %s: HTTP %d %s, want %s", test.path, test.header, test.body, reply.Status, body, test.has)
		}
	}
	// A modern client is served in its own form, whatever is configured; and with
	// its own rules, which a request that is modern in nothing breaks.
	h.At("/saga").Send(t, CallTool("ask", nil)).Asks(t, "elicitation-1")
	Post(t, h.URL, call, bare("")).Fails(t, http.StatusBadRequest, -32020, "header_mismatch")
	Post(t, h.At("/saga").URL, call, bare("mrtr")).Fails(t, http.StatusBadRequest, -32020, "header_mismatch")
	Post(t, h.URL, call, bare("sagas")).Fails(t, http.StatusBadRequest, -32600, "dialect")
	twice := bare("saga")
	twice.Add("Holdfast-Dialect", "saga")
	Post(t, h.URL, saga, twice).Fails(t, http.StatusBadRequest, -32600, "header")
	// The headers that mirror a request are optional then, but must be true.
	for name, value := range map[string]string{"Mcp-Method": "tools/list", "Mcp-Name": "other"} {
		header := bare("incomplete-result")
		header.Set(name, value)
		Post(t, h.URL, call, header).Fails(t, http.StatusBadRequest, -32020, "header_mismatch")
	}
	header := bare("")
	header.Set("Mcp-Method", "tools/callSaga")
	header.Set("Mcp-Name", "ask")
	header.Set("MCP-Protocol-Version", "2025-11-25")
	if reply := Post(t, h.URL, saga, header); !strings.Contains(string(reply.Body), `"sagaToken":`) {
		t.Errorf("got %s", reply.Body)
	}
}

// Lists and the like are served to a proposal's client, too.
func TestOtherRequestsInADialect(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Declare("a", `{"name":"a","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`, func(c *rawserver.Call) { c.Text("") })
	h := Start(t, Options{Upstream: to(server)})
	for _, name := range []string{"incomplete-result", "dependent-requests", "saga", "resume-token", "resumable"} {
		recite(t, h.Target, bare(name),
			turn{`{"jsonrpc": "2.0", "id": "l", "method": "tools/list"}`, `{"jsonrpc": "2.0", "id": "l", "result": {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}}`})
		Post(t, h.URL, `{"jsonrpc": "2.0", "id": 1, "method": "ping"}`, bare(name)).Fails(t, http.StatusNotFound, -32601, "method_not_found")
	}
	for _, m := range server.Received("tools/list") {
		if string(m.Params) != `{}` {
			t.Errorf("the server got params %s", m.Params)
		}
	}
}

// A dialect that is switched off says which setting does that.
func TestDialectSwitchedOff(t *testing.T) {
	t.Parallel()
	onlyNewest(t, "listChanged of resources")
	server := newServer(t, rawserver.Settings{})
	h := Start(t, Options{Upstream: to(server), Config: "dialects: {incomplete_result: {enabled: false}, dependent_requests: {enabled: false}, saga: {enabled: false}, resume_token: {enabled: false}, resumable: {enabled: false}, tasks: {enabled: false}}"})
	const call = `"method": "tools/call", "params": {"name": "ask"`
	for _, test := range []struct{ header, body, setting string }{
		{"incomplete-result", `{"jsonrpc": "2.0", "id": 1, ` + call + `}}`, "dialects.incomplete_result.enabled"},
		{"", `{"jsonrpc": "2.0", "id": 1, ` + call + `}, "dependent_responses": {}}`, "dialects.dependent_requests.enabled"},
		{"", `{"jsonrpc": "2.0", "id": 1, "method": "tools/resumeSaga", "params": {"sagaToken": "x", "completedSteps": []}}`, "dialects.saga.enabled"},
		{"", `{"jsonrpc": "2.0", "id": 1, ` + call + `, "resumeToken": "x"}}`, "dialects.resume_token.enabled"},
		{"resumable", `{"jsonrpc": "2.0", "id": 1, ` + call + `}}`, "dialects.resumable.enabled"},
		{"", `{"jsonrpc": "2.0", "id": 1, ` + call + `, "_meta": {"io.modelcontextprotocol/clientCapabilities": {"resumableRequests": {}}}}}`, "dialects.resumable.enabled"},
		{"", `{"jsonrpc": "2.0", "id": 1, "method": "requests/resume", "params": {"resumeToken": "x"}}`, "dialects.resumable.enabled"},
		{"", `{"jsonrpc": "2.0", "id": "elicitation-1~` + strings.Repeat("x", 100) + `", "result": {}}`, "dialects.resumable.enabled"},
		{"", `{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "resumeToken": "x"}}`, "dialects.resumable.enabled"},
	} {
		reply := Post(t, h.URL, test.body, bare(test.header))
		reply.Fails(t, http.StatusBadRequest, -32600, "dialect")
		if !strings.Contains(reply.Error.Message, test.setting) {
			t.Errorf("the error is %q, which does not name %s", reply.Error.Message, test.setting)
		}
	}
	for _, m := range []*Message{
		aboutTask("tasks/get", "t"),
		listenTo(map[string]any{"taskIds": []string{"t"}}, Caps(withTasks)),
	} {
		reply := h.Send(t, m)
		reply.Fails(t, http.StatusBadRequest, -32600, "dialect")
		if !strings.Contains(reply.Error.Message, "dialects.tasks.enabled") {
			t.Errorf("the error is %q", reply.Error.Message)
		}
	}
	same(t, "capabilities", h.Send(t, Request("server/discover", nil)).Completes(t)["capabilities"],
		`{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{},"completions":{}}`)
	if n := len(server.Received("tools/call")); n != 0 {
		t.Errorf("%d calls reached the server", n)
	}
}

// Only a client that declares the extension is told of tasks, in the dialect that
// has words for that.
func TestTasksToHearOfAreATasksClients(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	h := Start(t, Options{Upstream: to(server)})
	const listen = `{"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {"notifications": {"taskIds": ["t"]}`
	h.Send(t, listenTo(map[string]any{"taskIds": []string{"t"}})).Fails(t, http.StatusBadRequest, -32021, "missing_capability")
	for _, dialect := range []string{"incomplete-result", "resumable"} {
		Post(t, h.URL, listen+`}}`, bare(dialect)).Fails(t, http.StatusBadRequest, -32021, "missing_capability")
		Post(t, h.URL, listen+`, "_meta": {"io.modelcontextprotocol/clientCapabilities": `+withTasks+`}}}`, bare(dialect)).Fails(t, http.StatusBadRequest, -32600, "dialect")
	}
	h.Send(t, listenTo(map[string]any{"taskIds": []string{"t"}}, Header("Holdfast-Dialect", "mrtr"))).Fails(t, http.StatusBadRequest, -32021, "missing_capability")
	h.Send(t, listenTo(map[string]any{"taskIds": []string{"t"}}, Caps(withTasks), Header("Holdfast-Dialect", "mrtr"))).Fails(t, http.StatusBadRequest, -32600, "dialect")
}

// What a client can be asked that declares nothing is the dialect's to say.
func TestCapabilitiesOfADialect(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) { c.Text(string(c.Ask("roots/list", "").Result)) })
	h := Start(t, Options{Upstream: to(server), Config: "dialects: {incomplete_result: {capabilities: [elicitation, elicitation.url, sampling.tools, roots]}, dependent_requests: {capabilities: []}}"})
	const call = `"method": "tools/call", "params": {"name": "ask"`
	recite(t, h.Target, bare("incomplete-result"),
		turn{`{"jsonrpc": "2.0", "id": 1, ` + call + `}}`,
			`{"jsonrpc": "2.0", "id": 1, "result": {"inputRequests": {"roots-1": {"method": "roots/list", "params": {}}}, "requestState": "<s>"}}`},
		turn{`{"jsonrpc": "2.0", "id": 2, ` + call + `, "inputResponses": {"roots-1": {"result": {"roots": []}}}, "requestState": "<s>"}}`,
			`{"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "{\"roots\":[]}"}]}}`},
	)
	greeting, _ := parse(t, server.Received("initialize")[0].Params).(map[string]any)
	capabilities, _ := greeting["capabilities"].(map[string]any)
	delete(capabilities, "tasks") // Holdfast's own
	same(t, "capabilities", any(capabilities), `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`)
	Post(t, h.URL, `{"jsonrpc": "2.0", "id": 1, `+call+`}}`, bare("dependent-requests")).Fails(t, http.StatusBadRequest, -32021, "missing_capability")
	declared := `, "_meta": {"io.modelcontextprotocol/clientCapabilities": {"roots": {}}}`
	if reply := Post(t, h.URL, `{"jsonrpc": "2.0", "id": 1, `+call+declared+`}}`, bare("dependent-requests")); !strings.Contains(string(reply.Body), `roots-1~`) {
		t.Errorf("got %s", reply.Body)
	}
}
