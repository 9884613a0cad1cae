package proxy

import (
	"bytes"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// header is what the proxy reads of a request's header section. It reads the
// section as it came, because fasthttp keeps only the last of two
// Content-Types and adds the fields of a chunked body's trailer. The slices
// alias the section.
type header struct {
	contentType, origin      single
	authorization, principal single
	version, method, name    single
	dialect                  single
	encoding                 []byte
	accept                   accept
	params                   []field // Mcp-Param-* without their prefix

	repeated    string // a field of HTTP that must stand once and stands twice
	repeatedMCP string // the same of MCP
	folded      bool   // a line continues the one before
	traced      bool   // it has a field of the W3C trace context
	tooMany     bool   // more Mcp-Param-* than any tool has
	decoded     []byte // room for what the Base64 sentinel hides
}

// single is a field that may stand once.
type single struct {
	value []byte
	seen  bool
}

type field struct{ name, value []byte }

// maxParams bounds the Mcp-Param-* fields that are compared with each other;
// mcp.ParamRules allows a tool half as many.
const maxParams = 128

// reset makes h ready for the next request and keeps its memory.
func (h *header) reset() {
	*h = header{params: h.params[:0], decoded: h.decoded[:0]}
}

// read walks the header section once. fasthttp has accepted it: names are
// tokens, values have no control character but the tab.
//
// Hot: once per request.
func (h *header) read(section []byte, principal string) {
	for len(section) > 0 {
		line := section
		if i := bytes.IndexByte(section, '\n'); i >= 0 {
			line, section = section[:i], section[i+1:]
		} else {
			section = nil
		}
		if len(line) > 0 && line[len(line)-1] == '\r' {
			line = line[:len(line)-1]
		}
		if len(line) == 0 {
			continue
		}
		if line[0] == ' ' || line[0] == '\t' {
			h.folded = true
			return
		}
		colon := bytes.IndexByte(line, ':')
		if colon < 0 {
			continue
		}
		h.take(line[:colon], trim(line[colon+1:]), principal)
	}
}

// take looks at one field. The switch on length keeps the comparisons few.
func (h *header) take(name, value []byte, principal string) {
	if len(name) == len(principal) && principal != "" && fold(name, principal) {
		h.principal.take(value, &h.repeated, "the principal header")
	}
	switch len(name) {
	case len("Accept"):
		switch {
		case fold(name, "Accept"):
			h.accept.read(value)
		case fold(name, "Origin"):
			h.origin.take(value, &h.repeated, "Origin")
		}
	case len(mcp.HeaderName):
		if fold(name, mcp.HeaderName) {
			h.name.take(value, &h.repeatedMCP, mcp.HeaderName)
		}
	case len(mcp.HeaderMethod):
		if fold(name, mcp.HeaderMethod) {
			h.method.take(value, &h.repeatedMCP, mcp.HeaderMethod)
		}
		h.traced = h.traced || fold(name, traceFields[1])
	case len(traceFields[0]):
		h.traced = h.traced || fold(name, traceFields[0])
	case len(traceFields[2]):
		h.traced = h.traced || fold(name, traceFields[2])
	case len("Content-Type"):
		if fold(name, "Content-Type") {
			h.contentType.take(value, &h.repeated, "Content-Type")
		}
	case len("Authorization"):
		if fold(name, "Authorization") {
			h.authorization.take(value, &h.repeated, "Authorization")
		}
	case len("Content-Encoding"):
		if fold(name, "Content-Encoding") {
			h.encoding = value
		}
		if fold(name, mcp.HeaderDialect) {
			h.dialect.take(value, &h.repeated, mcp.HeaderDialect)
		}
	case len(mcp.HeaderProtocolVersion):
		if fold(name, mcp.HeaderProtocolVersion) {
			h.version.take(value, &h.repeatedMCP, "MCP-Protocol-Version")
		}
	}
	if n := len(mcp.HeaderParamPrefix); len(name) > n && fold(name[:n], mcp.HeaderParamPrefix) {
		h.param(name[n:], value)
	}
}

func (s *single) take(value []byte, repeated *string, name string) {
	if s.seen {
		*repeated = name
		return
	}
	s.value, s.seen = value, true
}

func (h *header) param(name, value []byte) {
	if len(h.params) == maxParams {
		h.tooMany = true
		return
	}
	for i := range h.params {
		if bytes.EqualFold(h.params[i].name, name) {
			h.repeatedMCP = mcp.HeaderParamPrefix + string(name)
			return
		}
	}
	h.params = append(h.params, field{name, value})
}

// traceFields go upstream from every request, so that a trace does not end
// here.
var traceFields = mcp.TraceFields

// forward collects the fields of a header section that go upstream, copied.
func forward(section []byte, names []string) []adapter.Field {
	var fields []adapter.Field
	for line := range bytes.Lines(section) {
		name, value, ok := bytes.Cut(line, []byte{':'})
		if !ok {
			continue
		}
		for _, want := range names {
			if fold(name, want) {
				fields = append(fields, adapter.Field{Name: want, Value: string(trim(bytes.TrimRight(value, "\r\n")))})
			}
		}
	}
	return fields
}

// fold compares a field's name with one in ASCII.
func fold(name []byte, want string) bool {
	if len(name) != len(want) {
		return false
	}
	for i := range len(want) {
		a, b := name[i], want[i]
		if a == b {
			continue
		}
		if a|0x20 != b|0x20 || a|0x20 < 'a' || a|0x20 > 'z' {
			return false
		}
	}
	return true
}

// trim takes optional white space off a field's value (RFC 9110, section 5.6.3).
func trim(value []byte) []byte {
	for len(value) > 0 && (value[0] == ' ' || value[0] == '\t') {
		value = value[1:]
	}
	for len(value) > 0 && (value[len(value)-1] == ' ' || value[len(value)-1] == '\t') {
		value = value[:len(value)-1]
	}
	return value
}
