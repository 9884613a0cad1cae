package dialect

import (
	"bytes"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// DependentRequests is the "Streamless Round-Trip" sketch: a response that has
// dependent_requests in the place of a result, and a retry with
// dependent_responses beside its params. There is no token, so that the request
// state rides in the first key, which the client gives back with the answer.
type DependentRequests struct {
	// Capabilities are what a client has that declares none, as raw JSON.
	Capabilities []byte
}

// Name returns "dependent-requests".
func (DependentRequests) Name() string { return NameDependentRequests }

// Modern returns false.
func (DependentRequests) Modern() bool { return false }

const (
	// tilde is between a key and the request state that rides in it. A request
	// state has none.
	tilde = '~'
	// waitKey is the key of a request that is there for the state's sake alone.
	waitKey = "wait"
	// minState tells a request state from what a server may have put behind a tilde
	// of its own: every state is longer.
	minState = 96
)

// Decode reads a request.
func (d DependentRequests) Decode(msg *jsonrpc.Message, req *adapter.Request) error {
	var p params
	p.read(msg.Params)
	p.inputResponses, p.requestState = nil, nil // these are other dialects'
	if err := p.decodeProposal(msg, req, d.Capabilities); err != nil {
		return err
	}
	if msg.Dependent == nil || !mcp.MethodTraits(msg.Method).Eligible {
		return nil
	}
	if err := wrapped("dependent_responses", msg.Dependent); err != nil {
		return err
	}
	req.Wrapped = true
	var err error
	req.InputResponses, req.RequestState, err = takeState(msg.Dependent)
	return err
}

// takeState takes the request state off the key that it rides in. Where no key
// has one, the request is a first one that brings answers along.
func takeState(responses []byte) (plain, state []byte, err error) {
	plain = append(make([]byte, 0, len(responses)), '{')
	for c := jsonrpc.Object(responses); c.Next(); {
		if len(plain) > 1 {
			plain = append(plain, ',')
		}
		key := c.Name()
		at := bytes.LastIndexByte(key, tilde)
		if state == nil && at >= 0 && len(key)-at-1 >= minState {
			state = bytes.Clone(key[at+1:])
			if jsonrpc.Get(responses, string(key[:at])) != nil {
				return nil, nil, invalid("dependent_responses has %.64q twice", key[:at])
			}
			plain = jsonrpc.AppendQuote(plain, string(key[:at]))
		} else {
			plain = append(plain, c.RawName()...)
		}
		plain = append(append(plain, ':'), c.Value()...)
	}
	return append(plain, '}'), state, nil
}

// AppendOutcome appends the response of a round. Where nothing is asked, a ping
// carries the state: the one request that every client can answer.
func (DependentRequests) AppendOutcome(dst, id []byte, o *adapter.Outcome) []byte {
	dst, ok := appendProposal(dst, id, o)
	if ok {
		return dst
	}
	dst = append(appendStart(dst, id), `,"dependent_requests":{`...)
	inputs := o.Inputs
	if len(inputs) == 0 {
		inputs = []adapter.Input{{Key: waitKey, Method: mcp.MethodPing}}
	}
	dst = jsonrpc.AppendQuote(dst, inputs[0].Key+string(tilde)+string(o.State))
	dst = appendInput(append(dst, ':'), &inputs[0])
	if len(inputs) > 1 {
		dst = appendInputs(append(dst, ','), inputs[1:])
	}
	return append(dst, `}}`...)
}
