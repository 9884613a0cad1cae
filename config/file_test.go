package config

import (
	"strings"
	"testing"
)

func TestFileIsOneStrictDocument(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"duplicate key":            {"listen: a:1\nlisten: b:2\n", `"listen" already defined`},
		"duplicate key in section": {"calls:\n  max: 1\n  \"max\": 2\n", `"max" already defined`},
		"duplicate header":         {"upstreams:\n  - headers: {1: a, '1': b}\n", `"1" already defined`},
		"second document":          {"listen: a:1\n---\nlisten: b:2\n", "more than one YAML document"},
		"second empty document":    {"listen: a:1\n---\n", "more than one YAML document"},
		"broken second document":   {"listen: a:1\n---\n[\n", "line"},
		"list at the top":          {"- a\n", "name: value"},
		"text at the top":          {"listen\n", "name: value"},
		"no YAML":                  {"a: [\n", "line"},
		"unknown anchor":           {"listen: *a\n", "unknown anchor"},
		"anchor in itself":         {"calls: &a {max: *a}\n", "contains itself"},
		"mapping as a key":         {"{a: b}: c\n", "map"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, test.text, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "holdfast.yaml") {
				t.Errorf("got %v, want the file's name and %q", err, test.want)
			}
		})
	}
}

func TestFileHasTextAsWritten(t *testing.T) {
	digits := strings.Repeat("1234567890123456", 4)
	c := mustLoad(t, "state:\n  keys: ["+digits+"]\nupstreams:\n  - url: http://a\n    headers: {X-Day: 2026-07-28, X-No: no, X-Octal: 010}\n", nil)
	if c.State.Keys[0] != digits {
		t.Errorf("a key of digits only became %q", c.State.Keys[0])
	}
	for name, want := range map[string]string{"X-Day": "2026-07-28", "X-No": "no", "X-Octal": "010"} {
		if got := c.Upstreams[0].Headers[name]; got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestFileHasAnchorsAndMergeKeys(t *testing.T) {
	c := mustLoad(t, `
upstreams:
  - &first
    name: one
    url: http://a
    path: /one
    headers: &h {X-A: b}
  - <<: *first
    name: two
    path: /two
  - {name: three, url: "http://c", path: /three, headers: *h}
`, nil)
	if u := c.Upstreams[1]; u.Name != "two" || u.URL != "http://a" || u.Headers["X-A"] != "b" {
		t.Errorf("merged upstream = %+v", u)
	}
	if u := c.Upstreams[2]; u.Headers["X-A"] != "b" {
		t.Errorf("aliased headers = %+v", u)
	}
}
