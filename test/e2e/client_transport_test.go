package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// Specification 2026-07-28, basic/transports/streamable-http.

// echoing starts a server whose tool "echo" returns its raw arguments, and a
// Holdfast in front of it.
func echoing(t *testing.T, config string) (*rawserver.Server, *Holdfast) {
	t.Helper()
	server := newServer(t, rawserver.Settings{JSON: true})
	server.Tool("echo", func(c *rawserver.Call) { c.Text(string(c.Arguments())) })
	return server, Start(t, Options{Upstream: to(server), Config: config})
}

func TestOnlyPOST(t *testing.T) {
	t.Parallel()
	_, h := echoing(t, "")
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut, http.MethodPatch, http.MethodOptions} {
		reply := Do(t, method, h.URL, "", CallTool("echo", nil).Header)
		reply.Fails(t, http.StatusMethodNotAllowed, -32600, "http_method")
		if allow := reply.Header.Get("Allow"); allow != "POST" {
			t.Errorf("%s: Allow: %q, want POST", method, allow)
		}
	}
	if reply := Do(t, http.MethodHead, h.URL, "", http.Header{}); reply.Status != http.StatusMethodNotAllowed {
		t.Errorf("HEAD: HTTP %d, want 405", reply.Status)
	}
	if reply := Post(t, h.Base+"/elsewhere", CallTool("echo", nil).Body(), CallTool("echo", nil).Header); reply.Status != http.StatusNotFound {
		t.Errorf("another path: HTTP %d, want 404", reply.Status)
	}
	// A session belongs to the revisions before: its id means nothing here.
	h.Send(t, CallTool("echo", nil, Header("Mcp-Session-Id", "of-old"))).Completes(t)
}

func TestOriginAndHost(t *testing.T) {
	t.Parallel()
	server, h := echoing(t, "")
	at, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		host, origin string
		reason       string // "": served
	}{
		{host: at.Host},
		{host: "localhost:" + at.Port()},
		{host: "localhost"},
		{host: "[::1]:" + at.Port()},
		{host: "LOCALHOST"},
		{host: at.Host, origin: "http://" + at.Host},
		{host: at.Host, origin: "http://localhost:" + at.Port()},
		{host: at.Host, origin: "http://localhost:5173"},
		{host: at.Host, origin: "http://[::1]:1"},
		{host: "evil.example.com", reason: "host"},
		{host: "evil.example.com:" + at.Port(), reason: "host"},
		{host: "127.0.0.1.evil.example.com", reason: "host"},
		{host: "localhost.evil.example.com", reason: "host"},
		{host: "evil.example.com", origin: "http://evil.example.com", reason: "host"},
		{host: at.Host, origin: "http://evil.example.com", reason: "origin"},
		{host: at.Host, origin: "http://localhost.evil.example.com", reason: "origin"},
		{host: at.Host, origin: "http://127.0.0.1:80@evil.example.com", reason: "origin"},
		{host: at.Host, origin: "null", reason: "origin"},
		{host: at.Host, origin: "file://", reason: "origin"},
	} {
		message := CallTool("echo", nil, Header("Origin", test.origin))
		header := message.Header.Clone()
		header.Set("Host", test.host)
		before := server.Count("tools/call")
		reply := Post(t, h.URL, message.Body(), header)
		if test.reason == "" {
			if reply.Status != http.StatusOK {
				t.Errorf("Host %q, Origin %q: HTTP %d, want 200", test.host, test.origin, reply.Status)
			}
			continue
		}
		if reply.Status != http.StatusForbidden || reply.Error == nil || reply.Error.Reason() != test.reason {
			t.Errorf("Host %q, Origin %q: HTTP %d %s, want 403 with reason %s", test.host, test.origin, reply.Status, reply.Body, test.reason)
		}
		if server.Count("tools/call") != before {
			t.Errorf("Host %q, Origin %q: the call reached the server", test.host, test.origin)
		}
	}
}

