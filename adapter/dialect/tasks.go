package dialect

import (
	"bytes"
	"strconv"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Tasks is the extension io.modelcontextprotocol/tasks (SEP-2663) on top of MRTR:
// a tool call that takes its time answers a client that declared the extension
// with a task, which is then asked for, answered and cancelled by its id. What is
// asked before there is a task is asked by MRTR.
type Tasks struct {
	After time.Duration // how long a tool call may take before it becomes a task
	TTL   time.Duration // of a task, from its creation
	Poll  time.Duration // how often clients should ask for it
}

// Name returns "tasks".
func (Tasks) Name() string { return NameTasks }

// Modern returns true.
func (Tasks) Modern() bool { return true }

var tasksExtension = []byte(`"` + mcp.ExtensionTasks + `"`)

// declaresTasks reports whether capabilities have the extension.
func declaresTasks(capabilities []byte) bool {
	return bytes.Contains(capabilities, tasksExtension) &&
		jsonrpc.IsObject(jsonrpc.Get(jsonrpc.Get(capabilities, "extensions"), mcp.ExtensionTasks))
}

// missingTasks refuses what only a client can ask for that declared the extension
// on this very request.
func missingTasks(what string) error {
	return &adapter.Refusal{
		Reason: adapter.ReasonMissingCapability, Required: []byte(`{"extensions":{` + string(tasksExtension) + `:{}}}`),
		Detail: what + " needs the extension " + mcp.ExtensionTasks + " among the client capabilities of the request",
	}
}

// watchesTasks reports whether a request wants to be told of tasks.
func (p *params) watchesTasks(method string) bool {
	return method == mcp.MethodListen && jsonrpc.Get(p.notifications, "taskIds") != nil
}

// noTasksHere refuses that in a dialect that has no words for it.
func (p *params) noTasksHere() error {
	if !declaresTasks(p.capabilities) {
		return missingTasks("taskIds")
	}
	return &adapter.Refusal{Reason: adapter.ReasonDialect, Detail: "taskIds are of the dialect " + NameTasks + " alone"}
}

// concerns reports whether a modern request is one of this dialect rather than of
// plain MRTR.
//
// Hot: once per request.
func (Tasks) concerns(method string, p *params) bool {
	switch method {
	case mcp.MethodToolsCall:
		return declaresTasks(p.capabilities)
	case mcp.MethodListen:
		return p.watchesTasks(method)
	}
	return mcp.MethodTraits(method).Task
}

// Decode reads a request.
func (d Tasks) Decode(msg *jsonrpc.Message, req *adapter.Request) error {
	var p params
	p.read(msg.Params)
	if mcp.MethodTraits(msg.Method).Task {
		return p.decodeTask(msg, req)
	}
	if err := p.decodeModern(msg, req); err != nil {
		return err
	}
	switch declared := declaresTasks(p.capabilities); {
	case msg.Method == mcp.MethodToolsCall && declared:
		req.Lasting, req.LastingAfter = d.TTL, d.After
	case !declared && p.watchesTasks(msg.Method):
		return missingTasks("taskIds")
	}
	return nil
}

// decodeTask reads a request that is about a task.
func (p *params) decodeTask(msg *jsonrpc.Message, req *adapter.Request) error {
	req.Method, req.ID, req.Params, req.Meta = msg.Method, msg.ID, msg.Params, p.meta
	if version, ok := text(p.version); ok && string(version) != mcp.Modern {
		return unsupported(version)
	}
	if err := p.requireMeta(); err != nil {
		return err
	}
	if err := p.decodeMeta(req); err != nil {
		return err
	}
	if !declaresTasks(p.capabilities) {
		return missingTasks(msg.Method)
	}
	id, ok := text(p.taskID)
	if !ok {
		return invalid("params.taskId must be a string")
	}
	req.Name, req.RequestState = id, id
	if msg.Method == mcp.MethodTaskUpdate {
		if !jsonrpc.IsObject(p.inputResponses) {
			return invalid("params.inputResponses must be an object")
		}
		req.InputResponses = p.inputResponses
	}
	return nil
}

// AppendOutcome appends the response of a round.
func (d Tasks) AppendOutcome(dst, id []byte, o *adapter.Outcome) []byte {
	switch {
	case o.Standing == nil:
		return MRTR{}.AppendOutcome(dst, id, o)
	case o.Method == mcp.MethodTaskUpdate, o.Method == mcp.MethodTaskCancel: // acknowledged, whatever has become of it
		return MRTR{}.AppendOutcome(dst, id, &adapter.Outcome{Method: o.Method, Result: o.Result})
	}
	dst = append(appendStart(dst, id), `,"result":{"resultType":"`...)
	if o.State != nil { // CreateTaskResult has nothing of what there is to a task
		dst = append(dst, `task",`...)
		dst = d.appendTask(dst, o.Standing, o.Standing.Status, o.Standing.Message)
	} else {
		dst = append(dst, `complete",`...)
		dst = d.appendDetailed(dst, o)
	}
	return append(appendMeta(dst, o, nil), "}}"...)
}

// AppendStanding appends the notification of how a task stands.
func (d Tasks) AppendStanding(dst, _ []byte, o *adapter.Outcome) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":"`+mcp.NotifyTask+`","params":{`...)
	dst = d.appendDetailed(dst, o)
	only := adapter.Outcome{Subscription: o.Subscription}
	return append(appendMeta(dst, &only, nil), "}}"...)
}

