package e2e

import (
	"encoding/json"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// The extension io.modelcontextprotocol/tasks, SEP-2663.

// withTasks are the capabilities of a client that takes a task for an answer.
const withTasks = `{"elicitation":{},"sampling":{},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// tasksSoon makes tasks of calls that do not answer at once.
const tasksSoon = "dialects: {tasks: {after: 50ms, poll: 5s}}\n"

// aboutTask is a request about a task.
func aboutTask(method, task string, changes ...func(*Message)) *Message {
	return Request(method, map[string]any{"taskId": task}, append([]func(*Message){Caps(withTasks), Header("Mcp-Name", task)}, changes...)...)
}

// create calls a tool, which must answer with a task, and returns its id.
func create(t testing.TB, target Target, tool string, changes ...func(*Message)) string {
	t.Helper()
	reply := target.Send(t, CallTool(tool, nil, append([]func(*Message){Caps(withTasks)}, changes...)...))
	var task struct{ TaskID, Status string }
	if err := json.Unmarshal(reply.Result, &task); err != nil || reply.Type != "task" || task.Status != "working" || task.TaskID == "" || len(task.TaskID) > 512 {
		t.Fatalf("the answer is no task: HTTP %d %s", reply.Status, reply.Body)
	}
	return task.TaskID
}

// getTask asks for a task.
func getTask(t testing.TB, target Target, task string, changes ...func(*Message)) map[string]any {
	t.Helper()
	return target.Send(t, aboutTask("tasks/get", task, changes...)).Completes(t)
}

// awaitTask asks for a task until it stands so.
func awaitTask(t testing.TB, target Target, task, status string, changes ...func(*Message)) map[string]any {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		got := getTask(t, target, task, changes...)
		if got["status"] == status {
			return got
		}
		if s := got["status"]; s != "working" && s != "input_required" {
			t.Fatalf("the task is %v, not %s: %v", s, status, got)
		}
	}
	t.Fatalf("the task did not come to be %s", status)
	return nil
}

// answerTask answers what a task asks.
func answerTask(t testing.TB, target Target, task string, answers Answers) {
	t.Helper()
	reply := target.Send(t, aboutTask("tasks/update", task, Param("inputResponses", answers)))
	if got := string(reply.Result); got != `{"resultType":"complete"}` {
		t.Fatalf("tasks/update is answered with %s", reply.Body)
	}
}

// taskText is what a tool said that ran as a task.
func taskText(t testing.TB, task map[string]any) string {
	t.Helper()
	result, _ := task["result"].(map[string]any)
	content, _ := result["content"].([]any)
	if len(content) == 0 {
		t.Fatalf("no text in %v", task)
	}
	text, _ := content[0].(map[string]any)["text"].(string)
	return text
}

var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)

// asInExample checks and takes away what differs from run to run.
func asInExample(t *testing.T, task map[string]any, id, want string) {
	t.Helper()
	for _, name := range []string{"createdAt", "lastUpdatedAt"} {
		if at, _ := task[name].(string); !timestamp.MatchString(at) {
			t.Errorf("%s is %v", name, task[name])
		}
		delete(task, name)
	}
	if task["taskId"] != id {
		t.Errorf("taskId is %v, want %s", task["taskId"], id)
	}
	delete(task, "taskId")
	delete(task, "_meta") // with the server's name
	same(t, "the task", task, want)
}

// "Example Message Flow".
func TestTaskExample(t *testing.T) {
	t.Parallel()
	const ask = `{"mode":"form","message":"Please enter your name.","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}`
	type gates struct{ begin, end chan struct{} }
	var of sync.Map // by server
	tools := func(s *rawserver.Server) {
		begin, end := make(chan struct{}), make(chan struct{})
		of.Store(s, gates{begin, end})
		s.Tool("hello_world", func(c *rawserver.Call) {
			<-begin
			name := c.Ask("elicitation/create", keyed("name", ask)).Content("name")
			<-end
			c.Result(`{"content":[{"type":"text","text":"Hello, ` + name + `!"}],"isError":false}`)
		})
	}
	const times = `"ttlMs":3600000,"pollIntervalMs":5000`
	overEach(t, "", tasksSoon, tools, func(t *testing.T, server *rawserver.Server, h *Holdfast) {
		gate, _ := of.Load(server)
		reply := h.Send(t, Request("tools/call", map[string]any{"name": "hello_world", "arguments": map[string]any{}}, Caps(withTasks), Header("Mcp-Name", "hello_world")))
		var created map[string]any
		if err := json.Unmarshal(reply.Result, &created); err != nil {
			t.Fatalf("%v: %s", err, reply.Body)
		}
		id, _ := created["taskId"].(string)
		asInExample(t, created, id, `{"resultType":"task","status":"working",`+times+`}`)
		asInExample(t, getTask(t, h.Target, id), id, `{"resultType":"complete","status":"working",`+times+`}`)
		close(gate.(gates).begin)
		asked := `{"resultType":"complete","status":"input_required",` + times + `,"inputRequests":{"name":{"method":"elicitation/create","params":` + ask + `}}}`
		asInExample(t, awaitTask(t, h.Target, id, "input_required"), id, asked)
		asInExample(t, getTask(t, h.Target, id), id, asked)
		answerTask(t, h.Target, id, Answers{"name": Accept("name", "Luca")})
		asInExample(t, getTask(t, h.Target, id), id, `{"resultType":"complete","status":"working",`+times+`}`)
		close(gate.(gates).end)
		// The example has a result without the resultType that every result of the
		// revision has; the official client takes none without.
		done := `{"resultType":"complete","status":"completed",` + times + `,"result":{"resultType":"complete","content":[{"type":"text","text":"Hello, Luca!"}],"isError":false}}`
		asInExample(t, awaitTask(t, h.Target, id, "completed"), id, done)
		asInExample(t, getTask(t, h.Target, id), id, done)
		if n := server.ToolCalls("hello_world"); n != 1 {
			t.Errorf("the tool was called %d times", n)
		}
	})
}

// A legacy server's own task is one of the client's: "Task Execution Errors".
func TestTaskOfTheServer(t *testing.T) {
	t.Parallel()
	onlyNewest(t, "tasks")
	server := newServer(t, rawserver.Settings{Capabilities: rawserver.TaskCapabilities})
	server.TaskTool("fails", 100, func(task *rawserver.Task) { task.Fail(-32603, "API rate limit exceeded") })
	server.TaskTool("errs", 100, func(task *rawserver.Task) {
		task.End(`{"content":[{"type":"text","text":"Failed to process request: invalid input"}],"isError":true}`)
	})
	server.TaskToolAs("asks", rawserver.TaskOptions{
		Poll: 100, Before: func(c *rawserver.Call) { c.Ask("elicitation/create", question("first")) },
	}, func(task *rawserver.Task) {
		task.Text(task.Ask("elicitation/create", question("second")).Content("second"))
	})
	h := Start(t, Options{Upstream: to(server)})
	failed := awaitTask(t, h.Target, create(t, h.Target, "fails"), "failed")
	same(t, "error", failed["error"], `{"code":-32603,"message":"API rate limit exceeded"}`)
	same(t, "statusMessage", failed["statusMessage"], `"API rate limit exceeded"`)
	erred := awaitTask(t, h.Target, create(t, h.Target, "errs"), "completed")
	same(t, "result", erred["result"], `{"resultType":"complete","content":[{"type":"text","text":"Failed to process request: invalid input"}],"isError":true}`)

	// What is asked before there is a task is asked by MRTR.
	first := h.Send(t, CallTool("asks", nil, Caps(withTasks)))
	first.Asks(t, "elicitation-1")
	second := h.Retry(t, first, Answers{"elicitation-1": Accept("first", "1")})
	if second.Type != "task" || second.State != "" {
		t.Fatalf("the retry is answered with %s", second.Body)
	}
	var task struct{ TaskID string }
	if err := json.Unmarshal(second.Result, &task); err != nil {
		t.Fatal(err)
	}
	asks := awaitTask(t, h.Target, task.TaskID, "input_required")
	answers := Answers{}
	for key := range asks["inputRequests"].(map[string]any) {
		answers[key] = Accept("second", "2")
	}
	answerTask(t, h.Target, task.TaskID, answers)
	if got := taskText(t, awaitTask(t, h.Target, task.TaskID, "completed")); got != "2" {
		t.Errorf("got %q", got)
	}
	// A client without the extension waits.
	if got := h.Send(t, CallTool("errs", nil)).Completes(t); got["isError"] != true {
		t.Errorf("got %v", got)
	}
}

// "Protocol Errors".
func TestTaskRefusals(t *testing.T) {
	t.Parallel()
	onlyNewest(t, "tasks")
	server := newServer(t, rawserver.Settings{Capabilities: rawserver.TaskCapabilities})
	server.Tool("slow", func(c *rawserver.Call) { <-c.Context().Done() })
	server.TaskTool("demands", 100, func(task *rawserver.Task) { task.Text("done") })
	h := Start(t, Options{Upstream: to(server), Config: "dialects: {tasks: {after: 50ms, required: refuse}}"})
	task := create(t, h.Target, "slow")
	missing := func(reply *Reply) {
		t.Helper()
		reply.Fails(t, http.StatusBadRequest, -32021, "missing_capability")
		var data struct{ RequiredCapabilities json.RawMessage }
		if err := json.Unmarshal(reply.Error.Data, &data); err != nil || !sameJSON(t, data.RequiredCapabilities, []byte(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)) {
			t.Errorf("data is %s", reply.Error.Data)
		}
	}
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		about := aboutTask(method, task, Param("inputResponses", Answers{}))
		missing(h.Send(t, about.Copy(Caps(AllCapabilities))))
		h.Send(t, aboutTask(method, "nonsense", Param("inputResponses", Answers{}))).Fails(t, http.StatusBadRequest, -32602, "state_invalid")
		h.Send(t, about.Copy(Client("other"))).Fails(t, http.StatusBadRequest, -32602, "state_foreign")
		h.Send(t, about.Copy(Header("Mcp-Name", "other"))).Fails(t, http.StatusBadRequest, -32020, "header_mismatch")
		h.Send(t, about.Copy(Header("Mcp-Name", ""))).Fails(t, http.StatusBadRequest, -32020, "header_mismatch")
		h.Send(t, about.Copy(Param("taskId", 1))).Fails(t, http.StatusBadRequest, -32602, "invalid_params")
	}
	missing(h.Send(t, listenTo(map[string]any{"taskIds": []string{task}})))
	missing(h.Send(t, CallTool("demands", nil)))
	h.Send(t, aboutTask("tasks/update", task)).Fails(t, http.StatusBadRequest, -32602, "invalid_params")
	for _, method := range []string{"tasks/result", "tasks/list"} {
		h.Send(t, aboutTask(method, task)).Fails(t, http.StatusNotFound, -32601, "method_not_found")
	}
	for range 2 { // it may come twice
		if got := string(h.Send(t, aboutTask("tasks/cancel", task)).Result); got != `{"resultType":"complete"}` {
			t.Errorf("tasks/cancel is answered with %s", got)
		}
	}
	awaitTask(t, h.Target, task, "cancelled")

	off := Start(t, Options{Upstream: to(server), Config: "dialects: {tasks: {enabled: false}}"})
	off.Send(t, aboutTask("tasks/get", task)).Fails(t, http.StatusBadRequest, -32600, "dialect")
	if got := off.Send(t, CallTool("demands", nil, Caps(withTasks))).Text(t); got != "done" {
		t.Errorf("got %q", got)
	}
}

