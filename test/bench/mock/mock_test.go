package mock_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-mcp/holdfast/test/bench/mock"
	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is a client of one mock over net/http, which judges the framing.
type peer struct {
	t       *testing.T
	url     string
	client  *http.Client
	session string
}

func start(t *testing.T, s *mock.Server) *peer {
	t.Helper()
	return startOn(t, s, listen(t))
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func startOn(t *testing.T, s *mock.Server, l net.Listener) *peer {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.Close(l)
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return &peer{t: t, url: "http://" + l.Addr().String(), client: &http.Client{Transport: transport}}
}

// do sends one request on the peer's session; the caller closes the body.
func (p *peer) do(method, path, body string) *http.Response {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if p.session != "" {
		req.Header.Set("Mcp-Session-Id", p.session)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp
}

// post posts a message and returns the status and the body.
func (p *peer) post(message string) (int, string) {
	p.t.Helper()
	resp := p.do("POST", "/mcp", message)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if len(body) > 0 && !json.Valid(body) {
		p.t.Errorf("%s: answer is no JSON: %s", message, body)
	}
	return resp.StatusCode, string(body)
}

func (p *peer) initialize() {
	p.t.Helper()
	resp := p.do("POST", "/mcp", `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18"}}`)
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if want := `"protocolVersion":"2025-06-18"`; !bytes.Contains(body, []byte(want)) {
		p.t.Fatalf("initialize: got %s, want %s in it", body, want)
	}
	if p.session = resp.Header.Get("Mcp-Session-Id"); p.session == "" {
		p.t.Fatal("initialize: no session id")
	}
	if status, _ := p.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); status != 202 {
		p.t.Fatalf("initialized: got %d, want 202", status)
	}
}

func (p *peer) stats() map[string]int {
	p.t.Helper()
	resp := p.do("GET", "/stats", "")
	defer resp.Body.Close()
	var stats map[string]int
	if err := json.NewDecoder(resp.Body).Decode(&stats); err != nil {
		p.t.Fatal(err)
	}
	return stats
}

func TestOneAnswerRequests(t *testing.T) {
	p := start(t, &mock.Server{})
	p.initialize()
	for _, c := range []struct {
		message string
		status  int
		want    string
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, 200, `"result":{}`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, 200, `"name":"ask"`},
		{`{"params":{"_meta":{"a":{}},"arguments":{"text":"h\"i"},"name":"echo"},"method":"tools/call","id":"x-1","jsonrpc":"2.0"}`, 200,
			`{"jsonrpc":"2.0","id":"x-1","result":{"content":[{"type":"text","text":"h\"i"}]}}`},
		{`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"none"}}`, 200, `-32602`},
		{`{"jsonrpc":"2.0","id":2,"method":"server/discover"}`, 200, `-32601`},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, 202, ``},
		{`{}`, 400, ``},
	} {
		if status, body := p.post(c.message); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: got %d %s, want %d %s", c.message, status, body, c.status, c.want)
		}
	}
}

func TestSessionIsRequired(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	p := start(t, &mock.Server{})
	if status, _ := p.post(ping); status != 400 {
		t.Errorf("without a session: got %d, want 400", status)
	}
	p.session = "unknown"
	if status, _ := p.post(ping); status != 404 {
		t.Errorf("with an unknown session: got %d, want 404", status)
	}
	p.initialize()
	resp := p.do("DELETE", "/mcp", "")
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("DELETE: got %d, want 200", resp.StatusCode)
	}
	if status, _ := p.post(ping); status != 404 {
		t.Errorf("after DELETE: got %d, want 404", status)
	}
}

func TestStandaloneStream(t *testing.T) {
	t.Run("held", func(t *testing.T) {
		p := start(t, &mock.Server{})
		p.initialize()
		resp := p.do("GET", "/mcp", "")
		defer resp.Body.Close()
		if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Fatalf("content type: got %q", got)
		}
		if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || line != "id: 0\n" {
			t.Errorf("first line: got %q, %v", line, err)
		}
	})
	t.Run("not offered", func(t *testing.T) {
		p := start(t, &mock.Server{NoStream: true})
		p.initialize()
		resp := p.do("GET", "/mcp", "")
		resp.Body.Close()
		if resp.StatusCode != 405 {
			t.Errorf("got %d, want 405", resp.StatusCode)
		}
	})
}

