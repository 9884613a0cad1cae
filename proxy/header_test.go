package proxy

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

func TestAccept(t *testing.T) {
	for value, want := range map[string]bool{
		"application/json, text/event-stream":        true,
		"text/event-stream;q=0.1 , Application/JSON": true,
		"*/*":                         true,
		"*/*;q=0.001":                 true,
		"application/*, text/*":       true,
		"application/json, */*;q=0.1": true,
		"application/json":            false,
		"text/*":                      false,
		"*/*, application/json;q=0":   false,
		"application/json;q=0.0, text/event-stream":       false,
		"application/json; a=b; q=0, text/event-stream":   false,
		"application/*;q=0, application/json, text/*":     true,
		"application/jsonx, text/event-stream":            false,
		"":                                                false,
		",,;;q=,":                                         false,
		"application/json, text/event-stream;q=":          true,
		"text/html, application/xhtml+xml, */*;q=0.8":     true,
		"application/json;q=1.0, text/event-stream;q=1.0": true,
	} {
		var a accept
		a.read([]byte(value))
		if a.admits() != want {
			t.Errorf("%q: got %v", value, !want)
		}
	}
}

func TestPlaces(t *testing.T) {
	hosts := newPlaces([]string{"localhost", "App.Example:8443", "[::1]"}, true)
	origins := newPlaces([]string{"https://app.example", "http://localhost:*"}, false)
	for _, c := range []struct {
		list  *places
		value string
		want  bool
	}{
		{&hosts, "localhost", true}, {&hosts, "LocalHost:1", true}, {&hosts, "[::1]:80", true}, {&hosts, "[::1]", true},
		{&hosts, "app.example:8443", true}, {&hosts, "app.example", false}, {&hosts, "app.example:80", false},
		{&hosts, "localhost.evil", false}, {&hosts, "evil/localhost:80", false}, {&hosts, "localhost:", false}, {&hosts, "", false},
		{&hosts, "localhost:80:90", false}, {&hosts, "localhost:8a", false},
		{&origins, "https://app.example", true}, {&origins, "https://APP.example", true}, {&origins, "https://app.example:444", false},
		{&origins, "http://app.example", false}, {&origins, "http://localhost:3000", true}, {&origins, "http://localhost", true},
		{&origins, "https://localhost", false}, {&origins, "null", false}, {&origins, "http://localhost:3000/x", false},
	} {
		if got := c.list.admits([]byte(c.value)); got != c.want {
			t.Errorf("%q: got %v", c.value, got)
		}
	}
	all := newPlaces([]string{"*"}, true)
	if !all.admits([]byte("anything")) {
		t.Error("* does not admit all")
	}
}

// The examples of the specification, "Value Encoding", and what resembles them.
func TestDecodeValue(t *testing.T) {
	for value, want := range map[string]string{
		"us-west1":                            "us-west1",
		"=?base64?SGVsbG8sIOS4lueVjA==?=":     "Hello, 世界",
		"=?base64?IHBhZGRlZCA=?=":             " padded ",
		"=?base64?bGluZTEKbGluZTI=?=":         "line1\nline2",
		"=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=": "=?base64?literal?=",
		"=?base64??=":                         "",
		"=?base64?SGVsbG8=":                   "=?base64?SGVsbG8=",
		"SGVsbG8=":                            "SGVsbG8=",
		"=?BASE64?SGVsbG8=?=":                 "=?BASE64?SGVsbG8=?=",
		"=?base64?=":                          "=?base64?=",
		"a\tb":                                "a\tb",
		"":                                    "",
	} {
		got, _, err := decodeValue([]byte(value), nil)
		if err != nil || string(got) != want {
			t.Errorf("%q: got %q, %v, want %q", value, got, err, want)
		}
	}
	for _, value := range []string{
		"=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?SGVsbG9=?=", "=?base64?/w==?=", "=?base64?SGVs bG8=?=",
		"=?base64?SGVsbG8_?=", "\xc3\xa4", "a\x00", "a\x7f", "a\nb",
	} {
		if got, _, err := decodeValue([]byte(value), nil); err == nil {
			t.Errorf("%q was taken for %q", value, got)
		}
	}
}

