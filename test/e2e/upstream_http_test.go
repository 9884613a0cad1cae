package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// speakHTTP answers every tools/call with bytes of the test's own, and closes
// the connection. The channel tells of each that is closed.
func speakHTTP(t testing.TB, server *rawserver.Server, answer func(*rawserver.Record) string) <-chan struct{} {
	closed := make(chan struct{}, 100)
	server.Hook(func(x *rawserver.Exchange) bool {
		if x.Record.Method() != "tools/call" {
			return false
		}
		conn, _, err := http.NewResponseController(x.W).Hijack()
		if err != nil {
			t.Errorf("hijack: %v", err)
			return true
		}
		_, _ = conn.Write([]byte(answer(x.Record))) // the proxy may have had enough before the end
		_ = conn.Close()
		closed <- struct{}{}
		return true
	})
	return closed
}

// resultBody is the answer to a tools/call, as JSON.
func resultBody(r *rawserver.Record) string {
	return `{"jsonrpc":"2.0","id":` + string(r.Messages[0].ID) + `,"result":{"content":[{"type":"text","text":"déjà"}]}}`
}

// TestHTTPForms: whatever way HTTP/1 has to say where a body ends, and what
// servers write around it.
func TestHTTPForms(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n"
	chunks := func(text string) string {
		var b strings.Builder
		for _, c := range []byte(text) {
			fmt.Fprintf(&b, "1;x=y\r\n%s\r\n", []byte{c})
		}
		return b.String() + "0\r\nTrailer: x\r\n\r\n"
	}
	for name, form := range map[string]func(body string) string{
		"length": func(body string) string {
			return ok + fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body)) + body
		},
		"chunks": func(body string) string {
			return ok + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(body)
		},
		"close": func(body string) string {
			return ok + "Content-Type: application/json\r\nConnection: close\r\n\r\n" + body
		},
		"HTTP/1.0":        func(body string) string { return "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + body },
		"lower case":      func(body string) string { return ok + "content-type:application/json\r\n\r\n" + body },
		"with parameters": func(body string) string { return ok + "Content-Type: Application/JSON ; charset=utf-8\r\n\r\n" + body },
		"after 100 and 103": func(body string) string {
			return "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" + ok + "Content-Type: application/json\r\n\r\n" + body
		},
		"no reason": func(body string) string { return "HTTP/1.1 200\r\nContent-Type: application/json\r\n\r\n" + body },
		"event": func(body string) string {
			return ok + "Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n" +
				chunks("\xef\xbb\xbf:hello\r\revent:message\rdata:"+body+"\r\n\r\n")
		},
		"event in lines": func(body string) string {
			half := strings.Index(body, ",") + 1
			return ok + "Content-Type: text/event-stream\r\n\r\n" + "id\ndata: " + body[:half] + "\ndata: " + body[half:] + "\n\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			closed := speakHTTP(t, server, func(r *rawserver.Record) string { return form(resultBody(r)) })
			h := Start(t, Options{Upstream: to(server)})
			const calls = 3
			for range calls {
				if got := h.Send(t, CallTool("any", nil)).Text(t); got != "déjà" {
					t.Errorf("got %q", got)
				}
				<-closed
				gauge(t, h, "go_goroutines") // see TestConnectionsClosedBehindUs
			}
			if n := server.Count("tools/call"); n != calls {
				t.Errorf("%d calls reached the server, want %d", n, calls)
			}
		})
	}
}

// TestHTTPBroken: an answer that breaks off, or is none, is no result.
func TestHTTPBroken(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	for name, test := range map[string]struct{ answer, reason string }{
		"short body":   {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"jsonrpc\":", "upstream_lost"},
		"short chunks": {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"js", "upstream_lost"},
		"short head":   {"HTTP/1.1 200 OK\r\nContent-Ty", "upstream_lost"},
		"no HTTP":      {"220 mail.example ESMTP\r\n\r\n", "upstream_reply"},
		"bad chunks":   {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "upstream_reply"},
		"endless head": {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "upstream_reply"},
		"other type":   {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello", "upstream_status"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			speakHTTP(t, server, func(*rawserver.Record) string { return test.answer })
			h := Start(t, Options{Upstream: to(server)})
			h.Send(t, CallTool("any", nil)).Fails(t, 200, -32603, test.reason)
			if n := server.Count("tools/call"); n != 1 {
				t.Errorf("tools/call was sent %d times, want once", n)
			}
			h.Send(t, Request("tools/list", nil)).Completes(t)
		})
	}
}

// TestConnectionsClosedBehindUs: servers close idle connections without a
// word. No call is lost by it, and none runs twice.
func TestConnectionsClosedBehindUs(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	closed := speakHTTP(t, server, func(r *rawserver.Record) string {
		body := resultBody(r)
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	})
	h := Start(t, Options{Upstream: to(server)})
	const calls = 30
	for range calls {
		h.Send(t, CallTool("any", nil)).Completes(t)
		<-closed
		// A server that closes a connection does so after an idle time, however
		// short. One that does it in the moment of its answer, without saying so
		// there, loses the call that is on its way to it.
		gauge(t, h, "go_goroutines")
	}
	if n := server.Count("tools/call"); n != calls {
		t.Errorf("%d calls reached the server, want %d", n, calls)
	}
}

// TestRedirect: a redirect is not followed, because the credentials are for
// this server.
func TestRedirect(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	elsewhere := newServer(t, rawserver.Settings{})
	for _, status := range []int{301, 302, 307, 308} {
		server := newServer(t, rawserver.Settings{})
		server.Once(rawserver.ForMethod("tools/call"), func(x *rawserver.Exchange) {
			x.Reply(status, "", "Location", elsewhere.URL)
		})
		h := Start(t, Options{Upstream: to(server)})
		reply := h.Send(t, CallTool("any", nil, Bearer("secret")))
		reply.Fails(t, 200, -32603, "upstream_status")
		if reply.Header.Get("Location") != "" {
			t.Error("the client is told where else to go")
		}
	}
	if n := len(elsewhere.Records()); n != 0 {
		t.Errorf("%d requests were sent elsewhere", n)
	}
}

// TestSilenceAfterProgress: calls.timeout counts from the last sign of life,
// and bounds a call that streamed from its beginning, too.
func TestSilenceAfterProgress(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("stuck", func(c *rawserver.Call) {
		c.Progress(1, 2)
		<-c.Context().Done()
	})
	h := Start(t, Options{Upstream: to(server), Config: "calls: {timeout: 2s}"})
	stream := h.Open(t, CallTool("stuck", nil, Progress("p")))
	stream.Notification("notifications/progress")
	last := stream.Reply()
	last.Fails(t, 200, -32603, "call_timeout")
	if !mayHaveRun(t, last) {
		t.Error("the error does not say that the call may have run")
	}
	server.WaitCount("notifications/cancelled", 1)
}