// appendDetailed appends the members of a DetailedTask.
func (d Tasks) appendDetailed(dst []byte, o *adapter.Outcome) []byte {
	status, message, failure := o.Standing.Status, o.Standing.Message, o.Error
	if status == mcp.TaskCompleted && !jsonrpc.IsObject(o.Result) {
		status, failure = mcp.TaskFailed, noObject
	}
	if status == mcp.TaskFailed {
		message, _ = jsonrpc.Unquote(jsonrpc.Get(failure, "message"))
	}
	dst = d.appendTask(dst, o.Standing, status, message)
	switch status {
	case mcp.TaskInputRequired:
		dst = append(appendInputs(append(dst, `,"inputRequests":{`...), o.Inputs), '}')
	case mcp.TaskCompleted:
		// The result that the call would have had, and so one of the revision, which
		// has a resultType: the example of the extension leaves it out, its official
		// client takes no result without.
		whole := adapter.Outcome{Method: mcp.MethodToolsCall, Result: o.Result}
		dst = appendResult(append(dst, `,"result":`...), &whole)
	case mcp.TaskFailed:
		dst = append(append(dst, `,"error":`...), failure...)
	}
	return dst
}

// noObject is the error for a result of another replica that is no object: what
// comes of the server itself is refused before.
var noObject = []byte(`{"code":-32603,"message":"The server's result is no object","data":{"reason":"upstream_reply","mayHaveRun":true}}`)

// appendTask appends the members that every Task has.
func (d Tasks) appendTask(dst []byte, s *adapter.Standing, status mcp.TaskStatus, message string) []byte {
	dst = append(append(append(dst, `"taskId":"`...), s.Handle...), `","status":"`...)
	dst = append(append(dst, status.String()...), '"')
	if message != "" {
		dst = jsonrpc.AppendQuote(append(dst, `,"statusMessage":`...), message)
	}
	dst = appendTime(append(dst, `,"createdAt":`...), s.Born)
	dst = appendTime(append(dst, `,"lastUpdatedAt":`...), s.Changed)
	dst = strconv.AppendInt(append(dst, `,"ttlMs":`...), s.TTL.Milliseconds(), 10)
	return strconv.AppendInt(append(dst, `,"pollIntervalMs":`...), d.Poll.Milliseconds(), 10)
}

func appendTime(dst []byte, at time.Time) []byte {
	return append(at.UTC().AppendFormat(append(dst, '"'), "2006-01-02T15:04:05.000Z"), '"')
}
