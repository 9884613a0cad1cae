package mcp

import "testing"

// The first five rows are the examples of the specification.
func TestHeaderValue(t *testing.T) {
	for text, want := range map[string]string{
		"us-west1":           "us-west1",
		"Hello, 世界":          "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" padded ":           "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2":       "=?base64?bGluZTEKbGluZTI=?=",
		"=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
		"a\tb c":             "a\tb c",
		"=?base64?open":      "=?base64?open",
		"":                   "=?base64??=",
		"\x7f":               "=?base64?fw==?=",
	} {
		if got := HeaderValue(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
