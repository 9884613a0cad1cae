package jsonrpc_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

func TestAppend(t *testing.T) {
	id := []byte(`"a"`)
	for _, tt := range []struct{ got, want string }{
		{string(jsonrpc.AppendRequest([]byte("x"), id, "tools/call", []byte(`{"a":1}`))), `x{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"a":1}}`},
		{string(jsonrpc.AppendRequest(nil, id, `a"b`, nil)), `{"jsonrpc":"2.0","id":"a","method":"a\"b"}`},
		{string(jsonrpc.AppendRequest(nil, nil, "notifications/initialized", nil)), `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
		{string(jsonrpc.AppendResult([]byte("x"), []byte("7"), []byte(`{}`))), `x{"jsonrpc":"2.0","id":7,"result":{}}`},
		{string(jsonrpc.AppendError([]byte("x"), id, &jsonrpc.Error{Code: -32603, Message: "no \xff\n"})), `x{"jsonrpc":"2.0","id":"a","error":{"code":-32603,"message":"no ` + "\ufffd" + `\n"}}`},
		{string(jsonrpc.AppendError(nil, nil, &jsonrpc.Error{Code: 1, Data: []byte(`[2]`)})), `{"jsonrpc":"2.0","error":{"code":1,"message":"","data":[2]}}`},
	} {
		if tt.got != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
		if text := strings.TrimPrefix(tt.got, "x"); !valid([]byte(text), false) {
			t.Errorf("%s is not valid", text)
		}
	}
}

func TestParseError(t *testing.T) {
	e, ok := jsonrpc.ParseError([]byte(`{"code":-32601,"message":"no \"x\"","data":{"a":1},"more":1}`))
	if !ok || e.Code != -32601 || e.Message != `no "x"` || string(e.Data) != `{"a":1}` {
		t.Errorf("ParseError = %+v, %v", e, ok)
	}
	if e, ok = jsonrpc.ParseError([]byte(`{"message":7,"code":1}`)); !ok || e.Code != 1 || e.Message != "" || e.Data != nil {
		t.Errorf("ParseError = %+v, %v", e, ok)
	}
	for _, raw := range []string{``, `null`, `{}`, `{"message":"x"}`, `{"code":"1"}`, `{"code":1.5}`, `{"code":99999999999999999999}`, `[{"code":1}]`} {
		if e, ok := jsonrpc.ParseError([]byte(raw)); ok || e != nil {
			t.Errorf("ParseError(%s) = %+v, %v", raw, e, ok)
		}
	}
}

func TestErrorText(t *testing.T) {
	e := &jsonrpc.Error{Code: -32602, Message: "no", Data: []byte(`"secret"`)}
	if got, want := e.Error(), "JSON-RPC error -32602: no"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if errors.Unwrap(e) != nil {
		t.Errorf("an error without a cause wraps %v", errors.Unwrap(e))
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	needExactAllocations(t)
	dst := make([]byte, 0, 4096)
	id, params := []byte("42"), []byte(`{"a":1}`)
	e := &jsonrpc.Error{Code: -32603, Message: "Internal error", Data: params}
	if n := testing.AllocsPerRun(100, func() {
		dst = jsonrpc.AppendRequest(dst[:0], id, "tools/call", params)
		dst = jsonrpc.AppendResult(dst, id, params)
		dst = jsonrpc.AppendError(dst, id, e)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
