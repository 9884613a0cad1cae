package adapter

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

func TestElicitationAnswers(t *testing.T) {
	e := &Engine{}
	object := func(properties string, rest ...string) string {
		return `{"message":"?","requestedSchema":{"type":"object","properties":{` + properties + `}` + strings.Join(rest, "") + `}}`
	}
	for _, tt := range []struct {
		name, params, answer string
		want                 bool
	}{
		{"declined", object(`"a":{"type":"string"}`, `,"required":["a"]`), `{"action":"decline"}`, true},
		{"cancelled", object(`"a":{"type":"string"}`, `,"required":["a"]`), `{"action":"cancel"}`, true},
		{"cancelled with content", object(``), `{"action":"cancel","content":7}`, true},
		{"no action", object(``), `{"content":{}}`, false},
		{"another action", object(``), `{"action":"Accept","content":{}}`, false},
		{"an action that is no string", object(``), `{"action":true}`, false},
		{"no object", object(``), `"accept"`, false},
		{"a list", object(``), `[{"action":"accept"}]`, false},
		{"content that is no object", object(``), `{"action":"accept","content":"x"}`, false},
		{"no content needed", object(``), `{"action":"accept"}`, true},
		{"no content where some is required", object(`"a":{"type":"string"}`, `,"required":["a"]`), `{"action":"accept"}`, false},
		{"null where content is required", object(`"a":{"type":"string"}`, `,"required":["a"]`), `{"action":"accept","content":null}`, false},

		{"string", object(`"a":{"type":"string"}`), `{"action":"accept","content":{"a":"x"}}`, true},
		{"number for a string", object(`"a":{"type":"string"}`), `{"action":"accept","content":{"a":7}}`, false},
		{"short string", object(`"a":{"type":"string","minLength":3}`), `{"action":"accept","content":{"a":"éé"}}`, false},
		{"string of characters, not bytes", object(`"a":{"type":"string","maxLength":2}`), `{"action":"accept","content":{"a":"éé"}}`, true},
		{"a pattern met", object(`"a":{"type":"string","pattern":"^[a-z]+$"}`), `{"action":"accept","content":{"a":"abc"}}`, true},
		{"a pattern not met", object(`"a":{"type":"string","pattern":"^[a-z]+$"}`), `{"action":"accept","content":{"a":"A1"}}`, false},
		{"an unknown member more", object(`"a":{"type":"string"}`), `{"action":"accept","content":{"a":"x","b":7}}`, true},
		{"an unknown member forbidden", object(`"a":{"type":"string"}`, `,"additionalProperties":false`), `{"action":"accept","content":{"a":"x","b":7}}`, false},

		{"email", object(`"a":{"type":"string","format":"email"}`), `{"action":"accept","content":{"a":"a@b.example"}}`, true},
		{"no email", object(`"a":{"type":"string","format":"email"}`), `{"action":"accept","content":{"a":"a b"}}`, false},
		{"uri", object(`"a":{"type":"string","format":"uri"}`), `{"action":"accept","content":{"a":"https://a.example/b?c"}}`, true},
		{"no uri", object(`"a":{"type":"string","format":"uri"}`), `{"action":"accept","content":{"a":"not a uri"}}`, false},
		{"date", object(`"a":{"type":"string","format":"date"}`), `{"action":"accept","content":{"a":"2026-02-28"}}`, true},
		{"no date", object(`"a":{"type":"string","format":"date"}`), `{"action":"accept","content":{"a":"2026-02-30"}}`, false},
		{"date-time", object(`"a":{"type":"string","format":"date-time"}`), `{"action":"accept","content":{"a":"2026-02-28T10:00:00Z"}}`, true},
		{"no date-time", object(`"a":{"type":"string","format":"date-time"}`), `{"action":"accept","content":{"a":"2026-02-28"}}`, false},
		{"a format that nobody knows", object(`"a":{"type":"string","format":"moon-phase"}`), `{"action":"accept","content":{"a":"full"}}`, true},

		{"integer", object(`"a":{"type":"integer","minimum":1,"maximum":3}`), `{"action":"accept","content":{"a":3}}`, true},
		{"integer spelled with a fraction", object(`"a":{"type":"integer"}`), `{"action":"accept","content":{"a":3.0}}`, true},
		{"fraction for an integer", object(`"a":{"type":"integer"}`), `{"action":"accept","content":{"a":3.5}}`, false},
		{"integer too large", object(`"a":{"type":"integer","maximum":3}`), `{"action":"accept","content":{"a":4}}`, false},
		{"string for an integer", object(`"a":{"type":"integer"}`), `{"action":"accept","content":{"a":"3"}}`, false},
		{"number", object(`"a":{"type":"number","minimum":0.5}`), `{"action":"accept","content":{"a":0.5}}`, true},
		{"number too small", object(`"a":{"type":"number","minimum":0.5}`), `{"action":"accept","content":{"a":0.4}}`, false},
		{"number below an excluded bound", object(`"a":{"type":"number","exclusiveMinimum":0}`), `{"action":"accept","content":{"a":0}}`, false},
		{"boolean", object(`"a":{"type":"boolean","default":true}`), `{"action":"accept","content":{"a":false}}`, true},
		{"string for a boolean", object(`"a":{"type":"boolean"}`), `{"action":"accept","content":{"a":"true"}}`, false},
		{"null for a boolean", object(`"a":{"type":"boolean"}`), `{"action":"accept","content":{"a":null}}`, false},

		{"choice", object(`"a":{"type":"string","enum":["x","y"],"enumNames":["X","Y"]}`), `{"action":"accept","content":{"a":"y"}}`, true},
		{"a choice spelled with an escape", object(`"a":{"type":"string","enum":["x","y"]}`), `{"action":"accept","content":{"a":"\u0079"}}`, true},
		{"a choice with an escape in the schema", object(`"a":{"type":"string","enum":["x","\u00e9"]}`), `{"action":"accept","content":{"a":"é"}}`, true},
		{"no choice", object(`"a":{"type":"string","enum":["x","y"]}`), `{"action":"accept","content":{"a":"Y"}}`, false},
		{"titled choice", object(`"a":{"type":"string","oneOf":[{"const":"x","title":"X"},{"const":"y","title":"Y"}]}`), `{"action":"accept","content":{"a":"x"}}`, true},
		{"no titled choice", object(`"a":{"type":"string","oneOf":[{"const":"x","title":"X"},{"const":"y","title":"Y"}]}`), `{"action":"accept","content":{"a":"X"}}`, false},
		{"several choices", object(`"a":{"type":"array","items":{"type":"string","enum":["x","y","z"]},"minItems":1,"maxItems":2}`), `{"action":"accept","content":{"a":["x","z"]}}`, true},
		{"too many choices", object(`"a":{"type":"array","items":{"type":"string","enum":["x","y","z"]},"maxItems":2}`), `{"action":"accept","content":{"a":["x","y","z"]}}`, false},
		{"too few choices", object(`"a":{"type":"array","items":{"type":"string","enum":["x","y","z"]},"minItems":1}`), `{"action":"accept","content":{"a":[]}}`, false},
		{"a choice among several that is none", object(`"a":{"type":"array","items":{"anyOf":[{"const":"x","title":"X"}]}}`), `{"action":"accept","content":{"a":["y"]}}`, false},

		{"another draft named", object(`"a":{"type":"string","minLength":2}`, `,"$schema":"http://json-schema.org/draft-07/schema#"`), `{"action":"accept","content":{"a":"x"}}`, false},
		{"the default draft named", object(`"a":{"type":"string"}`, `,"$schema":"https://json-schema.org/draft/2020-12/schema"`), `{"action":"accept","content":{"a":"x"}}`, true},
		{"a reference inside", object(`"a":{"$ref":"#/$defs/n"}`, `,"$defs":{"n":{"type":"integer"}}`), `{"action":"accept","content":{"a":"x"}}`, false},
		{"a schema that is the server's to judge by", object(`"a":{"type":"no such type"}`), `{"action":"accept","content":{"a":"x"}}`, true},
		{"a pattern that does not compile", object(`"a":{"type":"string","pattern":"("}`), `{"action":"accept","content":{"a":"x"}}`, true},

		{"url visited", `{"mode":"url","url":"https://x.example","message":"m"}`, `{"action":"accept"}`, true},
		{"url visited, with content", `{"mode":"url","url":"https://x.example","message":"m"}`, `{"action":"accept","content":{}}`, true},
		{"url visited, with a text", `{"mode":"url","url":"https://x.example","message":"m"}`, `{"action":"accept","content":"x"}`, false},
	} {
		in := &input{Input: Input{Method: mcp.MethodElicit, Params: []byte(tt.params)}}
		for range 2 { // the second time from the cache
			if got := e.fits(in, []byte(tt.answer)); got != tt.want {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
			}
		}
	}
}

