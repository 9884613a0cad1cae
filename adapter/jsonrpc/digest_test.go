package jsonrpc_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

func digest(raw string, skip ...string) string {
	h := sha256.New()
	var left func([]byte) bool
	if len(skip) > 0 {
		left = func(name []byte) bool { return slices.Contains(skip, string(name)) }
	}
	jsonrpc.Digest(h, []byte(raw), left)
	return string(h.Sum(nil))
}

func TestDigest(t *testing.T) {
	// Values in one line are equal; those in different lines differ.
	classes := [][]string{
		{`null`, ` null `}, {`true`}, {`false`}, {`"null"`}, {`""`}, {`"true"`},
		{`0`, " 0\n"}, {`-0`}, {`0.0`}, {`1`}, {`1.0`}, {`"1"`}, {`1e0`}, {`10`}, {`11`},
		{`[]`, `[ ]`}, {`{}`, `{ }`}, {`[[]]`}, {`[[],[]]`}, {`[[[]]]`}, {`[{}]`}, {`[null]`},
		{`[1,2]`, ` [ 1 , 2 ] `}, {`[2,1]`}, {`[12]`}, {`[1,[2]]`}, {`[[1],2]`}, {`[[1,2]]`},
		{`["a","b"]`, `["\u0061","b"]`}, {`["ab"]`}, {`["a\",\"b"]`}, {`["","ab"]`}, {`["ab",""]`},
		{`["a","bs\u0000\u0000\u0000\u0000c"]`}, {`["as\u0000\u0000\u0000\u0000b","c"]`},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, ` { "\u0062" : 2 , "a" : 1 } `}, {`{"a":2,"b":1}`}, {`{"ab":12}`}, {`{"a":1}`}, {`["a",1,"b",2]`},
		{`{"a":{"x":1,"y":[{"p":1,"q":2}]},"b":2}`, `{"b":2,"a":{"y":[{"q":2,"p":1}],"x":1}}`},
		{`{"a":{"b":1},"c":2}`}, {`{"a":{"b":1,"c":2}}`}, {`{"a":{},"b":{}}`, `{"b":{},"a":{}}`}, {`{"a":{"b":{}}}`},
		{`"/"`, `"\/"`, `"\u002f"`, `"\u002F"`}, {`"\n"`, `"\u000a"`}, {`"\\n"`}, {`"n"`},
		{`"é"`, `"\u00e9"`, `"\u00E9"`}, {`"e\u0301"`}, {`"😀"`, `"\ud83d\ude00"`, `"\uD83D\uDE00"`},
		{`"` + "\ufffd" + `"`, `"\ufffd"`}, {`"\ud800"`, `"\uD800"`}, {`"\ud801"`}, {`"\udc00"`}, {`"\udc00\ud800"`}, {`"\\ud800"`},
		{"\"\xff\""}, {"\"\xfe\""}, {"\"\xff\xff\""}, {"\"\xed\xa0\x80\""}, {"\"\xff\\u0000\""}, {"\"\xff\\u0001\xd8\\u0000\""},
	}
	seen := map[string]string{}
	for _, class := range classes {
		sum := digest(class[0])
		for _, raw := range class[1:] {
			if digest(raw) != sum {
				t.Errorf("%q and %q have different digests", raw, class[0])
			}
		}
		if other, ok := seen[sum]; ok {
			t.Errorf("%q and %q have the same digest", class[0], other)
		}
		seen[sum] = class[0]
	}
}

func TestDigestSkips(t *testing.T) {
	want := digest(`{"name":"x","arguments":{"_meta":1}}`)
	for _, raw := range []string{
		`{"_meta":{"progressToken":1},"name":"x","arguments":{"_meta":1}}`,
		`{"arguments":{"_meta":1},"\u005fmeta":[],"name":"x","requestState":"y"}`,
		` { "requestState" : "y" , "name" : "x" , "arguments" : { "_meta" : 1 } , "_meta" : null } `,
	} {
		if digest(raw, "_meta", "requestState") != want {
			t.Errorf("%s without _meta and requestState has another digest", raw)
		}
	}
	if digest(`{"arguments":{},"name":"x"}`, "_meta") == want {
		t.Error("a member inside of another was skipped")
	}
	if digest(`{"_meta":1}`, "_meta") != digest(`{}`) {
		t.Error("an object of skipped members only is not empty")
	}
}