// asked is a call of ask whose question has been read.
type asked struct {
	resp     *http.Response
	events   *bufio.Scanner
	question struct {
		ID     int
		Method string
		Params struct{ RequestedSchema map[string]any }
	}
}

// ask calls ask and reads up to the question.
func (p *peer) ask(text string) *asked { return p.call("ask", text) }

// call is ask for another tool that asks.
func (p *peer) call(tool, text string) *asked {
	p.t.Helper()
	a := p.open(tool, text)
	a.read(p.t)
	return a
}

// open calls a tool and reads nothing of its stream.
func (p *peer) open(tool, text string) *asked {
	p.t.Helper()
	a := &asked{}
	a.resp = p.do("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":%q,"arguments":{"text":%q}}}`, tool, text))
	p.t.Cleanup(func() { a.resp.Body.Close() })
	a.events = bufio.NewScanner(a.resp.Body)
	a.events.Buffer(nil, wire.LargeSize+4096)
	return a
}

// read reads the question.
func (a *asked) read(t *testing.T) {
	t.Helper()
	if err := json.Unmarshal(a.next(t), &a.question); err != nil {
		t.Fatal(err)
	}
	if a.question.Method != "elicitation/create" || a.question.Params.RequestedSchema["type"] != "object" {
		t.Fatalf("question: got %+v", a.question)
	}
}

// next reads the data of the next event that has any, and checks its id.
func (a *asked) next(t *testing.T) []byte {
	t.Helper()
	var id string
	for a.events.Scan() {
		line := a.events.Text()
		if rest, ok := strings.CutPrefix(line, "id: "); ok {
			id = rest
		}
		if rest, ok := strings.CutPrefix(line, "data: "); ok && rest != "" {
			if id == "" {
				t.Error("event without an id")
			}
			return []byte(rest)
		}
	}
	t.Fatalf("stream ended: %v", a.events.Err())
	return nil
}

func (p *peer) answer(id int, result string) int {
	p.t.Helper()
	status, _ := p.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, result))
	return status
}

func TestAskWaitsForItsAnswer(t *testing.T) {
	p := start(t, &mock.Server{})
	p.initialize()
	first, second := p.ask("one"), p.ask("two")
	if got := p.stats(); got["waiting"] != 2 || got["sessions"] != 1 {
		t.Errorf("while both wait: %v", got)
	}
	for _, c := range []struct {
		asked  *asked
		result string
		want   string
	}{
		{second, `{"action":"accept","content":{"answer":"b"}}`, `{"jsonrpc":"2.0","id":"c","result":{"content":[{"type":"text","text":"two=b"}]}}`},
		{first, `{"action":"decline"}`, `{"jsonrpc":"2.0","id":"c","error":{"code":-32603,"message":"no answer"}}`},
	} {
		if status := p.answer(c.asked.question.ID, c.result); status != 202 {
			t.Errorf("answer: got %d, want 202", status)
		}
		if got := string(c.asked.next(t)); got != c.want {
			t.Errorf("result: got %s, want %s", got, c.want)
		}
		if c.asked.events.Scan(); c.asked.events.Scan() {
			t.Errorf("after the result: got %q, want the end", c.asked.events.Text())
		}
	}
	if status := p.answer(first.question.ID, `{"action":"accept","content":{}}`); status != 202 {
		t.Errorf("answer sent twice: got %d, want 202", status)
	}
	if got := p.stats(); got["answered"] != 2 || got["stray"] != 1 || got["waiting"] != 0 {
		t.Errorf("at the end: %v", got)
	}
}

const yes = `{"action":"accept","content":{"answer":"yes"}}`

func TestLargeEndsWithALotOfText(t *testing.T) {
	p := start(t, &mock.Server{})
	p.initialize()
	a := p.call("large", "one")
	p.answer(a.question.ID, yes)
	want := `{"jsonrpc":"2.0","id":"c","result":{"content":[{"type":"text","text":"one=yes` + string(wire.LargeText()) + `"}]}}`
	if got := a.next(t); string(got) != want {
		t.Errorf("result of %d bytes is not the %d bytes that were expected", len(got), len(want))
	}
	declined := p.call("large", "two")
	p.answer(declined.question.ID, `{"action":"decline"}`)
	if got := string(declined.next(t)); !strings.Contains(got, "-32603") {
		t.Errorf("declined: got %s", got)
	}
}

func TestMeetWaitsForAll(t *testing.T) {
	const callers = 3
	p := start(t, &mock.Server{Meeting: callers})
	p.initialize()
	var calls []*asked
	for range callers {
		calls = append(calls, p.call("meet", "one"))
	}
	for i, a := range calls {
		if got := p.stats()["together"]; got != i {
			t.Errorf("%d wait, want %d", got, i)
		}
		p.answer(a.question.ID, yes)
	}
	for _, a := range calls {
		if got := string(a.next(t)); !strings.Contains(got, "one=yes") {
			t.Errorf("result: got %s", got)
		}
	}
	if got := p.stats()["together"]; got != callers {
		t.Errorf("together: got %d, want %d", got, callers)
	}
}

func TestLaterAsksWhenItIsToldTo(t *testing.T) {
	p := start(t, &mock.Server{})
	p.initialize()
	var calls []*asked
	for _, text := range []string{"one", "two"} {
		calls = append(calls, p.open("later", text))
	}
	if got := p.stats(); got["waiting"] != 2 {
		t.Errorf("before they ask: %v", got)
	}
	p.do("GET", "/ask", "").Body.Close()
	for i, text := range []string{"one", "two"} {
		calls[i].read(t)
		p.answer(calls[i].question.ID, yes)
		if got, want := string(calls[i].next(t)), text+"=yes"; !strings.Contains(got, want) {
			t.Errorf("result: got %s, want %s in it", got, want)
		}
	}
	p.do("GET", "/ask", "").Body.Close() // nobody is left to ask
	if got := p.stats(); got["waiting"] != 0 || got["answered"] != 2 || got["stray"] != 0 {
		t.Errorf("at the end: %v", got)
	}
}

func TestAnswerOfAnotherSessionIsStray(t *testing.T) {
	p := start(t, &mock.Server{})
	p.initialize()
	a := p.ask("one")
	other := *p
	other.session = ""
	other.initialize()
	other.answer(a.question.ID, `{"action":"accept","content":{"answer":"theirs"}}`)
	if got := p.stats(); got["stray"] != 1 || got["waiting"] != 1 {
		t.Errorf("after the foreign answer: %v", got)
	}
	p.answer(a.question.ID, `{"action":"accept","content":{"answer":"ours"}}`)
	if got := string(a.next(t)); !strings.Contains(got, "one=ours") {
		t.Errorf("result: got %s", got)
	}
}

// watched tells of each connection that the server closes.
type watched struct {
	net.Listener
	closed chan struct{}
}

type watchedConn struct {
	net.Conn
	closed chan<- struct{}
}

func (w *watched) Accept() (net.Conn, error) {
	nc, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{nc, w.closed}, nil
}

func (w *watchedConn) Close() error {
	w.closed <- struct{}{}
	return w.Conn.Close()
}

func TestClientThatLeavesTakesItsQuestionAlong(t *testing.T) {
	s := &mock.Server{}
	w := &watched{listen(t), make(chan struct{}, 16)} // room for what Close closes
	p := startOn(t, s, w)
	p.initialize()
	p.ask("one").resp.Body.Close()
	<-w.closed // the server saw the client leave, and nothing else closed a connection yet
	if got := s.Stats().Left.Load(); got != 1 {
		t.Errorf("questions left: got %d, want 1", got)
	}
}