func TestSamplingAndRootsAnswers(t *testing.T) {
	e := &Engine{}
	for _, tt := range []struct {
		method, answer string
		want           bool
	}{
		{mcp.MethodCreateMessage, `{"role":"assistant","content":{"type":"text","text":"x"},"model":"m"}`, true},
		{mcp.MethodCreateMessage, `{"role":"assistant","content":[{"type":"text","text":"x"}],"model":"m","stopReason":"endTurn"}`, true},
		{mcp.MethodCreateMessage, `{"role":"system","content":{"type":"text","text":"x"},"model":"m"}`, false},
		{mcp.MethodCreateMessage, `{"role":"assistant","content":"x","model":"m"}`, false},
		{mcp.MethodCreateMessage, `{"role":"assistant","content":{"type":"text","text":"x"}}`, false},
		{mcp.MethodCreateMessage, `{"content":{"type":"text","text":"x"},"model":"m"}`, false},
		{mcp.MethodCreateMessage, `{"action":"accept"}`, false},
		{mcp.MethodRootsList, `{"roots":[]}`, true},
		{mcp.MethodRootsList, `{"roots":[{"uri":"file:///x","name":"x"}]}`, true},
		{mcp.MethodRootsList, `{"roots":[{"name":"x"}]}`, false},
		{mcp.MethodRootsList, `{"roots":["file:///x"]}`, false},
		{mcp.MethodRootsList, `{"roots":{}}`, false},
		{mcp.MethodRootsList, `{}`, false},
		{mcp.MethodRootsList, `[]`, false},
		{"no/such", `{}`, false},
	} {
		in := &input{Input: Input{Method: tt.method, Params: []byte("{}")}}
		if got := e.fits(in, []byte(tt.answer)); got != tt.want {
			t.Errorf("%s answered with %s: %v, want %v", tt.method, tt.answer, got, tt.want)
		}
	}
}

