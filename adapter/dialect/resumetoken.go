package dialect

import (
	"time"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// ResumeToken is "Resume tokens for long-running operations": a call that takes
// long answers with a token and nothing else, and the same request with the token
// gets the result or the next token, also after its connection was lost. Nothing can be asked, because there is no
// form for a question.
type ResumeToken struct {
	// After is how long a tool call may take before its client gets a token.
	After time.Duration
}

// Name returns "resume-token".
func (ResumeToken) Name() string { return NameResumeToken }

// Modern returns false.
func (ResumeToken) Modern() bool { return false }

const resumeTokenParam = "resumeToken"

// Decode reads a request.
func (d ResumeToken) Decode(msg *jsonrpc.Message, req *adapter.Request) error {
	var p params
	p.read(msg.Params)
	p.inputResponses, p.requestState = nil, nil // these are other dialects'
	if err := p.decodeProposal(msg, req, noCapabilities); err != nil {
		return err
	}
	req.Capabilities = noCapabilities
	if req.Method == mcp.MethodToolsCall {
		req.Hold, req.Stays = d.After, true
	}
	if p.resumeToken == nil {
		return nil
	}
	// The token is none of the original request's params.
	req.Params = append(jsonrpc.AppendMembers([]byte{'{'}, req.Params, func(name []byte) bool { return string(name) == resumeTokenParam }), '}')
	if !mcp.MethodTraits(req.Method).Eligible || jsonrpc.IsNull(p.resumeToken) {
		return nil
	}
	var ok bool
	if req.RequestState, ok = text(p.resumeToken); !ok {
		return invalid("params.resumeToken must be a string")
	}
	return nil
}

// AppendOutcome appends the response of a round. A result with a token has no
// payload.
func (ResumeToken) AppendOutcome(dst, id []byte, o *adapter.Outcome) []byte {
	dst, ok := appendProposal(dst, id, o)
	if ok {
		return dst
	}
	payload := "content"
	switch o.Method {
	case mcp.MethodPromptsGet:
		payload = "messages"
	case mcp.MethodResourcesRead:
		payload = "contents"
	}
	dst = append(append(append(appendStart(dst, id), `,"result":{"`...), payload...), `":[],"nextResumeToken":"`...)
	return append(append(dst, o.State...), `"}}`...)
}
