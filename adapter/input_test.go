package adapter

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

func withHint(hint string) []byte {
	return append(jsonrpc.AppendQuote([]byte(`{"_meta":{"`+mcp.MetaKeyHint+`":`), hint), "}}"...)
}

func TestKeys(t *testing.T) {
	type ask struct{ method, hint, want string }
	for name, asks := range map[string][]ask{
		"ordinals by kind": {
			{mcp.MethodElicit, "", "elicitation-1"}, {mcp.MethodCreateMessage, "", "sampling-1"},
			{mcp.MethodElicit, "", "elicitation-2"}, {mcp.MethodRootsList, "", "roots-1"}, {mcp.MethodRootsList, "", "roots-2"},
		},
		"hints": {
			{mcp.MethodElicit, "name", "name"}, {mcp.MethodCreateMessage, "poem", "poem"}, {mcp.MethodElicit, "", "elicitation-1"},
		},
		"a hint twice": {
			{mcp.MethodElicit, "name", "name"}, {mcp.MethodElicit, "name", "name-2"}, {mcp.MethodRootsList, "name", "name-3"},
		},
		"a hint that looks like a suffix": {
			{mcp.MethodElicit, "name-2", "name-2"}, {mcp.MethodElicit, "name", "name"}, {mcp.MethodElicit, "name", "name-3"},
		},
		"a hint that looks like an ordinal to come": {
			{mcp.MethodElicit, "elicitation-1", "elicitation-1"}, {mcp.MethodElicit, "", "elicitation-2"},
		},
		"a hint that looks like an ordinal that was": {
			{mcp.MethodElicit, "", "elicitation-1"}, {mcp.MethodElicit, "elicitation-1", "elicitation-1-2"}, {mcp.MethodElicit, "", "elicitation-2"},
		},
		"a hint that is too long": {
			{mcp.MethodElicit, strings.Repeat("x", maxKey), strings.Repeat("x", maxKey)},
			{mcp.MethodElicit, strings.Repeat("x", maxKey+1), "elicitation-1"},
		},
	} {
		c := &call{}
		for i, a := range asks {
			params := []byte("{}")
			if a.hint != "" {
				params = withHint(a.hint)
			}
			in := c.newInput([]byte("1"), a.method, params)
			if in.Key != a.want {
				t.Errorf("%s, question %d: key %q, want %q", name, i+1, in.Key, a.want)
			}
			if want := a.hint != "" && len(a.hint) <= maxKey; in.hinted != want {
				t.Errorf("%s, question %d: hinted %v, want %v", name, i+1, in.hinted, want)
			}
		}
	}
}

func TestHintThatIsNoString(t *testing.T) {
	for _, meta := range []string{`{"` + mcp.MetaKeyHint + `":7}`, `{"` + mcp.MetaKeyHint + `":""}`, `{"` + mcp.MetaKeyHint + `":null}`, `7`, `{}`} {
		c := &call{}
		if in := c.newInput([]byte("1"), mcp.MethodElicit, []byte(`{"_meta":`+meta+`}`)); in.hinted || in.Key != "elicitation-1" {
			t.Errorf("_meta %s: key %q, hinted %v", meta, in.Key, in.hinted)
		}
	}
}

// Whatever a server hints, no two questions of a call share a key, and the
// same questions get the same keys again.
func TestKeysAreUniqueAndStable(t *testing.T) {
	hint := rapid.OneOf(
		rapid.Just(""),
		rapid.SampledFrom([]string{"a", "a-2", "a-3", "a-2-2", "elicitation-1", "elicitation-2", "elicitation-1-2", "elicitation-01",
			"elicitation-+1", "sampling-1", "roots-1", "elicitation-", "-2", "elicitation-9999999999999999999999"}),
		rapid.StringN(1, 5, -1),
	)
	method := rapid.SampledFrom([]string{mcp.MethodElicit, mcp.MethodCreateMessage, mcp.MethodRootsList})
	rapid.Check(t, func(t *rapid.T) {
		one, two := &call{}, &call{}
		seen := make(map[string]int)
		for i := range rapid.IntRange(1, 25).Draw(t, "questions") {
			m, h := method.Draw(t, "method"), hint.Draw(t, "hint")
			params := withHint(h)
			if h == "" {
				params = []byte("{}")
			}
			in := one.newInput([]byte(strconv.Itoa(i)), m, params)
			if before, ok := seen[in.Key]; ok {
				t.Fatalf("questions %d and %d have the key %q", before, i, in.Key)
			}
			seen[in.Key] = i
			if again := two.newInput([]byte("x"), m, params); again.Key != in.Key {
				t.Fatalf("question %d: key %q, and %q in the same call again", i, in.Key, again.Key)
			}
		}
	})
}

func TestModernParams(t *testing.T) {
	for _, tt := range []struct{ params, want string }{
		{``, `{}`},
		{`[1]`, `{}`},
		{`{}`, `{}`},
		{`{"message":"Name?","requestedSchema":{"type":"object"}}`, `{"message":"Name?","requestedSchema":{"type":"object"}}`},
		{`{"mode":"url","url":"https://x.example","elicitationId":"7","message":"m"}`, `{"mode":"url","url":"https://x.example","message":"m"}`},
		{`{"task":{"ttl":1},"message":"m"}`, `{"message":"m"}`},
		{`{"_meta":{"` + mcp.MetaKeyHint + `":"k"},"message":"m"}`, `{"message":"m"}`},
		{`{"_meta":{"` + mcp.MetaKeyHint + `":"k"}}`, `{}`},
		{`{"_meta":{"progressToken":7,"own":[1, 2],"` + mcp.MetaRelatedTask + `":{}},"maxTokens":1e2}`, `{"maxTokens":1e2,"_meta":{"own":[1, 2]}}`},
		{`{"_meta":{"own":1}}`, `{"_meta":{"own":1}}`},
		{`{"_meta":7,"a":1}`, `{"a":1}`},
		{`{"n":1.50,"unknown":{"elicitationId":"kept inside"}}`, `{"n":1.50,"unknown":{"elicitationId":"kept inside"}}`},
		{`{"t\u0061sk":1,"a":"\u0061"}`, `{"a":"\u0061"}`},
	} {
		if got := string(modernParams([]byte(tt.params))); got != tt.want {
			t.Errorf("%s became %s, want %s", tt.params, got, tt.want)
		}
	}
}
