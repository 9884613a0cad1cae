package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// The "Persistent Tool Workflow" of the draft, inside incomplete-result.

const (
	persistentOn = "dialects: {incomplete_result: {persistent: true}, tasks: {poll: 100ms}}\n"
	echoQuestion = `{
		"mode": "form",
		"message": "Please provide the input string to echo back",
		"requestedSchema": {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}}`
	echoCall    = `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "task": {"ttl": 60000}}}`
	echoTimes   = `"createdAt": "<created>", "lastUpdatedAt": "<updated>", "ttl": 60000, "pollInterval": 100`
	echoRelated = `"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "<task>"}}`
)

func echo(s *rawserver.Server) {
	s.Tool("echo", func(c *rawserver.Call) {
		said := c.Ask("elicitation/create", keyed("echo_input", echoQuestion)).Content("input")
		c.Result(`{"isError":false,"content":[{"type":"text","text":"Echo: ` + said + `"}]}`)
	})
}

// echoTask begins a task, and waits until its status is another one than that.
func echoTask(t *testing.T, at Target, header http.Header, known map[string]string) {
	t.Helper()
	turn{echoCall, `{"jsonrpc": "2.0", "id": 1, "result": {"task": {"taskId": "<task>", "status": "working", ` + echoTimes + `}}}`}.play(t, at, header, known)
	awaitEcho(t, at, header, known, "working")
}

// awaitEcho waits until the status of the task is another one.
func awaitEcho(t *testing.T, at Target, header http.Header, known map[string]string, status string) {
	t.Helper()
	body := `{"jsonrpc": "2.0", "id": 2, "method": "tasks/get", "params": {"taskId": "` + known["<task>"] + `"}}`
	for end := time.Now().Add(patience); strings.Contains(string(Post(t, at.URL, body, header).Body), `"status":"`+status+`"`); {
		if time.Now().After(end) {
			t.Fatalf("the task is still %s", status)
		}
	}
}

// "Example Flow for Persistent Tools" of the draft.
func TestPersistentExample(t *testing.T) {
	t.Parallel()
	overEach(t, ", dialect: incomplete-result", persistentOn, echo, func(t *testing.T, server *rawserver.Server, h *Holdfast) {
		known := map[string]string{}
		echoTask(t, h.Target, bare(""), known)
		play := func(turns ...turn) {
			t.Helper()
			for _, turn := range turns {
				turn.play(t, h.Target, bare(""), known)
			}
		}
		play(
			turn{`{"jsonrpc": "2.0", "id": 2, "method": "tasks/get", "params": {"taskId": "<task>"}}`,
				`{"jsonrpc": "2.0", "id": 2, "result": {"taskId": "<task>", "status": "input_required", ` + echoTimes + `}}`},
			turn{`{"jsonrpc": "2.0", "id": 3, "method": "tasks/result", "params": {"taskId": "<task>"}}`,
				`{"jsonrpc": "2.0", "id": 3, "result": {"inputRequests": {"echo_input": {"method": "elicitation/create", "params": ` + echoQuestion + `}}, ` + echoRelated + `}}`},
			turn{`{"jsonrpc": "2.0", "id": 4, "method": "tasks/input_response", "params": {
					"inputResponses": {"echo_input": {"action": "accept", "content": {"input": "Hello World!"}}}, ` + echoRelated + `}}`,
				`{"jsonrpc": "2.0", "id": 4, "result": {` + echoRelated + `}}`},
		)
		awaitEcho(t, h.Target, bare(""), known, "working")
		play(
			turn{`{"jsonrpc": "2.0", "id": 5, "method": "tasks/get", "params": {"taskId": "<task>"}}`,
				`{"jsonrpc": "2.0", "id": 5, "result": {"taskId": "<task>", "status": "completed", ` + echoTimes + `}}`},
			turn{`{"jsonrpc": "2.0", "id": 6, "method": "tasks/result", "params": {"taskId": "<task>"}}`,
				`{"jsonrpc": "2.0", "id": 6, "result": {"isError": false, "content": [{"type": "text", "text": "Echo: Hello World!"}], ` + echoRelated + `}}`},
		)
		if n := server.ToolCalls("echo"); n != 1 {
			t.Errorf("the tool was called %d times", n)
		}
	})
}

