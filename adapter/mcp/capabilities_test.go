package mcp

import "testing"

func TestParseCapabilities(t *testing.T) {
	for _, tt := range []struct {
		raw  string
		want Capabilities
	}{
		{`{}`, Capabilities{Raw: `{}`}},
		{`{"elicitation":{}}`, Capabilities{Raw: `{"elicitation":{}}`, Form: true}}, // an empty object is form mode
		{`{"elicitation":{"form":{}}}`, Capabilities{Raw: `{"elicitation":{"form":{}}}`, Form: true}},
		{`{"elicitation":{"url":{}}}`, Capabilities{Raw: `{"elicitation":{"url":{}}}`, URL: true}},
		{`{"elicitation":{"url":{},"form":{}}}`, Capabilities{Raw: `{"elicitation":{"form":{},"url":{}}}`, Form: true, URL: true}},
		{`{"elicitation":{"url":true}}`, Capabilities{Raw: `{"elicitation":{"url":true}}`, Form: true}},
		{`{"sampling":{}}`, Capabilities{Raw: `{"sampling":{}}`, Sampling: true}},
		{`{"sampling":{"tools":{},"context":{}}}`, Capabilities{Raw: `{"sampling":{"context":{},"tools":{}}}`, Sampling: true, SamplingTools: true}},
		// No modern client can tell that its roots have changed.
		{`{"roots":{"listChanged":true,"x":1}}`, Capabilities{Raw: `{"roots":{"x":1}}`, Roots: true}},
		// The extension is spoken to clients only.
		{`{"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{"c":1}}}`, Capabilities{Raw: `{"extensions":{"a/b":{"c":1}}}`}},
		{`{"experimental":{"x":1.0},"extensions":{}}`, Capabilities{Raw: `{"experimental":{"x":1},"extensions":{}}`}},
		{`{"future":[3]}`, Capabilities{Raw: `{"future":[3]}`}},
		// A modern client cannot follow legacy tasks.
		{`{"roots":{},"tasks":{"list":{},"cancel":{}}}`, Capabilities{Raw: `{"roots":{}}`, Roots: true}},
		{`{"t\u0061sks":{}}`, Capabilities{Raw: `{}`}},
	} {
		got, err := ParseCapabilities([]byte(tt.raw))
		if err != nil {
			t.Errorf("%s: %v", tt.raw, err)
			continue
		}
		if *got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.raw, *got, tt.want)
		}
		if want := tt.want.Form || tt.want.URL || tt.want.Sampling || tt.want.Roots; got.Any() != want {
			t.Errorf("%s: any %v, want %v", tt.raw, got.Any(), want)
		}
	}
	for _, raw := range []string{``, `null`, `[]`, `"roots"`, `true`, `7`,
		`{"elicitation":true}`, `{"elicitation":null}`, `{"sampling":[]}`, `{"roots":"yes"}`, `{"experimental":1}`, `{"extensions":[]}`} {
		if got, err := ParseCapabilities([]byte(raw)); err == nil {
			t.Errorf("%s: %+v, want an error", raw, *got)
		}
	}
}

