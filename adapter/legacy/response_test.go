package legacy

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// framing is how a head says that its body ends.
func (r *response) framing() string {
	switch {
	case r.chunked:
		return "chunked"
	case r.done:
		return "none"
	case r.length < 0:
		return "until close"
	}
	return strconv.FormatInt(r.length, 10)
}

func head(lines ...string) string { return strings.Join(lines, "\r\n") + "\r\n\r\n" }

func TestResponseHead(t *testing.T) {
	tests := []struct {
		name, head string
		status     int
		framing    string
		keep       bool
	}{
		{"length", head("HTTP/1.1 200 OK", "Content-Length: 5"), 200, "5", true},
		{"length 0", head("HTTP/1.1 202 Accepted", "Content-Length: 0"), 202, "none", true},
		{"chunked", head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked"), 200, "chunked", true},
		{"chunked in capitals", head("HTTP/1.1 200 OK", "TRANSFER-ENCODING: Chunked"), 200, "chunked", true},
		{"neither", head("HTTP/1.1 200 OK"), 200, "until close", false},
		{"no reason phrase", head("HTTP/1.1 200", "Content-Length: 1"), 200, "1", true},
		{"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 1\n\n", 200, "1", true},
		{"white space around the value", head("HTTP/1.1 200 OK", "Content-Length: \t 7 \t"), 200, "7", true},
		{"equal lengths", head("HTTP/1.1 200 OK", "Content-Length: 7", "Content-Length: 7"), 200, "7", true},
		{"length beside chunked", head("HTTP/1.1 200 OK", "Content-Length: 7", "Transfer-Encoding: chunked"), 200, "chunked", false},
		{"no content", head("HTTP/1.1 204 No Content"), 204, "none", true},
		{"no content, with a length", head("HTTP/1.1 204 No Content", "Content-Length: 7"), 204, "none", true},
		{"no content, chunked", head("HTTP/1.1 204 No Content", "Transfer-Encoding: chunked"), 204, "none", true},
		{"not modified, chunked", head("HTTP/1.1 304 Not Modified", "Transfer-Encoding: chunked"), 304, "none", true},
		{"continue", head("HTTP/1.1 100 Continue"), 100, "none", true},
		{"close", head("HTTP/1.1 200 OK", "Connection: close", "Content-Length: 1"), 200, "1", false},
		{"close in a list", head("HTTP/1.1 200 OK", "Connection: foo, Close", "Content-Length: 1"), 200, "1", false},
		{"close, then keep-alive", head("HTTP/1.1 200 OK", "Connection: close", "Connection: keep-alive", "Content-Length: 1"), 200, "1", false},
		{"HTTP/1.0", head("HTTP/1.0 200 OK", "Content-Length: 1"), 200, "1", false},
		{"HTTP/1.0 keep-alive", head("HTTP/1.0 200 OK", "Connection: Keep-Alive", "Content-Length: 1"), 200, "1", true},
		{"HTTP/1.0 nearly keep-alive", head("HTTP/1.0 200 OK", "Connection: x-keep-alive", "Content-Length: 1"), 200, "1", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := response{wantSession: true}
			if err := r.parse([]byte(tt.head)); err != nil {
				t.Fatal(err)
			}
			if r.status != tt.status || r.framing() != tt.framing || r.keep != tt.keep {
				t.Errorf("got %d, body %s, keep %v; want %d, body %s, keep %v", r.status, r.framing(), r.keep, tt.status, tt.framing, tt.keep)
			}
		})
	}
}

func TestResponseHeadFields(t *testing.T) {
	r := response{wantSession: true}
	err := r.parse([]byte(head("HTTP/1.1 401 Unauthorized", "content-type: Text/Event-Stream ; charset=utf-8", "MCP-SESSION-ID: a b",
		"WWW-Authenticate: Basic realm=\"x\"", "www-authenticate: Bearer", "Content-Length: 0")))
	if err != nil {
		t.Fatal(err)
	}
	if r.kind != contentSSE || r.contentType != "Text/Event-Stream ; charset=utf-8" {
		t.Errorf("content type %q of kind %v", r.contentType, r.kind)
	}
	if r.session != "a b" {
		t.Errorf("session %q", r.session)
	}
	if want := []string{`Basic realm="x"`, "Bearer"}; !slices.Equal(r.authenticate, want) {
		t.Errorf("challenges %q, want %q", r.authenticate, want)
	}
}

