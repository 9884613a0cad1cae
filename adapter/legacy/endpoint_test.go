package legacy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// pair returns a connection and the server's end of it.
func pair(t testing.TB) (*conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
	})
	return newConn(client), server.(*net.TCPConn)
}

func write(t testing.TB, to net.Conn, text string) {
	t.Helper()
	if _, err := to.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// eventually looks until a condition of the kernel's doing holds: nothing tells
// when bytes have reached a socket that nobody reads.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !condition(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func endpointFor(t testing.TB, url string) *endpoint {
	t.Helper()
	s := testSettings(url)
	e, err := newEndpoint(&s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.close)
	return e
}

// A buffer for each of thousands of waiting connections would be most of their
// memory.
func TestConnHoldsNoBufferWhileItWaits(t *testing.T) {
	c, server := pair(t)
	expectNone := func(when string) {
		t.Helper()
		if c.buf != nil {
			t.Errorf("a buffer is held %s", when)
		}
	}
	wait := func(read func() error) {
		t.Helper()
		c.setDeadline(time.Now().Add(time.Millisecond))
		if err := read(); !errors.Is(err, ErrDeadline) {
			t.Fatalf("got %v, want ErrDeadline", err)
		}
		c.setDeadline(time.Time{})
	}
	expectNone("before the first read")
	wait(c.readHead)
	expectNone("while waiting for the head")
	write(t, server, head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked"))
	if err := c.readHead(); err != nil {
		t.Fatal(err)
	}
	body := func() error { _, err := c.next(); return err }
	wait(body)
	expectNone("while waiting for the first chunk")
	write(t, server, "5\r\nhello\r\n")
	if piece, err := c.next(); string(piece) != "hello" || err != nil {
		t.Fatalf("%q, %v", piece, err)
	}
	wait(body)
	expectNone("while waiting for the next chunk")
	write(t, server, "5\r\nhel")
	if piece, err := c.next(); string(piece) != "hel" || err != nil {
		t.Fatalf("%q, %v", piece, err)
	}
	wait(body)
	expectNone("in the middle of a chunk")
}

// What a deadline cuts short can be gone on with.
func TestConnReadsOnAfterADeadline(t *testing.T) {
	c, server := pair(t)
	text := head("HTTP/1.1 200 OK", "Content-Type: application/json", "Transfer-Encoding: chunked") + "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
	headRead := false
	var body []byte
	for i := range len(text) {
		write(t, server, text[i:i+1])
		for {
			c.setDeadline(time.Now().Add(200 * time.Microsecond))
			var err error
			if !headRead {
				if err = c.readHead(); err == nil {
					headRead = true
				}
			} else {
				var piece []byte
				piece, err = c.next()
				body = append(body, piece...)
			}
			if err != nil {
				if !errors.Is(err, ErrDeadline) && !c.resp.done {
					t.Fatalf("after %q: %v", text[:i+1], err)
				}
				break
			}
		}
	}
	if string(body) != "hello world" {
		t.Errorf("read %q", body)
	}
}

func TestIdleConnIsReused(t *testing.T) {
	e := endpointFor(t, "http://127.0.0.1:1/mcp")
	c, server := pair(t)
	write(t, server, head("HTTP/1.1 200 OK", "Content-Length: 5")+"hello")
	if got, err := readBody(c); got != "hello" || err != nil {
		t.Fatal(got, err)
	}
	e.release(c)
	if c.buf != nil {
		t.Error("an idle connection holds a buffer")
	}
	if got := e.idleConn(); got != c || !got.reused {
		t.Fatalf("got %p, want the idle connection %p", got, c)
	}
	if e.idleConn() != nil {
		t.Error("one connection was lent twice")
	}
	write(t, server, head("HTTP/1.1 200 OK", "Content-Length: 5")+"again")
	if got, err := readBody(c); got != "again" || err != nil {
		t.Fatal(got, err)
	}
}

func TestIdleConnThatIsOfNoUse(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, *net.TCPConn){
		"closed":        func(_ *testing.T, s *net.TCPConn) { _ = s.Close() },
		"half-closed":   func(_ *testing.T, s *net.TCPConn) { _ = s.CloseWrite() },
		"reset":         func(_ *testing.T, s *net.TCPConn) { _ = s.SetLinger(0); _ = s.Close() },
		"out of step":   func(t *testing.T, s *net.TCPConn) { write(t, s, head("HTTP/1.1 200 OK")) },
		"told and gone": func(t *testing.T, s *net.TCPConn) { write(t, s, "408"); _ = s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			e := endpointFor(t, "http://127.0.0.1:1/mcp")
			c, server := pair(t)
			write(t, server, head("HTTP/1.1 200 OK", "Content-Length: 2")+"ok")
			if _, err := readBody(c); err != nil {
				t.Fatal(err)
			}
			e.release(c)
			c.idleAt = c.idleAt.Add(-2 * freshly)
			spoil(t, server)
			eventually(t, "the end of the connection", c.stale)
			if e.idleConn() != nil {
				t.Error("the connection was lent")
			}
			if len(e.idle) != 0 {
				t.Error("the connection is still kept")
			}
		})
	}
}

