package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// asking starts a server whose tools ask for a name and say it.
func asking(t *testing.T) *rawserver.Server {
	t.Helper()
	server := newServer(t, rawserver.Settings{})
	for _, tool := range []string{"greet", "thank"} {
		server.Tool(tool, func(c *rawserver.Call) {
			c.Text(tool + " " + c.Ask("elicitation/create", question("name")).Content("name"))
		})
	}
	return server
}

var ada = Answers{"elicitation-1": Accept("name", "Ada")}

// refused checks that a message is refused, and that nothing of it reached the
// server.
func refused(t *testing.T, h *Holdfast, server *rawserver.Server, message *Message, reason string) {
	t.Helper()
	answers, calls := len(server.Responses()), server.Count("tools/call")
	h.Send(t, message).Fails(t, http.StatusBadRequest, -32602, reason)
	if len(server.Responses()) != answers || server.Count("tools/call") != calls {
		t.Error("what was refused reached the server")
	}
}

func TestTamperedState(t *testing.T) {
	t.Parallel()
	server := asking(t)
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("greet", nil))
	first.Asks(t, "elicitation-1")
	state := first.State
	changed := []string{
		"", "x", "garbage that is no state", state + "-TAMPERED", state + "A", state + "=", state[1:], state[:len(state)-1],
		state[:len(state)/2], state + state, " " + state, state + "\n", strings.ToUpper(state), strings.Repeat("A", len(state)),
		state[:10] + "\u0000" + state[11:], strings.Repeat("A", 100_000),
	}
	for i := range state {
		other := byte('A')
		if state[i] == other {
			other = 'B'
		}
		changed = append(changed, state[:i]+string(other)+state[i+1:])
	}
	for i, text := range changed {
		reply := h.Retry(t, first, ada, func(m *Message) { m.Params["requestState"] = text })
		if reply.Status != http.StatusBadRequest || reply.Error == nil || reply.Error.Code != -32602 {
			t.Errorf("state %d was answered with HTTP %d %s", i, reply.Status, reply.Body)
			continue
		}
		// A change in the part that names the key makes it unknown.
		if reason := reply.Error.Reason(); reason != "state_invalid" && reason != "state_key" {
			t.Errorf("state %d is refused for %q", i, reason)
		}
		reply.checkID(t)
		if strings.Contains(string(reply.Body), state[:20]) {
			t.Errorf("the error repeats the state: %s", reply.Body)
		}
	}
	for _, value := range []any{1, []any{}, map[string]any{}, true} {
		h.Retry(t, first, ada, Param("requestState", value)).Fails(t, http.StatusBadRequest, -32602, "invalid_params")
	}
	if n := len(server.Responses()); n != 0 {
		t.Errorf("%d answers reached the server", n)
	}
	if got := h.Retry(t, first, ada).Text(t); got != "greet Ada" {
		t.Errorf("got %q", got)
	}
}

func TestForeignState(t *testing.T) {
	t.Parallel()
	server, other := asking(t), asking(t)
	h := Start(t, Options{Config: `upstreams: [{name: one, ` + to(server).YAML() + `, path: /mcp}, {name: two, ` + to(other).YAML() + `, path: /two}]`})
	first := h.Send(t, CallTool("greet", map[string]any{"a": 1, "b": []any{"x"}}, Bearer("alice")))
	first.Asks(t, "elicitation-1")
	for name, change := range map[string]func(*Message){
		"another principal":      Bearer("bob"),
		"no principal":           Header("Authorization", ""),
		"another tool":           func(m *Message) { m.Params["name"] = "thank"; m.Header.Set("Mcp-Name", "thank") },
		"other arguments":        Param("arguments", map[string]any{"a": 2, "b": []any{"x"}}),
		"one argument more":      Param("arguments", map[string]any{"a": 1, "b": []any{"x"}, "c": nil}),
		"no arguments":           Param("arguments", nil),
		"another member":         Param("com.example", 1),
		"another method":         func(m *Message) { m.Method = "prompts/get"; m.Header.Set("Mcp-Method", "prompts/get") },
		"arguments in an array":  Param("arguments", map[string]any{"a": 1, "b": []any{"x", "x"}}),
		"a number spelt as text": Param("arguments", map[string]any{"a": "1", "b": []any{"x"}}),
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, h, server, RetryOf(first, ada, change), "state_foreign")
		})
	}
	t.Run("another upstream", func(t *testing.T) {
		h.At("/two").Retry(t, first, ada).Fails(t, http.StatusBadRequest, -32602, "state_foreign")
		if n := len(other.Responses()); n != 0 {
			t.Error("the answer reached the other server")
		}
	})
	// The same request in other words: order and _meta do not count.
	body := strings.Replace(RetryOf(first, ada, ID("other words"), Meta("com.example/trace", "t")).Body(), `"arguments":{"a":1,"b":["x"]}`, `"arguments":{ "b":["\u0078"], "a":1 }`, 1)
	reply := Post(t, h.URL, body, first.Request.Header)
	if got := reply.Text(t); got != "greet Ada" {
		t.Errorf("got %q", got)
	}
}