func TestCheckParams(t *testing.T) {
	rules := []mcp.ParamRule{
		{Header: "Mcp-Param-Region", Path: []string{"region"}, Type: "string"},
		{Header: "Mcp-Param-Limit", Path: []string{"page", "limit"}, Type: "integer"},
		{Header: "Mcp-Param-Dry", Path: []string{"dry"}, Type: "boolean"},
	}
	for _, c := range []struct {
		args, headers string
		want          string // of the error; empty for none
	}{
		{`{"region":"us-west1"}`, "mcp-param-REGION: us-west1", ""},
		{`{"region":"\u00e4\n"}`, "Mcp-Param-Region: =?base64?w6QK?=", ""},
		{`{"region":"SGVsbG8="}`, "Mcp-Param-Region: SGVsbG8=", ""},
		{`{"region":""}`, "Mcp-Param-Region:", ""},
		{`{"region":null}`, "", ""},
		{`{}`, "", ""},
		{``, "", ""},
		{`{"x":1}`, "Mcp-Param-Other: 5", ""},
		{`{"page":{"limit":42}}`, "Mcp-Param-Limit: 42", ""},
		{`{"page":{"limit":42}}`, "Mcp-Param-Limit: 42.0", ""},
		{`{"page":{"limit":4.2e1}}`, "Mcp-Param-Limit: 42", ""},
		{`{"page":{"limit":-7}}`, "Mcp-Param-Limit: =?base64?LTc=?=", ""},
		{`{"page":{"limit":9007199254740991}}`, "Mcp-Param-Limit: 9007199254740991", ""},
		{`{"page":7}`, "", ""},
		{`{"dry":false}`, "Mcp-Param-Dry: false", ""},

		{`{"region":"us-west1"}`, "Mcp-Param-Region: US-west1", "Mcp-Param-Region differs"},
		{`{"region":"us-west1"}`, "", "Mcp-Param-Region is missing"},
		{`{"region":null}`, "Mcp-Param-Region: x", "its argument is not"},
		{`{}`, "Mcp-Param-Region: x", "its argument is not"},
		{`{"region":"Hello"}`, "Mcp-Param-Region: =?base64?SGVsbG8?=", "not valid Base64"},
		{`{"region":"ä"}`, "Mcp-Param-Region: ä", "characters"},
		{`{"region":5}`, "Mcp-Param-Region: 5", "differs"},
		{`{"page":{"limit":42}}`, "Mcp-Param-Limit: 43", "differs"},
		{`{"page":{"limit":42}}`, "Mcp-Param-Limit: 42.5", "differs"},
		{`{"page":{"limit":42.5}}`, "Mcp-Param-Limit: 42.5", "differs"},
		{`{"page":{"limit":42}}`, "Mcp-Param-Limit: 0x2a", "differs"},
		{`{"page":{"limit":42}}`, "Mcp-Param-Limit: 4_2", "differs"},
		{`{"page":{"limit":7}}`, "Mcp-Param-Limit: 007", "differs"},
		{`{"page":{"limit":42}}`, "Mcp-Param-Limit:", "differs"},
		{`{"page":{"limit":42}}`, "Mcp-Param-Limit: -", "differs"},
		{`{"page":{"limit":9007199254740993}}`, "Mcp-Param-Limit: 9007199254740993", "differs"},
		{`{"page":{"limit":"42"}}`, "Mcp-Param-Limit: 42", "differs"},
		{`{"page":{"limit":1e999}}`, "Mcp-Param-Limit: inf", "differs"},
		{`{"dry":true}`, "Mcp-Param-Dry: True", "differs"},
		{`{"dry":"true"}`, "Mcp-Param-Dry: true", "differs"},
		{`{"dry":true}`, "", "missing"},
	} {
		var h header
		h.read([]byte(c.headers+"\r\n"), "")
		err := h.CheckParams(rules, []byte(c.args))
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s with %q: got %v, want %q", c.args, c.headers, err, c.want)
		}
	}
}

func TestTooManyParamHeaders(t *testing.T) {
	var h header
	for i := range maxParams + 1 {
		h.read(fmt.Appendf(nil, "Mcp-Param-%d: x\r\n", i), "")
	}
	if err := h.mirrors(&jsonrpc.Message{}, nil, nil); err == nil || !strings.Contains(err.Error(), "more than 128") {
		t.Errorf("got %v", err)
	}
}

