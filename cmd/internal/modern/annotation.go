package modern

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

const annotation = "x-mcp-header"

// mirror says that an argument is repeated in an HTTP header.
type mirror struct {
	header string // without Mcp-Param-
	path   []string
}

// Where schemas stand inside a schema, by shape. A word in none of these lists
// holds data (const, default, enum, examples) and is not walked.
var (
	schemaWords = []string{"items", "additionalItems", "contains", "additionalProperties", "propertyNames", "unevaluatedItems",
		"unevaluatedProperties", "not", "if", "then", "else", "contentSchema"}
	schemaListWords = []string{"items", "prefixItems", "allOf", "anyOf", "oneOf"}
	schemaMapWords  = []string{"patternProperties", "dependentSchemas", "$defs", "definitions"}
)

// maxSchemaDepth bounds the walk through a foreign schema.
const maxSchemaDepth = 64

// mirrors reads the x-mcp-header annotations of an input schema. An error says
// why the tool must not be offered (spec, basic/transports/streamable-http,
// "Schema Extension").
func mirrors(schema jsontext.Value) ([]mirror, error) {
	w := walk{}
	if err := w.schema(schema, nil, true, 0); err != nil {
		return nil, err
	}
	return w.found, nil
}

type walk struct{ found []mirror }

// schema looks for annotations; reachable means that only properties keys lead
// here, with path as the arguments' names.
func (w *walk) schema(schema jsontext.Value, path []string, reachable bool, depth int) error {
	if depth > maxSchemaDepth {
		return fmt.Errorf("input schema is nested deeper than %d", maxSchemaDepth)
	}
	if schema.Kind() != '{' {
		return nil // true and false are schemas too
	}
	members, err := Members(schema)
	if err != nil {
		return fmt.Errorf("input schema: %w", err)
	}
	for _, member := range members {
		switch {
		case member.Name == annotation:
			if !reachable || len(path) == 0 {
				return fmt.Errorf("%s stands where no argument can be found by its names alone", annotation)
			}
			if err := w.add(member.Value, Get(schema, "type"), path); err != nil {
				return err
			}
		case member.Name == "properties":
			err = w.each(member.Value, path, reachable, depth)
		case slices.Contains(schemaMapWords, member.Name):
			err = w.each(member.Value, nil, false, depth)
		case slices.Contains(schemaListWords, member.Name) && member.Value.Kind() == '[':
			err = w.list(member.Value, depth)
		case slices.Contains(schemaWords, member.Name):
			err = w.schema(member.Value, nil, false, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) each(schemas jsontext.Value, path []string, reachable bool, depth int) error {
	if schemas.Kind() != '{' {
		return nil
	}
	members, err := Members(schemas)
	if err != nil {
		return fmt.Errorf("input schema: %w", err)
	}
	for _, member := range members {
		here := append(slices.Clone(path), member.Name)
		if err := w.schema(member.Value, here, reachable, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) list(schemas jsontext.Value, depth int) error {
	elements, err := Elements(schemas)
	if err != nil {
		return fmt.Errorf("input schema: %w", err)
	}
	for _, schema := range elements {
		if err := w.schema(schema, nil, false, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) add(value, kind jsontext.Value, path []string) error {
	at := strings.Join(path, ".")
	name, ok := Text(value)
	if !ok || name == "" || strings.ContainsFunc(name, notToken) {
		return fmt.Errorf("%s of %s is not the name of a header", annotation, at)
	}
	switch text, _ := Text(kind); text {
	case "string", "integer", "boolean":
	default:
		return fmt.Errorf("%s of %s: only string, integer and boolean arguments can be mirrored", annotation, at)
	}
	for _, other := range w.found {
		if strings.EqualFold(other.header, name) {
			return fmt.Errorf("%s %q stands twice", annotation, name)
		}
	}
	w.found = append(w.found, mirror{header: name, path: path})
	return nil
}

// notToken: RFC 9110, section 5.6.2, what is no tchar.
func notToken(c rune) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}

// value returns the header's value for these arguments; false means that the
// header is left out, because the argument is absent, null, or nothing that
// can be mirrored (the server will say so).
func (m mirror) value(arguments jsontext.Value) (string, bool) {
	at := arguments
	for _, name := range m.path {
		if at.Kind() != '{' {
			return "", false
		}
		at = Get(at, name)
	}
	switch at.Kind() {
	case '"':
		text, ok := Text(at)
		return mcp.HeaderValue(text), ok
	case 't', 'f':
		return string(at), true
	case '0':
		return integerText(string(at))
	}
	return "", false
}

// integerText writes a JSON number as a decimal integer; 4.2e1 is 42. Integers
// outside of what JavaScript holds exactly cannot be mirrored.
func integerText(number string) (string, bool) {
	const safe = 1<<53 - 1
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > safe {
		return "", false
	}
	return strconv.FormatInt(int64(f), 10), true
}
