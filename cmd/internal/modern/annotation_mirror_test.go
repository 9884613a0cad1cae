package modern

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestMirrors(t *testing.T) {
	const schema = `{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"plain":{"type":"string"},
		"x-mcp-header":{"type":"string"},
		"fixed":{"const":{"x-mcp-header":"data, no annotation"}},
		"deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"},"b":{"type":"boolean","x-mcp-header":"B"}}}}}`
	found, err := mirrors(jsontext.Value(schema))
	if err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]string{
		`{"region":"eu","deep":{"n":42,"b":true}}`:             "Region=eu N=42 B=true",
		`{"region":" x","deep":{"n":-7.0,"b":false}}`:          "Region==?base64?IHg=?= N=-7 B=false",
		`{"region":null,"deep":{"n":1.5}}`:                     "",
		`{"deep":{"n":9007199254740993}}`:                      "",
		`{"deep":"no object","region":["a"]}`:                  "",
		`{"region":"\u0065\u0075","deep":{"n":4.2e1,"b":"t"}}`: "Region=eu N=42 B=t",
		`{}`: "",
	} {
		var got []string
		for _, m := range found {
			if value, ok := m.value(jsontext.Value(arguments)); ok {
				got = append(got, m.header+"="+value)
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: got %q, want %q", arguments, text, want)
		}
	}
}

func TestMirrorsRefuse(t *testing.T) {
	property := func(p string) string { return `{"properties":{"a":` + p + `}}` }
	for name, schema := range map[string]string{
		"empty":               property(`{"type":"string","x-mcp-header":""}`),
		"no text":             property(`{"type":"string","x-mcp-header":1}`),
		"no token":            property(`{"type":"string","x-mcp-header":"a b"}`),
		"line break":          property(`{"type":"string","x-mcp-header":"a\r\nb"}`),
		"number":              property(`{"type":"number","x-mcp-header":"A"}`),
		"object":              property(`{"type":"object","x-mcp-header":"A"}`),
		"several types":       property(`{"type":["string","null"],"x-mcp-header":"A"}`),
		"no type":             property(`{"x-mcp-header":"A"}`),
		"twice":               `{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`,
		"at the root":         `{"type":"string","x-mcp-header":"A"}`,
		"in items":            property(`{"type":"array","items":{"type":"string","x-mcp-header":"A"}}`),
		"in a tuple":          property(`{"prefixItems":[{"type":"string","x-mcp-header":"A"}]}`),
		"in anyOf":            property(`{"anyOf":[{"type":"string","x-mcp-header":"A"}]}`),
		"in not":              property(`{"not":{"type":"string","x-mcp-header":"A"}}`),
		"in then":             `{"if":true,"then":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`,
		"in $defs":            `{"$defs":{"d":{"type":"string","x-mcp-header":"A"}}}`,
		"in a pattern":        `{"patternProperties":{"^a":{"type":"string","x-mcp-header":"A"}}}`,
		"in items' property":  property(`{"items":{"properties":{"b":{"type":"string","x-mcp-header":"A"}}}}`),
		"deeper than bounded": strings.Repeat(`{"properties":{"a":`, 100) + `{}` + strings.Repeat(`}}`, 100),
	} {
		if found, err := mirrors(jsontext.Value(schema)); err == nil {
			t.Errorf("%s: got %v, want an error", name, found)
		}
	}
}
