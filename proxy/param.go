package proxy

import (
	"bytes"
	"math"
	"strconv"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// CheckParams holds the request's Mcp-Param-* headers against the arguments
// that a tool's rules mirror. Headers that no rule knows are ignored.
// Its errors are *adapter.Refusal. It may be called until the round's Close.
//
// Hot: once per call of a tool that has rules.
func (h *header) CheckParams(rules []mcp.ParamRule, args []byte) error {
	for i := range rules {
		if err := h.checkParam(&rules[i], args); err != nil {
			return err
		}
	}
	return nil
}

// Fields are the Mcp-Param-* headers as another replica needs them.
func (h *header) Fields() []adapter.Field {
	var fields []adapter.Field
	for _, p := range h.params {
		fields = append(fields, adapter.Field{Name: string(p.name), Value: string(p.value)})
	}
	return fields
}

// ParamHeaders makes of Fields what they came from.
func ParamHeaders(fields []adapter.Field) adapter.ParamChecker {
	h := new(header)
	for _, f := range fields[:min(len(fields), maxParams)] {
		h.params = append(h.params, field{[]byte(f.Name), []byte(f.Value)})
	}
	return h
}

func (h *header) checkParam(rule *mcp.ParamRule, args []byte) error {
	value, seen := h.peekParam(rule.Header)
	arg := args
	for _, name := range rule.Path {
		if arg = jsonrpc.Get(arg, name); arg == nil {
			break
		}
	}
	if arg == nil || jsonrpc.IsNull(arg) {
		if seen {
			return mismatch("%s is there, but its argument is not", rule.Header)
		}
		return nil
	}
	if !seen {
		return mismatch("%s is missing, and its argument is there", rule.Header)
	}
	text, room, err := decodeValue(value, h.decoded)
	h.decoded = room
	if err != nil {
		return mismatch("%s %v", rule.Header, err)
	}
	var same bool
	switch rule.Type {
	case "string":
		same = sameString(text, arg)
	case "integer":
		same = sameInteger(text, arg)
	case "boolean":
		same = (string(text) == "true" || string(text) == "false") && bytes.Equal(text, arg)
	}
	if !same {
		return mismatch("%s differs from its argument", rule.Header)
	}
	return nil
}

func (h *header) peekParam(name string) ([]byte, bool) {
	name = name[len(mcp.HeaderParamPrefix):]
	for i := range h.params {
		if fold(h.params[i].name, name) {
			return h.params[i].value, true
		}
	}
	return nil, false
}

func sameString(text, arg []byte) bool {
	if !jsonrpc.IsString(arg) {
		return false
	}
	if bytes.IndexByte(arg, '\\') < 0 {
		return bytes.Equal(text, arg[1:len(arg)-1])
	}
	s, ok := jsonrpc.Unquote(arg)
	return ok && s == string(text)
}

// maxSafe is the largest integer that every JSON implementation reads as
// itself (RFC 8259, section 6).
const maxSafe = 1<<53 - 1

// sameInteger compares numerically, so that 42.0 is 42.
func sameInteger(text, arg []byte) bool {
	a, ok := safeInteger(text)
	if !ok {
		return false
	}
	b, ok := safeInteger(arg)
	return ok && a == b
}

// safeInteger reads a number as JSON spells it, so that 007 is none.
func safeInteger(text []byte) (int64, bool) {
	if plainInteger(text) {
		n, err := strconv.ParseInt(string(text), 10, 64)
		return n, err == nil && -maxSafe <= n && n <= maxSafe
	}
	if len(text) == 0 || text[0] != '-' && (text[0] < '0' || text[0] > '9') || jsonrpc.Validate(text, jsonrpc.Strict, 1) != nil {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > maxSafe {
		return 0, false
	}
	return int64(f), true
}

// plainInteger reports whether text is digits alone, without a leading zero.
func plainInteger(text []byte) bool {
	if len(text) > 0 && text[0] == '-' {
		text = text[1:]
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(text) > 0 && (text[0] != '0' || len(text) == 1)
}
