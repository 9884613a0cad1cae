package adapter

import (
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// A client that does not send its original request again (Request.Carried)
// carries it in the request state. It sends all its answers every time instead,
// so that of these the state needs digests only.

// growth is how much longer the text of a request state may become after the
// first, beside what is left out where there is no room for it.
const growth = 64

// carry keeps what of a request its request states are to carry, unless there is
// no room for it.
func (c *call) carry(req *Request) error {
	c.carried = append(jsonrpc.AppendMembers([]byte{'{'}, req.Params, isPerRound), '}')
	t := state.Token{Owner: c.engine.settings.Replica, Upstream: c.up.Name, Method: c.method, Params: c.carried}
	if len(c.engine.ring.Seal(nil, &t))+growth > c.engine.settings.MaxState {
		return refuse(ReasonInvalidParams, "the request is too large for the token that carries it from round to round (state.max_bytes)")
	}
	return nil
}

// restore makes a request of one that its request state carries.
func (req *Request) restore(t *state.Token) error {
	if t.Params == nil {
		return refuse(ReasonStateInvalid, "the request state carries no request: it was given to a client that sends its request every time")
	}
	if err := req.responses().agree(t.Transcript); err != nil {
		return err
	}
	req.Method, req.Params = t.Method, t.Params
	req.Name, req.Args, req.NullArgs = nil, nil, false
	if name, ok := jsonrpc.Unquote(jsonrpc.Get(t.Params, mcp.MethodTraits(t.Method).NameField)); ok {
		req.Name = []byte(name)
	}
	args := jsonrpc.Get(t.Params, "arguments")
	if jsonrpc.IsNull(args) {
		args, req.NullArgs = nil, true
	}
	if req.Method == mcp.MethodToolsCall {
		req.Args = args
	}
	return nil
}
