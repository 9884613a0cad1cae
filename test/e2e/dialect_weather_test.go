package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// The example of two of the proposals: a weather tool that wants to know who asks.

const (
	weatherLogin = `{
		"mode": "form",
		"message": "Please provide your GitHub username",
		"requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}`
	weatherCapital = `{
		"messages": [{"role": "user", "content": {"type": "text", "text": "What is the capital of France?"}}],
		"modelPreferences": {"hints": [{"name": "claude-3-sonnet"}], "intelligencePriority": 0.8, "speedPriority": 0.5},
		"systemPrompt": "You are a helpful assistant.",
		"maxTokens": 100}`
	weatherCall = `"method": "tools/call", "params": {"name": "get_weather", "arguments": {"location": "New York"}`
	weatherDone = `"result": {
		"content": [{"type": "text", "text": "Current weather in New York:\nTemperature: 72°F\nConditions: Partly cloudy"}],
		"isError": false}}`
	octocat = `{"result": {"action": "accept", "content": {"name": "octocat"}}}`
	paris   = `{"result": {"role": "assistant", "content": {"type": "text", "text": "The capital of France is Paris."},
		"model": "claude-3-sonnet-20240307", "stopReason": "endTurn"}}`
)

// weather answers once it knows the user's name and, where it asks both, the
// capital of France.
func weather(both bool) func(*rawserver.Server) {
	return func(s *rawserver.Server) {
		s.Tool("get_weather", func(c *rawserver.Call) {
			login := c.Start("elicitation/create", keyed("github_login", weatherLogin))
			capital := ""
			if both {
				capital = c.Ask("sampling/createMessage", keyed("capital_of_france", weatherCapital)).Content("text")
			}
			if login.Wait().Content("name") != "octocat" || both && capital != "The capital of France is Paris." || c.Argument("location") != "New York" {
				c.Error(-32000, "not answered", "")
				return
			}
			c.Result(`{"content":[{"type":"text","text":"Current weather in New York:\nTemperature: 72°F\nConditions: Partly cloudy"}],"isError":false}`)
		})
	}
}

// "Example Flow for Ephemeral Tools" of the draft.
func TestIncompleteResultExample(t *testing.T) {
	t.Parallel()
	overEach(t, ", dialect: incomplete-result", "", weather(false), func(t *testing.T, server *rawserver.Server, h *Holdfast) {
		recite(t, h.Target, bare(""),
			turn{`{"jsonrpc": "2.0", "id": 2, ` + weatherCall + `}}`,
				`{"jsonrpc": "2.0", "id": 2, "result": {
					"inputRequests": {"github_login": {"method": "elicitation/create", "params": ` + weatherLogin + `}},
					"requestState": "<foo>"}}`},
			turn{`{"jsonrpc": "2.0", "id": 3, ` + weatherCall + `, "inputResponses": {"github_login": ` + octocat + `}, "requestState": "<foo>"}}`,
				`{"jsonrpc": "2.0", "id": 3, ` + weatherDone},
		)
		if n := server.ToolCalls("get_weather"); n != 1 {
			t.Errorf("the tool was called %d times", n)
		}
	})
}

