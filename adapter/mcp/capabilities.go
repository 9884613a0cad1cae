package mcp

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

// Capabilities are what a client declared, in the form that a legacy server is
// told them at initialize.
type Capabilities struct {
	Raw           string // canonical JSON: equal text, equal capabilities
	Form, URL     bool   // elicitation modes
	Sampling      bool
	SamplingTools bool
	Roots         bool
}

// ParseCapabilities reads the clientCapabilities of a request's _meta, which
// must be valid JSON.
func ParseCapabilities(raw []byte) (*Capabilities, error) {
	if !jsonrpc.IsObject(raw) {
		return nil, fmt.Errorf("%s is not an object", MetaClientCapabilities)
	}
	c := &Capabilities{}
	object := jsonrpc.Object(raw)
	for object.Next() {
		name, value := object.Name(), object.Value()
		switch string(name) {
		case "elicitation", "sampling", "roots", "experimental", "extensions":
			if !jsonrpc.IsObject(value) {
				return nil, fmt.Errorf("capability %s is not an object", name)
			}
		}
		switch string(name) {
		case "elicitation":
			c.URL = jsonrpc.IsObject(jsonrpc.Get(value, "url"))
			// An empty object declares form mode only: spec, client/elicitation.
			c.Form = jsonrpc.IsObject(jsonrpc.Get(value, "form")) || !c.URL
		case "sampling":
			c.Sampling = true
			c.SamplingTools = jsonrpc.IsObject(jsonrpc.Get(value, "tools"))
		case "roots":
			c.Roots = true
		}
	}
	canonical, err := legacyCapabilities(raw)
	if err != nil {
		return nil, err
	}
	c.Raw = string(canonical)
	return c, nil
}

// legacyCapabilities leaves out what must not reach a legacy server (see
// differences): its own tasks, and the extension that replaces them, which a
// modern client speaks; what a proposal has for the client's way to us; and that it would be told when the roots change.
func legacyCapabilities(raw []byte) ([]byte, error) {
	text := []byte{'{'}
	for c := jsonrpc.Object(raw); c.Next(); {
		value := c.Value()
		switch string(c.Name()) {
		case "tasks", CapabilityResumable:
			continue
		case "roots":
			value = without(value, "listChanged")
		case "extensions":
			value = without(value, ExtensionTasks)
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(append(append(text, c.RawName()...), ':'), value...)
	}
	value := jsontext.Value(append(text, '}'))
	if err := value.Canonicalize(); err != nil {
		return nil, fmt.Errorf("capabilities: %w", err)
	}
	return bytes.Clone(value), nil
}

// Declared is what initialize declares: what the client can be asked, and that
// it may be asked as tasks, which are not the client's but ours (see Tasks).
func (c *Capabilities) Declared() []byte {
	out := []byte(c.Raw)
	if !c.Form && !c.URL && !c.Sampling {
		return out
	}
	out = append(bytes.TrimSuffix(out, []byte("}")), `,"tasks":{"cancel":{},"requests":{`...)
	if c.Form || c.URL {
		out = append(out, `"elicitation":{"create":{}}`...)
	}
	if c.Sampling {
		if c.Form || c.URL {
			out = append(out, ',')
		}
		out = append(out, `"sampling":{"createMessage":{}}`...)
	}
	return append(out, "}}}"...)
}

// without is an object without one member.
func without(object []byte, name string) []byte {
	out := jsonrpc.AppendMembers([]byte{'{'}, object, func(n []byte) bool { return string(n) == name })
	return append(out, '}')
}

// Bits are what the client can be asked, short enough to be kept anywhere.
func (c *Capabilities) Bits() (bits byte) {
	for i, has := range [...]bool{c.Form, c.URL, c.Sampling, c.SamplingTools, c.Roots} {
		if has {
			bits |= 1 << i
		}
	}
	return bits
}

// CapabilitiesOf are capabilities that have these Bits, as a client declares them.
// Unknown bits count for nothing.
func CapabilitiesOf(bits byte) []byte {
	elicitation := [...]string{"", `"elicitation":{},`, `"elicitation":{"url":{}},`, `"elicitation":{"form":{},"url":{}},`}
	out := append([]byte{'{'}, elicitation[bits&3]...)
	switch {
	case bits&(1<<3) != 0:
		out = append(out, `"sampling":{"tools":{}},`...)
	case bits&(1<<2) != 0:
		out = append(out, `"sampling":{},`...)
	}
	if bits&(1<<4) != 0 {
		out = append(out, `"roots":{},`...)
	}
	return append(bytes.TrimSuffix(out, []byte{','}), '}')
}

// Any reports whether the client can be asked anything at all.
func (c *Capabilities) Any() bool { return c.Form || c.URL || c.Sampling || c.Roots }

// Admits reports whether a client with these capabilities may be asked what a
// legacy server asks.
func (c *Capabilities) Admits(method string, params []byte) bool {
	return c.Missing(method, params) == ""
}

// Missing returns the capability that an input request needs and the client
// did not declare, as raw JSON, or "".
func (c *Capabilities) Missing(method string, params []byte) string {
	switch method {
	case MethodElicit:
		mode, _ := jsonrpc.Unquote(jsonrpc.Get(params, "mode"))
		switch {
		case mode == "url" && !c.URL:
			return `{"elicitation":{"url":{}}}`
		case mode != "url" && !c.Form:
			return `{"elicitation":{"form":{}}}`
		}
	case MethodCreateMessage:
		switch {
		case !c.Sampling:
			return `{"sampling":{}}`
		case !c.SamplingTools && (jsonrpc.Get(params, "tools") != nil || jsonrpc.Get(params, "toolChoice") != nil):
			return `{"sampling":{"tools":{}}}`
		}
	case MethodRootsList:
		if !c.Roots {
			return `{"roots":{}}`
		}
	}
	return ""
}
