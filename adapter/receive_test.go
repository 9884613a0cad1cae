package adapter

import "testing"

func TestWithCode(t *testing.T) {
	for _, tt := range []struct{ raw, want string }{
		{`{"code":-32002,"message":"not found"}`, `{"code":-32602,"message":"not found"}`},
		{`{"message":"not found","code":-32002,"data":{"uri": "x","code":1.0}}`, `{"code":-32602,"message":"not found","data":{"uri": "x","code":1.0}}`},
		{`{ "c\u006fde" : -32002 , "message":"m", "own":[1,2] }`, `{"code":-32602,"message":"m","own":[1,2]}`},
		{`{"code":-32002}`, `{"code":-32602}`},
	} {
		if got := string(withCode([]byte(tt.raw), -32602)); got != tt.want {
			t.Errorf("%s became %s, want %s", tt.raw, got, tt.want)
		}
	}
}

func TestWithURLMode(t *testing.T) {
	for _, tt := range []struct{ params, want string }{
		{`{"url":"https://x.example","message":"m"}`, `{"mode":"url","url":"https://x.example","message":"m"}`},
		{`{"mode":"url","url":"https://x.example"}`, `{"mode":"url","url":"https://x.example"}`},
	} {
		if got := string(withURLMode([]byte(tt.params))); got != tt.want {
			t.Errorf("%s became %s, want %s", tt.params, got, tt.want)
		}
	}
}
