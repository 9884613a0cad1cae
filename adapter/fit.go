package adapter

import (
	"bytes"
	"errors"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// fits reports whether a client's answer can be given to the server. One that
// cannot is asked for again.
func (e *Engine) fits(in *input, value []byte) bool {
	if !jsonrpc.IsObject(value) {
		return false
	}
	switch in.Method {
	case mcp.MethodElicit:
		return e.elicitFits(in, value)
	case mcp.MethodCreateMessage:
		role, _ := jsonrpc.Unquote(jsonrpc.Get(value, "role"))
		content := jsonrpc.Get(value, "content")
		return (role == "assistant" || role == "user") && (jsonrpc.IsObject(content) || jsonrpc.IsArray(content)) &&
			jsonrpc.IsString(jsonrpc.Get(value, "model"))
	case mcp.MethodRootsList:
		return rootsFit(jsonrpc.Get(value, "roots"))
	}
	return false
}

func (e *Engine) elicitFits(in *input, value []byte) bool {
	action, _ := jsonrpc.Unquote(jsonrpc.Get(value, "action"))
	switch action {
	case "decline", "cancel":
		return true
	case "accept":
	default:
		return false
	}
	content := jsonrpc.Get(value, "content")
	schema := jsonrpc.Get(in.Params, "requestedSchema")
	if schema == nil { // URL mode: there is nothing to fill in
		return content == nil || jsonrpc.IsObject(content)
	}
	if content == nil {
		content = []byte("{}")
	}
	return jsonrpc.IsObject(content) && e.schemas.fits(schema, content)
}

func rootsFit(roots []byte) bool {
	if !jsonrpc.IsArray(roots) {
		return false
	}
	list := jsonrpc.Array(roots)
	for list.Next() {
		if !jsonrpc.IsString(jsonrpc.Get(list.Value(), "uri")) {
			return false
		}
	}
	return true
}

// schemaCache holds compiled requestedSchemas: a tool asks with the same one
// every time.
type schemaCache struct {
	mu       sync.Mutex
	compiled map[string]checker
}

// checker holds content against one schema: by the form where it is plain, by
// the library where not. With neither, the schema cannot be compiled.
type checker struct {
	form   *form
	schema *jsonschema.Schema
}

const (
	maxSchemas     = 256
	maxSchemaBytes = 64 << 10
)

var errNoLoad = errors.New("schemas are not loaded from elsewhere")

// denied refuses every reference out of a schema: spec 2026-07-28,
// basic/index, "$ref Resolution". The library's own loader opens files.
type denied struct{}

func (denied) Load(string) (any, error) { return nil, errNoLoad }

// fits reports whether content is valid for schema. A schema that cannot be
// compiled is the server's to judge by.
func (s *schemaCache) fits(schema, content []byte) bool {
	if len(schema) > maxSchemaBytes {
		return true
	}
	s.mu.Lock()
	check, known := s.compiled[string(schema)]
	s.mu.Unlock()
	if !known {
		if check.form = parseForm(schema); check.form == nil {
			check.schema = compile(schema)
		}
		s.mu.Lock()
		if s.compiled == nil || len(s.compiled) >= maxSchemas {
			s.compiled = make(map[string]checker)
		}
		s.compiled[string(schema)] = check
		s.mu.Unlock()
	}
	switch {
	case check.form != nil:
		return check.form.fits(content)
	case check.schema != nil:
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
		return err == nil && check.schema.Validate(value) == nil
	}
	return true
}

func compile(schema []byte) *jsonschema.Schema {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil || !refersOnce(value, false) {
		return nil
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(denied{})
	if err := c.AddResource("requested.json", value); err != nil {
		return nil
	}
	compiled, err := c.Compile("requested.json")
	if err != nil {
		return nil
	}
	return compiled
}

// refersOnce reports whether all references of a schema lead to a definition
// that has none itself, as in the schemas that libraries make of enumerations.
// Chains of them can double the work at each link, and a few kilobytes then
// take longer than anybody waits.
func refersOnce(schema any, inDefinition bool) bool {
	switch schema := schema.(type) {
	case map[string]any:
		for name, value := range schema {
			within := inDefinition
			switch name {
			case "$ref":
				to, _ := value.(string)
				if inDefinition || !strings.HasPrefix(to, "#/$defs/") && !strings.HasPrefix(to, "#/definitions/") {
					return false
				}
			case "$dynamicRef", "$recursiveRef":
				return false
			case "$defs", "definitions":
				within = true
			}
			if !refersOnce(value, within) {
				return false
			}
		}
	case []any:
		for _, value := range schema {
			if !refersOnce(value, inDefinition) {
				return false
			}
		}
	}
	return true
}
