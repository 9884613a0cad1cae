package legacy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// site is an HTTP server whose handler may change.
type site struct {
	*httptest.Server
	handler atomic.Pointer[http.Handler]

	mu       sync.Mutex
	requests []string // method and the JSON-RPC method, if any
}

func newSite(t testing.TB, h http.Handler) *site {
	s := &site{}
	s.serve(h)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		note := r.Method
		if _, after, ok := bytes.Cut(body, []byte(`"method":"`)); ok {
			method, _, _ := bytes.Cut(after, []byte(`"`))
			note += " " + string(method)
		}
		s.mu.Lock()
		s.requests = append(s.requests, note)
		s.mu.Unlock()
		(*s.handler.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections() // a stream stands until its session ends
		s.Close()
	})
	return s
}

func (s *site) serve(h http.Handler) { s.handler.Store(&h) }

// drop closes all connections, and has the client know of the idle ones.
func (s *site) drop(client *Server) {
	s.CloseClientConnections()
	client.endpoint.expire(time.Now().Add(time.Hour))
}

func (s *site) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := strings.Join(s.requests, ", ")
	s.requests = nil
	return seen
}

// overSSE is a server of the official SDK over HTTP+SSE.
func overSSE() http.Handler {
	server := sdkServer()
	h := sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return server }, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.RawQuery == "" {
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// plainSSE is a server over HTTP+SSE whose tools say their names, but for one
// that never answers.
type plainSSE struct {
	lose chan struct{} // ends a stream; may be nil
	slow chan struct{} // holds the answers to POSTs of requests back until it is closed; may be nil
	left chan struct{} // gets one for each of them that was given up; may be nil

	mu      sync.Mutex
	streams []chan string
}

func (p *plainSSE) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		p.mu.Lock()
		lines := make(chan string, 100)
		p.streams = append(p.streams, lines)
		n := len(p.streams)
		p.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, ": hello\n\nevent: endpoint\ndata: /messages?n=%d\n\n", n)
		for {
			w.(http.Flusher).Flush()
			select {
			case line := <-lines:
				fmt.Fprintf(w, "event: message\ndata: %s\n\n", line)
			case <-r.Context().Done():
				return
			case <-p.lose:
				return
			}
		}
	}
	n, err := strconv.Atoi(r.URL.Query().Get("n"))
	if err != nil {
		http.Error(w, "post to the endpoint", http.StatusMethodNotAllowed)
		return
	}
	var m message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	lines := p.streams[n-1]
	p.mu.Unlock()
	switch {
	case m.Method == "initialize":
		lines <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"plain","version":"1"}}}`, m.ID)
	case m.Method == "tools/call" && m.Params.Name != "never":
		lines <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, m.ID, m.Params.Name)
	}
	if p.slow != nil && m.Method == "tools/call" {
		select {
		case <-p.slow:
		case <-r.Context().Done():
			if p.left != nil {
				p.left <- struct{}{}
			}
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

func overHTTP() http.Handler {
	server := sdkServer()
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
}

func onSite(t testing.TB, s *site, transport Transport) *Server {
	settings := testSettings(s.URL + "/sse")
	settings.Transport = transport
	server := newTestServer(t, settings)
	t.Cleanup(func() { server.Close(context.WithoutCancel(t.Context())) }) // before the site's
	return server
}

func greets(t testing.TB, s *Server) {
	t.Helper()
	session := mustAcquire(t, s, stdioKey(t), true)
	d := call(t, session, "greet")
	question := d.next(t)
	if question.Method != mcp.MethodElicit {
		t.Fatalf("the server says %+v, want a question", question)
	}
	if err := session.Post(t.Context(), nil, answerText(question.ID, "Ada")); err != nil {
		t.Fatal(err)
	}
	if got := textOf(d.next(t)); got != "Hello Ada" {
		t.Errorf("the tool says %q", got)
	}
	<-d.ended
}

func TestHTTPSSE(t *testing.T) {
	for _, transport := range []Transport{TransportSSE, TransportAuto} {
		t.Run(transport.String(), func(t *testing.T) {
			web := newSite(t, overSSE())
			s := onSite(t, web, transport)
			greets(t, s)
			want := "GET, POST initialize, POST notifications/initialized, POST tools/call, POST"
			if transport == TransportAuto {
				want = "POST initialize, " + want
			}
			if got := web.seen(); got != want {
				t.Errorf("requests were %s, want %s", got, want)
			}
			// What was found out is remembered, and with a question open another
			// call gets a session of its own.
			first := call(t, mustAcquire(t, s, stdioKey(t), true), "greet")
			first.next(t)
			other := mustAcquire(t, s, stdioKey(t), true)
			if other == first.Session() {
				t.Error("two calls that can be asked are on one session")
			}
			if got, want := web.seen(), "POST tools/call, GET, POST initialize, POST notifications/initialized"; got != want {
				t.Errorf("requests were %s, want %s", got, want)
			}
			other.Return(true)
			first.Cancel("enough")
			first.Abort()
			<-first.ended
		})
	}
}

// A lost stream ends its session, and the calls on it; the next call gets a new
// one.
func TestHTTPSSEStreamIsLost(t *testing.T) {
	plain := &plainSSE{lose: make(chan struct{})}
	web := newSite(t, plain)
	s := onSite(t, web, TransportSSE)
	d := call(t, mustAcquire(t, s, stdioKey(t), true), "never")
	plain.lose <- struct{}{}
	if err := <-d.failed; !errors.Is(err, ErrBroken) {
		t.Errorf("the call was told %v", err)
	}
	<-d.ended
	if at := d.Position(); at.Event != "" {
		t.Errorf("the call could be resumed at %q", at.Event)
	}
	if got := toolText(t, s, "any"); got != "any" {
		t.Errorf("the tool says %q", got)
	}
}

// Some servers answer a POST only after the request in it: the response is not
// kept waiting, and the request not given up.
func TestHTTPSSEPostIsAnsweredLate(t *testing.T) {
	plain := &plainSSE{slow: make(chan struct{})}
	web := newSite(t, plain)
	s := onSite(t, web, TransportSSE)
	if got := toolText(t, s, "any"); got != "any" {
		t.Errorf("the tool says %q", got)
	}
	d := call(t, mustAcquire(t, s, stdioKey(t), true), "never")
	plain.mu.Lock()
	stream := plain.streams[0]
	plain.mu.Unlock()
	stream <- `{"jsonrpc":"2.0","id":` + string(d.AppendID(nil)) + `,"result":{"content":[{"type":"text","text":"late"}]}}`
	if got := textOf(d.next(t)); got != "late" {
		t.Errorf("the tool says %q", got)
	}
	<-d.ended
	close(plain.slow)
}

// A POST that is never answered costs its connection no longer than the request
// and a while.
func TestHTTPSSEPostIsNeverAnswered(t *testing.T) {
	plain := &plainSSE{slow: make(chan struct{}), left: make(chan struct{}, 1)}
	web := newSite(t, plain)
	s := onSite(t, web, TransportSSE)
	s.settings.PostTimeout = 30 * time.Millisecond
	if got := toolText(t, s, "any"); got != "any" {
		t.Errorf("the tool says %q", got)
	}
	select {
	case <-plain.left:
	case <-time.After(10 * time.Second):
		t.Error("the connection is still waited on")
	}
}

// A server that no longer knows the session has not run the request: it may be
// sent again on another.
func TestHTTPSSESessionIsGone(t *testing.T) {
	web := newSite(t, overSSE())
	s := onSite(t, web, TransportSSE)
	session := mustAcquire(t, s, stdioKey(t), true)
	web.serve(http.NotFoundHandler())
	k := newTeller()
	x := session.Prepare(s.NextID(), k, nil, true, true, mcp.LevelNone)
	x.SetMessage(jsonrpc.AppendRequest(Text(), x.AppendID(nil), mcp.MethodToolsCall, []byte(`{"name":"greet"}`)))
	if err := x.Send(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	x.Run(t.Context())
	if err := <-k.failed; !errors.Is(err, ErrSessionGone) {
		t.Errorf("the call was told %v", err)
	}
	if !x.HasMessage() {
		t.Error("the request is not there to be sent again")
	}
	x.Finish()
	web.serve(overSSE())
	greets(t, s)
}

// A server may be upgraded, or the reverse, while it is in use.
func TestTransportIsProbedAgain(t *testing.T) {
	web := newSite(t, overSSE())
	s := onSite(t, web, TransportAuto)
	for i, next := range []http.Handler{overHTTP(), overSSE(), overHTTP()} {
		greets(t, s)
		if sse := i%2 == 0; s.PushesOnGET() != sse {
			t.Errorf("with server %d, every call that can be asked has a session of its own: %v, want %v", i, s.PushesOnGET(), sse)
		}
		e, err := s.entry(stdioKey(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, session := range e.shut() { // as when all were found to be gone
			s.end(session)
		}
		s.mu.Lock()
		clear(s.entries)
		s.mu.Unlock()
		web.serve(next)
		web.drop(s)
	}
	greets(t, s)
	if n := strings.Count(web.seen(), "tools/call"); n != 4 {
		t.Errorf("4 tool calls were sent %d times", n)
	}
}

// What is no MCP server at all is told as what it answered first.
func TestRefusalByNeitherTransport(t *testing.T) {
	for _, status := range []int{400, 401, 404, 405, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			web := newSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					http.Error(w, "no", http.StatusGone)
					return
				}
				http.Error(w, "no", status)
			}))
			s := onSite(t, web, TransportAuto)
			_, err := s.Acquire(t.Context(), stdioKey(t), true, nil)
			var got *StatusError
			if !errors.As(err, &got) || got.Status != status {
				t.Errorf("the call was told %v, want HTTP %d", err, status)
			}
			want := "POST initialize, GET"
			if status == 401 || status == 503 {
				want = "POST initialize"
			}
			if got := web.seen(); got != want {
				t.Errorf("requests were %s, want %s", got, want)
			}
		})
	}
}

// What was refused over HTTP+SSE, by a server that speaks that, is told as such.
func TestRefusalOverSSE(t *testing.T) {
	endpoint := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, "event: endpoint\ndata: /messages\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	for name, test := range map[string]struct {
		get    http.HandlerFunc
		posted int // what a POST to the endpoint is answered
		want   int
	}{
		"the stream":  {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who?", http.StatusUnauthorized) }, 202, 401},
		"forbidden":   {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }, 202, 403},
		"the message": {endpoint, 401, 401},
		"silence":     {endpoint, 202, 0},
		"no endpoint": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, 202, 405},
	} {
		t.Run(name, func(t *testing.T) {
			web := newSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodGet:
					test.get(w, r)
				case r.URL.Path == "/messages":
					w.WriteHeader(test.posted)
				default:
					http.Error(w, "no", http.StatusMethodNotAllowed)
				}
			}))
			s := onSite(t, web, TransportAuto)
			s.settings.OpenTimeout = 100 * time.Millisecond
			_, err := s.Acquire(t.Context(), stdioKey(t), true, nil)
			var status *StatusError
			switch {
			case test.want == 0:
				if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &status) || errors.Is(err, ErrBroken) {
					t.Errorf("the call was told %v, want that it took too long", err)
				}
			case !errors.As(err, &status) || status.Status != test.want:
				t.Errorf("the call was told %v, want HTTP %d", err, test.want)
			}
		})
	}
}

func TestEndpointOfAnotherOrigin(t *testing.T) {
	e, err := newEndpoint(&Settings{URL: "https://Example.com/base/sse"})
	if err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]string{
		"/messages?id=1":                     "/messages?id=1",
		"messages?id=1":                      "/base/messages?id=1",
		"?id=1":                              "/base/sse?id=1",
		" /messages\r":                       "/messages",
		"/m#part":                            "/m",
		"https://example.com/m":              "/m",
		"https://example.com:443/m":          "/m",
		"//example.com/m":                    "/m",
		"http://example.com/m":               "",
		"https://example.com:8443/m":         "",
		"https://example.org/m":              "",
		"//example.org/m":                    "",
		"https://user@example.com/m":         "",
		"https://example.com.evil.org/m":     "",
		"\\\\evil.org/m":                     "/base/%5C%5Cevil.org/m",
		"/m\r\nHost: evil.org":               "",
		"/" + strings.Repeat("m", maxTarget): "",
	} {
		got, err := e.sameOrigin(uri)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%.40q is %q, %v; want %q", uri, got, err, want)
		}
	}
}