// "Real-World Example for Ephemeral Workflow" of the draft: several rounds, each
// with its own answers alone.
func TestIncompleteResultRealWorld(t *testing.T) {
	t.Parallel()
	const (
		resolution = `{"message": "Resolving Bug #4522 requires a resolution. How was this bug resolved?", "requestedSchema": {"type": "object",
			"properties": {"resolution": {"type": "string", "enum": ["Fixed", "Won't Fix", "Duplicate", "By Design"], "description": "Resolution type for this bug"}},
			"required": ["resolution"]}}`
		duplicate = `{"message": "Since this is a duplicate, which work item is the original?", "requestedSchema": {"type": "object",
			"properties": {"duplicateOfId": {"type": "number", "description": "Work item ID of the original bug"}}, "required": ["duplicateOfId"]}}`
		done = "Bug #4522 resolved as Duplicate of Bug #4301. State set to Resolved and duplicate link created."
		call = `"method": "tools/call", "params": {"name": "update_work_item", "arguments": {"workItemId": 4522, "fields": {"System.State": "Resolved"}}`
	)
	server := newServer(t, rawserver.Settings{})
	server.Tool("update_work_item", func(c *rawserver.Call) {
		how := c.Ask("elicitation/create", keyed("resolution", resolution)).Content("resolution")
		of := c.Ask("elicitation/create", keyed("duplicate_of", duplicate))
		if how != "Duplicate" || !strings.Contains(string(of.Result), "4301") {
			c.Error(-32000, "not answered", "")
			return
		}
		c.Result(`{"content":[{"type":"text","text":"` + done + `"}],"isError":false}`)
	})
	h := Start(t, Options{Upstream: to(server)})
	recite(t, h.Target, bare("incomplete-result"),
		turn{`{"jsonrpc": "2.0", "id": 1, ` + call + `}}`,
			`{"jsonrpc": "2.0", "id": 1, "result": {"inputRequests": {"resolution": {"method": "elicitation/create", "params": ` + resolution + `}}, "requestState": "<one>"}}`},
		turn{`{"jsonrpc": "2.0", "id": 2, ` + call + `, "inputResponses": {"resolution": {"result": {"action": "accept", "content": {"resolution": "Duplicate"}}}}, "requestState": "<one>"}}`,
			`{"jsonrpc": "2.0", "id": 2, "result": {"inputRequests": {"duplicate_of": {"method": "elicitation/create", "params": ` + duplicate + `}}, "requestState": "<two>"}}`},
		turn{`{"jsonrpc": "2.0", "id": 3, ` + call + `, "inputResponses": {"duplicate_of": {"result": {"action": "accept", "content": {"duplicateOfId": 4301}}}}, "requestState": "<two>"}}`,
			`{"jsonrpc": "2.0", "id": 3, "result": {"content": [{"type": "text", "text": "` + done + `"}], "isError": false}}`},
	)
}

// A client that failed says so, and one that is to come back with nothing but its
// state is told nothing but that.
func TestIncompleteResultErrorsAndState(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	gate := newGate(t)
	server.Tool("ask", func(c *rawserver.Call) {
		a := c.Ask("elicitation/create", question("name"))
		if a.Error == nil {
			c.Text("no error")
			return
		}
		<-gate
		c.Text(fmt.Sprint(a.Error.Code, " ", a.Error.Message))
	})
	h := Start(t, Options{Upstream: to(server), Config: "calls: {max_hold: 300ms}"})
	const call = `"method": "tools/call", "params": {"name": "ask"`
	first := turn{`{"jsonrpc": "2.0", "id": 1, ` + call + `}}`,
		`{"jsonrpc": "2.0", "id": 1, "result": {"inputRequests": {"elicitation-1": {"method": "elicitation/create", "params": ` + question("name") + `}}, "requestState": "<one>"}}`}
	recite(t, h.Target, bare("incomplete-result"), first,
		turn{`{"jsonrpc": "2.0", "id": 2, ` + call + `, "inputResponses": {"elicitation-1": {"error": {"code": -1, "message": "User rejected"}}}, "requestState": "<one>"}}`,
			`{"jsonrpc": "2.0", "id": 2, "result": {"requestState": "<two>"}}`},
		turn{`{"jsonrpc": "2.0", "id": 3, ` + call + `, "requestState": "<two>"}}`,
			`{"jsonrpc": "2.0", "id": 3, "result": {"requestState": "<three>"}}`},
	)
	gate.open()
	reply := Post(t, h.URL, `{"jsonrpc": "2.0", "id": 4, `+call+`}}`, bare("incomplete-result"))
	Post(t, h.URL, `{"jsonrpc": "2.0", "id": 5, `+call+`, "inputResponses": {"elicitation-1": {"action": "accept"}}, "requestState": "`+reply.State+`"}}`, bare("incomplete-result")).
		Fails(t, http.StatusBadRequest, -32602, "invalid_params")
	recite(t, h.Target, bare("incomplete-result"),
		turn{`{"jsonrpc": "2.0", "id": 6, ` + call + `, "inputResponses": {"elicitation-1": {"error": {"code": -1, "message": "User rejected"}}}, "requestState": "` + reply.State + `"}}`,
			`{"jsonrpc": "2.0", "id": 6, "result": {"content": [{"type": "text", "text": "-1 User rejected"}]}}`})
}

