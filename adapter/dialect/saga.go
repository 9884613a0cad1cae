package dialect

import (
	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Saga is "tool calling as re-entrant sagas": tools/callSaga begins a call, and
// tools/resumeSaga goes on with it. The original request is not sent again, so
// that the token carries it; all steps that were completed are sent every time.
//
// Other methods, tools/call among them, are served to a client that can be asked
// nothing: there is no form for it.
type Saga struct {
	// Capabilities are what a client has that declares none, as raw JSON; roots
	// count for nothing, because no step asks for them.
	Capabilities []byte
}

// Name returns "saga".
func (Saga) Name() string { return NameSaga }

// Modern returns false.
func (Saga) Modern() bool { return false }

// Types of a step.
const (
	stepElicitation = "elicitation"
	stepSampling    = "sampling"
)

// Decode reads a request.
func (d Saga) Decode(msg *jsonrpc.Message, req *adapter.Request) error {
	var p params
	p.read(msg.Params)
	p.inputResponses, p.requestState = nil, nil // these are other dialects'
	switch msg.Method {
	case mcp.MethodCallSaga:
		req.Carried = true
		return d.decodeAs(&p, msg, req)
	case mcp.MethodResumeSaga:
		return d.decodeResume(&p, msg, req)
	}
	if err := p.decodeProposal(msg, req, noCapabilities); err != nil {
		return err
	}
	req.Capabilities = noCapabilities
	return nil
}

// decodeAs reads params that are those of tools/call.
func (d Saga) decodeAs(p *params, msg *jsonrpc.Message, req *adapter.Request) error {
	req.Method, req.ID, req.Params, req.Meta = mcp.MethodToolsCall, msg.ID, msg.Params, p.meta
	if err := p.decodeOptional(mcp.MethodTraits(mcp.MethodToolsCall), req, d.Capabilities); err != nil {
		return err
	}
	if jsonrpc.Get(req.Capabilities, "roots") != nil {
		caps := jsonrpc.AppendMembers([]byte{'{'}, req.Capabilities, func(name []byte) bool { return string(name) == "roots" })
		req.Capabilities = append(caps, '}')
	}
	return nil
}

func (d Saga) decodeResume(p *params, msg *jsonrpc.Message, req *adapter.Request) error {
	p.name, p.arguments = []byte(`""`), nil // the token has them
	if err := d.decodeAs(p, msg, req); err != nil {
		return err
	}
	req.Carried, req.Wrapped, req.Name, req.Params = true, true, nil, []byte(`{}`)
	token, ok := text(jsonrpc.Get(msg.Params, "sagaToken"))
	if !ok {
		return invalid("params.sagaToken must be a string")
	}
	req.RequestState = token
	responses, err := completedSteps(jsonrpc.Get(msg.Params, "completedSteps"))
	req.InputResponses = responses
	return err
}

// completedSteps makes a map of the steps, as the engine knows answers.
func completedSteps(steps []byte) ([]byte, error) {
	const want = "params.completedSteps must be a list of objects, each with a stepId of its own and a result or an error"
	if !jsonrpc.IsArray(steps) {
		return nil, invalid(want)
	}
	out := append(make([]byte, 0, len(steps)), '{')
	seen := map[string]struct{}{}
	for c := jsonrpc.Array(steps); c.Next(); {
		step := c.Value()
		id, ok := text(jsonrpc.Get(step, "stepId"))
		if _, twice := seen[string(id)]; !ok || twice || !isResponse(step) {
			return nil, invalid(want)
		}
		seen[string(id)] = struct{}{}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(jsonrpc.AppendQuote(out, string(id)), ':')
		out = append(out, step...)
	}
	return append(out, '}'), nil
}

// AppendOutcome appends the response of a round. A saga that is suspended without
// a step may be resumed at once.
func (Saga) AppendOutcome(dst, id []byte, o *adapter.Outcome) []byte {
	dst, ok := appendProposal(dst, id, o)
	if ok {
		return dst
	}
	dst = append(appendStart(dst, id), `,"result":{"state":"suspended","sagaToken":"`...)
	dst = append(append(dst, o.State...), `","steps":[`...)
	for i := range o.Inputs {
		in := &o.Inputs[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		kind := stepElicitation
		if in.Method == mcp.MethodCreateMessage {
			kind = stepSampling
		}
		dst = append(append(append(dst, `{"type":"`...), kind...), `","stepId":`...)
		dst = append(jsonrpc.AppendQuote(dst, in.Key), `,"params":`...)
		dst = append(appendInputParams(dst, in), '}')
	}
	return append(dst, `]}}`...)
}
