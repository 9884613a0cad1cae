package jsonrpc_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

func TestValidate(t *testing.T) {
	const depth = 4
	tests := []struct {
		text            string
		strict, lenient error
	}{
		{text: `null`},
		{text: " \t\r\n{ \"a\" : [ 1 , -0.5e+10 , true , false , null , \"\" , { } , [ ] ] } \n"},
		{text: `"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"`},
		{text: `"é 日本語 😀, longer than one word of eight bytes"`},
		{text: `{"a":{"a":{"a":{}}},"b":{"a":1}}`},
		{text: `[[[[]]]]`},

		{``, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{` `, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`{} {}`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{"\ufeff{}", jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{"{\v}", jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`{"a":1,}`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`{"a"}`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`{"a" 1}`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`{a:1}`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`{"a":1`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`{"a":`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`{,}`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`[1,]`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`[1 2]`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`[1}`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`{"a":1]`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`]`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`tru`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`True`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`nullx`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`NaN`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`01`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`-`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`+1`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`1.`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`.5`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`1e`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`1e+`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`0x1`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`"`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`"abcdefghijkl`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`"\`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`"\x"`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`"\u12g4"`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{`"\u12`, jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{"\"tab\there, in a long string\"", jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{"\"\x00\"", jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},
		{"\"é then \n\"", jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},

		{"\"\xff\"", jsonrpc.ErrUTF8, nil},
		{"\"\xc3\"", jsonrpc.ErrUTF8, nil},
		{"\"\xc3\\u00a9\"", jsonrpc.ErrUTF8, nil},
		{"\"\xc0\xaf\"", jsonrpc.ErrUTF8, nil},
		{"\"\xed\xa0\x80\"", jsonrpc.ErrUTF8, nil},
		{"\"\xf4\x90\x80\x80\"", jsonrpc.ErrUTF8, nil},
		{`"\ud800"`, jsonrpc.ErrUTF8, nil},
		{`"\ude00"`, jsonrpc.ErrUTF8, nil},
		{`"\ud83dx\ude00"`, jsonrpc.ErrUTF8, nil},
		{`"\ud83d\ud83d\ude00"`, jsonrpc.ErrUTF8, nil},
		{"\xff", jsonrpc.ErrSyntax, jsonrpc.ErrSyntax},

		{`{"a":1,"a":1}`, jsonrpc.ErrDuplicate, jsonrpc.ErrDuplicate},
		{`{"method":1,"meth\u006fd":1}`, jsonrpc.ErrDuplicate, jsonrpc.ErrDuplicate},
		{`{"\u0061":1,"b":{"a":1},"a":1}`, jsonrpc.ErrDuplicate, jsonrpc.ErrDuplicate},
		{`{"\/":1,"/":1}`, jsonrpc.ErrDuplicate, jsonrpc.ErrDuplicate},
		{`{"":1,"":1}`, jsonrpc.ErrDuplicate, jsonrpc.ErrDuplicate},
		{`[{"x":{"a":1,"b":2,"a":3}}]`, jsonrpc.ErrDuplicate, jsonrpc.ErrDuplicate},
		{`{"😀":1,"\ud83d\uDE00":1}`, jsonrpc.ErrDuplicate, jsonrpc.ErrDuplicate},
		{`{"io.modelcontextprotocol/clientInfo":1,"io.modelcontextprotocol/clientInfo":2}`, jsonrpc.ErrDuplicate, jsonrpc.ErrDuplicate},
		{text: `{"io.modelcontextprotocol/clientInfo":1,"io.modelcontextprotocol/clientInfx":2,"io.modelcontextprotocol/alientInfo":3}`},
		{text: `{"a":1,"A":1,"ab":1,"ba":1,"aba":1,"abba":1,"abbba":1}`},
		{"{\"\xff\":1,\"\xfe\":1}", jsonrpc.ErrUTF8, jsonrpc.ErrDuplicate},
		{"{\"\xff\":1,\"\ufffd\":1}", jsonrpc.ErrUTF8, jsonrpc.ErrDuplicate},
		{"{\"\\ud800\":1,\"\ufffd\":1}", jsonrpc.ErrUTF8, jsonrpc.ErrDuplicate},
		{"{\"\xffa\":1,\"\xfeb\":1}", jsonrpc.ErrUTF8, nil},

		{`[[[[[]]]]]`, jsonrpc.ErrDepth, jsonrpc.ErrDepth},
		{`{"a":{"a":{"a":{"a":[]}}}}`, jsonrpc.ErrDepth, jsonrpc.ErrDepth},
	}
	for _, tt := range tests {
		for mode, want := range map[jsonrpc.Mode]error{jsonrpc.Strict: tt.strict, jsonrpc.Lenient: tt.lenient} {
			err := jsonrpc.Validate([]byte(tt.text), mode, depth)
			if !errors.Is(err, want) {
				t.Errorf("Validate(%q, mode %d) = %v, want %v", tt.text, mode, err, want)
			}
			if want != jsonrpc.ErrDepth && valid([]byte(tt.text), mode == jsonrpc.Lenient) != (err == nil) {
				t.Errorf("Validate(%q, mode %d) = %v, but jsontext disagrees", tt.text, mode, err)
			}
		}
	}
}

func TestValidateNamesTheOffset(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"a":2}`:   "at byte 7",
		`[1,x]`:           "at byte 3",
		"[1,\"ab\xff\"]":  "at byte 6",
		`{"a":[[]]}`:      "at byte 6",
		`{"secret":"xyz"`: "at byte 15",
	} {
		err := jsonrpc.Validate([]byte(text), jsonrpc.Strict, 2)
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("Validate(%q) = %v, want an error %s", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("Validate(%q) = %v, which repeats the text", text, err)
		}
	}
}

func TestValidateDepth(t *testing.T) {
	for _, depth := range []int{0, 1, 2, 64, oracleDepth} {
		arrays := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		if depth == 0 {
			arrays = "1"
		}
		objects := strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
		for _, text := range []string{arrays, objects} {
			if err := jsonrpc.Validate([]byte(text), jsonrpc.Strict, depth); err != nil {
				t.Errorf("depth %d of %d: %v", depth, depth, err)
			}
			if err := jsonrpc.Validate([]byte("["+text+"]"), jsonrpc.Strict, depth); !errors.Is(err, jsonrpc.ErrDepth) {
				t.Errorf("depth %d of %d: %v, want ErrDepth", depth+1, depth, err)
			}
		}
	}
	// Deeper than any stack of frames should grow, and never closed.
	if err := jsonrpc.Validate([]byte(strings.Repeat("[", 1<<20)), jsonrpc.Strict, 100); !errors.Is(err, jsonrpc.ErrDepth) {
		t.Errorf("a million brackets: %v, want ErrDepth", err)
	}
}

// Objects on both sides of the step from comparing to hashing, and of each
// growth of the table, with large objects inside large objects.
func TestDuplicatesInLargeObjects(t *testing.T) {
	for _, n := range []int{1, 2, 15, 16, 17, 31, 32, 33, 127, 128, 129, 5000} {
		plain := func(i int) string { return fmt.Sprintf("name-%d", i) }
		inner := string(object(n, plain))
		for _, text := range []string{inner, `{"x":` + inner + `,"y":` + inner + `}`, inner[:len(inner)-1] + `,"x":` + inner + `,"y":[` + inner + `],"z":0}`} {
			if err := jsonrpc.Validate([]byte(text), jsonrpc.Strict, 10); err != nil {
				t.Errorf("%d different names: %v", n, err)
			}
		}
		for _, twin := range []int{0, n / 2, n - 1} {
			for _, name := range []string{plain(twin), fmt.Sprintf(`\u006eame\u002d%d`, twin)} {
				text := inner[:len(inner)-1] + `,"x":` + inner + `,"` + name + `":0}`
				if err := jsonrpc.Validate([]byte(text), jsonrpc.Strict, 10); !errors.Is(err, jsonrpc.ErrDuplicate) {
					t.Errorf("name %d of %d again as %q: %v, want ErrDuplicate", twin, n, name, err)
				}
			}
		}
	}
}

func TestHostileNamesCostNoSquare(t *testing.T) {
	for what, name := range map[string]func(i int) string{
		"plain":   func(i int) string { return fmt.Sprintf("%06x", i) },
		"escaped": func(i int) string { return fmt.Sprintf(`\u0061%06x`, i) },
		"long":    func(i int) string { return fmt.Sprintf("same-beginning-%06x-same-end", i) },
	} {
		text := object(400_000, name)
		start := time.Now()
		if err := jsonrpc.Validate(text, jsonrpc.Strict, 10); err != nil {
			t.Fatal(err)
		}
		// It takes some 50 ms. Comparing each name with each would take minutes.
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s: 400,000 names took %v", what, took)
		}
	}
}

func TestValidateAllocatesNothing(t *testing.T) {
	needExactAllocations(t)
	wide := object(300, func(i int) string { return fmt.Sprintf("n%d", i) })
	for what, text := range map[string][]byte{
		"call": call(100), "tools": tools(100 << 10), "300 names": wide,
		"escaped names": []byte(`{"\u0061":{"\u0062":1},"c\n":2}`),
	} {
		for _, mode := range []jsonrpc.Mode{jsonrpc.Strict, jsonrpc.Lenient} {
			if n := testing.AllocsPerRun(100, func() {
				if err := jsonrpc.Validate(text, mode, 64); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%s, mode %d: %v allocations, want 0", what, mode, n)
			}
		}
	}
}

func FuzzValidate(f *testing.F) {
	for _, text := range append(clientMessages, serverMessages...) {
		f.Add([]byte(text))
	}
	f.Add(object(40, func(i int) string { return fmt.Sprint(i % 39) }))
	f.Add([]byte(`{"a":[1,-2.5e3,"x\u00e9\ud83d\ude00\\"],"A":{"":null},"b":[true,false,[{}]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, mode := range []jsonrpc.Mode{jsonrpc.Strict, jsonrpc.Lenient} {
			err := jsonrpc.Validate(data, mode, oracleDepth)
			if want := valid(data, mode == jsonrpc.Lenient); want != (err == nil) {
				t.Fatalf("Validate(%q, mode %d) = %v, jsontext says valid is %v", data, mode, err, want)
			}
			if err == nil {
				walk(t, data, mode == jsonrpc.Lenient)
			} else {
				stumble(data)
			}
		}
	})
}
