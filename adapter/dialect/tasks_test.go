package dialect

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

var tasks = Tasks{After: time.Second, TTL: time.Minute, Poll: 5 * time.Second}

// declaring is the _meta of a client that declares the extension.
var declaring = strings.Replace(meta, `{"elicitation":{}}`, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)

func TestTasksAreRecognised(t *testing.T) {
	both := NewSet(Spoken{Dialect: resumable}, Spoken{Dialect: tasks})
	twice := strings.Replace(declaring, `"extensions"`, `"resumableRequests":{},"extensions"`, 1)
	on, off := NewSet(Spoken{Dialect: tasks}), NewSet(Spoken{Dialect: tasks, Off: true, Setting: "the setting"})
	for name, c := range map[string]struct {
		set    *Set
		text   string
		want   string         // the dialect, or "" for an error
		reason adapter.Reason // of the error, or of a legacy server's
	}{
		"a call that declares":        {on, request("tools/call", `"name":"x",`+declaring), NameTasks, ""},
		"a call that does not":        {on, request("tools/call", `"name":"x",`+meta), NameMRTR, ""},
		"a call that declares both":   {both, request("tools/call", `"name":"x",`+twice), NameTasks, ""},
		"a prompt with both":          {both, request("prompts/get", `"name":"x",`+twice), NameResumable, ""},
		"a prompt":                    {on, request("prompts/get", `"name":"x",`+declaring), NameMRTR, ""},
		"an extension that is none":   {on, request("tools/call", `"name":"x",`+strings.Replace(declaring, `tasks":{}`, `tasks":true`, 1)), NameMRTR, ""},
		"a task":                      {on, request("tasks/get", `"taskId":"t",`+declaring), NameTasks, ""},
		"a task, not declared":        {on, request("tasks/get", `"taskId":"t",`+meta), "", adapter.ReasonMissingCapability},
		"a task without an id":        {on, request("tasks/cancel", declaring), "", adapter.ReasonInvalidParams},
		"an update without answers":   {on, request("tasks/update", `"taskId":"t",`+declaring), "", adapter.ReasonInvalidParams},
		"a subscription":              {on, request("subscriptions/listen", `"notifications":{"taskIds":["t"]},`+declaring), NameTasks, ""},
		"a subscription not declared": {on, request("subscriptions/listen", `"notifications":{"taskIds":["t"]},`+meta), "", adapter.ReasonMissingCapability},
		"another subscription":        {on, request("subscriptions/listen", `"notifications":{"toolsListChanged":true},`+meta), NameMRTR, ""},
		"what is gone":                {on, request("tasks/result", `"taskId":"t",`+declaring), "", adapter.ReasonMethodNotFound},
		"a call, switched off":        {off, request("tools/call", `"name":"x",`+declaring), NameMRTR, ""},
		"a task, switched off":        {off, request("tasks/get", `"taskId":"t",`+declaring), NameTasks, adapter.ReasonDialect},
		"subscription, switched off":  {off, request("subscriptions/listen", `"notifications":{"taskIds":["t"]},`+declaring), NameTasks, adapter.ReasonDialect},
		"neither off nor declared":    {off, request("subscriptions/listen", `"notifications":{"taskIds":["t"]},`+meta), "", adapter.ReasonMissingCapability},
		"subscription, none known":    {nil, request("subscriptions/listen", `"notifications":{"taskIds":["t"]},`+declaring), NameMRTR, adapter.ReasonDialect},
		"none known, nor declared":    {nil, request("subscriptions/listen", `"notifications":{"taskIds":["t"]},`+meta), NameMRTR, adapter.ReasonMissingCapability},
		"a task where none are known": {nil, request("tasks/get", `"taskId":"t",`+declaring), "", adapter.ReasonMethodNotFound},
	} {
		msg, err := jsonrpc.ParseRequest([]byte(c.text), 64)
		if err != nil {
			t.Fatal(name, err)
		}
		var req adapter.Request
		d, err := c.set.Decode(&msg, nil, nil, &req)
		var refusal *adapter.Refusal
		switch {
		case c.want == "" && (!errors.As(err, &refusal) || refusal.Reason != c.reason):
			t.Errorf("%s: %v, want a refusal for %s", name, err, c.reason)
		case c.want != "" && (err != nil || d.Name() != c.want):
			t.Errorf("%s: %v, %v, want %s", name, d, err, c.want)
		case c.want != "" && (req.PassOnly != nil || c.reason != "") && (!errors.As(req.PassOnly, &refusal) || refusal.Reason != c.reason):
			t.Errorf("%s: a legacy server's client gets %v, want a refusal for %q", name, req.PassOnly, c.reason)
		case c.want == NameTasks && req.Method == mcp.MethodToolsCall && (req.Lasting != time.Minute || req.LastingAfter != time.Second):
			t.Errorf("%s: lasts %v after %v", name, req.Lasting, req.LastingAfter)
		case c.want == NameMRTR && req.Lasting != 0:
			t.Errorf("%s: lasts %v", name, req.Lasting)
		}
	}
}

