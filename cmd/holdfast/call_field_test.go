package main

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestFormFieldTakesWhatWasTyped(t *testing.T) {
	const (
		titled = `{"type":"string","oneOf":[{"const":"#f00","title":"Red"},{"const":"2","title":"Two"},{"const":"#00f","title":"Blue"}]}`
		many   = `{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["a","b","c"]}}`
	)
	for _, test := range []struct{ schema, typed, want, complaint string }{
		{`{"type":"string"}`, " as it is ", `" as it is "`, ""},
		{`{"type":"string"}`, `""`, `""`, ""},
		{`{"type":"string","maxLength":3}`, "größe", "", "at most 3 characters"},
		{`{"type":"string","minLength":5}`, "größe", `"größe"`, ""},
		{`{"type":"string","format":"email"}`, "ann@example.com", `"ann@example.com"`, ""},
		{`{"type":"string","format":"email"}`, "Ann <ann@example.com>", "", "not a valid email"},
		{`{"type":"string","format":"uri"}`, "example.com", "", "not a valid uri"},
		{`{"type":"string","format":"uri"}`, "https://example.com", `"https://example.com"`, ""},
		{`{"type":"string","format":"date"}`, "2026-02-30", "", "not a valid date"},
		{`{"type":"string","format":"date-time"}`, "2026-07-28T19:30:00+02:00", `"2026-07-28T19:30:00+02:00"`, ""},
		{`{"type":"number"}`, " 1.50 ", "1.50", ""},
		{`{"type":"number"}`, "NaN", "", "type a number"},
		{`{"type":"number"}`, "0x10", "", "type a number"},
		{`{"type":"number","minimum":0.5}`, "0.4", "", "at least 0.5"},
		{`{"type":"integer"}`, "1.5", "", "type a whole number"},
		{`{"type":"integer"}`, "5.0", "5", ""},
		{`{"type":"integer"}`, "9007199254740993", "9007199254740993", ""},
		{`{"type":"integer","maximum":9}`, "10", "", "at most 9"},
		{`{"type":"boolean"}`, "Yes", "true", ""},
		{`{"type":"boolean"}`, "no", "false", ""},
		{`{"type":"boolean"}`, "1", "", "type yes or no"},
		{titled, "red", `"#f00"`, ""},
		{titled, "#00f", `"#00f"`, ""},
		{titled, "2", `"2"`, ""}, // a value goes before a number in the list
		{titled, "3", `"#00f"`, ""},
		{titled, "4", "", "from 1 to 3"},
		{`{"type":"string","enum":["x","y"],"enumNames":["Ex","Why"]}`, "why", `"y"`, ""},
		{many, "c, 1", `["c","a"]`, ""},
		{many, `""`, "", "choose at least 1"},
		{many, "a,b,c", "", "choose at most 2"},
		{many, "a,d", "", `"d"`},
		{`{"type":"array","items":{"oneOf":[{"const":"k","title":"Kay"}]}}`, `""`, `[]`, ""},
		{`{"type":"object"}`, `{"a":1}`, `{"a":1}`, ""},
		{`{"type":"object"}`, `{"a":`, "", "type JSON"},
	} {
		field, err := readField("f", jsontext.Value(test.schema), false)
		if err != nil {
			t.Fatal(err)
		}
		got, err := field.take(test.typed)
		switch {
		case test.complaint == "" && (err != nil || string(got) != test.want):
			t.Errorf("%s: typed %q: got %s, %v; want %s", test.schema, test.typed, got, err, test.want)
		case test.complaint != "" && (err == nil || !strings.Contains(err.Error(), test.complaint)):
			t.Errorf("%s: typed %q: got %s, %v; want the complaint %q", test.schema, test.typed, got, err, test.complaint)
		}
	}
}

func TestFormFieldDefaultsAndRequired(t *testing.T) {
	for _, test := range []struct {
		schema   string
		required bool
		typed    string
		want     string
		wantErr  bool
	}{
		{`{"type":"string","default":"d"}`, true, "", `"d"`, false},
		{`{"type":"string","default":"d"}`, false, "!skip", "", false},
		{`{"type":"string"}`, false, "", "", false},
		{`{"type":"string"}`, true, "", "", true},
		{`{"type":"string","default":"d"}`, true, "!skip", "", true},
	} {
		field, err := readField("f", jsontext.Value(test.schema), test.required)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := field.take(test.typed); string(got) != test.want || (err != nil) != test.wantErr {
			t.Errorf("%+v: got %s, %v", test, got, err)
		}
	}
}

func TestReadFormRefusesWhatIsNone(t *testing.T) {
	for _, schema := range []string{`{"properties":[]}`, `{"properties":{"a":1}}`, `{"required":"a"}`, `7`} {
		if fields, err := readForm(jsontext.Value(schema)); err == nil {
			t.Errorf("%s: got %v, want an error", schema, fields)
		}
	}
}
