package jsonrpc_test

import (
	"bytes"
	"hash/fnv"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

// walk compares what Cursors see of a valid text with what jsontext does.
func walk(t *testing.T, raw []byte, lenient bool) {
	t.Helper()
	raw = bytes.TrimSpace(raw)
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowInvalidUTF8(lenient))
	switch d.PeekKind() {
	case '{':
		d.ReadToken()
		c := jsonrpc.Object(raw)
		for c.Next() {
			token, err := d.ReadToken()
			if err != nil || token.Kind() != '"' {
				t.Fatalf("Object(%q) has a member %q too many", raw, c.RawName())
			}
			name := token.String()
			if got, _ := jsonrpc.Unquote(c.RawName()); got != name {
				t.Fatalf("Object(%q): RawName is %q, want %q", raw, got, name)
			}
			if got := string(c.Name()); got != name && !lenient {
				t.Fatalf("Object(%q): Name is %q, want %q", raw, got, name)
			}
			if want, _ := d.ReadValue(); string(want) != string(c.Value()) {
				t.Fatalf("Object(%q): value of %q is %q, want %q", raw, name, c.Value(), want)
			}
			walk(t, c.Value(), lenient)
		}
		if d.PeekKind() != '}' {
			t.Fatalf("Object(%q) ended before %v", raw, d.PeekKind())
		}
		if c.Next() || c.Name() != nil || len(c.Value()) != 0 {
			t.Fatalf("Object(%q) goes on after its end", raw)
		}
	case '[':
		d.ReadToken()
		c := jsonrpc.Array(raw)
		for c.Next() {
			if want, err := d.ReadValue(); err != nil || string(want) != string(c.Value()) {
				t.Fatalf("Array(%q): element is %q, want %q", raw, c.Value(), want)
			}
			walk(t, c.Value(), lenient)
		}
		if d.PeekKind() != ']' {
			t.Fatalf("Array(%q) ended before %v", raw, d.PeekKind())
		}
	case '"':
		token, _ := d.ReadToken()
		want := token.String()
		got, ok := jsonrpc.Unquote(raw)
		if !ok || got != want {
			t.Fatalf("Unquote(%q) = %q, %v, want %q", raw, got, ok, want)
		}
		quoted := jsonrpc.AppendQuote(nil, want)
		if again, ok := jsonrpc.Unquote(quoted); !ok || again != want || !valid(quoted, false) {
			t.Fatalf("AppendQuote(%q) = %q", want, quoted)
		}
	}
}

// stumble hands a text that may not be valid to all that expect a valid one:
// none of it may panic or run forever.
func stumble(raw []byte) {
	for c := jsonrpc.Object(raw); c.Next(); {
		c.Name()
		c.RawName()
		jsonrpc.Unquote(c.Value())
	}
	for c := jsonrpc.Array(raw); c.Next(); {
		c.Value()
	}
	jsonrpc.Get(raw, "id")
	jsonrpc.ParseError(raw)
	jsonrpc.AppendMembers(nil, raw, func(name []byte) bool { return len(name) == 1 })
	if len(raw) < 1<<16 {
		jsonrpc.Digest(fnv.New64(), raw, func(name []byte) bool { return len(name) == 1 })
	}
}

func TestCursor(t *testing.T) {
	for _, text := range append(clientMessages, string(tools(2000)), ` [ ] `, `{ }`, ` [ [ ] , { } , "]" , -1 ] `, `{"a\"}":"\\","b":{"c":"}"} , "":[0]}`) {
		if valid([]byte(text), false) {
			walk(t, []byte(text), false)
		}
	}
	for _, text := range []string{``, ` `, `1`, `null`, `"{}"`, `[1]`} {
		if c := jsonrpc.Object([]byte(text)); c.Next() {
			t.Errorf("Object(%q).Next() = true", text)
		}
	}
	for _, text := range []string{``, `1`, `"[1]"`, `{"a":1}`} {
		if c := jsonrpc.Array([]byte(text)); c.Next() {
			t.Errorf("Array(%q).Next() = true", text)
		}
	}
	var zero jsonrpc.Cursor
	if zero.Next() {
		t.Error("the zero Cursor has a member")
	}
}

