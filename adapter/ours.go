package adapter

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// A server may ask its question as a task, too (spec 2025-11-25,
// basic/utilities/tasks): then it is the client that names the task, and the
// server that comes back for the answer. Holdfast is that client. The input's id
// is the task's name then, and its answer is kept until the server fetches it.

// ownTask is a question that the server asked as a task.
type ownTask struct {
	since   time.Time
	answer  response // once the client has answered
	waiting [][]byte // raw ids of tasks/result that wait for it
	over    bool     // the server has cancelled it
}

// maxOwn bounds the tasks of one call, and the requests that wait for each.
const maxOwn = 64

// ownPoll is how often a server is told to look, in milliseconds.
const ownPoll = 1000

// askedAsTask names the task of a question that is asked as one, and tells the
// server. mu is held.
func (c *call) askedAsTask(in *input, params []byte) {
	if in.Method == mcp.MethodRootsList || c.x == nil || !c.revision().Has(mcp.Tasks) ||
		!jsonrpc.IsObject(jsonrpc.Get(params, "task")) || len(c.own) >= maxOwn {
		return
	}
	name := legacy.OwnTask(c.x.Position().Request, len(c.own)+1)
	t := c.ownTask(name)
	result := append(append([]byte(`{"task":`), t.text(name, "working")...), '}')
	c.reply(jsonrpc.AppendResult(legacy.Text(), in.id, result))
	in.id = jsonrpc.AppendQuote(nil, name)
}

// ownTask returns what is known of a task of ours. mu is held.
func (c *call) ownTask(name string) *ownTask {
	t := c.own[name]
	if t == nil {
		if c.own == nil {
			c.own = make(map[string]*ownTask)
		}
		t = &ownTask{since: time.Now()}
		c.own[name] = t
	}
	return t
}

// text is the task as the server sees it.
func (t *ownTask) text(name, status string) []byte {
	at := t.since.UTC().Format(time.RFC3339)
	out := jsonrpc.AppendQuote([]byte(`{"taskId":`), name)
	out = jsonrpc.AppendQuote(append(out, `,"status":`...), status)
	out = jsonrpc.AppendQuote(append(out, `,"createdAt":`...), at)
	out = jsonrpc.AppendQuote(append(out, `,"lastUpdatedAt":`...), at)
	out = append(out, `,"ttl":null,"pollInterval":`...)
	return append(strconv.AppendInt(out, ownPoll, 10), '}')
}

// own is the name of the task that a question is asked as, or "".
func (in *input) own() string {
	if !bytes.HasPrefix(in.id, []byte(`"`+legacy.OwnTaskPrefix)) {
		return ""
	}
	name, _ := jsonrpc.Unquote(in.id)
	return name
}

// answerText is the message that gives the server an answer, or nil where it
// comes back for it. mu is held.
func (c *call) answerText(in *input, r response) []byte {
	if !r.failed {
		r.value = c.legacyAnswer(in, r.value)
	}
	name := in.own()
	if name == "" {
		return r.appendTo(legacy.Text(), in.id)
	}
	if r.failed {
		r.value = bytes.Clone(r.value)
	} else {
		r.value = related(name, r.value)
	}
	t := c.ownTask(name)
	t.answer = r
	for _, id := range t.waiting {
		c.reply(r.appendTo(legacy.Text(), id))
	}
	t.waiting = nil
	return nil
}

// related is a result with what says whose task it is of: "The tasks/result
// operation MUST include this metadata in its response".
func related(name string, result []byte) []byte {
	out := append([]byte(nil), `{"_meta":{"`+mcp.MetaRelatedTask+`":{"taskId":`...)
	out = append(jsonrpc.AppendQuote(out, name), '}')
	meta := jsonrpc.Get(result, "_meta")
	if rest := jsonrpc.AppendMembers(nil, meta, func(n []byte) bool { return string(n) == mcp.MetaRelatedTask }); len(rest) > 0 {
		out = append(append(out, ','), rest...)
	}
	out = append(out, '}')
	if rest := jsonrpc.AppendMembers(nil, result, func(n []byte) bool { return string(n) == "_meta" }); len(rest) > 0 {
		out = append(append(out, ','), rest...)
	}
	return append(out, '}')
}

// serveTask answers what the server asks of a task of ours. mu is held.
func (c *call) serveTask(m *jsonrpc.Message) {
	name, _ := jsonrpc.Unquote(jsonrpc.Get(m.Params, "taskId"))
	open := -1
	for i, in := range c.inputs {
		if in.own() == name && strings.HasPrefix(name, legacy.OwnTaskPrefix) {
			open = i
		}
	}
	t := c.own[name]
	if t == nil && open >= 0 {
		t = c.ownTask(name) // another replica has named it
	}
	if t == nil {
		c.refuseTask(m.ID, "Task not found")
		return
	}
	c.heard = time.Now()
	status := "input_required"
	switch {
	case t.over:
		status = "cancelled"
	case t.answer.failed:
		status = "failed"
	case t.answer.value != nil:
		status = "completed"
	case open < 0: // it is being asked again after it was lost
		status = "working"
	}
	switch {
	case m.Method == mcp.MethodTaskGet:
		c.reply(jsonrpc.AppendResult(legacy.Text(), m.ID, t.text(name, status)))
	case m.Method == mcp.MethodTaskCancel && (t.over || t.answer.value != nil):
		c.refuseTask(m.ID, "Cannot cancel task: already in terminal status '"+status+"'")
	case m.Method == mcp.MethodTaskCancel:
		t.over = true
		c.withdraw(jsonrpc.AppendQuote(nil, name))
		c.reply(jsonrpc.AppendResult(legacy.Text(), m.ID, t.text(name, "cancelled")))
		for _, id := range t.waiting {
			c.refuseTask(id, "The task was cancelled")
		}
		t.waiting = nil
	case t.over:
		c.refuseTask(m.ID, "The task was cancelled")
	case t.answer.value != nil:
		c.reply(t.answer.appendTo(legacy.Text(), m.ID))
	case len(t.waiting) >= maxOwn:
		c.refuseTask(m.ID, "too many requests wait for the task")
	default:
		t.waiting = append(t.waiting, bytes.Clone(m.ID))
	}
}

func (c *call) refuseTask(id []byte, why string) {
	c.reply(jsonrpc.AppendError(legacy.Text(), id, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: why}))
}

// dropTask ends a question that was asked as a task without an answer. mu is
// held.
func (c *call) dropTask(in *input, why string) {
	t := c.ownTask(in.own())
	t.over = true
	for _, id := range t.waiting {
		c.refuseTask(id, why)
	}
	t.waiting = nil
}

func isTaskMethod(method string) bool {
	switch method {
	case mcp.MethodTaskGet, mcp.MethodTaskResult, mcp.MethodTaskCancel:
		return true
	}
	return false
}

// polled reports whether the server comes for the answer to a question, and so
// must find somebody. mu is held.
func (c *call) polled() bool {
	for _, in := range c.inputs {
		if in.own() != "" {
			return true
		}
	}
	return false
}
