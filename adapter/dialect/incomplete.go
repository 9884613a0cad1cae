package dialect

import (
	"strconv"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// IncompleteResult is the draft of MRTR (transports working group, "Multi
// Round-Trip Requests"): a client tells by the members of a result whether it is
// complete, and wraps each of its answers as a JSON-RPC response has it.
//
// With Persistent it has the draft's "Persistent Tool Workflow", too: a tool call
// with the task parameter of 2025-11-25 answers with a task, whose tasks/result
// shows what is asked, and tasks/input_response answers that.
type IncompleteResult struct {
	// Capabilities are what a client has that declares none, as raw JSON.
	Capabilities []byte

	Persistent bool
	TTL        time.Duration // of a task, at most and where the client names none
	Poll       time.Duration // how often clients should ask for it
}

// Name returns "incomplete-result".
func (IncompleteResult) Name() string { return NameIncompleteResult }

// Modern returns false.
func (IncompleteResult) Modern() bool { return false }

// advertised is what server/discover says of it.
func (d IncompleteResult) advertised() string {
	if d.Persistent {
		return `{"persistent":{}}`
	}
	return `{}`
}

// PersistentSetting switches the persistent workflow on.
const PersistentSetting = "dialects.incomplete_result.persistent"

// Decode reads a request.
func (d IncompleteResult) Decode(msg *jsonrpc.Message, req *adapter.Request) error {
	var p params
	p.read(msg.Params)
	switch msg.Method {
	case mcp.MethodTaskGet, mcp.MethodTaskResult, mcp.MethodTaskCancel, mcp.MethodTaskInput:
		return d.decodeTask(&p, msg, req)
	}
	if err := p.decodeProposal(msg, req, d.Capabilities); err != nil {
		return err
	}
	if err := d.decodeTaskParam(msg, req); err != nil || req.InputResponses == nil {
		return err
	}
	req.Wrapped = true
	return wrapped("params.inputResponses", req.InputResponses)
}

// decodeTaskParam reads the parameter with which a client asks for a task. Where
// there are none it counts for nothing (2025-11-25, basic/utilities/tasks).
func (d IncompleteResult) decodeTaskParam(msg *jsonrpc.Message, req *adapter.Request) error {
	if !d.Persistent || req.Method != mcp.MethodToolsCall {
		return nil
	}
	task := jsonrpc.Get(msg.Params, "task")
	if task == nil {
		return nil
	}
	ttl := jsonrpc.Get(task, "ttl")
	if !jsonrpc.IsObject(task) || ttl != nil && !jsonrpc.IsNull(ttl) && (!integer(ttl) || ttl[0] == '-') {
		return invalid("params.task must be an object, and its ttl a number of milliseconds")
	}
	req.Lasting = d.TTL
	if ms, err := strconv.ParseInt(string(ttl), 10, 64); err == nil && ms < d.TTL.Milliseconds() {
		req.Lasting = max(time.Duration(ms)*time.Millisecond, time.Second)
	}
	return nil
}

// decodeTask reads a request that is about a task.
func (d IncompleteResult) decodeTask(p *params, msg *jsonrpc.Message, req *adapter.Request) error {
	req.Method, req.ID, req.Params, req.Meta, req.Bare = msg.Method, msg.ID, msg.Params, p.meta, true
	if !d.Persistent {
		return &adapter.Refusal{
			Reason: adapter.ReasonDialect,
			Detail: "the persistent workflow of the dialect " + NameIncompleteResult + " is switched off (" + PersistentSetting + ")",
		}
	}
	if req.Params == nil {
		req.Params = []byte(`{}`)
	}
	if err := p.decodeMeta(req); err != nil {
		return err
	}
	if req.Capabilities == nil {
		req.Capabilities = d.Capabilities
	}
	id, where := p.taskID, "params.taskId"
	if msg.Method == mcp.MethodTaskInput {
		id, where = jsonrpc.Get(jsonrpc.Get(p.meta, mcp.MetaRelatedTask), "taskId"), "the taskId of "+mcp.MetaRelatedTask+" in params._meta"
	}
	handle, ok := text(id)
	if !ok {
		return invalid("%s must be a string", where)
	}
	req.Name, req.RequestState = handle, handle
	if msg.Method != mcp.MethodTaskInput {
		return nil
	}
	if !jsonrpc.IsObject(p.inputResponses) {
		return invalid("params.inputResponses must be an object")
	}
	req.Method, req.Wrapped, req.InputResponses = mcp.MethodTaskUpdate, true, wrap(p.inputResponses)
	return nil
}

// wrap makes each of input responses {"result": …} or {"error": …} that is not:
// in the draft's own example of a task none is.
func wrap(responses []byte) []byte {
	out := append(make([]byte, 0, len(responses)+32), '{')
	for c := jsonrpc.Object(responses); c.Next(); {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, c.RawName()...), ':')
		if isResponse(c.Value()) {
			out = append(out, c.Value()...)
			continue
		}
		out = append(append(append(out, `{"result":`...), c.Value()...), '}')
	}
	return append(out, '}')
}

