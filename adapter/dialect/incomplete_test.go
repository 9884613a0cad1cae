package dialect

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

var persistent = IncompleteResult{Capabilities: asking, Persistent: true, TTL: time.Hour, Poll: 5 * time.Second}

func TestPersistentWorkflowIsDecoded(t *testing.T) {
	const related = `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}`
	type want struct {
		method, state, responses string
		lasting                  time.Duration
		wrapped                  bool
	}
	for name, test := range map[string]struct {
		text string
		want want
	}{
		"a call that wants a task":    {request("tools/call", `"name":"a","task":{"ttl":60000}`), want{method: "tools/call", lasting: time.Minute}},
		"one that names no time":      {request("tools/call", `"name":"a","task":{}`), want{method: "tools/call", lasting: time.Hour}},
		"one that wants it for good":  {request("tools/call", `"name":"a","task":{"ttl":null}`), want{method: "tools/call", lasting: time.Hour}},
		"one that wants it too long":  {request("tools/call", `"name":"a","task":{"ttl":36000000000}`), want{method: "tools/call", lasting: time.Hour}},
		"one that wants it too short": {request("tools/call", `"name":"a","task":{"ttl":0}`), want{method: "tools/call", lasting: time.Second}},
		"one that wants none":         {request("tools/call", `"name":"a"`), want{method: "tools/call"}},
		"a prompt":                    {request("prompts/get", `"name":"a","task":{}`), want{method: "prompts/get"}},
		"a look":                      {request("tasks/get", `"taskId":"t"`), want{method: "tasks/get", state: "t"}},
		"what there is to it":         {request("tasks/result", `"taskId":"t"`), want{method: "tasks/result", state: "t"}},
		"the end of it":               {request("tasks/cancel", `"taskId":"t"`), want{method: "tasks/cancel", state: "t"}},
		"answers, as in the draft": {request("tasks/input_response", `"inputResponses":{"k\"":{"action":"accept"},"l":{"result":{}},"m":{"error":{"code":1,"message":""}}},`+related),
			want{method: "tasks/update", state: "t", wrapped: true, responses: `{"k\"":{"result":{"action":"accept"}},"l":{"result":{}},"m":{"error":{"code":1,"message":""}}}`}},
	} {
		var req adapter.Request
		if err := persistent.Decode(parse(t, test.text), &req); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := (want{req.Method, string(req.RequestState), string(req.InputResponses), req.Lasting, req.Wrapped}); got != test.want {
			t.Errorf("%s: got  %+v\nwant %+v", name, got, test.want)
		}
		if !req.Bare || req.LastingAfter != 0 {
			t.Errorf("%s: got %+v", name, req)
		}
	}
	for name, test := range map[string]struct {
		of         IncompleteResult
		text, want string
	}{
		"task no object":  {persistent, request("tools/call", `"name":"a","task":true`), "params.task"},
		"ttl no number":   {persistent, request("tools/call", `"name":"a","task":{"ttl":"1"}`), "params.task"},
		"ttl negative":    {persistent, request("tools/call", `"name":"a","task":{"ttl":-1}`), "params.task"},
		"no id":           {persistent, request("tasks/get", ``), "params.taskId must be a string"},
		"no related task": {persistent, request("tasks/input_response", `"taskId":"t","inputResponses":{}`), "related-task"},
		"no answers":      {persistent, request("tasks/input_response", related), "inputResponses must be an object"},
		"a list":          {persistent, request("tasks/list", ``), "no method"},
		"an update":       {persistent, request("tasks/update", `"taskId":"t","inputResponses":{}`), "no method"},
		"switched off":    {IncompleteResult{}, request("tasks/result", `"taskId":"t"`), PersistentSetting},
	} {
		var req adapter.Request
		var refusal *adapter.Refusal
		if err := test.of.Decode(parse(t, test.text), &req); !errors.As(err, &refusal) || !strings.Contains(refusal.Detail, test.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, test.want)
		}
	}
	// Where there are no tasks the parameter counts for nothing.
	var req adapter.Request
	if err := (IncompleteResult{}).Decode(parse(t, request("tools/call", `"name":"a","task":{"ttl":60000}`)), &req); err != nil || req.Lasting != 0 {
		t.Errorf("got %v, %+v", err, req)
	}
}

func TestOutcomesOfThePersistentWorkflow(t *testing.T) {
	at := time.Date(2026, 1, 27, 3, 32, 48, 314_000_000, time.UTC)
	standing := func(status mcp.TaskStatus) *adapter.Standing {
		return &adapter.Standing{Handle: []byte("h"), Status: status, Born: at, Changed: at.Add(time.Second), TTL: time.Minute}
	}
	const (
		times   = `"createdAt":"2026-01-27T03:32:48.314Z","lastUpdatedAt":"2026-01-27T03:32:49.314Z","ttl":60000,"pollInterval":5000}`
		related = `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"h"}}`
	)
	failure := []byte(`{"code":-1,"message":"no"}`)
	inputs := []adapter.Input{{Key: "k", Method: "roots/list"}}
	for _, test := range []struct {
		outcome adapter.Outcome
		want    string
	}{
		{adapter.Outcome{Method: "tools/call", State: []byte("h"), Standing: standing(mcp.TaskWorking)}, `"result":{"task":{"taskId":"h","status":"working",` + times + `}}`},
		{adapter.Outcome{Method: "tasks/get", Inputs: inputs, Standing: standing(mcp.TaskInputRequired)}, `"result":{"taskId":"h","status":"input_required",` + times + `}`},
		{adapter.Outcome{Method: "tasks/get", Error: failure, Standing: standing(mcp.TaskFailed)}, `"result":{"taskId":"h","status":"failed","statusMessage":"no",` + times + `}`},
		{adapter.Outcome{Method: "tasks/cancel", Result: []byte(`{}`), Standing: standing(mcp.TaskCancelled)}, `"result":{"taskId":"h","status":"cancelled",` + times + `}`},
		{adapter.Outcome{Method: "tasks/update", Result: []byte(`{}`), Error: failure, Standing: standing(mcp.TaskFailed)}, `"result":{` + related + `}}`},
		{adapter.Outcome{Method: "tasks/result", Inputs: inputs, Standing: standing(mcp.TaskInputRequired)}, `"result":{"inputRequests":{"k":{"method":"roots/list","params":{}}},` + related + `}}`},
		{adapter.Outcome{Method: "tasks/result", Result: []byte(`{ "content":[], "_meta":{"x":1}}`), Standing: standing(mcp.TaskCompleted)}, `"result":{"content":[],` + related + `}}`},
		{adapter.Outcome{Method: "tasks/result", Result: []byte(`{}`), Standing: standing(mcp.TaskCompleted)}, `"result":{` + related + `}}`},
		{adapter.Outcome{Method: "tasks/result", Result: []byte(`[]`), Standing: standing(mcp.TaskCompleted)}, `"error":` + string(noObject) + `}`},
		{adapter.Outcome{Method: "tasks/result", Error: failure, Standing: standing(mcp.TaskFailed)}, `"error":{"code":-1,"message":"no"}}`},
	} {
		if got, want := string(persistent.AppendOutcome(nil, []byte("7"), &test.outcome)), `{"jsonrpc":"2.0","id":7,`+test.want; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestPersistentWorkflowIsAdvertised(t *testing.T) {
	if got := string(NewSet(Spoken{Dialect: persistent}, Spoken{Dialect: Saga{}}).Extension()); got != `{"incomplete-result":{"persistent":{}},"saga":{}}` {
		t.Errorf("got %s", got)
	}
}