func TestInvalidTextDoesNoHarm(t *testing.T) {
	text := call(20)
	for i := range text {
		stumble(text[:i])
		stumble(text[i:])
		stumble(append(append([]byte(`{"a":`), text[i:]...), '"'))
	}
	for _, text := range []string{`"`, `{"`, `{"\`, `["\`, `{"a":"`, `{"a"`, `{"a":`, `[,`, `[}`, `{"a":}`, `{"a"1`, `["\u12"]`, `{"a":]`, `{"a":,"b"`, `[]]`} {
		stumble([]byte(text))
	}
}

func TestCursorAliasesAndCannotBeAppendedTo(t *testing.T) {
	raw := []byte(`{"plain":1,"esc\u0061ped":2}`)
	c := jsonrpc.Object(raw)
	c.Next()
	if name := c.Name(); &name[0] != &raw[2] {
		t.Error("a name without escapes does not alias the source")
	}
	if value := append(c.Value(), 'x'); string(raw) != `{"plain":1,"esc\u0061ped":2}` || string(value) != "1x" {
		t.Errorf("appending to a value changed the source: %s", raw)
	}
	c.Next()
	if string(c.Name()) != "escaped" || string(c.RawName()) != `"esc\u0061ped"` {
		t.Errorf("Name = %q, RawName = %q", c.Name(), c.RawName())
	}
}

func TestGet(t *testing.T) {
	raw := []byte(` {"a" : {"b":1} , "\u0062":[2], "c":null}`)
	for name, want := range map[string]string{"a": `{"b":1}`, "b": `[2]`, "c": `null`} {
		if got := jsonrpc.Get(raw, name); string(got) != want {
			t.Errorf("Get(%q) = %q, want %q", name, got, want)
		}
	}
	if got := jsonrpc.Get(raw, "d"); got != nil {
		t.Errorf("Get of an absent member = %q", got)
	}
	if got := jsonrpc.Get([]byte(`["a"]`), "a"); got != nil {
		t.Errorf("Get of an array = %q", got)
	}
	if got := jsonrpc.Get(nil, "a"); got != nil {
		t.Errorf("Get of nothing = %q", got)
	}
}

func TestKinds(t *testing.T) {
	for _, tt := range []struct {
		raw                         string
		object, array, text, isNull bool
	}{
		{raw: `{}`, object: true}, {raw: ` {"a":1}`, object: true}, {raw: "\n[1]", array: true},
		{raw: `"a"`, text: true}, {raw: `""`, text: true}, {raw: `null`, isNull: true},
		{raw: `"`}, {raw: ``}, {raw: `1`}, {raw: `true`}, {raw: `nul`},
	} {
		raw := []byte(tt.raw)
		if got := jsonrpc.IsObject(raw); got != tt.object {
			t.Errorf("IsObject(%q) = %v", raw, got)
		}
		if got := jsonrpc.IsArray(raw); got != tt.array {
			t.Errorf("IsArray(%q) = %v", raw, got)
		}
		if got := jsonrpc.IsString(raw); got != tt.text {
			t.Errorf("IsString(%q) = %v", raw, got)
		}
		if got := jsonrpc.IsNull(raw); got != tt.isNull {
			t.Errorf("IsNull(%q) = %v", raw, got)
		}
	}
}

func TestAppendMembers(t *testing.T) {
	raw := []byte(` { "a" : 1.0 , "_\u006deta" : { "x" : 1 } , "\u0062":"\/" } `)
	for _, tt := range []struct {
		skip func([]byte) bool
		want string
	}{
		{nil, `"a":1.0,"_\u006deta":{ "x" : 1 },"\u0062":"\/"`},
		{func(name []byte) bool { return string(name) == "_meta" }, `"a":1.0,"\u0062":"\/"`},
		{func(name []byte) bool { return string(name) == "a" }, `"_\u006deta":{ "x" : 1 },"\u0062":"\/"`},
		{func([]byte) bool { return true }, ``},
	} {
		if got := jsonrpc.AppendMembers([]byte("{"), raw, tt.skip); string(got) != "{"+tt.want {
			t.Errorf("AppendMembers = %s, want {%s", got, tt.want)
		}
	}
}

func TestWalkingAllocatesNothing(t *testing.T) {
	needExactAllocations(t)
	raw := call(300)
	dst := make([]byte, 0, 4096)
	left := "id"
	if n := testing.AllocsPerRun(100, func() {
		for c := jsonrpc.Object(raw); c.Next(); {
			for p := jsonrpc.Object(c.Value()); p.Next(); {
				if len(p.Name()) == 0 || len(p.Value()) == 0 {
					t.Fatal("empty member")
				}
			}
		}
		for c := jsonrpc.Array([]byte(`[1,2]`)); c.Next(); {
			dst = append(dst[:0], c.Value()...)
		}
		if jsonrpc.Get(jsonrpc.Get(raw, "params"), "name") == nil {
			t.Fatal("no name")
		}
		dst = jsonrpc.AppendMembers(dst[:0], raw, func(name []byte) bool { return string(name) == left })
		dst = jsonrpc.AppendQuote(dst, "some text \n")
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
