package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A handle leads to the endpoint that has the task, also where Holdfast knows of
// the task by the handle alone; and is asked for there and nowhere else.
func TestTaskAtItsEndpoint(t *testing.T) {
	t.Parallel()
	onlyStreamable(t, "it is about HTTP towards the server")
	onlyNewest(t, "tasks")
	gate := make(chan struct{})
	var servers [2]*rawserver.Server
	for i := range servers {
		servers[i] = newServer(t, rawserver.Settings{Capabilities: rawserver.TaskCapabilities})
		servers[i].TaskTool("task", 100, func(task *rawserver.Task) { <-gate; task.Text(fmt.Sprint("server ", i)) })
	}
	o := Options{
		Args: []string{"--state-key-file", KeyFile(t, fleetKey)},
		Config: tasksSoon + `
calls: {replay: always}
upstreams: [{url: "` + servers[0].URL + `", endpoints: ["` + servers[1].URL + `"]}]`,
	}
	before := StartOne(t, o)
	caller := func(i int) func(*Message) { return Bearer(fmt.Sprint("caller-", i)) }
	var tasks, at [2]string // by server: a task, and whose it is
	for i := 0; tasks[0] == "" || tasks[1] == ""; i++ {
		was := servers[0].ToolCalls("task")
		task := create(t, before.Target, "task", caller(i))
		on := 1
		if servers[0].ToolCalls("task") > was {
			on = 0
		}
		tasks[on], at[on] = task, fmt.Sprint("caller-", i)
	}
	before.Kill()

	after := StartOne(t, o)
	close(gate)
	for on := range servers {
		got := awaitTask(t, after.Target, tasks[on], "completed", Bearer(at[on]))
		if text := taskText(t, got); text != fmt.Sprint("server ", on) {
			t.Errorf("the task of server %d says %q", on, text)
		}
	}
	after.Kill()

	servers[0].Close()
	calls := servers[1].Count("tasks/get") + servers[1].Count("tools/call")
	last := StartOne(t, o)
	last.Send(t, aboutTask("tasks/get", tasks[0], Bearer(at[0])))
	if n := servers[1].Count("tasks/get") + servers[1].Count("tools/call"); n != calls {
		t.Error("the other endpoint was asked for a task that it does not have")
	}
}

// A modern server's own tasks pass through.
func TestTaskOfAModernServer(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	gate := make(chan struct{})
	server.Tool("slow", func(c *rawserver.Call) { <-gate; c.Text("done") })
	inner := StartOne(t, Options{Upstream: to(server), Config: tasksSoon})
	outer := Start(t, Options{Upstream: atURL(inner.URL)})
	task := create(t, outer.Target, "slow")
	if got := getTask(t, outer.Target, task)["status"]; got != "working" {
		t.Errorf("the task is %v", got)
	}
	close(gate)
	if got := taskText(t, awaitTask(t, outer.Target, task, "completed")); got != "done" {
		t.Errorf("got %q", got)
	}
	if got := getTask(t, inner.Target, task)["status"]; got != "completed" {
		t.Errorf("asked directly, the task is %v", got)
	}
}

// They do so where the dialect is switched off: they are not its own.
func TestTaskOfAModernServerSwitchedOff(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	gate := make(chan struct{})
	server.Tool("slow", func(c *rawserver.Call) { <-gate; c.Text("done") })
	inner := StartOne(t, Options{Upstream: to(server), Config: tasksSoon})
	outer := Start(t, Options{Upstream: atURL(inner.URL), Config: "dialects: {tasks: {enabled: false}}"})
	task := create(t, outer.Target, "slow")
	stream := outer.Open(t, listenTo(map[string]any{"taskIds": []string{task}}, Caps(withTasks)))
	same(t, "acknowledged", parse(t, at(stream.Notification(acknowledged).Params, "notifications")), `{"taskIds":["`+task+`"]}`)
	close(gate)
	if got := taskText(t, awaitTask(t, outer.Target, task, "completed")); got != "done" {
		t.Errorf("got %q", got)
	}
	for string(at(stream.Notification("notifications/tasks").Params, "status")) != `"completed"` {
	}
}