func TestHeaderReadsEachField(t *testing.T) {
	var h header
	h.read([]byte("host: x\r\nMCP-METHOD:  a \r\nX-User:me\nno colon\r\nMcp-Param-A:1\r\nMcp-Param-:2\r\n"), "X-User")
	if string(h.method.value) != "a" || string(h.principal.value) != "me" || len(h.params) != 1 || string(h.params[0].name) != "A" {
		t.Errorf("got %+v", h)
	}
	h.reset()
	if h.method.seen || len(h.params) > 0 || h.accept.seen {
		t.Errorf("after reset: %+v", h)
	}
	h.read([]byte("X-User: a\r\nx-user: b\r\n"), "X-User")
	if h.repeated == "" {
		t.Error("the principal header stood twice unnoticed")
	}
}

const callSection = "Host: localhost:8080\r\nUser-Agent: ExampleClient/1.0\r\nContent-Length: 321\r\nContent-Type: application/json\r\n" +
	"Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: add\r\n" +
	"Accept-Encoding: gzip\r\nMcp-Param-Region: us-west1\r\n\r\n"

func TestHeaderAllocatesNothing(t *testing.T) {
	var h header
	section, args := []byte(callSection), []byte(`{"region":"us-west1","limit":42}`)
	rules := []mcp.ParamRule{{Header: "Mcp-Param-Region", Path: []string{"region"}, Type: "string"}}
	if n := testing.AllocsPerRun(100, func() {
		h.reset()
		h.read(section, "X-User")
		if err := h.CheckParams(rules, args); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("allocates %v times", n)
	}
}

func BenchmarkHeader(b *testing.B) {
	var h header
	section := []byte(callSection)
	b.ReportAllocs()
	for b.Loop() {
		h.reset()
		h.read(section, "")
	}
}

func BenchmarkCheckParams(b *testing.B) {
	var h header
	h.read([]byte(callSection), "")
	rules := []mcp.ParamRule{{Header: "Mcp-Param-Region", Path: []string{"region"}, Type: "string"}}
	args := []byte(`{"query":"SELECT * FROM users","region":"us-west1"}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := h.CheckParams(rules, args); err != nil {
			b.Fatal(err)
		}
	}
}

// Whatever a header says, a value that passes is the argument's own, in the
// one form that encodes it.
func FuzzHeaderValue(f *testing.F) {
	for _, seed := range []string{
		"us-west1", "=?base64?SGVsbG8sIOS4lueVjA==?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "=?base64?SGVsbG8?=",
		"=?base64?=", "42.0", "-7", "1e3", "true", "\xff", "9007199254740993", "0x10", "inf",
	} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, value, arg string) {
		text, _, err := decodeValue([]byte(value), nil)
		if err == nil && (!utf8.Valid(text) || string(text) != value &&
			sentinelPrefix+base64.StdEncoding.EncodeToString(text)+sentinelSuffix != value) {
			t.Fatalf("%q was taken for %q", value, text)
		}
		quoted, jsonErr := json.Marshal(arg)
		if jsonErr != nil {
			t.Skip("no text")
		}
		h := header{params: []field{{[]byte("A"), []byte(value)}}}
		check := func(kind string, arg []byte) bool {
			object := append(append([]byte(`{"a":`), arg...), '}')
			return h.CheckParams([]mcp.ParamRule{{Header: "Mcp-Param-A", Path: []string{"a"}, Type: kind}}, object) == nil
		}
		if passes, same := check("string", quoted), err == nil && utf8.ValidString(arg) && string(text) == arg; passes != same && utf8.ValidString(arg) {
			t.Fatalf("%q against string %q: passes is %v", value, arg, passes)
		}
		var number float64
		if json.Unmarshal([]byte(arg), &number) == nil && !strings.ContainsAny(arg, " \t\r\n") && arg != "null" {
			var other float64
			if check("integer", []byte(arg)) && (json.Unmarshal(text, &other) != nil || number != other) {
				t.Fatalf("%q passes for integer %s", value, arg)
			}
		}
		if check("boolean", []byte("true")) && string(text) != "true" {
			t.Fatalf("%q passes for true", value)
		}
	})
}
