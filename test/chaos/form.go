package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The forms of dialects: how a tool call and its retries are written, and how the
// answers are read. What clients do with them is in call.go, for most dialects;
// tasks.go and follow.go have the rest.

// capabilities are what clients declare that declare something.
func capabilities(d Dialect) map[string]any {
	declared := map[string]any{"elicitation": map[string]any{"form": struct{}{}}, "sampling": struct{}{}}
	if d != Saga {
		declared["roots"] = struct{}{}
	}
	if d == Tasks {
		declared["extensions"] = map[string]any{"io.modelcontextprotocol/tasks": struct{}{}}
	}
	return declared
}

// about makes a request of the caller's dialect.
func (c *caller) about(method, name string, params map[string]any) *Request {
	d := c.plan.Dialect
	q := &Request{Dialect: d, Path: c.plan.Path, ID: c.client.ids.Add(1), Method: method, Name: name, Params: params}
	if c.plan.Bare {
		return q
	}
	q.Token = fmt.Sprintf("progress-%d", q.ID)
	meta := map[string]any{
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "chaos", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": capabilities(d),
		"progressToken": q.Token,
	}
	if d.Modern() {
		meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28"
	}
	params["_meta"] = meta
	return q
}

// request is the tool call: the first time, or with what a retry brings.
func (c *caller) request(state string, responses map[string]any) *Request {
	params := map[string]any{"name": c.plan.Tool, "arguments": &c.script}
	q := c.about("tools/call", string(c.plan.Tool), params)
	switch d := c.plan.Dialect; d {
	case MRTR, Tasks, IncompleteResult:
		if d == IncompleteResult {
			responses = wrapped(responses)
		}
		if state != "" {
			params["requestState"] = state
		}
		if len(responses) > 0 {
			params["inputResponses"] = responses
		}
	case DependentRequests:
		if state == "" {
			break
		}
		key, _, _ := strings.Cut(state, "~")
		brought := wrapped(responses)
		own := brought[key]
		delete(brought, key)
		if brought[state] = own; own == nil { // nothing was asked but to come back
			brought[state] = map[string]any{"result": struct{}{}}
		}
		q.Body = map[string]any{"dependent_responses": brought}
	case Saga:
		if q.Method = "tools/callSaga"; state == "" {
			break
		}
		q.Method = "tools/resumeSaga"
		delete(params, "name")
		delete(params, "arguments")
		steps := []any{}
		for _, key := range slices.Sorted(maps.Keys(responses)) {
			steps = append(steps, map[string]any{"stepId": key, "result": responses[key]})
		}
		params["sagaToken"], params["completedSteps"] = state, steps
	case ResumeToken:
		if state != "" {
			params["resumeToken"] = state
		}
	}
	return q
}

// wrapped are responses as JSON-RPC has them.
func wrapped(responses map[string]any) map[string]any {
	all := map[string]any{}
	for key, response := range responses {
		all[key] = map[string]any{"result": response}
	}
	return all
}

// bring notes the answers to what was just asked, and returns what the retry is to
// bring.
func (c *caller) bring(responses map[string]any) map[string]any {
	if c.plan.Dialect != Saga {
		return responses
	}
	maps.Copy(c.given, responses) // all of them, every time
	return maps.Clone(c.given)
}

// asked is an input request on the wire.
type asked struct {
	Method Kind            `json:"method"`
	Params json.RawMessage `json:"params"`
}

func askedIn(requests map[string]asked) (list []Asked) {
	for key, a := range requests {
		list = append(list, Asked{key, a.Method, string(a.Params)})
	}
	sortAsked(list)
	return list
}

// toolResult is a CallToolResult.
type toolResult struct {
	Content []struct{ Text string } `json:"content"`
}

func (r *toolResult) text() string {
	if r == nil || len(r.Content) != 1 {
		return ""
	}
	return r.Content[0].Text
}

// result reads a result. Dialects are told apart by what it has: none has what is
// another's.
func (r *Reply) result(d Dialect, raw json.RawMessage) {
	var result struct {
		Type     string           `json:"resultType"`
		State    string           `json:"requestState"`
		Requests map[string]asked `json:"inputRequests"`
		toolResult

		Saga  string `json:"sagaToken"`
		Steps []struct {
			Type, StepID string
			Params       json.RawMessage
		} `json:"steps"`
		Next   string `json:"nextResumeToken"`
		ID     string `json:"taskId"`
		Status string `json:"status"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		r.Broken = fmt.Errorf("result %.200s: %w", raw, err)
		return
	}
	switch {
	case d.Modern() != (result.Type != ""):
		r.Broken = fmt.Errorf("result %.200s in %s", raw, d)
	case result.ID != "":
		r.Task = new(Task)
		r.Broken = json.Unmarshal(raw, r.Task)
	case result.Status != "":
		r.Status = result.Status
	case result.State != "" && result.Type != "complete":
		r.State, r.Asked = result.State, askedIn(result.Requests)
	case result.Saga != "":
		r.State = result.Saga
		for _, step := range result.Steps {
			kind := Elicit
			if step.Type == "sampling" {
				kind = Sampling
			}
			r.Asked = append(r.Asked, Asked{step.StepID, kind, string(step.Params)})
		}
		sortAsked(r.Asked)
	case result.Next != "": // "A result with a token carries no payload"
		if r.State = result.Next; len(result.Content) != 0 {
			r.Broken = fmt.Errorf("a payload beside a token: %.200s", raw)
		}
	case result.Content == nil && result.Type != "input_required":
		r.Result = acknowledged
	case result.text() != "" && result.Type != "input_required":
		r.Result = result.text()
	default:
		r.Broken = fmt.Errorf("result %.200s", raw)
	}
}

// dependent reads dependent_requests. The key that has the request state in it is
// the handle.
func (r *Reply) dependent(requests map[string]asked) {
	for key, a := range requests {
		if name, state, ok := strings.Cut(key, "~"); ok && len(state) >= 96 {
			delete(requests, key)
			r.State = key
			if a.Method != "ping" {
				requests[name] = a
			}
			break
		}
	}
	if r.Asked = askedIn(requests); r.State == "" {
		r.Broken = fmt.Errorf("dependent_requests without a state: %v", r.Asked)
	}
}