// A proposal's request is none that a modern server understands: who sends it is
// told so, and the server hears nothing of it. A legacy endpoint beside it still
// serves it.
func TestProposalsNeedALegacyServer(t *testing.T) {
	t.Parallel()
	onlyStreamable(t, "it is about HTTP towards the server")
	server := newServer(t, rawserver.Settings{})
	server.Tool("plain", func(c *rawserver.Call) { c.Text("plain") })
	inner := StartOne(t, Options{Upstream: to(server)})
	outer := Start(t, Options{Upstream: atURL(inner.URL)})
	const call = `"params": {"name": "plain"}}`
	for dialect, method := range map[string]string{
		"incomplete-result": "tools/call", "dependent-requests": "tools/call", "saga": "tools/callSaga", "resume-token": "tools/call",
	} {
		reply := Post(t, outer.URL, `{"jsonrpc": "2.0", "id": 1, "method": "`+method+`", `+call, bare(dialect))
		reply.Fails(t, http.StatusBadRequest, -32600, "dialect")
		if !strings.Contains(reply.Error.Message, "2026-07-28") {
			t.Errorf("%s: the error is %q", dialect, reply.Error.Message)
		}
	}
	if n := server.ToolCalls("plain"); n != 0 {
		t.Errorf("the tool was called %d times", n)
	}

	legacy := newServer(t, rawserver.Settings{})
	legacy.Tool("plain", func(c *rawserver.Call) { c.Text("plain") })
	both := Start(t, Options{Config: `upstreams: [{url: "` + inner.URL + `", endpoints: ["` + legacy.URL + `"]}]`})
	for i := range 8 {
		header := bare("saga")
		header.Set("Authorization", fmt.Sprint("Bearer caller-", i))
		reply := Post(t, both.URL, `{"jsonrpc": "2.0", "id": 1, "method": "tools/callSaga", `+call, header)
		if got := string(reply.Result); got != `{"content":[{"type":"text","text":"plain"}]}` {
			t.Errorf("caller %d got %s", i, reply.Body)
		}
	}
	if n := legacy.ToolCalls("plain"); n != 8 {
		t.Errorf("the legacy server's tool was called %d times, not 8", n)
	}
}

// Where modern servers are several endpoints of one name, each task is asked for,
// answered and cancelled where it is.
func TestTasksOfModernEndpoints(t *testing.T) {
	t.Parallel()
	var servers [2]*rawserver.Server
	var urls [2]string
	gate := make(chan struct{})
	for i := range servers {
		servers[i] = newServer(t, rawserver.Settings{})
		servers[i].Tool("asks", func(c *rawserver.Call) {
			<-gate
			c.Text(fmt.Sprint(c.Ask("elicitation/create", question("name")).Content("name"), " at ", i))
		})
		urls[i] = StartOne(t, Options{Upstream: to(servers[i]), Config: tasksSoon}).URL
	}
	h := Start(t, Options{Config: `upstreams: [{url: "` + urls[0] + `", endpoints: ["` + urls[1] + `"]}]`})
	var tasks [2][]string
	var whose [2][]func(*Message)
	for i := 0; len(tasks[0]) < 2 || len(tasks[1]) < 2; i++ {
		who, was := Bearer(fmt.Sprint("caller-", i)), servers[0].ToolCalls("asks")
		task := create(t, h.Target, "asks", who)
		on := 1
		if servers[0].ToolCalls("asks") > was {
			on = 0
		}
		tasks[on], whose[on] = append(tasks[on], task), append(whose[on], who)
	}
	ask := func(method, task string, changes ...func(*Message)) map[string]any {
		t.Helper()
		got := h.Send(t, aboutTask(method, task, changes...)).Completes(t)
		if id, ok := got["taskId"]; ok && id != task {
			t.Errorf("%s of %s speaks of %v", method, task, id)
		}
		return got
	}
	until := func(task, status string, who func(*Message)) map[string]any {
		t.Helper()
		return awaitTask(t, h.Target, task, status, who)
	}
	for on := range servers {
		if got := ask("tasks/get", tasks[on][0], whose[on][0])["status"]; got != "working" {
			t.Errorf("the task is %v", got)
		}
		ask("tasks/cancel", tasks[on][1], whose[on][1])
		until(tasks[on][1], "cancelled", whose[on][1])
		h.Send(t, aboutTask("tasks/get", tasks[on][0], Bearer("another"))).Fails(t, http.StatusBadRequest, -32602, "state_foreign")
	}
	close(gate)
	for on := range servers {
		until(tasks[on][0], "input_required", whose[on][0])
		ask("tasks/update", tasks[on][0], Param("inputResponses", Answers{"elicitation-1": Accept("name", "Ada")}), whose[on][0])
		if got := taskText(t, until(tasks[on][0], "completed", whose[on][0])); got != fmt.Sprint("Ada at ", on) {
			t.Errorf("the task of server %d says %q", on, got)
		}
	}
}
