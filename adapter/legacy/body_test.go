package legacy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// script is a connection whose reads return the pieces, one at a time.
type script struct {
	net.Conn
	pieces [][]byte
}

func (s *script) Read(b []byte) (int, error) {
	for len(s.pieces) > 0 && len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
	}
	if len(s.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.pieces[0])
	s.pieces[0] = s.pieces[0][n:]
	return n, nil
}

func (*script) SetReadDeadline(time.Time) error { return nil }
func (*script) Close() error                    { return nil }

// pipe returns a connection whose server writes the pieces, each in a write of
// its own, and hangs up.
func pipe(t *testing.T, pieces ...[]byte) *conn {
	client, server := net.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		defer func() { _ = server.Close() }()
		for _, p := range pieces {
			if _, err := server.Write(p); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = client.Close()
		<-written
	})
	return newConn(client)
}

// readBody reads a response to its end.
func readBody(c *conn) (string, error) {
	if err := c.readHead(); err != nil {
		return "", err
	}
	var body []byte
	for {
		piece, err := c.next()
		if err == io.EOF {
			return string(body), nil
		}
		if err != nil {
			return string(body), err
		}
		body = append(body, piece...)
	}
}

var (
	long   = strings.Repeat("0123456789abcdef", 1500) // more than a buffer
	bodies = []struct {
		name, text, want string
		err              error
		keep             bool
	}{
		{"length", head("HTTP/1.1 200 OK", "Content-Length: 11") + "hello world", "hello world", nil, true},
		{"long length", head("HTTP/1.1 200 OK", fmt.Sprintf("Content-Length: %d", len(long))) + long, long, nil, true},
		{"nothing", head("HTTP/1.1 202 Accepted", "Content-Length: 0"), "", nil, true},
		{"after a 1xx", head("HTTP/1.1 103 Early Hints", "Link: </x>") + head("HTTP/1.1 200 OK", "Content-Length: 2") + "ok", "ok", nil, true},
		{"length cut", head("HTTP/1.1 200 OK", "Content-Length: 11") + "hello", "hello", io.ErrUnexpectedEOF, true},
		{"until close", head("HTTP/1.1 200 OK") + "hello world", "hello world", nil, false},
		{"chunked", head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "5\r\nhello\r\n6;a=b\r\n world\r\n0\r\n\r\n", "hello world", nil, true},
		{"chunked in hexadecimal", head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "B\r\nhello world\r\n0\r\n\r\n", "hello world", nil, true},
		{"long chunk", head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(long), long), long, nil, true},
		{"no chunk", head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "0\r\n\r\n", "", nil, true},
		{"chunks cut between two", head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "5\r\nhello\r\n", "hello", io.ErrUnexpectedEOF, true},
		{"chunk cut", head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "5\r\nhel", "hel", io.ErrUnexpectedEOF, true},
		{"chunk size cut", head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "5", "", io.ErrUnexpectedEOF, true},
		{"chunk longer than its size", head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "5\r\nhello world\r\n0\r\n\r\n", "hello", ErrMalformed, true},
		{"no chunk size", head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "\r\nhello\r\n", "", ErrMalformed, true},
		{"negative chunk size", head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "-5\r\nhello\r\n", "", ErrMalformed, true},
		{"huge chunk size", head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "ffffffffffffffff\r\nhello\r\n", "", ErrMalformed, true},
		{"endless chunk line", head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "5;" + strings.Repeat("x", 4096), "", ErrMalformed, true},
		{"bare line feeds", head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "5\nhello\n0\n\n", "", ErrMalformed, true},
		{"two chunk sizes", head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "5 6\r\nhello\r\n0\r\n\r\n", "", ErrMalformed, true},
		{"head cut", "HTTP/1.1 200 OK\r\nContent-Le", "", io.ErrUnexpectedEOF, false},
		{"nothing at all", "", "", errNoHead, false},
		{"endless head", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*bufferSize), "", ErrMalformed, false},
		{"101", head("HTTP/1.1 101 Switching Protocols"), "", ErrMalformed, true},
	}
)

func TestBody(t *testing.T) {
	for _, tt := range bodies {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{len(tt.text) + 1, 1, 2, 3, 7, 1000} {
				c := newConn(&script{pieces: split([]byte(tt.text), size)})
				got, err := readBody(c)
				if got != tt.want || !errors.Is(err, tt.err) || tt.err == nil && err != nil {
					t.Fatalf("pieces of %d bytes: got %.60q, %v; want %.60q, %v", size, got, err, tt.want, tt.err)
				}
				// Pieces may cut the terminator, which costs the connection at worst.
				if err == nil && size > len(tt.text) && c.resp.keep != tt.keep {
					t.Errorf("keep %v, want %v", c.resp.keep, tt.keep)
				}
				c.free()
			}
		})
	}
}