// tasks/result waits as long as the task works, an answer that does not fit is
// asked for again under another key, and an error is an answer.
func TestPersistentQuestions(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	echo(server)
	h := Start(t, Options{Upstream: to(server), Config: persistentOn})
	header, known := bare("incomplete-result"), map[string]string{}
	turn{echoCall, `{"jsonrpc": "2.0", "id": 1, "result": {"task": {"taskId": "<task>", "status": "working", ` + echoTimes + `}}}`}.play(t, h.Target, header, known)
	const result = `{"jsonrpc": "2.0", "id": 3, "method": "tasks/result", "params": {"taskId": "<task>"}}`
	response := func(key, answer string) turn {
		return turn{`{"jsonrpc": "2.0", "id": 4, "method": "tasks/input_response", "params": {"inputResponses": {"` + key + `": ` + answer + `}, ` + echoRelated + `}}`,
			`{"jsonrpc": "2.0", "id": 4, "result": {` + echoRelated + `}}`}
	}
	asked := func(key string) turn {
		return turn{result, `{"jsonrpc": "2.0", "id": 3, "result": {"inputRequests": {"` + key + `": {"method": "elicitation/create", "params": ` + echoQuestion + `}}, ` + echoRelated + `}}`}
	}
	for _, turn := range []turn{
		asked("echo_input"),
		response("echo_input", `{"action": "accept", "content": {"not_requested_parameter": "Information the server did not request."}}`),
		asked("echo_input-2"),
		response("echo_input-2", `{"result": {"action": "accept", "content": {"input": "x"}}}`),
		{result, `{"jsonrpc": "2.0", "id": 3, "result": {"isError": false, "content": [{"type": "text", "text": "Echo: x"}], ` + echoRelated + `}}`},
	} {
		turn.play(t, h.Target, header, known)
	}
}

// A task that was cancelled says so, and its result is an error.
func TestPersistentCancel(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	echo(server)
	h := Start(t, Options{Upstream: to(server), Config: persistentOn})
	header, known := bare("incomplete-result"), map[string]string{}
	echoTask(t, h.Target, header, known)
	for _, turn := range []turn{
		{`{"jsonrpc": "2.0", "id": 5, "method": "tasks/cancel", "params": {"taskId": "<task>"}}`,
			`{"jsonrpc": "2.0", "id": 5, "result": {"taskId": "<task>", "status": "cancelled", ` + echoTimes + `}}`},
		{`{"jsonrpc": "2.0", "id": 6, "method": "tasks/result", "params": {"taskId": "<task>"}}`,
			`{"jsonrpc": "2.0", "id": 6, "error": {"code": -32603, "message": "the task was cancelled", "data": {"reason": "call_lost", "mayHaveRun": true}}}`},
	} {
		turn.play(t, h.Target, header, known)
	}
}

// It is off unless it is switched on: then the parameter counts for nothing, and
// what is about a task is refused with the name of the setting.
func TestPersistentIsOff(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	echo(server)
	h := Start(t, Options{Upstream: to(server)})
	recite(t, h.Target, bare("incomplete-result"),
		turn{echoCall, `{"jsonrpc": "2.0", "id": 1, "result": {"inputRequests": {"echo_input": {"method": "elicitation/create", "params": ` + echoQuestion + `}}, "requestState": "<s>"}}`})
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/input_response"} {
		reply := Post(t, h.URL, `{"jsonrpc": "2.0", "id": 1, "method": "`+method+`", "params": {"taskId": "x", "inputResponses": {}}}`, bare("incomplete-result"))
		reply.Fails(t, http.StatusBadRequest, -32600, "dialect")
		if !strings.Contains(reply.Error.Message, "dialects.incomplete_result.persistent") {
			t.Errorf("%s: the error is %q", method, reply.Error.Message)
		}
	}
}

// A client that waits for the result hears of the question and of the result by
// whatever replica it asks.
func TestPersistentAcrossReplicas(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	begin, end := make(chan struct{}), make(chan struct{})
	server.Tool("echo", func(c *rawserver.Call) {
		<-begin
		said := c.Ask("elicitation/create", keyed("echo_input", echoQuestion)).Content("input")
		<-end
		c.Text(said)
	})
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty + persistentOn})
	header, known := bare("incomplete-result"), map[string]string{}
	turn{echoCall, `{"jsonrpc": "2.0", "id": 1, "result": {"task": {"taskId": "<task>", "status": "working", ` + echoTimes + `}}}`}.play(t, h.Replica(0).Target, header, known)
	waits := func(want string) (wait func()) {
		replies := make(chan *Reply, h.Size())
		for i := range h.Size() {
			go func() {
				replies <- Post(t, h.Replica(i).URL, `{"jsonrpc": "2.0", "id": 3, "method": "tasks/result", "params": {"taskId": "`+known["<task>"]+`"}}`, header)
			}()
		}
		return func() {
			t.Helper()
			for range h.Size() {
				if reply := <-replies; !strings.Contains(string(reply.Messages[len(reply.Messages)-1].Raw), want) {
					t.Errorf("got %s, want %s in it", reply.Body, want)
				}
			}
		}
	}
	asked := waits(`"inputRequests":{"echo_input":`)
	close(begin)
	asked()
	turn{`{"jsonrpc": "2.0", "id": 4, "method": "tasks/input_response", "params": {"inputResponses": {"echo_input": {"action": "accept", "content": {"input": "Ada"}}}, ` + echoRelated + `}}`,
		`{"jsonrpc": "2.0", "id": 4, "result": {` + echoRelated + `}}`}.play(t, h.Replica(1).Target, header, known)
	done := waits(`"text":"Ada"`)
	close(end)
	done()
}
