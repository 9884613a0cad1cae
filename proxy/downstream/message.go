package downstream

import (
	"bytes"
	"errors"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Read checks a message of a client: strict JSON, nested at most maxDepth deep,
// that is one request or one notification. id is what an answer to it carries,
// nil when there is none or it could not be read without doubt; it may be there
// together with an error. The slices alias text.
//
// Hot: once per request.
func Read(text []byte, maxDepth int) (msg jsonrpc.Message, id []byte, err error) {
	msg, err = jsonrpc.ParseRequest(text, maxDepth)
	if msg.ID != nil && !msg.IsResponse() {
		id = msg.ID
	}
	if err == nil && msg.Method == "" {
		err = Refuse(ReasonResponse, "A client of "+mcp.Modern+" sends requests and notifications only")
	}
	return msg, id, err
}

// IsResponse reports whether Read has refused a message because it is a JSON-RPC
// response, and all else about it is right.
func IsResponse(err error) bool {
	if err == nil { // the usual case allocates nothing
		return false
	}
	var refusal *adapter.Refusal
	return errors.As(err, &refusal) && refusal.Reason == ReasonResponse
}

// OneLine takes the line breaks out of a message: a server may have put some
// into the white space of its JSON, where they mean nothing, but here they would
// end the message. Those in texts are escaped.
func OneLine(message []byte) {
	for _, brk := range []byte{'\n', '\r'} {
		for rest := message; ; {
			i := bytes.IndexByte(rest, brk)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
}