func TestTaskDecodes(t *testing.T) {
	msg, err := jsonrpc.ParseRequest([]byte(request("tasks/update", `"taskId":"t-1","inputResponses":{"a":{}},`+declaring)), 64)
	if err != nil {
		t.Fatal(err)
	}
	var req adapter.Request
	if err := tasks.Decode(&msg, &req); err != nil || string(req.Name) != "t-1" || string(req.RequestState) != "t-1" || string(req.InputResponses) != `{"a":{}}` {
		t.Errorf("got %v, %+v", err, req)
	}
}

func TestTaskOutcomes(t *testing.T) {
	standing := func(status mcp.TaskStatus, message string) *adapter.Standing {
		return &adapter.Standing{Handle: []byte("h"), Status: status, Message: message, Born: time.UnixMilli(1), Changed: time.UnixMilli(61_001), TTL: time.Hour}
	}
	of := func(status, message string) string {
		text := `"taskId":"h","status":"` + status + `"`
		if message != "" {
			text += `,"statusMessage":"` + message + `"`
		}
		return text + `,"createdAt":"1970-01-01T00:00:00.001Z","lastUpdatedAt":"1970-01-01T00:01:01.001Z","ttlMs":3600000,"pollIntervalMs":5000`
	}
	for name, c := range map[string]struct {
		outcome adapter.Outcome
		want    string // the result's members
	}{
		"created": {
			adapter.Outcome{Method: "tools/call", State: []byte("h"), Standing: standing(mcp.TaskWorking, "")},
			`"resultType":"task",` + of("working", ""),
		},
		"working": {
			adapter.Outcome{Method: "tasks/get", Standing: standing(mcp.TaskWorking, "half done"), ServerInfo: []byte(info)},
			`"resultType":"complete",` + of("working", "half done") + `,"_meta":{"io.modelcontextprotocol/serverInfo":` + info + `}`,
		},
		"asking": {
			adapter.Outcome{Standing: standing(mcp.TaskInputRequired, ""), Inputs: []adapter.Input{{Key: "a", Method: "roots/list"}}},
			`"resultType":"complete",` + of("input_required", "") + `,"inputRequests":{"a":{"method":"roots/list","params":{}}}`,
		},
		"completed": {
			adapter.Outcome{Standing: standing(mcp.TaskCompleted, ""), Result: []byte(`{"content":[ ],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"}},"isError":true}`)},
			`"resultType":"complete",` + of("completed", "") + `,"result":{"resultType":"complete","content":[ ],"isError":true}`,
		},
		"completed with a result that says what it is": {
			adapter.Outcome{Standing: standing(mcp.TaskCompleted, ""), Result: []byte(`{"resultType":"other","task":{},"_meta":{"a":1},"content":[]}`)},
			`"resultType":"complete",` + of("completed", "") + `,"result":{"resultType":"complete","_meta":{"a":1},"content":[]}`,
		},
		"completed with nonsense": {
			adapter.Outcome{Standing: standing(mcp.TaskCompleted, ""), Result: []byte(`7`)},
			`"resultType":"complete",` + of("failed", "The server's result is no object") + `,"error":` + string(noObject),
		},
		"failed": {
			adapter.Outcome{Standing: standing(mcp.TaskFailed, ""), Error: []byte(`{"code":-1,"message":"no","data":1.0}`)},
			`"resultType":"complete",` + of("failed", "no") + `,"error":{"code":-1,"message":"no","data":1.0}`,
		},
		"cancelled": {
			adapter.Outcome{Standing: standing(mcp.TaskCancelled, "")},
			`"resultType":"complete",` + of("cancelled", ""),
		},
		"acknowledged": {adapter.Outcome{Method: "tasks/update", Result: []byte("{}")}, `"resultType":"complete"`},
	} {
		got := string(tasks.AppendOutcome([]byte("x"), []byte("1"), &c.outcome))
		if want := `x{"jsonrpc":"2.0","id":1,"result":{` + c.want + `}}`; got != want || !json.Valid([]byte(got[1:])) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	o := adapter.Outcome{Standing: standing(mcp.TaskWorking, ""), Subscription: []byte(`"s"`), ServerInfo: []byte(info)}
	want := `{"jsonrpc":"2.0","method":"notifications/tasks","params":{` + of("working", "") + `,"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}`
	if got := string(tasks.AppendStanding(nil, nil, &o)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
