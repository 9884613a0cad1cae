package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

const (
	sagaTarget = `{"message": "Please provide the deployment target:",
		"requestedSchema": {"type": "object", "properties": {"target": {"type": "string"}}, "required": ["target"]}}`
	sagaSafe = `{"messages": [{"role": "user", "content": {"type": "text", "text": "Is deploying to 'production' safe right now?"}}],
		"maxTokens": 100}`
	sagaCall      = `{"jsonrpc": "2.0", "id": "client-req-1", "method": "tools/callSaga", "params": {"name": "complex_tool", "arguments": {"initial_arg": "value"}}}`
	sagaStepA     = `{"stepId": "step-elicitation-A", "result": {"action": "accept", "content": {"target": "production"}}}`
	sagaStepB     = `{"stepId": "step-sampling-B", "result": {"role": "assistant", "content": {"type": "text", "text": "Yes, all systems are green."}, "model": "client-side-llm-v2"}}`
	sagaDone      = `"Deployment to production initiated successfully based on confirmation."`
	sagaSuspended = `"result": {"state": "suspended", "sagaToken": "<v1>", "steps": [{"type": "elicitation", "stepId": "step-elicitation-A", "params": ` + sagaTarget + `}]}}`
	sagaAgain     = `"result": {"state": "suspended", "sagaToken": "<v2>", "steps": [{"type": "sampling", "stepId": "step-sampling-B", "params": ` + sagaSafe + `}]}}`
)

// deployment is the tool of the saga's example.
func deployment(annotations string) func(*rawserver.Server) {
	return func(s *rawserver.Server) {
		s.Declare("complex_tool", `{"name":"complex_tool","inputSchema":{"type":"object"},"annotations":`+annotations+`}`, func(c *rawserver.Call) {
			target := c.Ask("elicitation/create", keyed("step-elicitation-A", sagaTarget)).Content("target")
			safe := c.Ask("sampling/createMessage", keyed("step-sampling-B", sagaSafe)).Content("text")
			if target != "production" || safe != "Yes, all systems are green." || c.Argument("initial_arg") != "value" {
				c.Error(-32000, "not answered", "")
				return
			}
			c.Result(`{"content":[{"type":"text","text":` + sagaDone + `}]}`)
		})
	}
}

func resumeSaga(id, token string, steps ...string) string {
	return `{"jsonrpc": "2.0", "id": "` + id + `", "method": "tools/resumeSaga", "params": {"sagaToken": "` + token + `", "completedSteps": [` + strings.Join(steps, ",") + `]}}`
}

// "Detailed Message Flow Example".
func TestSagaExample(t *testing.T) {
	t.Parallel()
	overEach(t, "", "", deployment("{}"), func(t *testing.T, server *rawserver.Server, h *Holdfast) {
		recite(t, h.Target, bare(""), // its methods tell the dialect
			turn{sagaCall, `{"jsonrpc": "2.0", "id": "client-req-1", ` + sagaSuspended},
			turn{resumeSaga("client-req-2", "<v1>", sagaStepA), `{"jsonrpc": "2.0", "id": "client-req-2", ` + sagaAgain},
			turn{resumeSaga("client-req-3", "<v2>", sagaStepA, sagaStepB),
				`{"jsonrpc": "2.0", "id": "client-req-3", "result": {"content": [{"type": "text", "text": ` + sagaDone + `}]}}`},
			// The same again is answered the same.
			turn{resumeSaga("client-req-4", "<v2>", sagaStepB, sagaStepA),
				`{"jsonrpc": "2.0", "id": "client-req-4", "result": {"content": [{"type": "text", "text": ` + sagaDone + `}]}}`},
		)
		if n := server.ToolCalls("complex_tool"); n != 1 {
			t.Errorf("the tool was called %d times", n)
		}
		if n := len(server.Responses()); n != 2 && n != 3 { // roots are no step, and nobody asks for them
			t.Errorf("the server got %d answers, want 2", n)
		}
	})
}