// The server's bytes may be cut anywhere, so that each part comes alone.
func TestBodyCutAnywhere(t *testing.T) {
	for _, tt := range bodies {
		if len(tt.text) > 300 {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			for at := 1; at < len(tt.text); at++ {
				c := pipe(t, []byte(tt.text[:at]), []byte(tt.text[at:]))
				got, err := readBody(c)
				if got != tt.want || !errors.Is(err, tt.err) || tt.err == nil && err != nil {
					t.Fatalf("cut at %d: got %q, %v; want %q, %v", at, got, err, tt.want, tt.err)
				}
				c.free()
			}
		})
	}
}

// One response must not leak into the next, wherever the bytes are cut.
func TestBodyLeavesTheNextResponseAlone(t *testing.T) {
	first := head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "5\r\nhello\r\n0\r\n\r\n"
	text := first + head("HTTP/1.1 200 OK", "Content-Length: 5") + "again"
	reused := 0
	for at := range len(text) + 1 {
		c := newConn(&script{pieces: [][]byte{[]byte(text[:at]), []byte(text[at:])}})
		if got, err := readBody(c); got != "hello" || err != nil {
			t.Fatalf("cut at %d: %q, %v", at, got, err)
		}
		if c.resp.keep {
			reused++
			if got, err := readBody(c); got != "again" || err != nil {
				t.Fatalf("cut at %d, second response: %q, %v", at, got, err)
			}
		}
		c.free()
	}
	if lost := len(text) + 1 - reused; lost > len("0\r\n\r\n") {
		t.Errorf("the connection was given up for %d of %d cuts", lost, len(text)+1)
	}
}

func TestReadAll(t *testing.T) {
	for _, tt := range bodies {
		for _, size := range []int{1 << 20, 5} {
			c := newConn(&script{pieces: split([]byte(tt.text), size)})
			var body []byte
			var owned bool
			err := c.readHead()
			if err == nil {
				body, owned, err = c.readAll(len(long))
			}
			if tt.err != nil {
				if err == nil {
					t.Errorf("%s, pieces of %d: no error, want %v", tt.name, size, tt.err)
				}
				continue
			}
			if err != nil || string(body) != tt.want {
				t.Errorf("%s, pieces of %d: %.40q, %v; want %.40q", tt.name, size, body, err, tt.want)
			}
			if owned {
				putText(body)
			}
		}
	}
}

func TestReadAllIsBounded(t *testing.T) {
	for _, tt := range bodies {
		if len(tt.want) < 2 || tt.err != nil {
			continue
		}
		c := newConn(&script{pieces: split([]byte(tt.text), 5)})
		if err := c.readHead(); err != nil {
			t.Fatal(err)
		}
		if body, _, err := c.readAll(len(tt.want) - 1); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %.40q, %v; want ErrMalformed for a body over the limit", tt.name, body, err)
		}
	}
}

func TestStatusErrorIsBounded(t *testing.T) {
	text := head("HTTP/1.1 500 Oops", "Content-Type: text/html") + strings.Repeat("x", 4*maxErrorBody)
	c := newConn(&script{pieces: [][]byte{[]byte(text)}})
	if err := c.readHead(); err != nil {
		t.Fatal(err)
	}
	if e := c.statusError(); e.Status != 500 || e.ContentType != "text/html" || len(e.Body) != maxErrorBody {
		t.Errorf("status %d, type %q, %d bytes; want 500, text/html, %d", e.Status, e.ContentType, len(e.Body), maxErrorBody)
	}
}

// The reference is net/http's reading of the same bytes.
func FuzzBody(f *testing.F) {
	for _, tt := range bodies {
		if len(tt.text) < 1000 {
			f.Add([]byte(tt.text), 7)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		c := newConn(&script{pieces: split(bytes.Clone(text), min(max(size, 1), 1<<16))})
		defer c.free()
		got, err := readBody(c)
		reader := bufio.NewReaderSize(bytes.NewReader(text), bufferSize)
		var reference *http.Response
		for {
			var refused error
			if reference, refused = http.ReadResponse(reader, &http.Request{Method: http.MethodPost}); refused != nil {
				return
			}
			if reference.StatusCode >= 200 {
				break
			}
		}
		want, refused := io.ReadAll(reference.Body)
		switch {
		case err == nil && refused == nil && got != string(want):
			t.Fatalf("read %q, net/http %q", got, want)
		case err == nil && refused != nil && got != string(want):
			// Without its trailer a body is complete for us; less than that is not.
			t.Fatalf("read %q as complete, net/http %q and %v", got, want, refused)
		case errors.Is(err, io.ErrUnexpectedEOF) && refused == nil:
			t.Fatalf("read %q as cut, net/http %q as complete", got, want)
		}
	})
}