func TestOriginAndHostFromTheConfiguration(t *testing.T) {
	t.Parallel()
	_, h := echoing(t, "http: {allowed_origins: [https://app.example.com], allowed_hosts: [mcp.example.com]}")
	for _, test := range []struct {
		host, origin string
		status       int
	}{
		{"mcp.example.com", "https://app.example.com", http.StatusOK},
		{"mcp.example.com:8443", "", http.StatusOK},
		{"localhost", "", http.StatusForbidden},
		{"mcp.example.com", "http://app.example.com", http.StatusForbidden},
		{"mcp.example.com", "http://localhost", http.StatusForbidden},
	} {
		message := CallTool("echo", nil, Header("Origin", test.origin), Header("Host", test.host))
		if reply := Post(t, h.URL, message.Body(), message.Header); reply.Status != test.status {
			t.Errorf("Host %q, Origin %q: HTTP %d, want %d", test.host, test.origin, reply.Status, test.status)
		}
	}
}

func TestAcceptAndContentType(t *testing.T) {
	t.Parallel()
	_, h := echoing(t, "")
	for _, test := range []struct {
		name, value string
		status      int
	}{
		{"Accept", "application/json, text/event-stream", http.StatusOK},
		{"Accept", "text/event-stream;q=0.5,APPLICATION/JSON;q=0.1", http.StatusOK},
		{"Accept", "*/*", http.StatusOK},
		{"Accept", "application/*, text/*", http.StatusOK},
		{"Accept", "application/json", http.StatusNotAcceptable},
		{"Accept", "text/event-stream", http.StatusNotAcceptable},
		{"Accept", "application/json, text/event-stream;q=0", http.StatusNotAcceptable},
		{"Accept", "text/html", http.StatusNotAcceptable},
		{"Content-Type", "application/json; charset=utf-8", http.StatusOK},
		{"Content-Type", "", http.StatusUnsupportedMediaType},
		{"Content-Type", "text/plain", http.StatusUnsupportedMediaType},
		{"Content-Type", "application/json-patch+json", http.StatusUnsupportedMediaType},
		{"Content-Encoding", "gzip", http.StatusUnsupportedMediaType},
	} {
		reply := h.Send(t, CallTool("echo", nil, Header(test.name, test.value)))
		if test.status == http.StatusOK {
			reply.Completes(t)
			continue
		}
		if reply.Status != test.status || reply.Error == nil {
			t.Errorf("%s: %s: HTTP %d %s, want %d and an error", test.name, test.value, reply.Status, reply.Body, test.status)
		}
		if test.name == "Accept" { // else the body is not read, and the id not known
			reply.checkID(t)
		}
	}
}

// Headers that a client repeats are read by proxies and servers in different
// ways: none of them is believed.
func TestRepeatedHeaders(t *testing.T) {
	t.Parallel()
	server, h := echoing(t, "")
	for _, test := range []struct {
		name, second string
		code         int
	}{
		{"Content-Type", "application/json", -32600},
		{"Authorization", "Bearer other", -32600},
		{"Origin", "http://localhost", -32600},
		{"Mcp-Method", "tools/call", -32020},
		{"Mcp-Name", "echo", -32020},
		{"MCP-Protocol-Version", modern, -32020},
	} {
		message := CallTool("echo", nil, Bearer("one"), Header("Origin", "http://localhost"))
		message.Header.Add(test.name, test.second)
		h.Send(t, message).Fails(t, http.StatusBadRequest, test.code, "")
	}
	if n := server.Count("tools/call"); n != 0 {
		t.Errorf("%d calls reached the server", n)
	}
}

// wire sends bytes as they are and reads the status of the answer.
func wire(t *testing.T, h *Holdfast, request string) int {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.Base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", request[:min(len(request), 200)], err)
	}
	_ = response.Body.Close() // of no interest
	return response.StatusCode
}