// A trusted proxy names the caller: tokens may be refreshed between rounds, and
// what the client sends goes upstream with the newest.
func TestPrincipalHeader(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	server := asking(t)
	h := Start(t, Options{Upstream: to(server), Config: "principal: {header: X-User}"})
	first := h.Send(t, CallTool("greet", nil, Header("X-User", "alice"), Bearer("old")))
	first.Asks(t, "elicitation-1")
	h.Retry(t, first, ada, Header("X-User", "bob")).Fails(t, http.StatusBadRequest, -32602, "state_foreign")
	if got := h.Retry(t, first, ada, Bearer("new")).Text(t); got != "greet Ada" {
		t.Errorf("got %q", got)
	}
	for _, record := range server.Records() {
		if record.HTTP != http.MethodPost {
			continue
		}
		for _, m := range record.Messages {
			if m.Result != nil && record.Header.Get("Authorization") != "Bearer new" {
				t.Errorf("the answer went upstream with %q", record.Header.Get("Authorization"))
			}
		}
	}
	twice := CallTool("greet", nil, Header("X-User", "alice"))
	twice.Header.Add("X-User", "bob")
	h.Send(t, twice).Fails(t, http.StatusBadRequest, -32600, "")
}

func TestStaleState(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) {
		for range 3 {
			c.Ask("elicitation/create", question("a"))
		}
		c.Text("done")
	})
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("ask", nil))
	second := h.Retry(t, first, Answers{"elicitation-1": Accept("a", "1")})
	third := h.Retry(t, second, Answers{"elicitation-2": Accept("a", "2")})
	third.Asks(t, "elicitation-3")
	h.Retry(t, first, Answers{"elicitation-3": Accept("a", "x")}).Fails(t, http.StatusBadRequest, -32602, "state_stale")
	if n := len(server.Responses()); n != 2 {
		t.Errorf("the server got %d answers, want 2", n)
	}
	h.Retry(t, third, Answers{"elicitation-3": Accept("a", "3")}).Text(t)
	for _, old := range []*Reply{first, second} {
		h.Retry(t, old, nil).Fails(t, http.StatusBadRequest, -32602, "state_stale")
	}
}

// Methods that cannot ask take no notice of a state: basic/patterns/mrtr,
// "Supported Requests".
func TestStateOnAMethodThatCannotAsk(t *testing.T) {
	t.Parallel()
	server := asking(t)
	h := Start(t, Options{Upstream: to(server)})
	h.Send(t, Request("tools/list", nil, Param("requestState", "x"), Param("inputResponses", map[string]any{}))).Completes(t)
}

// Secrets never appear in logs.
func TestLogsHaveNoSecrets(t *testing.T) {
	t.Parallel()
	server := asking(t)
	h := Start(t, Options{Upstream: to(server), Args: []string{"--log-level", "trace"}})
	first := h.Send(t, CallTool("greet", map[string]any{"pin": "pin-4711"}, Bearer("token-0815")))
	h.Retry(t, first, Answers{"elicitation-1": Accept("name", "secret-answer")}).Text(t)
	h.Retry(t, first, ada, Bearer("token-0816")).Fails(t, http.StatusBadRequest, -32602, "")
	h.Stop()
	for _, line := range h.Logs.Lines() {
		for _, secret := range []string{"pin-4711", "token-0815", "token-0816", "secret-answer", first.State[:20]} {
			if strings.Contains(line, secret) {
				t.Errorf("the log has a secret: %s", line)
			}
		}
	}
}
