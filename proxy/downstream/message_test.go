package downstream

import (
	"errors"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		text, id, method string
		code             int // 0: no error
	}{
		"request":                   {`{"jsonrpc":"2.0","id":"a","method":"m"}`, `"a"`, "m", 0},
		"notification":              {`{"jsonrpc":"2.0","method":"m","params":{}}`, "", "m", 0},
		"result":                    {`{"jsonrpc":"2.0","id":1,"result":{}}`, "", "", jsonrpc.CodeInvalidRequest},
		"error":                     {`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}`, "", "", jsonrpc.CodeInvalidRequest},
		"error without an id":       {`{"jsonrpc":"2.0","error":{"code":1,"message":""}}`, "", "", jsonrpc.CodeInvalidRequest},
		"too deep, but with its id": {`{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":[[[]]]}}`, "7", "", jsonrpc.CodeInvalidRequest},
		"no JSON":                   {`{"jsonrpc":"2.0","id":7,`, "7", "", jsonrpc.CodeParse},
	} {
		msg, id, err := Read([]byte(test.text), 4)
		code := 0
		var refusal *adapter.Refusal
		var envelope *jsonrpc.Error
		switch {
		case errors.As(err, &refusal):
			code = ReplyTo(err).Err.Code
		case errors.As(err, &envelope):
			code = envelope.Code
		case err != nil:
			t.Errorf("%s: %v", name, err)
		}
		if string(id) != test.id || code != test.code || test.method != "" && msg.Method != test.method {
			t.Errorf("%s: got id %s, method %q, error %v", name, id, msg.Method, err)
		}
	}
}

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		`{"a":"b\n"}`:                    `{"a":"b\n"}`,
		"{\n\"a\":\r\n1}\n":              "{ \"a\":  1} ",
		"\r\r\n[\n]":                     "   [ ]",
		"{\"a\":\"\u2028\u0085\"}\n":     "{\"a\":\"\u2028\u0085\"} ",
		"[1,2,3,\n4,5,6,\n7,8,9]":        "[1,2,3, 4,5,6, 7,8,9]",
		"\n{\"jsonrpc\":\"2.0\",\r\r\n}": " {\"jsonrpc\":\"2.0\",   }",
	} {
		got := []byte(text)
		if OneLine(got); string(got) != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