func TestHTTPThatTwoReadersCouldReadDifferently(t *testing.T) {
	t.Parallel()
	server, h := echoing(t, "")
	message := CallTool("echo", nil)
	body := message.Body()
	head := "Content-Type: application/json\r\nAccept: */*\r\nMCP-Protocol-Version: " + modern + "\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	if got := wire(t, h, "POST /mcp HTTP/1.1\r\nHost: localhost\r\n"+head+length+"\r\n"+body); got != http.StatusOK {
		t.Fatalf("the plain request: HTTP %d, want 200", got)
	}
	before := server.Count("tools/call")
	for name, request := range map[string]string{
		"absolute target":     "POST http://localhost/mcp HTTP/1.1\r\nHost: localhost\r\n" + head + length + "\r\n" + body,
		"two lengths":         "POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + head + length + length + "\r\n" + body,
		"no host":             "POST /mcp HTTP/1.1\r\n" + head + length + "\r\n" + body,
		"two hosts":           "POST /mcp HTTP/1.1\r\nHost: localhost\r\nHost: evil.example.com\r\n" + head + length + "\r\n" + body,
		"continued header":    "POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + head + "X-Long: a\r\n b\r\n" + length + "\r\n" + body,
		"space before colon":  "POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + head + "Origin : http://evil\r\n" + length + "\r\n" + body,
		"name in the trailer": "POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + strings.Replace(head, "Mcp-Name: echo\r\n", "", 1) + "Transfer-Encoding: chunked\r\nTrailer: Mcp-Name\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\nMcp-Name: echo\r\n\r\n", len(body), body),
	} {
		if got := wire(t, h, request); got < 400 || got >= 500 {
			t.Errorf("%s: HTTP %d, want an error of the client", name, got)
		}
	}
	if got := server.Count("tools/call"); got != before {
		t.Errorf("%d calls reached the server", got-before)
	}
	// A chunked body is legal.
	chunked := "POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + head + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	if got := wire(t, h, chunked); got != http.StatusOK {
		t.Errorf("chunked: HTTP %d, want 200", got)
	}
}

// A connection goes on after a stream, and HTTP/1.0, which has no chunks, gets
// its answer in one piece.
func TestConnections(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("work", func(c *rawserver.Call) {
		c.Progress(1, 2)
		c.Text("done")
	})
	h := Start(t, Options{Upstream: to(server)})
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.Base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReader(conn)
	for i, stream := range []bool{true, false, true, true} {
		m := CallTool("work", nil)
		if stream {
			Progress("p")(m)
		}
		request, err := http.NewRequest(http.MethodPost, h.URL, strings.NewReader(m.Body()))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = m.Header
		if err := request.Write(conn); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(reader, request)
		if err != nil {
			t.Fatalf("request %d on the connection: %v", i+1, err)
		}
		reply := readReply(t, response)
		reply.Request = m
		reply.Text(t)
		if reply.SSE() != stream {
			t.Errorf("request %d is a stream: %v, want %v", i+1, reply.SSE(), stream)
		}
	}
	m := CallTool("work", nil, Progress("p"))
	old, err := net.Dial("tcp", strings.TrimPrefix(h.Base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close() }()
	body := m.Body()
	head := "POST /mcp HTTP/1.0\r\nHost: localhost\r\nContent-Length: " + fmt.Sprint(len(body)) + "\r\n"
	for name := range m.Header {
		head += name + ": " + m.Header.Get(name) + "\r\n"
	}
	if _, err := old.Write([]byte(head + "\r\n" + body)); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(old), nil)
	if err != nil {
		t.Fatal(err)
	}
	reply := readReply(t, response)
	if reply.SSE() || len(response.TransferEncoding) > 0 {
		t.Errorf("HTTP/1.0 got a stream: %v", response.Header)
	}
	if got := reply.Text(t); got != "done" {
		t.Errorf("got %q", got)
	}
}
