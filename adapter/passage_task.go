package adapter

import (
	"strconv"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// Where an upstream has several endpoints, a modern server's task id goes out
// sealed in a handle of ours, as its request states do: what is asked about the
// task goes to the endpoint that has it.

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
func withTask(object, id []byte) []byte {
	out := append(make([]byte, 0, len(object)+len(id)+16), '{')
	out = jsonrpc.AppendMembers(out, object, func(name []byte) bool { return string(name) == "taskId" })
	if len(out) > 1 {
		out = append(out, ',')
	}
	return append(append(append(out, `"taskId":`...), id...), '}')
}

// aboutTask reports whether the round is about a modern server's task whose id is
// sealed in its handle.
func (r *routeRound) aboutTask() bool { return r.state != nil && r.state.Born != 0 }

// askForTask makes of a request what the server gets, which knows its own id.
func (r *routeRound) askForTask() *legacy.Request {
	id, _ := jsonrpc.Unquote(r.state.Inner) // it has been held to be a string
	return r.requestFor(withTask(r.req.Params, r.state.Inner), []byte(id))
}
