package dialect

import (
	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

// IncompleteResult is the draft of MRTR (transports working group, "Multi
// Round-Trip Requests"): a client tells by the members of a result whether it is
// complete, and wraps each of its answers as a JSON-RPC response has it.
type IncompleteResult struct {
	// Capabilities are what a client has that declares none, as raw JSON.
	Capabilities []byte
}

// Name returns "incomplete-result".
func (IncompleteResult) Name() string { return NameIncompleteResult }

// Modern returns false.
func (IncompleteResult) Modern() bool { return false }

// Decode reads a request.
func (d IncompleteResult) Decode(msg *jsonrpc.Message, req *adapter.Request) error {
	var p params
	p.read(msg.Params)
	if err := p.decodeProposal(msg, req, d.Capabilities); err != nil {
		return err
	}
	if req.InputResponses == nil {
		return nil
	}
	req.Wrapped = true
	return wrapped("params.inputResponses", req.InputResponses)
}

// AppendOutcome appends the response of a round. An incomplete result without
// input requests says that the client may come back at once.
func (IncompleteResult) AppendOutcome(dst, id []byte, o *adapter.Outcome) []byte {
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
