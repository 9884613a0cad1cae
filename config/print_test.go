package config

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

const full = `
listen: "[::]:8080"
admin: ":9090"
log: {level: warn, format: console}
upstreams:
  - name: files
    url: https://mcp.example/mcp?api_key=s3cret-query&plain
    path: /files
    headers: {Authorization: Bearer s3cret-header, X-A: "true"}
    forward_headers: [X-Request-Id]
    cache: {ttl: 1h30m, scope: public}
    pushes_on_get: true
  - {name: mail, url: "http://127.0.0.1:3001", path: /}
http:
  allowed_origins: ["https://app.example", "http://localhost:*"]
  allowed_hosts: ["*"]
  max_body: 1500000
calls: {gather: 0s, park_ttl: 90s}
state:
  keys: [00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff]
`

func TestPrintedSettingsLoadToTheSame(t *testing.T) {
	for name, c := range map[string]*Config{
		"defaults": mustLoad(t, "", nil),
		"full":     mustLoad(t, full, nil),
	} {
		text, err := c.yaml(func(_ *setting, text string) string { return text })
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again := mustLoad(t, string(text), nil); !reflect.DeepEqual(again, c) {
			t.Errorf("%s:\n%s\nloads to  %+v\nit was of %+v", name, text, again, c)
		}
	}
}

func TestPrintedSettingsHaveNoSecret(t *testing.T) {
	c := mustLoad(t, full, nil)
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"s3cret", "001122", "Bearer"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the secret %q is in:\n%s", secret, text)
		}
	}
	for _, want := range []string{
		"Authorization: '" + Mask + "'", "X-A: '" + Mask + "'", "https://mcp.example/mcp?api_key=" + Mask,
		"park_ttl: 1m30s", "max_body: 1500000", "max_header: 16KiB", "gather: 0s", "forward_headers:",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	// Loaded as it is, only the masks are in the way.
	_, err = load(t, string(text), nil)
	var wrong *Error
	if !errors.As(err, &wrong) || len(wrong.Problems) != 4 {
		t.Fatalf("got %v, want four masked values", err)
	}
	for _, p := range wrong.Problems {
		if p.Want != masked {
			t.Errorf("got %v, want only masked values", p)
		}
	}
}

func TestShownURL(t *testing.T) {
	for text, want := range map[string]string{
		"http://a/b":          "http://a/b",
		"http://u:p@a/b":      "http://" + Mask + "@a/b",
		"u:p@a":               Mask + "@a",
		"http://a?k=v&w=&x":   "http://a?k=" + Mask + "&w=&" + Mask,
		"http://a?k=v=w&k=v2": "http://a?k=" + Mask + "&k=" + Mask,
		"":                    "",
	} {
		if got := shownURL(text); got != want {
			t.Errorf("shownURL(%q) = %q, want %q", text, got, want)
		}
	}
}