// Sorting and copying must cost no square, and a hostile nesting no more than
// the nesting allowed.
func TestDigestOfLargeObjects(t *testing.T) {
	const n = 20_000
	up := string(object(n, func(i int) string { return fmt.Sprintf("%05d", i) }))
	down := string(object(n, func(i int) string { return fmt.Sprintf("%05d", n-1-i) }))
	if digest(up) != digest(down) {
		t.Error("the order of members counts")
	}
	const depth = 10_000
	deep := strings.Repeat(`{"b":1,"a":`, depth) + "1" + strings.Repeat("}", depth)
	shallow := strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat(`,"b":1}`, depth)
	if digest(deep) != digest(shallow) {
		t.Error("the order of nested members counts")
	}
}

func TestDigestAllocatesNothing(t *testing.T) {
	needExactAllocations(t)
	h := sha256.New()
	raw := []byte(clientMessages[1])
	left := "_meta"
	if n := testing.AllocsPerRun(100, func() {
		jsonrpc.Digest(h, raw, func(name []byte) bool { return string(name) == left })
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// number keeps a number's text apart from strings in a decoded value.
type number string

// decode makes Go values of a valid text.
func decode(d *jsontext.Decoder) any {
	switch d.PeekKind() {
	case '{':
		d.ReadToken()
		m := map[string]any{}
		for d.PeekKind() != '}' {
			token, _ := d.ReadToken()
			name := token.String()
			m[name] = decode(d)
		}
		d.ReadToken()
		return m
	case '[':
		d.ReadToken()
		a := []any{}
		for d.PeekKind() != ']' {
			a = append(a, decode(d))
		}
		d.ReadToken()
		return a
	case '0':
		value, _ := d.ReadValue()
		return number(value)
	case '"':
		token, _ := d.ReadToken()
		return token.String()
	}
	value, _ := d.ReadValue()
	return map[byte]any{'n': nil, 't': true, 'f': false}[value[0]]
}

func decoded(raw []byte) any { return decode(jsontext.NewDecoder(bytes.NewReader(raw))) }

// respell writes a decoded value with members, spaces and escapes as r has it.
func respell(r *rand.Rand, v any) string {
	space := func() string { return []string{"", " ", "\n\t", "\r"}[r.IntN(4)] }
	var parts []string
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return fmt.Sprint(v)
	case number:
		return string(v)
	case string:
		var b strings.Builder
		for _, c := range v {
			switch units := utf16.Encode([]rune{c}); {
			case c == '/' && r.IntN(2) == 0:
				b.WriteString(`\/`)
			case c < ' ' || c == '"' || c == '\\' || r.IntN(3) == 0:
				for _, u := range units {
					fmt.Fprintf(&b, []string{`\u%04x`, `\u%04X`}[r.IntN(2)], u)
				}
			default:
				b.WriteRune(c)
			}
		}
		return `"` + b.String() + `"`
	case []any:
		for _, e := range v {
			parts = append(parts, space()+respell(r, e)+space())
		}
		return "[" + space() + strings.Join(parts, ",") + "]"
	case map[string]any:
		for name, e := range v {
			parts = append(parts, space()+respell(r, name)+space()+":"+space()+respell(r, e)+space())
		}
		r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		return "{" + space() + strings.Join(parts, ",") + "}"
	}
	panic(fmt.Sprintf("unexpected %T", v))
}

func FuzzDigest(f *testing.F) {
	for i, text := range clientMessages {
		f.Add([]byte(text), []byte(clientMessages[(i+1)%len(clientMessages)]), uint64(i))
	}
	f.Add([]byte(`{"a":[1,"2"]}`), []byte(`{"a":["1",2]}`), uint64(1))
	f.Fuzz(func(t *testing.T, a, b []byte, seed uint64) {
		if !valid(a, false) {
			t.Skip("no valid JSON")
		}
		value := decoded(a)
		again := respell(rand.New(rand.NewPCG(seed, 0)), value)
		if !valid([]byte(again), false) || !reflect.DeepEqual(decoded([]byte(again)), value) {
			t.Fatalf("the test respells %q as %q", a, again)
		}
		if digest(again) != digest(string(a)) {
			t.Fatalf("%q and %q have different digests", a, again)
		}
		if valid(b, false) && reflect.DeepEqual(decoded(b), value) != (digest(string(a)) == digest(string(b))) {
			t.Fatalf("digests of %q and %q: equal is %v", a, b, digest(string(a)) == digest(string(b)))
		}
	})
}