// Old steps are held against what they were; a step may have failed.
func TestSagaSteps(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) {
		a := c.Ask("elicitation/create", question("a"))
		b := c.Ask("elicitation/create", question("b"))
		if b.Error == nil {
			c.Text("no error")
			return
		}
		c.Text(fmt.Sprint(a.Content("a"), " ", b.Error.Code, " ", b.Error.Message, " ", string(b.Error.Data)))
	})
	h := Start(t, Options{Upstream: to(server)})
	call := `{"jsonrpc": "2.0", "id": 1, "method": "tools/callSaga", "params": {"name": "ask"}}`
	token := func(r *Reply) string {
		token, _ := parse(t, r.Result).(map[string]any)["sagaToken"].(string)
		if token == "" {
			t.Fatalf("no token: %s", r.Body)
		}
		return token
	}
	one := `{"stepId": "elicitation-1", "result": {"action": "accept", "content": {"a": "A"}}}`
	two := `{"stepId": "elicitation-2", "error": {"code": -1, "message": "User rejected", "data": [1]}}`
	send := func(text string) *Reply { return Post(t, h.URL, text, bare("")) }

	first := token(send(call))
	second := token(send(resumeSaga("2", first, one)))
	for what, steps := range map[string][]string{
		"an old step is missing": {two},
		"an old step differs":    {strings.Replace(one, `"A"`, `"X"`, 1), two},
		"an old step has failed": {`{"stepId": "elicitation-1", "error": {"code": 1, "message": "no"}}`, two},
		"a step comes twice":     {one, one, two},
		"a step has no outcome":  {one, `{"stepId": "elicitation-2"}`},
	} {
		t.Run(what, func(t *testing.T) {
			send(resumeSaga("3", second, steps...)).Fails(t, http.StatusBadRequest, -32602, "invalid_params")
		})
	}
	send(resumeSaga("3", second[:len(second)-2], one, two)).Fails(t, http.StatusBadRequest, -32602, "state_invalid")
	if got := string(send(resumeSaga("4", second, one, two)).Result); got != `{"content":[{"type":"text","text":"A -1 User rejected [1]"}]}` {
		t.Errorf("got %s", got)
	}
	if n := len(server.Responses()); n != 2 {
		t.Errorf("the server got %d answers, want 2", n)
	}
	// A request that the token has no room for is not begun.
	large := `{"jsonrpc": "2.0", "id": 1, "method": "tools/callSaga", "params": {"name": "ask", "arguments": {"x": "` + strings.Repeat("x", 20<<10) + `"}}}`
	reply := send(large)
	reply.Fails(t, http.StatusBadRequest, -32602, "invalid_params")
	if !strings.Contains(reply.Error.Message, "state.max_bytes") {
		t.Errorf("the error is %q, which does not name the setting", reply.Error.Message)
	}
	if n := server.ToolCalls("ask"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
	// Nothing else can be asked in this dialect.
	plain := Post(t, h.URL, `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask"}}`, bare("saga"))
	plain.Fails(t, http.StatusBadRequest, -32021, "missing_capability")
}

// Any replica can run the saga again from its token, because the request is in it
// and the steps come with it.
func TestSagaOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		settings rawserver.Settings
		served   string
		calls    int
	}{
		"taken over": {rawserver.Settings{}, "taken_over", 1},
		"run again":  {rawserver.Settings{NoEventIDs: true}, "replayed", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.served == "taken_over" {
				onlyStreamable(t, "only event ids let a stream go on")
			}
			server := newServer(t, test.settings)
			deployment(`{"idempotentHint":true}`)(server)
			h := StartFleet(t, Options{Upstream: to(server), Config: hasty})
			recite(t, h.Replica(0).Target, bare(""), turn{sagaCall, `{"jsonrpc": "2.0", "id": "client-req-1", ` + sagaSuspended})
			h.ownerFirst(t)
			token, _ := parse(t, Post(t, h.Replica(0).URL, sagaCall, bare("")).Result).(map[string]any)["sagaToken"].(string)
			second := Post(t, h.Replica(1).URL, resumeSaga("client-req-2", token, sagaStepA), bare(""))
			next, _ := parse(t, second.Result).(map[string]any)["sagaToken"].(string)
			h.Replica(0).Kill()
			last := Post(t, h.Replica(2).URL, resumeSaga("client-req-3", next, sagaStepA, sagaStepB), bare(""))
			if got := string(last.Result); got != `{"content":[{"type":"text","text":`+sagaDone+`}]}` {
				t.Errorf("got %s", last.Body)
			}
			if n := server.ToolCalls("complex_tool"); n != test.calls+1 { // and the one that was only begun
				t.Errorf("the tool was called %d times, want %d", n, test.calls+1)
			}
			if n := h.Rounds(t, test.served); n != 1 {
				t.Errorf("%v rounds were %s, want 1", n, test.served)
			}
		})
	}
}
