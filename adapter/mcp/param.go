package mcp

import (
	"fmt"
	"strings"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

// ParamRule says that an argument of a tool is mirrored into an HTTP header
// (spec 2026-07-28, basic/transports/streamable-http, "Custom Headers from
// Tool Parameters").
type ParamRule struct {
	Header string   // the whole header name, such as Mcp-Param-Region
	Path   []string // names of the properties from the root of the arguments
	Type   string   // "string", "integer" or "boolean"
}

// maxRules bounds what a hostile schema can make us keep for one tool.
const maxRules = 64

// ParamRules reads the x-mcp-header annotations of a tool's inputSchema. An
// error names the annotation that breaks the specification's constraints:
// clients leave such a tool out, so that no rule of it can be checked.
func ParamRules(inputSchema []byte) ([]ParamRule, error) {
	rules, err := appendRules(nil, nil, inputSchema)
	if err != nil {
		return nil, err
	}
	for i := range rules {
		for j := range i {
			if strings.EqualFold(rules[i].Header, rules[j].Header) {
				return nil, fmt.Errorf("x-mcp-header %q stands twice", strings.TrimPrefix(rules[i].Header, HeaderParamPrefix))
			}
		}
	}
	return rules, nil
}

func appendRules(rules []ParamRule, path []string, schema []byte) ([]ParamRule, error) {
	if len(path) > 16 {
		return rules, nil
	}
	properties := jsonrpc.Object(jsonrpc.Get(schema, "properties"))
	for properties.Next() {
		property := properties.Value()
		here := append(path[:len(path):len(path)], string(properties.Name()))
		if annotation := jsonrpc.Get(property, "x-mcp-header"); annotation != nil {
			rule, err := paramRule(here, property, annotation)
			if err != nil {
				return nil, err
			}
			if rules = append(rules, rule); len(rules) > maxRules {
				return nil, fmt.Errorf("more than %d x-mcp-header annotations", maxRules)
			}
		}
		var err error
		if rules, err = appendRules(rules, here, property); err != nil {
			return nil, err
		}
	}
	return rules, nil
}

func paramRule(path []string, property, annotation []byte) (ParamRule, error) {
	at := strings.Join(path, ".")
	name, ok := jsonrpc.Unquote(annotation)
	if !ok || name == "" {
		return ParamRule{}, fmt.Errorf("x-mcp-header of %s is no name", at)
	}
	for i := range len(name) {
		if !tokenChar(name[i]) {
			return ParamRule{}, fmt.Errorf("x-mcp-header of %s is no HTTP field name", at)
		}
	}
	kind, _ := jsonrpc.Unquote(jsonrpc.Get(property, "type"))
	switch kind {
	case "string", "integer", "boolean":
		return ParamRule{Header: HeaderParamPrefix + name, Path: path, Type: kind}, nil
	}
	return ParamRule{}, fmt.Errorf("x-mcp-header of %s: its type is neither string, integer nor boolean", at)
}

// tokenChar: RFC 9110, section 5.6.2, tchar.
func tokenChar(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