func TestResponseHeadKeepsFewChallenges(t *testing.T) {
	lines := []string{"HTTP/1.1 401 Unauthorized"}
	for range 100 {
		lines = append(lines, "WWW-Authenticate: Bearer")
	}
	r := response{wantSession: true}
	if err := r.parse([]byte(head(lines...))); err != nil || len(r.authenticate) != 8 {
		t.Errorf("%d challenges kept (%v), want 8", len(r.authenticate), err)
	}
}

func TestContentKind(t *testing.T) {
	for value, want := range map[string]contentKind{
		"application/json": contentJSON, "APPLICATION/JSON": contentJSON, "application/json; charset=utf-8": contentJSON,
		"application/json ;x": contentJSON, "text/event-stream": contentSSE, "text/event-stream;charset=UTF-8": contentSSE,
		"": contentOther, "text/html": contentOther, "application/jsonl": contentOther, "application/json-seq": contentOther,
	} {
		if got := kindOf([]byte(value)); got != want {
			t.Errorf("%q is of kind %d, want %d", value, got, want)
		}
	}
}

// What frames the body must be beyond doubt: RFC 9112, section 6.3.
func TestResponseHeadRefused(t *testing.T) {
	for name, text := range map[string]string{
		"another protocol":            head("SSH-2.0-OpenSSH_9.2"),
		"HTTP/2":                      head("HTTP/2 200"),
		"a short status":              head("HTTP/1.1 20"),
		"a long status":               head("HTTP/1.1 2000 OK"),
		"a status below 100":          head("HTTP/1.1 099 OK"),
		"a status that is no number":  head("HTTP/1.1 2x0 OK"),
		"no header name":              head("HTTP/1.1 200 OK", ": 5"),
		"no colon":                    head("HTTP/1.1 200 OK", "Content-Length 5"),
		"a folded line":               head("HTTP/1.1 200 OK", "Content-Type: text/html", " charset=utf-8"),
		"a space before the colon":    head("HTTP/1.1 200 OK", "Transfer-Encoding : chunked", "Content-Length: 5"),
		"a tab before the colon":      head("HTTP/1.1 200 OK", "Content-Length\t: 5"),
		"an empty length":             head("HTTP/1.1 200 OK", "Content-Length:"),
		"a signed length":             head("HTTP/1.1 200 OK", "Content-Length: +5"),
		"a negative length":           head("HTTP/1.1 200 OK", "Content-Length: -5"),
		"a list of lengths":           head("HTTP/1.1 200 OK", "Content-Length: 5, 5"),
		"a length with an underscore": head("HTTP/1.1 200 OK", "Content-Length: 5_0"),
		"a hexadecimal length":        head("HTTP/1.1 200 OK", "Content-Length: 0x5"),
		"a length beyond all bounds":  head("HTTP/1.1 200 OK", "Content-Length: 9223372036854775808"),
		"two lengths":                 head("HTTP/1.1 200 OK", "Content-Length: 5", "Content-Length: 6"),
		"chunked twice":               head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
		"another coding":              head("HTTP/1.1 200 OK", "Transfer-Encoding: gzip"),
		"a list of codings":           head("HTTP/1.1 200 OK", "Transfer-Encoding: gzip, chunked"),
		"chunked over HTTP/1.0":       head("HTTP/1.0 200 OK", "Transfer-Encoding: chunked"),
	} {
		r := response{wantSession: true}
		if err := r.parse([]byte(text)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", name, err)
		}
	}
}