func TestConnThatMayNotBeKept(t *testing.T) {
	for name, text := range map[string]string{
		"close":                    head("HTTP/1.1 200 OK", "Content-Length: 2", "Connection: close") + "ok",
		"more than the body":       head("HTTP/1.1 200 OK", "Content-Length: 2") + "ok!",
		"more than the last chunk": head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "2\r\nok\r\n0\r\n\r\nHTTP/1.1 200",
		"a trailer":                head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "2\r\nok\r\n0\r\nX: y\r\n\r\n",
	} {
		e := endpointFor(t, "http://127.0.0.1:1/mcp")
		c := newConn(&script{pieces: [][]byte{[]byte(text)}})
		if got, err := readBody(c); got != "ok" || err != nil {
			t.Fatalf("%s: %q, %v", name, got, err)
		}
		e.release(c)
		if len(e.idle) != 0 || c.buf != nil {
			t.Errorf("%s: the connection is kept, or its buffer", name)
		}
	}
}

// A server ends a stream after its last event: the connection is given back
// before the end has come.
func TestTerminatorThatComesLate(t *testing.T) {
	const rest = "\r\n0\r\n\r\n"
	for at := range len(rest) + 1 {
		e := endpointFor(t, "http://127.0.0.1:1/mcp")
		c, server := pair(t)
		write(t, server, head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked")+"5\r\nevent"+rest[:at])
		if err := c.readHead(); err != nil {
			t.Fatal(err)
		}
		if piece, err := c.next(); string(piece) != "event" || err != nil {
			t.Fatal(string(piece), err)
		}
		e.release(c)
		if at == 0 || at == 2 || at == len(rest) { // where servers cut
			if c.buf != nil {
				t.Errorf("cut at %d: an idle connection holds a buffer", at)
			}
			if at < len(rest) {
				if e.idleConn() != nil {
					t.Fatalf("cut at %d: lent before the end of its body", at)
				}
				if len(e.idle) != 1 {
					t.Fatalf("cut at %d: given up before the end of its body", at)
				}
			}
		}
		if at < len(rest) {
			write(t, server, rest[at:])
		}
		if at == 0 || at == 2 || at == len(rest) {
			eventually(t, "the end of the body", func() bool { return e.idleConn() == c })
		} else if got := e.idleConn(); got != nil && got != c {
			t.Fatal("another connection")
		} else if got == nil {
			continue
		}
		write(t, server, head("HTTP/1.1 200 OK", "Content-Length: 5")+"again")
		if got, err := readBody(c); got != "again" || err != nil {
			t.Fatalf("cut at %d, next response: %q, %v", at, got, err)
		}
	}
}

// A server that sends on after the last event it needed to send, or never ends
// its stream, costs its connection.
func TestTerminatorThatDoesNotCome(t *testing.T) {
	for name, rest := range map[string]string{
		"another event": "\r\n5\r\nevent\r\n", "more data": "more", "a hang-up": "",
		"two terminators": "\r\n0\r\n\r\n0\r\n\r\n", "another response": "\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
	} {
		e := endpointFor(t, "http://127.0.0.1:1/mcp")
		c, server := pair(t)
		write(t, server, head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked")+"5\r\nevent")
		if err := c.readHead(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.next(); err != nil {
			t.Fatal(err)
		}
		e.release(c)
		c.idleAt = c.idleAt.Add(-2 * freshly)
		write(t, server, rest)
		_ = server.CloseWrite()
		eventually(t, name, func() bool {
			if e.idleConn() != nil {
				t.Fatalf("%s: the connection was lent", name)
			}
			return len(e.idle) == 0
		})
	}
	// Nothing comes at all: after a second the connection is closed.
	e := endpointFor(t, "http://127.0.0.1:1/mcp")
	c, server := pair(t)
	write(t, server, head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked")+"5\r\nevent")
	if err := c.readHead(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.next(); err != nil {
		t.Fatal(err)
	}
	e.release(c)
	c.idleAt = c.idleAt.Add(-2 * time.Second)
	if e.idleConn() != nil || len(e.idle) != 0 {
		t.Error("a connection whose body does not end is kept")
	}
}

func TestIdleConnsAreBounded(t *testing.T) {
	e := endpointFor(t, "http://127.0.0.1:1/mcp")
	e.settings.MaxIdleConns = 3
	var conns []*conn
	for range 5 {
		c, server := pair(t)
		write(t, server, head("HTTP/1.1 200 OK", "Content-Length: 0"))
		if _, err := readBody(c); err != nil {
			t.Fatal(err)
		}
		e.release(c)
		conns = append(conns, c)
	}
	e.expire(time.Now())
	if len(e.idle) != 3 || e.idle[0] != conns[2] {
		t.Fatalf("%d connections are kept, want the newest 3", len(e.idle))
	}
	if _, err := conns[0].nc.Write(nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the oldest connection was not closed: %v", err)
	}
	e.expire(time.Now())
	if len(e.idle) != 3 {
		t.Error("connections expired too early")
	}
	e.expire(time.Now().Add(e.settings.IdleConnTTL + time.Second))
	if len(e.idle) != 0 {
		t.Errorf("%d connections are kept after their time", len(e.idle))
	}
	e.close()
	c, server := pair(t)
	write(t, server, head("HTTP/1.1 200 OK", "Content-Length: 0"))
	if _, err := readBody(c); err != nil {
		t.Fatal(err)
	}
	e.release(c)
	if len(e.idle) != 0 {
		t.Error("a closed endpoint keeps a connection")
	}
}

// Servers close idle connections when they like; over TLS too that must not
// cost the next call.
func TestIdleTLSConnThatWasClosed(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
	}))
	server.StartTLS()
	defer server.Close()
	e := endpointFor(t, server.URL)
	e.tls = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	e.tls.NextProtos = []string{"http/1.1"}
	e.tls.ServerName = "example.com"
	c, err := e.dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := c.nc.(*tls.Conn); !ok {
		t.Fatal("the connection is not encrypted")
	}
	ask := func() {
		t.Helper()
		if _, err := c.send([]byte("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"), time.Second); err != nil {
			t.Fatal(err)
		}
		if _, err := readBody(c); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	e.release(c)
	if e.idleConn() != c {
		t.Fatal("the connection is not reused")
	}
	ask()
	e.release(c)
	c.idleAt = c.idleAt.Add(-2 * freshly)
	server.Config.SetKeepAlivesEnabled(false) // closes idle connections
	server.CloseClientConnections()
	eventually(t, "the end of the connection", c.stale)
	if e.idleConn() != nil {
		t.Error("a connection that the server has closed was lent")
	}
}

func TestDialTellsThatNothingWasSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := endpointFor(t, "http://"+l.Addr().String())
	_ = l.Close()
	if _, err := e.dial(context.Background()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v, want ErrUnreachable", err)
	}
}

func TestNewEndpoint(t *testing.T) {
	for url, want := range map[string][3]string{
		"http://example.com":                  {"example.com:80", "example.com", "/"},
		"https://example.com/mcp":             {"example.com:443", "example.com", "/mcp"},
		"http://127.0.0.1:3001/mcp?key=a%20b": {"127.0.0.1:3001", "127.0.0.1:3001", "/mcp?key=a%20b"},
		"http://[::1]:8080/a b":               {"[::1]:8080", "[::1]:8080", "/a%20b"},
	} {
		e := endpointFor(t, url)
		if got := [3]string{e.address, e.host, e.path}; got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
		if (e.tls != nil) != strings.HasPrefix(url, "https:") {
			t.Errorf("%s: TLS %v", url, e.tls != nil)
		}
	}
	for _, url := range []string{"ftp://example.com/", "unix:/tmp/x", "example.com/mcp", "http://a b/", ":"} {
		s := testSettings(url)
		if _, err := newEndpoint(&s); err == nil {
			t.Errorf("%s: no error", url)
		}
	}
}

// Nothing that a client sends may begin a header field, or a request, of its own.
func TestAppendFieldEndsAtALineBreak(t *testing.T) {
	for value, want := range map[string]string{
		"Bearer x":               "A: Bearer x\r\n",
		"":                       "A: \r\n",
		"x\r\nEvil: 1":           "A: x\r\n",
		"x\nEvil: 1":             "A: x\r\n",
		"x\rEvil: 1":             "A: x\r\n",
		"x\x00y":                 "A: x\r\n",
		"\r\n\r\nGET / HTTP/1.1": "A: \r\n",
		"ü€":                     "A: ü€\r\n",
	} {
		if got := string(appendField(nil, "A", value)); got != want {
			t.Errorf("%q: got %q, want %q", value, got, want)
		}
	}
}
