package jsonrpc_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

// parseServer collects what ParseServer yields.
func parseServer(text string, depth int) (got []string, err error) {
	err = jsonrpc.ParseServer([]byte(text), depth, func(m jsonrpc.Message) error {
		got = append(got, show(m))
		return nil
	})
	return got, err
}

func TestParseServer(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []jsonrpc.Message
		err  error
	}{
		{text: ` {"jsonrpc":"2.0","id":1,"result":{"a":[1]}} `, want: []jsonrpc.Message{{ID: []byte("1"), Result: []byte(`{"a":[1]}`)}}},
		{text: `{"jsonrpc":"2.0","id":"s","method":"roots/list"}`, want: []jsonrpc.Message{{ID: []byte(`"s"`), Method: "roots/list"}}},
		{text: `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`, want: []jsonrpc.Message{{Error: []byte(`{"code":-32700,"message":"x"}`)}}},
		{text: "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":\"\xff\\ud800\"}", want: []jsonrpc.Message{{ID: []byte("2"), Result: []byte("\"\xff\\ud800\"")}}},
		{text: `{"jsonrpc":"2.0","id":1,"result":null}`, want: []jsonrpc.Message{{ID: []byte("1"), Result: []byte(`null`)}}},

		// All members written, those that stand for nothing as null.
		{text: `{"jsonrpc":"2.0","id":null,"method":"m","params":null,"result":null,"error":null}`, want: []jsonrpc.Message{{Method: "m"}}},
		{text: `{"jsonrpc":"2.0","id":1,"result":{},"error":null}`, want: []jsonrpc.Message{{ID: []byte("1"), Result: []byte(`{}`)}}},
		{text: `{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1}}`, want: []jsonrpc.Message{{ID: []byte("1"), Error: []byte(`{"code":1}`)}}},

		// A method's name is fit for a log, whatever the server writes.
		{text: "{\"jsonrpc\":\"2.0\",\"method\":\"a\x88\"}", want: []jsonrpc.Message{{Method: "a\ufffd"}}},

		// A strange case is an unknown member here: it is not sent on.
		{text: `{"jsonrpc":"2.0","id":1,"result":{},"Result":1}`, want: []jsonrpc.Message{{ID: []byte("1"), Result: []byte(`{}`)}}},

		{text: ` [ {"jsonrpc":"2.0","method":"a"} , {"jsonrpc":"2.0","id":5,"result":{}} ] `,
			want: []jsonrpc.Message{{Method: "a"}, {ID: []byte("5"), Result: []byte(`{}`)}}},
		{text: `[{"jsonrpc":"2.0","method":"a"},7,{"jsonrpc":"2.0","method":"b"}]`, err: jsonrpc.ErrInvalid,
			want: []jsonrpc.Message{{Method: "a"}, {Method: "b"}}},
		{text: `[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"]`, err: jsonrpc.ErrSyntax},
		{text: `[{"jsonrpc":"2.0","method":"a","params":{"x":1,"x":2}}]`, err: jsonrpc.ErrDuplicate},
		{text: `[]`, err: jsonrpc.ErrInvalid},
		{text: `[[{"jsonrpc":"2.0","method":"a"}]]`, err: jsonrpc.ErrInvalid},

		{text: ``, err: jsonrpc.ErrSyntax},
		{text: `{"jsonrpc":"2.0","id":1,"result":{}`, err: jsonrpc.ErrSyntax},
		{text: `{"jsonrpc":"2.0","id":1,"result":{}}{}`, err: jsonrpc.ErrSyntax},
		{text: `{"jsonrpc":"2.0","id":1,"result":{"a":1,"\u0061":2}}`, err: jsonrpc.ErrDuplicate},
		{text: `{"jsonrpc":"2.0","id":1,"result":[[[[]]]]}`, err: jsonrpc.ErrDepth},
		{text: `null`, err: jsonrpc.ErrInvalid},
		{text: `{"id":1,"result":{}}`, err: jsonrpc.ErrInvalid},
		{text: `{"jsonrpc":"2.0","id":1.5,"result":{}}`, err: jsonrpc.ErrInvalid},
		{text: `{"jsonrpc":"2.0","id":"` + "\xff" + `","result":{}}`, err: jsonrpc.ErrInvalid},
		{text: `{"jsonrpc":"2.0","result":{}}`, err: jsonrpc.ErrInvalid},
		{text: `{"jsonrpc":"2.0","id":1}`, err: jsonrpc.ErrInvalid},
		{text: `{"jsonrpc":"2.0","id":1,"error":null}`, err: jsonrpc.ErrInvalid},
		{text: `{"jsonrpc":"2.0","id":1,"error":"x"}`, err: jsonrpc.ErrInvalid},
		{text: `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, err: jsonrpc.ErrInvalid},
		{text: `{"jsonrpc":"2.0","id":1,"method":"a","result":{}}`, err: jsonrpc.ErrInvalid},
		{text: `{"jsonrpc":"2.0","id":1,"method":""}`, err: jsonrpc.ErrInvalid},
		{text: `{"jsonrpc":"2.0","id":1,"method":null}`, err: jsonrpc.ErrInvalid},
		{text: `{"jsonrpc":"2.0","id":1,"method":"a","params":[]}`, err: jsonrpc.ErrInvalid},
	} {
		var want []string
		for _, m := range tt.want {
			want = append(want, show(m))
		}
		got, err := parseServer(tt.text, 4)
		if !errors.Is(err, tt.err) || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("ParseServer(%s) yields %v, %v, want %v, %v", tt.text, got, err, want, tt.err)
		}
		if e := (*jsonrpc.Error)(nil); errors.As(err, &e) {
			t.Errorf("ParseServer(%s) returns an *Error, which would be told to the client", tt.text)
		}
	}
}

func TestParseServerStopsWhenYieldFails(t *testing.T) {
	enough := errors.New("enough")
	for _, text := range []string{`{"jsonrpc":"2.0","method":"a"}`, `[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]`} {
		n := 0
		err := jsonrpc.ParseServer([]byte(text), 8, func(jsonrpc.Message) error { n++; return enough })
		if err != enough || n != 1 {
			t.Errorf("ParseServer(%s) = %v after %d messages, want %v after 1", text, err, n, enough)
		}
	}
}

func TestParseServerNamesTheMessage(t *testing.T) {
	_, err := parseServer(`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"1.0"}]`, 8)
	if err == nil || !strings.Contains(err.Error(), "message 1 of the array") {
		t.Errorf("error is %v, want one that names message 1", err)
	}
}

func TestParseServerAllocatesNothing(t *testing.T) {
	needExactAllocations(t)
	for _, text := range [][]byte{[]byte(serverMessages[0]), []byte(serverMessages[2]), []byte(serverMessages[3]), tools(100 << 10)} {
		messages := 0
		if n := testing.AllocsPerRun(100, func() {
			if err := jsonrpc.ParseServer(text, 64, func(m jsonrpc.Message) error { messages += len(m.Method) + 1; return nil }); err != nil {
				t.Fatal(err)
			}
		}); n != 0 || messages == 0 {
			t.Errorf("%.60s: %v allocations, want 0", text, n)
		}
	}
}

func FuzzParseServer(f *testing.F) {
	for _, text := range append(clientMessages, serverMessages...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseServer(string(data), oracleDepth)
		ok := valid(data, true)
		if !ok && (err == nil || len(got) > 0) {
			t.Fatalf("ParseServer(%q) yields %v, %v of what is no JSON", data, got, err)
		}
		if ok && (errors.Is(err, jsonrpc.ErrSyntax) || errors.Is(err, jsonrpc.ErrDuplicate)) {
			t.Fatalf("ParseServer(%q) = %v, jsontext sees no fault", data, err)
		}
		if ok && err == nil && data[strings.IndexAny(string(data), "{[")] == '{' {
			if want := show(asMessage(members(data, true))); len(got) != 1 || got[0] != want {
				t.Fatalf("ParseServer(%q) yields %v, want %s", data, got, want)
			}
		}
		// What a client may send is also what a server may send.
		if m, err := jsonrpc.ParseRequest(data, oracleDepth); err == nil && (len(got) != 1 || got[0] != show(m)) {
			t.Fatalf("ParseServer(%q) yields %v, ParseRequest %s", data, got, show(m))
		}
	})
}