// The reference is net/http: what both take they must frame alike, because a
// body that is read too short or too long leaks into the next response.
func FuzzResponseHead(f *testing.F) {
	for _, seed := range []string{
		head("HTTP/1.1 200 OK", "Content-Type: application/json", "Mcp-Session-Id: 5b2c", "Content-Length: 121"),
		head("HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Cache-Control: no-cache", "Transfer-Encoding: chunked"),
		head("HTTP/1.1 202 Accepted", "Date: Tue, 28 Jul 2026 10:00:00 GMT", "Content-Length: 0"),
		head("HTTP/1.1 204 No Content", "Transfer-Encoding: chunked"),
		head("HTTP/1.0 200 OK", "Connection: keep-alive", "Content-Length: 2"),
		head("HTTP/1.0 200 OK", "Transfer-Encoding: chunked"),
		head("HTTP/1.1 200 OK", "Connection: close, keep-alive"),
		head("HTTP/1.1 200 OK", "Content-Length: 3", "Content-Length: 3"),
		head("HTTP/1.1 200 OK", "Content-Length : 3"),
		head("HTTP/1.1 200 OK", "Content-Length: 3", "Transfer-Encoding: chunked"),
		"HTTP/1.1 200 OK\nContent-Length: 3\n\n",
		head("HTTP/1.1 401 Unauthorized", `WWW-Authenticate: Bearer resource_metadata="https://example.com/"`),
		head("HTTP/1.1 100 Continue"),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		end := headEnd(text)
		if end < 0 || end > bufferSize {
			return
		}
		text = text[:end]
		r := response{wantSession: true}
		if err := r.parse(text); err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error %v is not ErrMalformed", err)
			}
			return
		}
		reference, err := http.ReadResponse(bufio.NewReaderSize(bytes.NewReader(text), bufferSize), &http.Request{Method: http.MethodPost})
		if err != nil {
			return
		}
		if r.status != reference.StatusCode {
			t.Fatalf("status %d, net/http reads %d", r.status, reference.StatusCode)
		}
		if got, want := r.framing(), framingOf(reference); got != want {
			t.Fatalf("body %s, net/http reads %s", got, want)
		}
		if r.keep && reference.Close {
			t.Fatal("the connection is kept, net/http closes it")
		}
		if v := reference.Header.Values("Mcp-Session-Id"); len(v) == 1 && v[0] != r.session {
			t.Fatalf("session %q, net/http reads %q", r.session, v[0])
		}
		if v := reference.Header.Values("Content-Type"); len(v) == 1 && kindOf([]byte(v[0])) != r.kind {
			t.Fatalf("kind %d, net/http reads Content-Type %q", r.kind, v[0])
		}
	})
}

func framingOf(r *http.Response) string {
	switch {
	case r.StatusCode < 200, r.StatusCode == http.StatusNoContent, r.StatusCode == http.StatusNotModified:
		return "none"
	case slices.Equal(r.TransferEncoding, []string{"chunked"}):
		return "chunked"
	case r.ContentLength == 0:
		return "none"
	case r.ContentLength < 0:
		return "until close"
	}
	return strconv.FormatInt(r.ContentLength, 10)
}

var typicalHead = []byte(head("HTTP/1.1 200 OK", "Content-Type: application/json", "Cache-Control: no-cache",
	"Date: Tue, 28 Jul 2026 10:00:00 GMT", "Connection: keep-alive", "Keep-Alive: timeout=5", "Content-Length: 121"))

func TestResponseHeadAllocatesNothing(t *testing.T) {
	r := response{wantSession: true}
	if n := testing.AllocsPerRun(100, func() {
		if headEnd(typicalHead) != len(typicalHead) || r.parse(typicalHead) != nil {
			t.Fatal("not read")
		}
	}); n != 0 {
		t.Errorf("%v allocations for a head, want 0", n)
	}
}

func BenchmarkResponseHead(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(typicalHead)))
	r := response{wantSession: true}
	for b.Loop() {
		if headEnd(typicalHead) < 0 || r.parse(typicalHead) != nil {
			b.Fatal("not read")
		}
	}
}