// "Task Status Notifications".
func TestTaskNotifications(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	gate := make(chan struct{})
	server.Tool("asks", func(c *rawserver.Call) {
		<-gate
		c.Text(c.Ask("elicitation/create", question("name")).Content("name"))
	})
	h := Start(t, Options{Upstream: to(server), Config: tasksSoon})
	task := create(t, h.Target, "asks")
	stream := h.Open(t, listenTo(map[string]any{"taskIds": []string{task, "nonsense"}}, Caps(withTasks), ID("l")))
	same(t, "acknowledged", parse(t, at(stream.Notification(acknowledged).Params, "notifications")), `{"taskIds":["`+task+`"]}`)
	hear := func(status string) (params map[string]any) {
		t.Helper()
		for {
			heard := stream.Notification("notifications/tasks")
			subscribed(t, heard.Params, `"l"`)
			if params = parse(t, heard.Params).(map[string]any); params["status"] == status {
				return params
			}
		}
	}
	hear("working")
	close(gate)
	hear("input_required")
	answerTask(t, h.Target, task, Answers{"elicitation-1": Accept("name", "Ada")})
	done := hear("completed")
	if got := taskText(t, done); got != "Ada" {
		t.Errorf("got %q", got)
	}
	if done["taskId"] != task || done["resultType"] != nil {
		t.Errorf("heard %v", done)
	}
}

