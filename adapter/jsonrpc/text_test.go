package jsonrpc_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

func TestUnquote(t *testing.T) {
	for raw, want := range map[string]string{
		`""`:                                     "",
		`"abc"`:                                  "abc",
		`"\"\\\/\b\f\n\r\t"`:                     "\"\\/\b\f\n\r\t",
		`"caf\u00e9 \u65E5 \ud83d\uDE00 \u0000"`: "café 日 😀 \x00",
		`"\ud800"`:                               "\ufffd",
		`"\ude00\ud83d"`:                         "\ufffd\ufffd",
		`"\ud83d\ud83d\ude00"`:                   "\ufffd😀",
		"\"a\xff\xfeb\"":                         "a\ufffd\ufffdb",
		"\"\xe6\x97\"":                           "\ufffd\ufffd",
	} {
		if got, ok := jsonrpc.Unquote([]byte(raw)); !ok || got != want {
			t.Errorf("Unquote(%q) = %q, %v, want %q", raw, got, ok, want)
		}
	}
	for _, raw := range []string{``, `"`, `abc`, `"abc`, `1`, `null`, `{}`, `"a"b"`, `"\x"`, `"\u12"`, `"\`, "\"\n\"", ` "a"`, `"a" `} {
		if got, ok := jsonrpc.Unquote([]byte(raw)); ok {
			t.Errorf("Unquote(%q) = %q, true", raw, got)
		}
	}
}

func TestAppendQuote(t *testing.T) {
	for text, want := range map[string]string{
		"":                        `""`,
		"plain <&> 日本 \u2028\x7f": "\"plain <&> 日本 \u2028\x7f\"",
		"\"\\/\b\f\n\r\t\x00\x1f": `"\"\\/\b\f\n\r\t\u0000\u001f"`,
		"a\xffb\xe6\x97":          "\"a\ufffdb\ufffd\ufffd\"",
		"\ufffd":                  "\"\ufffd\"",
		"\xed\xa0\x80":            "\"\ufffd\ufffd\ufffd\"",
	} {
		if got := string(jsonrpc.AppendQuote([]byte("x"), text)); got != "x"+want {
			t.Errorf("AppendQuote(%q) = %s, want %s", text, got[1:], want)
		}
	}
}

func FuzzAppendQuote(f *testing.F) {
	for _, text := range append(clientMessages, serverMessages...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted := jsonrpc.AppendQuote(nil, text)
		if !utf8.Valid(quoted) || !valid(quoted, false) {
			t.Fatalf("AppendQuote(%q) = %q, which is not valid", text, quoted)
		}
		if got, ok := jsonrpc.Unquote(quoted); !ok || got != string([]rune(text)) {
			t.Fatalf("Unquote(AppendQuote(%q)) = %q, %v", text, got, ok)
		}
	})
}

func TestFoldsTo(t *testing.T) {
	known := []string{"jsonrpc", "id", "method", "params", "task"}
	for name, want := range map[string]string{
		"Method": "method", "METHOD": "method", "ID": "id", "iD": "id", "param\u017f": "params", "PARAM\u017f": "params",
		"ta\u017f\u212a": "task", "tas\u212a": "task",
		"method": "", "id": "", "methods": "", "metho": "", "": "", "\u0131d": "", "param\u015b": "", "x": "", "`d": "", "metho\x84": "", "I\x44\x00": "",
	} {
		got, ok := jsonrpc.FoldsTo([]byte(name), known)
		if got != want || ok != (want != "") {
			t.Errorf("FoldsTo(%q) = %q, %v, want %q", name, got, ok, want)
		}
	}
	if got, ok := jsonrpc.FoldsTo([]byte("a"), []string{"A", "a"}); ok {
		t.Errorf("FoldsTo(a; A, a) = %q, though a is known", got)
	}
	// Every rune that folds to an ASCII letter, and all that do not.
	for r := rune(0); r <= unicode.MaxRune; r++ {
		name := string(r)
		for _, k := range []string{"k", "s", "i", "S", "\u00e9"} {
			_, ok := jsonrpc.FoldsTo([]byte(name), []string{k})
			if want := strings.EqualFold(name, k) && name != k; ok != want {
				t.Fatalf("FoldsTo(%q, %q) = %v, want %v", name, k, ok, want)
			}
		}
	}
}

func FuzzFoldsTo(f *testing.F) {
	f.Add("param\u017f", "params")
	f.Add("\u212aey", "KEY")
	f.Add("\xff", "\ufffd")
	f.Fuzz(func(t *testing.T, name, known string) {
		_, ok := jsonrpc.FoldsTo([]byte(name), []string{known})
		if want := strings.EqualFold(name, known) && name != known; ok != want {
			t.Fatalf("FoldsTo(%q, %q) = %v, want %v", name, known, ok, want)
		}
	})
}

func TestFoldsToAllocatesNothing(t *testing.T) {
	needExactAllocations(t)
	known := []string{"io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientInfo"}
	name := []byte("io.modelcontextprotocol/ClientCapabilities-and-more")
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := jsonrpc.FoldsTo(name, known); ok {
			t.Fatal("folds")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