// Spec 2026-07-28, basic/index, "$ref Resolution": nothing is opened or fetched
// for a schema that a server sends.
func TestSchemaReferencesAreNotOpened(t *testing.T) {
	fetched := 0
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched++
		fmt.Fprint(w, `{"type":"integer"}`)
	}))
	defer remote.Close()
	file := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(file, []byte(`{"type":"integer"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &Engine{}
	for _, ref := range []string{"file://" + file, file, "schema.json", remote.URL + "/schema.json"} {
		for _, schema := range []string{
			`{"type":"object","properties":{"a":{"$ref":"` + ref + `"}}}`,
			`{"type":"object","properties":{"a":{"$dynamicRef":"` + ref + `"}}}`,
			`{"$schema":"` + ref + `","type":"object","properties":{"a":{"type":"integer"}}}`,
			`{"$id":"` + ref + `","type":"object","properties":{"a":{"$ref":"other.json"}}}`,
		} {
			in := &input{Input: Input{Method: mcp.MethodElicit, Params: []byte(`{"requestedSchema":` + schema + `}`)}}
			// What it refers to would refuse a string: that it passes says that it was not read.
			if !e.fits(in, []byte(`{"action":"accept","content":{"a":"text"}}`)) {
				t.Errorf("%s was resolved", schema)
			}
		}
	}
	if fetched > 0 {
		t.Errorf("%d references were fetched", fetched)
	}
}

// A schema without an end must not be one of ours.
func TestSchemaThatRefersToItself(*testing.T) {
	e := &Engine{}
	for _, schema := range []string{
		`{"$ref":"#"}`, `{"properties":{"a":{"$ref":"#/properties/a"}}}`, `{"allOf":[{"$ref":"#"}]}`,
		`{"properties":{"a":{"$ref":"#"}}}`, `{"$defs":{"x":{"$ref":"#/$defs/y"},"y":{"$ref":"#/$defs/x"}},"$ref":"#/$defs/x"}`,
	} {
		in := &input{Input: Input{Method: mcp.MethodElicit, Params: []byte(`{"requestedSchema":` + schema + `}`)}}
		e.fits(in, []byte(`{"action":"accept","content":{"a":{"a":{}}}}`)) // returns
	}
}

func TestSchemasAreBounded(t *testing.T) {
	s := &schemaCache{}
	for n := range 3 * maxSchemas {
		s.fits(fmt.Appendf(nil, `{"type":"object","title":"%d"}`, n), []byte("{}"))
		if len(s.compiled) > maxSchemas {
			t.Fatalf("%d schemas are kept, want at most %d", len(s.compiled), maxSchemas)
		}
	}
	large := []byte(`{"type":"object","required":["a"],"title":"` + strings.Repeat("x", maxSchemaBytes) + `"}`)
	if !s.fits(large, []byte("{}")) {
		t.Error("a schema that is too large was applied")
	}
}

// The reference for plain forms is the library.
func TestFormAgreesWithTheLibrary(t *testing.T) {
	quoted := func(s string) string {
		b, _ := json.Marshal(s)
		return string(b)
	}
	word := rapid.SampledFrom([]string{"a", "b", "", "é", "long word", `q"uote`, "€\U0001F600"})
	number := rapid.SampledFrom([]string{"0", "-0", "1", "-1", "2.0", "2.5", "1e2", "1E-1", "-3", "100"})
	fieldSchema := rapid.Custom(func(t *rapid.T) string {
		kind := rapid.SampledFrom([]string{"string", "number", "integer", "boolean"}).Draw(t, "kind")
		s := `{"type":"` + kind + `","title":"T"`
		switch kind {
		case "string":
			switch rapid.IntRange(0, 3).Draw(t, "string") {
			case 1:
				s += fmt.Sprintf(`,"minLength":%d`, rapid.IntRange(0, 4).Draw(t, "min"))
			case 2:
				s += fmt.Sprintf(`,"maxLength":%d`, rapid.IntRange(0, 4).Draw(t, "max"))
			case 3:
				s += `,"enum":[` + quoted(word.Draw(t, "first")) + `,"zz",` + quoted(word.Draw(t, "choice")) + `]`
			}
		case "number", "integer":
			if rapid.Bool().Draw(t, "bounded below") {
				s += `,"minimum":` + number.Draw(t, "min")
			}
			if rapid.Bool().Draw(t, "bounded above") {
				s += `,"maximum":` + number.Draw(t, "max")
			}
		}
		return s + "}"
	})
	value := rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 5).Draw(t, "type of value") {
		case 0, 1:
			return quoted(word.Draw(t, "text"))
		case 2, 3:
			return number.Draw(t, "number")
		case 4:
			return rapid.SampledFrom([]string{"true", "false"}).Draw(t, "boolean")
		}
		return rapid.SampledFrom([]string{"null", "[]", "{}", `["a"]`}).Draw(t, "other")
	})
	fits, refuses := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var properties, required, content []string
		for _, name := range []string{"p", "q", "r"} {
			if rapid.Bool().Draw(t, "has "+name) {
				properties = append(properties, `"`+name+`":`+fieldSchema.Draw(t, name))
			}
			if rapid.Bool().Draw(t, "requires "+name) {
				required = append(required, `"`+name+`"`)
			}
			if rapid.IntRange(0, 3).Draw(t, "answers "+name) > 0 {
				content = append(content, `"`+name+`":`+value.Draw(t, "value of "+name))
			}
		}
		schema := []byte(`{"type":"object","properties":{` + strings.Join(properties, ",") + `},"required":[` + strings.Join(required, ",") + `]}`)
		answer := []byte("{" + strings.Join(content, ",") + "}")
		library := compile(schema)
		if library == nil {
			return
		}
		f := parseForm(schema)
		if f == nil {
			return // left to the library
		}
		decoded, err := jsonschema.UnmarshalJSON(strings.NewReader(string(answer)))
		if err != nil {
			t.Fatal(err)
		}
		want := library.Validate(decoded) == nil
		if want {
			fits++
		} else {
			refuses++
		}
		if got := f.fits(answer); got != want {
			t.Fatalf("schema %s, content %s: %v, the library says %v", schema, answer, got, want)
		}
	})
	if fits == 0 || refuses == 0 {
		t.Errorf("%d answers fit and %d do not: nothing was compared", fits, refuses)
	}
}

// A schema that would take for ever is the server's to judge by; one whose
// references end at once is ours.
func TestSchemaWithReferences(t *testing.T) {
	var chain []string
	for i := range 40 {
		chain = append(chain, fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	e := &Engine{}
	for schema, want := range map[string]bool{
		`{"$ref":"#/$defs/d0","$defs":{` + strings.Join(chain, ",") + `,"d40":{"type":"object"}}}`:                   true,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"enum":["x","y"],"type":"string"}}}`: false,
		`{"properties":{"a":{"$ref":"#/definitions/A"}},"definitions":{"A":{"const":1}}}`:                            false,
	} {
		in := &input{Input: Input{Method: mcp.MethodElicit, Params: []byte(`{"requestedSchema":` + schema + `}`)}}
		if got := e.fits(in, []byte(`{"action":"accept","content":{"a":"z"}}`)); got != want {
			t.Errorf("%.80s: fits %v, want %v", schema, got, want)
		}
	}
}