// A task's outcome outlives the replica that had it.
func TestTaskOutcomeOutlivesItsReplica(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	gate := make(chan struct{})
	server.Tool("plain", func(c *rawserver.Call) { <-gate; c.Text("plain") })
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty + tasksSoon})
	plain := create(t, h.Replica(0).Target, "plain")
	if oneStream(t) {
		h.keeperFirst(t)
	}
	close(gate)
	awaitTask(t, h.Replica(1).Target, plain, "completed")
	h.Replica(0).Kill()
	for i := 1; i < h.Size(); i++ {
		if got := taskText(t, getTask(t, h.Replica(i).Target, plain)); got != "plain" {
			t.Errorf("replica %d: got %q", i, got)
		}
	}
	if n := server.ToolCalls("plain"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

// A task whose replica died, and that nobody can go on with, has failed: whoever
// asks is told why, wherever.
func TestTaskDiesWithItsReplica(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{NoEventIDs: true})
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	server.Tool("plain", func(*rawserver.Call) { <-never })
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty + tasksSoon})
	task := create(t, h.Replica(0).Target, "plain")
	if oneStream(t) {
		h.keeperFirst(t)
	}
	h.Replica(0).Kill()
	awaitTask(t, h.Replica(1).Target, task, "failed")
	stream := h.Replica(1).Open(t, listenTo(map[string]any{"taskIds": []string{task}}, Caps(withTasks)))
	stream.Notification(acknowledged)
	if heard := parse(t, stream.Notification("notifications/tasks").Params).(map[string]any); heard["status"] != "failed" || heard["error"] == nil {
		t.Errorf("heard %v", heard)
	}
	for i := 1; i < h.Size(); i++ {
		got := awaitTask(t, h.Replica(i).Target, task, "failed")
		failure, _ := got["error"].(map[string]any)
		data, _ := failure["data"].(map[string]any)
		if got["status"] != "failed" || got["taskId"] != task || failure["code"] != float64(-32603) || data["reason"] != "call_lost" || data["mayHaveRun"] != true {
			t.Errorf("replica %d: the task is %v", i, got)
		}
		answerTask(t, h.Replica(i).Target, task, Answers{"x": Accept("x", "y")})
		if got := string(h.Replica(i).Send(t, aboutTask("tasks/cancel", task)).Result); got != `{"resultType":"complete"}` {
			t.Errorf("tasks/cancel is answered with %s", got)
		}
	}
	if n := server.ToolCalls("plain"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

// A task of the server's goes on without the replica that had it.
func TestTaskOutlivesItsReplica(t *testing.T) {
	t.Parallel()
	onlyStreamable(t, "a session of one stream ends with the replica that keeps it")
	onlyNewest(t, "tasks")
	server := newServer(t, rawserver.Settings{Capabilities: rawserver.TaskCapabilities})
	goOn := make(chan struct{})
	server.TaskTool("task", 100, func(task *rawserver.Task) { <-goOn; task.Text("task") })
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty + tasksSoon})
	task := create(t, h.Replica(0).Target, "task")
	h.Replica(0).Kill()
	if got := getTask(t, h.Replica(1).Target, task)["status"]; got != "working" {
		t.Errorf("the task is %v", got)
	}
	close(goOn)
	if got := taskText(t, awaitTask(t, h.Replica(2).Target, task, "completed")); got != "task" {
		t.Errorf("got %q", got)
	}
	if n := server.ToolCalls("task"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

// Over standard input and output a task is one as well.
func TestTaskOverStdio(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	gate := make(chan struct{})
	server.Tool("slow", func(c *rawserver.Call) { <-gate; c.Text("done") })
	p := startStdio(t, to(server), "--dialects.tasks.after", "50ms")
	read := func() (m struct {
		Method string
		Result map[string]any
		Params map[string]any
	}) {
		t.Helper()
		line := p.reads()
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		return m
	}
	p.send(CallTool("slow", nil, Caps(withTasks)))
	created := read().Result
	task, _ := created["taskId"].(string)
	if created["resultType"] != "task" || task == "" {
		t.Fatalf("got %v", created)
	}
	p.send(listenTo(map[string]any{"taskIds": []string{task}}, Caps(withTasks), ID("l")))
	if got := read(); got.Method != acknowledged {
		t.Fatalf("got %v", got)
	}
	if got := read(); got.Method != "notifications/tasks" || got.Params["status"] != "working" {
		t.Fatalf("heard %v", got)
	}
	close(gate)
	if got := read(); got.Method != "notifications/tasks" || got.Params["status"] != "completed" || taskText(t, got.Params) != "done" {
		t.Fatalf("heard %v", got)
	}
	p.send(aboutTask("tasks/get", task))
	if got := read().Result; got["status"] != "completed" || taskText(t, got) != "done" {
		t.Errorf("got %v", got)
	}
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	p.ends(0)
}

// A handle is good for another process with the same keys: what the server still
// has goes on.
func TestTaskOutlivesARestart(t *testing.T) {
	t.Parallel()
	onlyStreamable(t, "a session of one stream ends with the replica that keeps it")
	onlyNewest(t, "tasks")
	server := newServer(t, rawserver.Settings{Capabilities: rawserver.TaskCapabilities})
	gate := make(chan struct{})
	server.TaskTool("task", 100, func(task *rawserver.Task) { <-gate; task.Text("done") })
	o := Options{Upstream: to(server), Config: tasksSoon, Args: []string{"--state-key-file", KeyFile(t, fleetKey)}}
	before := StartOne(t, o)
	task := create(t, before.Target, "task")
	before.Kill()
	after := StartOne(t, o)
	if got := getTask(t, after.Target, task)["status"]; got != "working" {
		t.Errorf("the task is %v", got)
	}
	close(gate)
	if got := taskText(t, awaitTask(t, after.Target, task, "completed")); got != "done" {
		t.Errorf("got %q", got)
	}
	if n := server.ToolCalls("task"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}
