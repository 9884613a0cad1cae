package jsonrpc_test

import (
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

// Texts of the usual sizes: a tools/call of some 400 bytes, one with an
// argument of 1 KiB, long texts, and lists of small values.
var texts = []struct {
	name string
	text []byte
}{
	{"call-400B", call(30)},
	{"call-1KiB", call(700)},
	{"call-100KiB", call(100 << 10)},
	{"tools-1KiB", tools(1 << 10)},
	{"tools-100KiB", tools(100 << 10)},
}

func BenchmarkValidate(b *testing.B) {
	for _, tt := range texts {
		for mode, name := range []string{"strict", "lenient"} {
			b.Run(tt.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(tt.text)))
				for b.Loop() {
					if err := jsonrpc.Validate(tt.text, jsonrpc.Mode(mode), 64); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(tt.name+"/jsontext", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(tt.text)))
			for b.Loop() {
				if !jsontext.Value(tt.text).IsValid() {
					b.Fatal("not valid")
				}
			}
		})
	}
	for _, n := range []int{16, 17, 1000} {
		text := object(n, func(i int) string { return fmt.Sprintf("name-%d", i) })
		b.Run(fmt.Sprintf("names-%d", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if err := jsonrpc.Validate(text, jsonrpc.Strict, 64); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParseRequest(b *testing.B) {
	for _, tt := range texts[:3] {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(tt.text)))
			for b.Loop() {
				if _, err := jsonrpc.ParseRequest(tt.text, 64); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParseServer(b *testing.B) {
	server := append(texts[3:len(texts):len(texts)], struct {
		name string
		text []byte
	}{"progress-120B", []byte(serverMessages[3])})
	for _, tt := range server {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(tt.text)))
			for b.Loop() {
				if err := jsonrpc.ParseServer(tt.text, 64, func(jsonrpc.Message) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWalk reads what a tools/call is routed by: params, and _meta in it.
func BenchmarkWalk(b *testing.B) {
	text := call(30)
	m, err := jsonrpc.ParseRequest(text, 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		found := 0
		for c := jsonrpc.Object(m.Params); c.Next(); {
			if string(c.Name()) == "_meta" {
				for meta := jsonrpc.Object(c.Value()); meta.Next(); {
					found += len(meta.Name())
				}
			}
		}
		if found == 0 {
			b.Fatal("no _meta")
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	for _, tt := range texts {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(tt.text)))
			for b.Loop() {
				jsonrpc.Digest(nowhere{}, tt.text, nil)
			}
		})
	}
}

// nowhere is a hash that costs nothing: what is measured is the form.
type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Sum(b []byte) []byte         { return b }
func (nowhere) Reset()                      {}
func (nowhere) Size() int                   { return 0 }
func (nowhere) BlockSize() int              { return 1 }

func BenchmarkAppendRequest(b *testing.B) {
	id, params := []byte("42"), call(30)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = jsonrpc.AppendRequest(dst[:0], id, "tools/call", params)
	}
}

func BenchmarkAppendQuote(b *testing.B) {
	text := string(call(700))
	var dst []byte
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		dst = jsonrpc.AppendQuote(dst[:0], text)
	}
}