// The example of the sketch.
func TestDependentRequestsExample(t *testing.T) {
	t.Parallel()
	overEach(t, ", dialect: dependent-requests", together, weather(true), func(t *testing.T, server *rawserver.Server, h *Holdfast) {
		recite(t, h.Target, bare(""),
			turn{`{"jsonrpc": "2.0", "id": 2, ` + weatherCall + `}}`,
				`{"jsonrpc": "2.0", "id": 2, "dependent_requests": {
					"github_login<state>": {"method": "elicitation/create", "params": ` + weatherLogin + `},
					"capital_of_france": {"method": "sampling/createMessage", "params": ` + weatherCapital + `}}}`},
			// In this dialect by its form as well.
			turn{`{"jsonrpc": "2.0", "id": 3, ` + weatherCall + `}, "dependent_responses": {"capital_of_france": ` + paris + `, "github_login<state>": ` + octocat + `}}`,
				`{"jsonrpc": "2.0", "id": 3, ` + weatherDone},
		)
		if n := server.ToolCalls("get_weather"); n != 1 {
			t.Errorf("the tool was called %d times", n)
		}
	})
}

// Without the key that carries the state, a retry is a first request that brings
// answers along; with it the rounds go on, also where nothing is asked.
func TestDependentRequestsRounds(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	gate := newGate(t)
	server.Tool("ask", func(c *rawserver.Call) {
		a := c.Ask("elicitation/create", hinted("a", "one")).Content("a")
		b := c.Ask("elicitation/create", hinted("b", "two")).Content("b")
		<-gate
		c.Text(a + b)
	})
	h := Start(t, Options{Upstream: to(server), Config: "calls: {max_hold: 300ms}"})
	const call = `"method": "tools/call", "params": {"name": "ask"}`
	says := func(name string) string {
		return `{"result": {"action": "accept", "content": {"` + name + `": "` + strings.ToUpper(name) + `"}}}`
	}
	asks := func(key, name string) string {
		return `"dependent_requests": {"` + key + `": {"method": "elicitation/create", "params": ` + question(name) + `}}}`
	}
	recite(t, h.Target, bare("dependent-requests"),
		turn{`{"jsonrpc": "2.0", "id": 1, ` + call + `}`, `{"jsonrpc": "2.0", "id": 1, ` + asks("one<state>", "a")},
		turn{`{"jsonrpc": "2.0", "id": 2, ` + call + `, "dependent_responses": {"one": ` + says("a") + `}}`, `{"jsonrpc": "2.0", "id": 2, ` + asks("two<state>", "b")},
		turn{`{"jsonrpc": "2.0", "id": 3, ` + call + `, "dependent_responses": {"two<state>": ` + says("b") + `}}`,
			`{"jsonrpc": "2.0", "id": 3, "dependent_requests": {"wait<third>": {"method": "ping", "params": {}}}}`},
		turn{`{"jsonrpc": "2.0", "id": 4, ` + call + `, "dependent_responses": {"wait<third>": {"result": {}}}}`,
			`{"jsonrpc": "2.0", "id": 4, "dependent_requests": {"wait<fourth>": {"method": "ping", "params": {}}}}`},
	)
	gate.open()
	recite(t, h.Target, bare("dependent-requests"),
		turn{`{"jsonrpc": "2.0", "id": 1, ` + call + `}`, `{"jsonrpc": "2.0", "id": 1, ` + asks("one<state>", "a")},
		turn{`{"jsonrpc": "2.0", "id": 2, ` + call + `, "dependent_responses": {"one<state>": ` + says("a") + `}}`, `{"jsonrpc": "2.0", "id": 2, ` + asks("two<other>", "b")},
		// What was sent twice is answered as before.
		turn{`{"jsonrpc": "2.0", "id": 3, ` + call + `, "dependent_responses": {"one<state>": ` + says("a") + `}}`, `{"jsonrpc": "2.0", "id": 3, ` + asks("two<other>", "b")},
		turn{`{"jsonrpc": "2.0", "id": 4, ` + call + `, "dependent_responses": {"two<other>": ` + says("b") + `}}`,
			`{"jsonrpc": "2.0", "id": 4, "result": {"content": [{"type": "text", "text": "AB"}]}}`},
	)
}
