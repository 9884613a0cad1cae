package dialect

import (
	"bytes"
	"strconv"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Resumable is "Transport-agnostic Resumable Requests" (SEP-975): the answer of a
// request that takes its time is a stream that begins with a token, and a client
// that has lost the stream goes on with it by that token and the request's id.
// Questions are JSON-RPC requests on the stream; the id of each carries the token,
// so that the response, which the client posts by itself, finds its call.
//
// A posted response has no place for a clientInfo, so that this counts for nothing
// in any message of the dialect: callers without credentials are one.
type Resumable struct {
	// Capabilities are what a client has that declares none, as raw JSON.
	Capabilities []byte
	// MaxWait is how long a client may be away; it is told in whole seconds.
	MaxWait time.Duration
	// Life is how long the token of a request is good at most.
	Life time.Duration

	enveloped bool // it is of a request with the modern envelope
}

// Name returns "resumable".
func (Resumable) Name() string { return NameResumable }

// Modern reports whether the dialect is that of a modern request, which keeps the
// rules of one.
func (d Resumable) Modern() bool { return d.enveloped }

var resumableCapability = []byte(`"` + mcp.CapabilityResumable + `"`)

// declaresResumable reports whether capabilities have the dialect's own.
//
// Hot: once per request.
func declaresResumable(capabilities []byte) bool {
	return bytes.Contains(capabilities, resumableCapability) && jsonrpc.Get(capabilities, mcp.CapabilityResumable) != nil
}

// Decode reads a request.
func (d Resumable) Decode(msg *jsonrpc.Message, req *adapter.Request) error {
	var p params
	p.read(msg.Params)
	p.inputResponses, p.requestState = nil, nil // these are other dialects'
	switch msg.Method {
	case mcp.MethodResume:
		return d.decodeAbout(&p, msg, msg.ID, req)
	case mcp.MethodStatus:
		return d.decodeAbout(&p, msg, jsonrpc.Get(msg.Params, "requestId"), req)
	}
	if err := d.decodeCall(&p, msg, req); err != nil {
		return err
	}
	req.ClientInfo = nil
	if mcp.MethodTraits(msg.Method).Eligible {
		req.Lasting, req.Away = d.Life, d.MaxWait
	}
	return nil
}

// decodeCall reads a request that there is without the dialect, too. One with the
// modern envelope may go to a modern server.
func (d Resumable) decodeCall(p *params, msg *jsonrpc.Message, req *adapter.Request) error {
	switch {
	case p.version == nil:
		return p.decodeProposal(msg, req, d.Capabilities)
	case p.watchesTasks(msg.Method):
		return p.noTasksHere()
	}
	return p.decodeModern(msg, req)
}

// decodeAbout reads a message about the request that had an id.
func (d Resumable) decodeAbout(p *params, msg *jsonrpc.Message, original []byte, req *adapter.Request) error {
	req.Method, req.ID, req.Params, req.Meta = msg.Method, msg.ID, []byte(`{}`), p.meta
	if version, ok := text(p.version); ok && string(version) != mcp.Modern {
		return unsupported(version)
	}
	if err := p.decodeMeta(req); err != nil {
		return err
	}
	if req.ClientInfo = nil; req.Capabilities == nil {
		req.Capabilities = d.Capabilities
	}
	if !jsonrpc.IsString(original) && !integer(original) {
		return invalid("params.requestId must be the id of the request that is meant")
	}
	var ok bool
	if req.RequestState, ok = text(p.resumeToken); !ok {
		return invalid("params.resumeToken must be a string")
	}
	req.Original = original
	return nil
}

// decodeResponse reads a response to a question. It reports false where its id is
// not that of one.
func (d Resumable) decodeResponse(msg *jsonrpc.Message, req *adapter.Request) bool {
	id, ok := text(msg.ID)
	at := bytes.LastIndexByte(id, tilde)
	if !ok || at < 0 || len(id)-at-1 < minState {
		return false
	}
	req.Method, req.ID, req.Params = mcp.MethodAnswer, msg.ID, []byte(`{}`)
	req.Capabilities = d.Capabilities
	req.RequestState = id[at+1:]
	req.Wrapped = true
	answers := append(jsonrpc.AppendQuote([]byte{'{'}, string(id[:at])), ':')
	if msg.Error != nil {
		answers = append(append(answers, `{"error":`...), msg.Error...)
	} else {
		answers = append(append(answers, `{"result":`...), msg.Result...)
	}
	req.InputResponses = append(answers, "}}"...)
	return true
}

// decodeCancelled reads notifications/cancelled that names a request by its token:
// an id alone may be another client's. It reports false where there is none.
func (d Resumable) decodeCancelled(msg *jsonrpc.Message, req *adapter.Request) (bool, error) {
	var p params
	if p.read(msg.Params); p.resumeToken == nil {
		return false, nil
	}
	err := d.decodeAbout(&p, msg, jsonrpc.Get(msg.Params, "requestId"), req)
	req.Method = mcp.MethodCancel
	return true, err
}

// AppendOutcome appends the response of a round.
func (d Resumable) AppendOutcome(dst, id []byte, o *adapter.Outcome) []byte {
	if o.Raw {
		return MRTR{}.AppendOutcome(dst, id, o)
	}
	if s := o.Standing; s != nil {
		dst = append(append(appendStart(dst, id), `,"result":{"status":"`...), s.Status.String()...)
		dst = strconv.AppendInt(append(dst, `","pendingMessages":`...), int64(s.Waiting), 10)
		return append(appendMaxWait(dst, s), "}}"...)
	}
	dst, ok := appendProposal(dst, id, o)
	if ok {
		return dst
	}
	return append(appendStart(dst, id), noForm...) // the engine has no such outcome for one who follows
}

const noForm = `,"error":{"code":-32603,"message":"Internal error","data":{"reason":"internal"}}}`

// AppendStanding appends what a client is told that follows its request: the
// token, or a question.
func (d Resumable) AppendStanding(dst, id []byte, o *adapter.Outcome) []byte {
	if len(o.Inputs) == 0 {
		dst = append(append(dst, `{"jsonrpc":"2.0","method":"`+mcp.NotifyResumePolicy+`","params":{"requestId":`...), id...)
		dst = append(append(append(dst, `,"resumeToken":"`...), o.Standing.Handle...), '"')
		return append(appendMaxWait(dst, o.Standing), "}}"...)
	}
	in := &o.Inputs[0]
	dst = jsonrpc.AppendQuote(append(dst, `{"jsonrpc":"2.0","id":`...), in.Key+string(tilde)+string(o.Standing.Handle))
	rest := appendInput(nil, in)
	return append(append(dst, ','), rest[1:]...)
}

func appendMaxWait(dst []byte, s *adapter.Standing) []byte {
	return strconv.AppendInt(append(dst, `,"maxWait":`...), int64(s.Away/time.Second), 10)
}
