package dialect

import (
	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// What the proposals have in common: they predate the modern envelope, so that
// _meta and what is in it are optional, and a complete result is the server's
// own.

// noCapabilities are those of a client that cannot be asked anything.
var noCapabilities = []byte(`{}`)

// decodeProposal reads a request whose _meta is optional. caps are what a client
// has that declares no capabilities.
func (p *params) decodeProposal(msg *jsonrpc.Message, req *adapter.Request, caps []byte) error {
	req.Method, req.ID, req.Params, req.Meta = msg.Method, msg.ID, msg.Params, p.meta
	traits := mcp.MethodTraits(msg.Method)
	if !traits.Known || traits.Task {
		return unknownMethod(msg.Method, p)
	}
	if p.watchesTasks(msg.Method) {
		return p.noTasksHere()
	}
	return p.decodeOptional(traits, req, caps)
}

func (p *params) decodeOptional(traits mcp.Traits, req *adapter.Request, caps []byte) error {
	req.Bare = true
	if req.Params == nil {
		req.Params = []byte(`{}`)
	}
	if err := p.decodeMeta(req); err != nil {
		return err
	}
	if req.Capabilities == nil {
		req.Capabilities = caps
	}
	return p.decode(traits, req)
}

// appendProposal appends the response of a round that has ended with an answer
// of the server, which is passed on as it is. It reports false for the outcomes
// that each proposal has a form of its own for.
func appendProposal(dst, id []byte, o *adapter.Outcome) ([]byte, bool) {
	switch {
	case o.Error != nil:
		dst = append(append(appendStart(dst, id), `,"error":`...), o.Error...)
	case jsonrpc.IsObject(o.Result):
		dst = appendBareResult(append(appendStart(dst, id), `,"result":`...), o)
	case o.Result != nil:
		dst = appendNoObject(appendStart(dst, id))
	default:
		return dst, false
	}
	return append(dst, '}'), true
}

func appendStart(dst, id []byte) []byte {
	return append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
}

// appendBareResult writes a complete result without what the modern revision adds.
func appendBareResult(dst []byte, o *adapter.Outcome) []byte {
	m := readResult(o, false)
	if !m.rewrite {
		return append(dst, o.Result...)
	}
	dst = append(dst, '{')
	for c := jsonrpc.Object(o.Result); c.Next(); {
		value := c.Value()
		start := len(dst)
		if dst[start-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(append(dst, c.RawName()...), ':')
		switch string(c.Name()) {
		case "resultType", "task":
			dst = dst[:start]
		case "_meta":
			own := jsonrpc.AppendMembers(nil, value, func(name []byte) bool { return string(name) == mcp.MetaRelatedTask })
			if jsonrpc.IsObject(value) && len(own) == 0 {
				dst = dst[:start]
				continue
			}
			dst = append(append(append(dst, '{'), own...), '}')
		case "tools":
			if m.tools {
				dst = appendTools(dst, value)
				continue
			}
			dst = append(dst, value...)
		default:
			dst = append(dst, value...)
		}
	}
	return append(dst, '}')
}

// appendInputs appends the members of a map of input requests.
func appendInputs(dst []byte, inputs []adapter.Input) []byte {
	for i := range inputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsonrpc.AppendQuote(dst, inputs[i].Key), ':')
		dst = appendInput(dst, &inputs[i])
	}
	return dst
}

func appendInput(dst []byte, in *adapter.Input) []byte {
	dst = append(dst, `{"method":`...)
	dst = jsonrpc.AppendQuote(dst, in.Method)
	// Never without params: real clients cannot parse a roots/list without.
	dst = append(dst, `,"params":`...)
	dst = appendInputParams(dst, in)
	return append(dst, '}')
}

func appendInputParams(dst []byte, in *adapter.Input) []byte {
	if len(in.Params) == 0 {
		return append(dst, `{}`...)
	}
	return append(dst, in.Params...)
}

// wrapped refuses input responses that are not each {"result": …} or
// {"error": …}, as the member of that name has them.
func wrapped(member string, responses []byte) error {
	if !jsonrpc.IsObject(responses) {
		return invalid("%s must be an object", member)
	}
	for c := jsonrpc.Object(responses); c.Next(); {
		if !isResponse(c.Value()) {
			return invalid("each of %s must be an object with a result or an error", member)
		}
	}
	return nil
}

func isResponse(raw []byte) bool {
	if !jsonrpc.IsObject(raw) {
		return false
	}
	return jsonrpc.Get(raw, "result") != nil != (jsonrpc.Get(raw, "error") != nil)
}
