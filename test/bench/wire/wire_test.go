package wire_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

const traffic = "HTTP/1.1 200 OK\r\ncontent-LENGTH: 5\r\nMcp-Session-Id: s1\r\n\r\nhello" +
	"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n" +
	"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n" +
	"6\r\ndata: \r\n3\r\na\n\n\r\n0\r\n\r\n" +
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n2\r\nab\r\n0\r\n\r\n"

func TestReaderTakesMessagesHoweverTheyArrive(t *testing.T) {
	sources := map[string]func() io.Reader{
		"at once":      func() io.Reader { return strings.NewReader(traffic) },
		"byte by byte": func() io.Reader { return iotest.OneByteReader(strings.NewReader(traffic)) },
	}
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			r := wire.NewReader(source(), 16)
			head, err := r.Head()
			if err != nil || head.Status() != 200 || head.Length != 5 || string(head.Session) != "s1" || head.SSE {
				t.Fatalf("first head: %+v, %v", head, err)
			}
			wantBody(t, r, head, "hello")

			head, err = r.Head()
			if err != nil || head.Status() != 202 {
				t.Fatalf("second head: %+v, %v", head, err)
			}
			wantBody(t, r, head, "")

			head, err = r.Head()
			if err != nil || !head.SSE || !head.Chunked {
				t.Fatalf("third head: %+v, %v", head, err)
			}
			for _, want := range []string{"data: ", "a\n\n"} {
				if got, err := r.Chunk(); err != nil || string(got) != want {
					t.Fatalf("chunk: got %q, %v, want %q", got, err, want)
				}
			}
			if _, err := r.Chunk(); !errors.Is(err, io.EOF) {
				t.Fatalf("after the last chunk: got %v, want EOF", err)
			}

			head, err = r.Head()
			if err != nil {
				t.Fatal(err)
			}
			wantBody(t, r, head, "0123456789ab")
			if _, err := r.Head(); err != io.EOF {
				t.Fatalf("after the last message: got %v, want EOF", err)
			}
		})
	}
}

func wantBody(t *testing.T, r *wire.Reader, head wire.Head, want string) {
	t.Helper()
	if got, err := r.Body(head); err != nil || string(got) != want {
		t.Fatalf("body: got %q, %v, want %q", got, err, want)
	}
}

func TestReaderRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"cut in the head":        {"HTTP/1.1 200 OK\r\nContent-Le", io.ErrUnexpectedEOF},
		"cut in the body":        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", io.ErrUnexpectedEOF},
		"cut between chunks":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", io.ErrUnexpectedEOF},
		"a length of letters":    {"HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n", wire.ErrMalformed},
		"a chunk size of words":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", wire.ErrMalformed},
		"a line without a colon": {"HTTP/1.1 200 OK\r\nhello\r\n\r\n", wire.ErrMalformed},
		"a body without measure": {"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", wire.ErrTooLarge},
		"a head without end":     {"HTTP/1.1 200 OK\r\n" + strings.Repeat("A: bbbbbbbbbbbbbb\r\n", 2000), wire.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			r := wire.NewReader(strings.NewReader(c.text), 64)
			head, err := r.Head()
			if err == nil {
				_, err = r.Body(head)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestGet(t *testing.T) {
	text := []byte(` {"a" : 1, "b":{"x":[1,{"c":"}"}], "y":"q\"}" , "z":null},"c" :[ ] , "d":true}`)
	for path, want := range map[string]string{
		"a": "1", "b.y": `"q\"}"`, "b.x": `[1,{"c":"}"}]`, "b.z": "null", "c": "[ ]", "d": "true", "e": "", "b.c": "", "a.b": "",
	} {
		if got := wire.Get(text, strings.Split(path, ".")...); string(got) != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	for _, odd := range []string{``, `[]`, `{`, `{"a`, `{"a"`, `{"a":`, `{"a":"`, `{"a":{`, `{"a":"\`, `{"`} {
		if got := wire.Get([]byte(odd), "b"); got != nil {
			t.Errorf("%s: got %q, want nothing", odd, got)
		}
	}
}

func TestData(t *testing.T) {
	for events, want := range map[string]string{
		"id: 1\ndata: \n\nid: 2\ndata: {\"a\":1}\n\n":   `{"a":1}`,
		"event: message\r\ndata:{\"b\":2}\r\n\r\n":      `{"b":2}`,
		": keep-alive\n\n":                              "",
		"data: {\"a\":1}\n\ndata: {\"a\":2}\n\n: x\n\n": `{"a":2}`,
	} {
		if got := wire.Data([]byte(events)); string(got) != want {
			t.Errorf("%q: got %q, want %q", events, got, want)
		}
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	src := &endless{text: []byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: application/json\r\nServer: x\r\n\r\nhello")}
	r := wire.NewReader(src, 4096)
	got := testing.AllocsPerRun(100, func() {
		head, err := r.Head()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Body(head); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("reading a message allocates %v times, want 0", got)
	}
}

// endless repeats one message for ever.
type endless struct{ text []byte }

func (e *endless) Read(p []byte) (int, error) { return copy(p, e.text), nil }
