package adapter

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

// form is a requestedSchema of the plain kind that most servers ask with: an
// object of strings, numbers, booleans and choices (spec 2025-11-25,
// client/elicitation, "Requested Schema"). It checks an answer without
// decoding it; a schema that says anything more is left to the library.
type form struct {
	fields   []field
	required []string
}

type field struct {
	name     string
	kind     fieldKind
	choices  [][]byte // quoted, as the schema spells them; nil: any
	min, max float64  // of a number, or of a string's length in characters
}

type fieldKind uint8

const (
	fieldString fieldKind = iota
	fieldNumber
	fieldInteger
	fieldBoolean
)

// maxFields bounds a form; a larger schema is left to the library.
const maxFields = 64

// parseForm returns nil for a schema that is not of the plain kind.
func parseForm(schema []byte) *form {
	f := &form{}
	object := jsonrpc.Object(schema)
	for object.Next() {
		switch value := object.Value(); string(object.Name()) {
		case "type":
			if string(value) != `"object"` {
				return nil
			}
		case "properties":
			properties := jsonrpc.Object(value)
			for properties.Next() {
				fd, ok := parseField(string(properties.Name()), properties.Value())
				if !ok || len(f.fields) == maxFields {
					return nil
				}
				f.fields = append(f.fields, fd)
			}
		case "required":
			list := jsonrpc.Array(value)
			for list.Next() {
				name, ok := jsonrpc.Unquote(list.Value())
				if !ok {
					return nil
				}
				f.required = append(f.required, name)
			}
		case "title", "description":
		default:
			return nil
		}
	}
	return f
}

func parseField(name string, schema []byte) (field, bool) {
	f := field{name: name, min: math.Inf(-1), max: math.Inf(1)}
	kind := ""
	object := jsonrpc.Object(schema)
	for object.Next() {
		var err error
		switch value := object.Value(); string(object.Name()) {
		case "type":
			kind, _ = jsonrpc.Unquote(value)
		case "enum":
			list := jsonrpc.Array(value)
			for list.Next() {
				if !plainString(list.Value()) {
					return f, false
				}
				f.choices = append(f.choices, bytes.Clone(list.Value()))
			}
		case "minimum", "minLength":
			f.min, err = strconv.ParseFloat(string(value), 64)
		case "maximum", "maxLength":
			f.max, err = strconv.ParseFloat(string(value), 64)
		case "title", "description", "default", "enumNames":
		default:
			return f, false
		}
		if err != nil {
			return f, false
		}
	}
	switch kind {
	case "string":
		f.kind = fieldString
		return f, jsonrpc.Get(schema, "minimum") == nil && jsonrpc.Get(schema, "maximum") == nil
	case "number":
		f.kind = fieldNumber
	case "integer":
		f.kind = fieldInteger
	case "boolean":
		f.kind = fieldBoolean
	default:
		return f, false
	}
	return f, f.choices == nil && jsonrpc.Get(schema, "minLength") == nil && jsonrpc.Get(schema, "maxLength") == nil
}

// fits reports whether content, a valid object, answers the form.
func (f *form) fits(content []byte) bool {
	object := jsonrpc.Object(content)
	seen := 0
	for object.Next() {
		for i := range f.required {
			if string(object.Name()) == f.required[i] {
				seen++
			}
		}
		for i := range f.fields {
			if string(object.Name()) == f.fields[i].name && !f.fields[i].fits(object.Value()) {
				return false
			}
		}
	}
	return seen >= len(f.required)
}

func (f *field) fits(value []byte) bool {
	switch f.kind {
	case fieldBoolean:
		return string(value) == "true" || string(value) == "false"
	case fieldString:
		return f.stringFits(value)
	}
	if len(value) == 0 || value[0] != '-' && (value[0] < '0' || value[0] > '9') {
		return false
	}
	n, err := strconv.ParseFloat(string(value), 64)
	if err != nil || n < f.min || n > f.max {
		return false
	}
	return f.kind == fieldNumber || n == math.Trunc(n)
}

func (f *field) stringFits(value []byte) bool {
	if !jsonrpc.IsString(value) {
		return false
	}
	if f.choices == nil && math.IsInf(f.min, -1) && math.IsInf(f.max, 1) {
		return true
	}
	text, ok := jsonrpc.Unquote(value)
	if !ok {
		return false
	}
	if n := float64(utf8.RuneCountInString(text)); n < f.min || n > f.max {
		return false
	}
	if f.choices == nil {
		return true
	}
	for _, choice := range f.choices {
		if string(choice[1:len(choice)-1]) == text {
			return true
		}
	}
	return false
}

// plainString: a string whose text stands between the quotes as it is.
func plainString(raw []byte) bool {
	return jsonrpc.IsString(raw) && bytes.IndexByte(raw, '\\') < 0
}