func TestCapabilitiesHaveBits(t *testing.T) {
	for _, raw := range []string{`{}`, `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`, `{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"tools":{}}}`, `{"sampling":{}}`, `{"roots":{}}`} {
		c, err := ParseCapabilities([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseCapabilities(CapabilitiesOf(c.Bits())); err != nil || *got != *c {
			t.Errorf("%s came back as %+v, %v", raw, got, err)
		}
	}
	for bits := range 256 {
		if c, err := ParseCapabilities(CapabilitiesOf(byte(bits))); err != nil || bits < 1<<5 && c.Bits()&^(1<<2) != byte(bits)&^(1<<2) {
			t.Errorf("bits %b: %+v, %v", bits, c, err)
		}
	}
}

// Sessions are pooled by what clients declare, not by how they spell it.
func TestCapabilitiesHaveOneText(t *testing.T) {
	const want = `{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{}}`
	for _, raw := range []string{
		want,
		`{"sampling":{},"roots":{"listChanged":true},"elicitation":{"url":{},"form":{}}}`,
		"{ \"sampling\" : {},\n\t\"roots\":{\"listChanged\": true},\r\n\"elicitation\":{\"url\":{},\"form\":{}} }",
		`{"\u0073ampling":{},"roots":{"l\u0069stChanged":true},"elicitation":{"url":{},"form":{}},"tasks":{"list":{}}}`,
	} {
		got, err := ParseCapabilities([]byte(raw))
		if err != nil || got.Raw != want {
			t.Errorf("%s: %v, %v; want %s", raw, got, err, want)
		}
	}
}

func TestDeclaredCapabilities(t *testing.T) {
	for raw, want := range map[string]string{
		`{}`:                 `{}`,
		`{"roots":{}}`:       `{"roots":{}}`,
		`{"elicitation":{}}`: `{"elicitation":{},"tasks":{"cancel":{},"requests":{"elicitation":{"create":{}}}}}`,
		`{"sampling":{}}`:    `{"sampling":{},"tasks":{"cancel":{},"requests":{"sampling":{"createMessage":{}}}}}`,
		`{"sampling":{},"elicitation":{"url":{}}}`: `{"elicitation":{"url":{}},"sampling":{},"tasks":{"cancel":{},"requests":{"elicitation":{"create":{}},"sampling":{"createMessage":{}}}}}`,
	} {
		c, err := ParseCapabilities([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(c.Declared()); got != want {
			t.Errorf("%s is declared as %s, want %s", raw, got, want)
		}
	}
}

func TestMissing(t *testing.T) {
	const form, url = `{"elicitation":{"form":{}}}`, `{"elicitation":{"url":{}}}`
	for _, tt := range []struct{ caps, method, params, want string }{
		{`{}`, MethodElicit, `{"message":"m"}`, form},
		{`{}`, MethodElicit, `{"mode":"form"}`, form},
		{`{}`, MethodElicit, `{"mode":"url"}`, url},
		{`{}`, MethodElicit, ``, form},
		{`{"elicitation":{}}`, MethodElicit, `{"message":"m"}`, ``},
		{`{"elicitation":{}}`, MethodElicit, `{"mode":"form"}`, ``},
		{`{"elicitation":{}}`, MethodElicit, `{"mode":"url"}`, url},
		{`{"elicitation":{"url":{}}}`, MethodElicit, `{"mode":"url"}`, ``},
		{`{"elicitation":{"url":{}}}`, MethodElicit, `{"m\u006fde":"\u0075rl"}`, ``},
		{`{"elicitation":{"url":{}}}`, MethodElicit, `{}`, form},
		{`{"elicitation":{"url":{}}}`, MethodElicit, `{"mode":7}`, form},
		{`{}`, MethodCreateMessage, `{}`, `{"sampling":{}}`},
		{`{"sampling":{}}`, MethodCreateMessage, `{"messages":[]}`, ``},
		{`{"sampling":{}}`, MethodCreateMessage, `{"tools":[]}`, `{"sampling":{"tools":{}}}`},
		{`{"sampling":{}}`, MethodCreateMessage, `{"toolChoice":{"mode":"auto"}}`, `{"sampling":{"tools":{}}}`},
		{`{"sampling":{"tools":{}}}`, MethodCreateMessage, `{"tools":[],"toolChoice":{}}`, ``},
		{`{}`, MethodRootsList, ``, `{"roots":{}}`},
		{`{"roots":{}}`, MethodRootsList, ``, ``},
		{`{"elicitation":{},"sampling":{}}`, MethodRootsList, ``, `{"roots":{}}`},
		{`{}`, MethodPing, ``, ``},
	} {
		caps, err := ParseCapabilities([]byte(tt.caps))
		if err != nil {
			t.Fatal(err)
		}
		if got := caps.Missing(tt.method, []byte(tt.params)); got != tt.want {
			t.Errorf("%s asked for %s %s: missing %q, want %q", tt.caps, tt.method, tt.params, got, tt.want)
		}
		if got := caps.Admits(tt.method, []byte(tt.params)); got != (tt.want == "") {
			t.Errorf("%s asked for %s %s: admitted %v", tt.caps, tt.method, tt.params, got)
		}
	}
}

func TestLevels(t *testing.T) {
	if LevelNone.Admits(LevelEmergency) || !LevelWarning.Admits(LevelWarning) || !LevelWarning.Admits(LevelError) || LevelWarning.Admits(LevelNotice) {
		t.Error("a level admits the wrong ones")
	}
	for level := LevelDebug; level <= LevelEmergency; level++ {
		if got := ParseLevel(level.String()); got != level {
			t.Errorf("%s is read as %s", level, got)
		}
	}
	for _, name := range []string{"", "Debug", "warn", "trace", "debug "} {
		if got := ParseLevel(name); got != LevelNone {
			t.Errorf("%q is read as %s", name, got)
		}
	}
	if got := Level(200).String(); got != "" {
		t.Errorf("an unknown level is named %q", got)
	}
}
