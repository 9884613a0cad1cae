package adapter

import (
	"strconv"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// Where an upstream has several endpoints, a modern server's task id goes out
// sealed in a handle of ours, as its request states do: what is asked about the
// task goes to the endpoint that has it, and who listens hears of it from there
// (fan.go).

// wrapTask seals the id of a task that a server has made.
func (r *routeRound) wrapTask(up *upstream, o *Outcome) error {
	id := jsonrpc.Get(o.Result, "taskId")
	if !jsonrpc.IsString(id) {
		return nil
	}
	e, now := r.engine, time.Now()
	lasts := time.Duration(maxParkTTL)
	if ms, err := strconv.ParseInt(string(jsonrpc.Get(o.Result, "ttlMs")), 10, 64); err == nil && ms >= 0 && ms < lasts.Milliseconds() {
		lasts = time.Duration(ms) * time.Millisecond
	}
	t := state.Token{
		Owner: e.settings.Replica, Upstream: r.group.name, Endpoint: up.id, Principal: bearer(&r.key), Request: requestDigest(r.req),
		Born: now.UnixMilli(), Expires: now.Add(lasts).Unix() + 1, Foreign: true, Inner: id,
	}
	handle := e.ring.Seal(nil, &t)
	if len(handle) > maxHandle {
		return &Refusal{Reason: ReasonUpstreamReply, MayHaveRun: true, Detail: "the server's task id is too long to be told with its endpoint"}
	}
	o.Result = withTask(o.Result, append(append([]byte{'"'}, handle...), '"'))
	return nil
}

// withTask is an object with another taskId.
func withTask(object, id []byte) []byte { return withMember(object, "taskId", id) }

// withMember is an object with another value of a member.
func withMember(object []byte, member string, value []byte) []byte {
	out := append(make([]byte, 0, len(object)+len(member)+len(value)+4), '{')
	out = jsonrpc.AppendMembers(out, object, func(name []byte) bool { return string(name) == member })
	if len(out) > 1 {
		out = append(out, ',')
	}
	out = append(append(append(out, '"'), member...), `":`...)
	return append(append(out, value...), '}')
}

// withHandles is what a modern server tells a listener, with the ids by which the
// client knows its tasks.
func (r *routeRound) withHandles(notification []byte) []byte {
	params := jsonrpc.Get(notification, "params")
	method, _ := jsonrpc.Unquote(jsonrpc.Get(notification, "method"))
	switch method {
	case mcp.NotifyTask:
		id, _ := jsonrpc.Unquote(jsonrpc.Get(params, "taskId"))
		if handle := r.handles[id]; handle != nil {
			return withMember(notification, "params", withTask(params, handle))
		}
	case mcp.NotifyAcknowledged:
		agreed := jsonrpc.Get(params, "notifications")
		ids := []byte{'['}
		for list := jsonrpc.Array(jsonrpc.Get(agreed, "taskIds")); list.Next(); {
			id, _ := jsonrpc.Unquote(list.Value())
			if handle := r.handles[id]; handle != nil {
				if len(ids) > 1 {
					ids = append(ids, ',')
				}
				ids = append(ids, handle...)
			}
		}
		return withMember(notification, "params", withMember(params, "notifications", withMember(agreed, "taskIds", append(ids, ']'))))
	}
	return notification
}

// aboutTask reports whether the round is about a modern server's task whose id is
// sealed in its handle.
func (r *routeRound) aboutTask() bool { return r.state != nil && r.state.Born != 0 }

// askForTask makes of a request what the server gets, which knows its own id.
func (r *routeRound) askForTask() *legacy.Request {
	id, _ := jsonrpc.Unquote(r.state.Inner) // it has been held to be a string
	return r.requestFor(withTask(r.req.Params, r.state.Inner), []byte(id))
}
