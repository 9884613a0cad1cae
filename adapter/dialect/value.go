package dialect

import (
	"bytes"
	"fmt"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// text returns the text of a JSON string, aliasing raw unless it has escapes.
func text(raw []byte) ([]byte, bool) {
	if !jsonrpc.IsString(raw) {
		return nil, false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], true
	}
	s, ok := jsonrpc.Unquote(raw)
	return []byte(s), ok
}

// integer reports whether a valid JSON value is a number without fraction and
// exponent.
func integer(raw []byte) bool {
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return false
	}
	return !bytes.ContainsAny(raw, ".eE")
}

// implementation reports whether raw is what clientInfo must be.
func implementation(raw []byte) bool {
	var name, version bool
	for c := jsonrpc.Object(raw); c.Next(); {
		switch string(c.Name()) {
		case "name":
			name = jsonrpc.IsString(c.Value())
		case "version":
			version = jsonrpc.IsString(c.Value())
		}
	}
	return name && version
}

func invalid(format string, args ...any) error {
	return &adapter.Refusal{Reason: adapter.ReasonInvalidParams, Detail: fmt.Sprintf(format, args...)}
}

// maxEcho bounds what an error repeats of a client's own text.
const maxEcho = 64

// unsupported is the UnsupportedProtocolVersionError (basic/versioning,
// "Protocol Version Negotiation").
func unsupported(requested []byte) error {
	if len(requested) > maxEcho {
		requested = requested[:maxEcho]
	}
	data := append([]byte(`{"supported":["`+mcp.Modern+`"],"requested":`), jsonrpc.AppendQuote(nil, string(requested))...)
	return &jsonrpc.Error{
		Code:    mcp.CodeUnsupportedVersion,
		Message: "Unsupported protocol version: this server supports " + mcp.Modern,
		Data:    append(data, '}'),
	}
}

// UnsupportedVersion is the error for a version that is not spoken to clients.
func UnsupportedVersion(requested []byte) error { return unsupported(requested) }

// unknownMethod answers a method that the revision does not have. The answer to
// initialize names the supported version, because it may be all that a
// legacy client can show its user (basic/versioning, "Backward Compatibility").
func unknownMethod(method string, p *params) error {
	if method != mcp.MethodInitialize {
		if len(method) > maxEcho {
			method = method[:maxEcho]
		}
		return &adapter.Refusal{
			Reason: adapter.ReasonMethodNotFound,
			Detail: fmt.Sprintf("Method not found: %q is no method of %s", method, mcp.Modern),
		}
	}
	if p.version == nil {
		requested, _ := text(p.legacyVersion)
		return unsupported(requested)
	}
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeMethodNotFound,
		Message: "Method not found: " + mcp.Modern + ", the version that this server supports, has no initialize",
		Data:    []byte(`{"reason":"` + string(adapter.ReasonMethodNotFound) + `","supported":["` + mcp.Modern + `"]}`),
	}
}
