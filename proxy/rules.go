package proxy

import (
	"bytes"
	"fmt"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/dialect"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// mirrors holds the standard headers against the body that they mirror (spec
// 2026-07-28, basic/transports/streamable-http, "Server Validation").
// decoded is what the dialect said of the body. What the client is told when
// several things are wrong: headers that differ come before a version that is
// not spoken, and both before the rest of the body.
//
// Hot: once per request.
func (h *header) mirrors(msg *jsonrpc.Message, req *adapter.Request, decoded error) error {
	switch {
	case h.repeatedMCP != "":
		return mismatch("%s stands twice", h.repeatedMCP)
	case h.tooMany:
		return mismatch("there are more than %d %s* headers", maxParams, mcp.HeaderParamPrefix)
	}
	if decoded != nil {
		return h.explain(msg, req, decoded)
	}
	if err := h.mirrorsMethod(msg, mcp.Modern); err != nil {
		return err
	}
	if req.Name == nil {
		return nil
	}
	if !h.name.seen {
		return mismatch("Mcp-Name is missing")
	}
	return h.mirrorsName(req)
}

// mirrorsGiven is mirrors for a dialect that predates these headers: what a client
// sends of them all the same must be true.
func (h *header) mirrorsGiven(msg *jsonrpc.Message, req *adapter.Request) error {
	switch {
	case h.repeatedMCP != "":
		return mismatch("%s stands twice", h.repeatedMCP)
	case h.tooMany:
		return mismatch("there are more than %d %s* headers", maxParams, mcp.HeaderParamPrefix)
	case h.method.seen && string(h.method.value) != msg.Method:
		return mismatch("Mcp-Method differs from the method in the body")
	case h.name.seen && req.Name != nil:
		return h.mirrorsName(req)
	}
	return nil
}

func (h *header) mirrorsName(req *adapter.Request) error {
	name, room, err := decodeValue(h.name.value, h.decoded)
	h.decoded = room
	if err != nil {
		return mismatch("Mcp-Name %v", err)
	}
	if !bytes.Equal(name, req.Name) {
		return mismatch("Mcp-Name differs from the name in the body")
	}
	return nil
}

// explain decides between what the dialect found wrong with a body and what
// is wrong with its headers.
func (h *header) explain(msg *jsonrpc.Message, req *adapter.Request, decoded error) error {
	version, inBody := jsonrpc.Unquote(jsonrpc.Get(req.Meta, mcp.MetaProtocolVersion))
	if msg.Method == mcp.MethodInitialize && !inBody {
		return decoded // a legacy client sends none of the headers
	}
	if h.version.seen && !inBody {
		if string(h.version.value) != mcp.Modern {
			return dialect.UnsupportedVersion(h.version.value)
		}
		version = mcp.Modern
	}
	if err := h.mirrorsMethod(msg, version); err != nil {
		return err
	}
	return decoded
}

func (h *header) mirrorsMethod(msg *jsonrpc.Message, version string) error {
	switch {
	case !h.version.seen:
		return mismatch("MCP-Protocol-Version is missing")
	case string(h.version.value) != version:
		return mismatch("MCP-Protocol-Version differs from %s in the body", mcp.MetaProtocolVersion)
	case version != mcp.Modern:
		return nil // what the other headers mean is that version's business
	case !h.method.seen:
		return mismatch("Mcp-Method is missing")
	case string(h.method.value) != msg.Method:
		return mismatch("Mcp-Method differs from the method in the body")
	}
	return nil
}

// mismatch never quotes a value: names and arguments may be secrets.
func mismatch(format string, args ...any) error {
	return &adapter.Refusal{Reason: adapter.ReasonHeaderMismatch, Detail: "Header mismatch: " + fmt.Sprintf(format, args...)}
}