// AppendOutcome appends the response of a round. An incomplete result without
// input requests says that the client may come back at once.
func (d IncompleteResult) AppendOutcome(dst, id []byte, o *adapter.Outcome) []byte {
	if o.Standing != nil {
		return d.appendStanding(dst, id, o)
	}
	dst, ok := appendProposal(dst, id, o)
	if ok {
		return dst
	}
	dst = append(appendStart(dst, id), `,"result":{`...)
	if len(o.Inputs) > 0 {
		dst = append(dst, `"inputRequests":{`...)
		dst = append(appendInputs(dst, o.Inputs), `},`...)
	}
	dst = append(append(dst, `"requestState":"`...), o.State...)
	return append(dst, `"}}`...)
}

// appendStanding appends the response of a round that is about a task.
func (d IncompleteResult) appendStanding(dst, id []byte, o *adapter.Outcome) []byte {
	s := o.Standing
	dst = appendStart(dst, id)
	switch {
	case o.State != nil:
		dst = append(d.appendTask(append(dst, `,"result":{"task":`...), o), '}')
	case o.Method == mcp.MethodTaskUpdate:
		dst = append(appendRelated(append(dst, `,"result":{`...), s), '}')
	case o.Method != mcp.MethodTaskResult:
		dst = d.appendTask(append(dst, `,"result":`...), o)
	case o.Error != nil:
		dst = append(append(dst, `,"error":`...), o.Error...)
	case s.Status == mcp.TaskInputRequired:
		dst = append(appendInputs(append(dst, `,"result":{"inputRequests":{`...), o.Inputs), "},"...)
		dst = append(appendRelated(dst, s), '}')
	case jsonrpc.IsObject(o.Result):
		dst = append(dst, `,"result":{`...)
		if rest := jsonrpc.AppendMembers(nil, o.Result, isMeta); len(rest) > 0 {
			dst = append(append(dst, rest...), ',')
		}
		dst = append(appendRelated(dst, s), '}')
	default:
		dst = appendNoObject(dst)
	}
	return append(dst, '}')
}

func isMeta(name []byte) bool { return string(name) == "_meta" }

// appendRelated appends the _meta that says whose task a result is of.
func appendRelated(dst []byte, s *adapter.Standing) []byte {
	dst = append(dst, `"_meta":{"`+mcp.MetaRelatedTask+`":{"taskId":"`...)
	return append(append(dst, s.Handle...), `"}}`...)
}

// appendTask appends a Task of 2025-11-25.
func (d IncompleteResult) appendTask(dst []byte, o *adapter.Outcome) []byte {
	s := o.Standing
	dst = append(append(append(dst, `{"taskId":"`...), s.Handle...), `","status":"`...)
	dst = append(append(dst, s.Status.String()...), '"')
	message := s.Message
	if s.Status == mcp.TaskFailed {
		message, _ = jsonrpc.Unquote(jsonrpc.Get(o.Error, "message"))
	}
	if message != "" {
		dst = jsonrpc.AppendQuote(append(dst, `,"statusMessage":`...), message)
	}
	dst = appendTime(append(dst, `,"createdAt":`...), s.Born)
	dst = appendTime(append(dst, `,"lastUpdatedAt":`...), s.Changed)
	dst = strconv.AppendInt(append(dst, `,"ttl":`...), s.TTL.Milliseconds(), 10)
	dst = strconv.AppendInt(append(dst, `,"pollInterval":`...), d.Poll.Milliseconds(), 10)
	return append(dst, '}')
}
