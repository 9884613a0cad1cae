package mcp

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestParamRules(t *testing.T) {
	for _, tt := range []struct {
		name, schema string
		want         []ParamRule
	}{
		{"no schema", ``, nil},
		{"no properties", `{"type":"object"}`, nil},
		{"no annotation", `{"properties":{"a":{"type":"string"}}}`, nil},
		{"properties that are none", `{"properties":[{"x-mcp-header":"A"}]}`, nil},
		{"one of each type", `{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"integer","x-mcp-header":"B-2"},"c":{"x-mcp-header":"c","type":"boolean"}}}`,
			[]ParamRule{{"Mcp-Param-A", []string{"a"}, "string"}, {"Mcp-Param-B-2", []string{"b"}, "integer"}, {"Mcp-Param-c", []string{"c"}, "boolean"}}},
		{"nested", `{"properties":{"o":{"type":"object","properties":{"p":{"properties":{"q":{"type":"string","x-mcp-header":"Q"}}},"r":{"type":"string","x-mcp-header":"R"}}}}}`,
			[]ParamRule{{"Mcp-Param-Q", []string{"o", "p", "q"}, "string"}, {"Mcp-Param-R", []string{"o", "r"}, "string"}}},
		{"escapes", `{"properties":{"\u0061":{"type":"\u0073tring","x-mcp-\u0068eader":"\u0041"}}}`, []ParamRule{{"Mcp-Param-A", []string{"a"}, "string"}}},
		{"odd but legal names", "{\"properties\":{\"a.b\":{\"type\":\"string\",\"x-mcp-header\":\"!#$%&'*+-.^_`|~\"}}}",
			[]ParamRule{{"Mcp-Param-!#$%&'*+-.^_`|~", []string{"a.b"}, "string"}}},
		{"elsewhere", `{"x-mcp-header":"A","items":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}},"$defs":{"a":{"x-mcp-header":7}}}`, nil},
	} {
		got, err := ParamRules([]byte(tt.schema))
		if err != nil || len(got)+len(tt.want) > 0 && !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, %v; want %+v", tt.name, got, err, tt.want)
		}
	}
}

// Clients leave a tool out whose annotations break the rules.
func TestParamRulesRefused(t *testing.T) {
	many := make([]string, maxRules+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"p%d":{"type":"string","x-mcp-header":"H%d"}`, i, i)
	}
	one := func(property string) string { return `{"properties":{"a":` + property + `}}` }
	for name, schema := range map[string]string{
		"an empty name":         one(`{"type":"string","x-mcp-header":""}`),
		"a name that is none":   one(`{"type":"string","x-mcp-header":7}`),
		"null":                  one(`{"type":"string","x-mcp-header":null}`),
		"a space":               one(`{"type":"string","x-mcp-header":"A B"}`),
		"a colon":               one(`{"type":"string","x-mcp-header":"A:"}`),
		"a line break":          one(`{"type":"string","x-mcp-header":"A\r\nB"}`),
		"a letter beyond ASCII": one(`{"type":"string","x-mcp-header":"Ä"}`),
		"a control character":   one(`{"type":"string","x-mcp-header":"A\u0000"}`),
		"a number":              one(`{"type":"number","x-mcp-header":"A"}`),
		"an object":             one(`{"type":"object","x-mcp-header":"A"}`),
		"an array":              one(`{"type":"array","x-mcp-header":"A"}`),
		"a choice of types":     one(`{"type":["string","null"],"x-mcp-header":"A"}`),
		"no type":               one(`{"x-mcp-header":"A"}`),
		"one that is nested":    one(`{"properties":{"b":{"type":"null","x-mcp-header":"A"}}}`),
		"a name twice":          `{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"A"}}}`,
		"a name in two cases":   `{"properties":{"a":{"type":"string","x-mcp-header":"Region"},"o":{"properties":{"b":{"type":"string","x-mcp-header":"rEGION"}}}}}`,
		"too many":              `{"properties":{` + strings.Join(many, ",") + `}}`,
	} {
		if got, err := ParamRules([]byte(schema)); err == nil {
			t.Errorf("%s: %+v, want an error", name, got)
		}
	}
	if _, err := ParamRules([]byte(`{"properties":{` + strings.Join(many[:maxRules], ",") + `}}`)); err != nil {
		t.Errorf("as many as are allowed: %v", err)
	}
}

// A schema that nests without end must not keep us.
func TestParamRulesOfADeepSchema(t *testing.T) {
	const depth = 500
	schema := strings.Repeat(`{"properties":{"a":`, depth) + `{"type":"string","x-mcp-header":"A"}` + strings.Repeat(`}}`, depth)
	if rules, err := ParamRules([]byte(schema)); err != nil || len(rules) != 0 {
		t.Errorf("%d rules, %v", len(rules), err)
	}
}

// One path must not be written over by its siblings'.
func TestParamRulePathsAreApart(t *testing.T) {
	var properties []string
	for i := range 10 {
		properties = append(properties, fmt.Sprintf(`"p%d":{"type":"string","x-mcp-header":"H%d"}`, i, i))
	}
	schema := `{"properties":{"a":{"properties":{"b":{"properties":{"c":{"properties":{` + strings.Join(properties, ",") + `}}}}}}}}`
	rules, err := ParamRules([]byte(schema))
	if err != nil || len(rules) != 10 {
		t.Fatal(len(rules), err)
	}
	for i, rule := range rules {
		if want := fmt.Sprintf("a.b.c.p%d", i); strings.Join(rule.Path, ".") != want {
			t.Errorf("rule %d is of %v, want %s", i, rule.Path, want)
		}
	}
}

func TestMethodTraits(t *testing.T) {
	for _, method := range []string{MethodToolsCall, MethodPromptsGet, MethodResourcesRead} {
		if traits := MethodTraits(method); !traits.Known || !traits.Eligible || traits.NameField == "" {
			t.Errorf("%s: %+v", method, traits)
		}
	}
	if MethodTraits(MethodToolsCall).Harmless {
		t.Error("a tool may be called twice")
	}
	for _, method := range []string{MethodToolsList, MethodPromptsList, MethodResourcesList, MethodResourceTemplates, MethodResourcesRead, MethodDiscover} {
		if !MethodTraits(method).Cacheable {
			t.Errorf("%s carries no caching hints", method)
		}
	}
	for _, method := range []string{MethodInitialize, MethodPing, MethodSetLevel, MethodSubscribe, MethodElicit, NotifyCancelled, "", "tools/Call"} {
		if MethodTraits(method).Known {
			t.Errorf("%q is known", method)
		}
	}
}
