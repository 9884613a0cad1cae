package e2e

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

const (
	longCall = `"method": "tools/call", "params": {"name": "long_running_method", "arguments": {"param_str": "value", "param_num": 2}`
	longDone = `"result": {"content": [{"type": "text", "text": "done with value"}], "structuredContent": {"n": 2}}}`
	notYet   = `"result": {"content": [], "nextResumeToken": `
)

// longRunning does not end before the gate is open.
func longRunning(g gate) func(*rawserver.Server) {
	return func(s *rawserver.Server) {
		s.Tool("long_running_method", func(c *rawserver.Call) {
			<-g
			c.Result(`{"content":[{"type":"text","text":"done with ` + c.Argument("param_str") + `"}],"structuredContent":{"n":2}}`)
		})
	}
}

// "Example Flow": a token until the operation is complete, and no payload beside it.
func TestResumeTokenExample(t *testing.T) {
	t.Parallel()
	gates := map[*rawserver.Server]gate{}
	var mu sync.Mutex
	overEach(t, ", dialect: resume-token", "dialects: {resume_token: {after: 200ms}}", func(s *rawserver.Server) {
		g := newGate(t)
		mu.Lock()
		gates[s] = g
		mu.Unlock()
		longRunning(g)(s)
	}, func(t *testing.T, server *rawserver.Server, h *Holdfast) {
		mu.Lock()
		g := gates[server]
		mu.Unlock()
		first := Post(t, h.URL, `{"jsonrpc": "2.0", "id": 1, `+longCall+`}}`, bare(""))
		recite(t, h.Target, bare(""),
			turn{`{"jsonrpc": "2.0", "id": 1, ` + longCall + `, "resumeToken": "` + nextToken(t, first) + `"}}`, `{"jsonrpc": "2.0", "id": 1, ` + notYet + `"<adef50>"}}`},
			turn{`{"jsonrpc": "2.0", "id": 1, ` + longCall + `, "resumeToken": "<adef50>"}}`, `{"jsonrpc": "2.0", "id": 1, ` + notYet + `"<adef51>"}}`},
		)
		again := Post(t, h.URL, `{"jsonrpc": "2.0", "id": 1, `+longCall+`, "resumeToken": "`+nextToken(t, first)+`"}}`, bare(""))
		again.Fails(t, http.StatusBadRequest, -32602, "state_stale") // long over
		second := Post(t, h.URL, `{"jsonrpc": "2.0", "id": 1, `+longCall+`}}`, bare(""))
		token := nextToken(t, second)
		g.open()
		recite(t, h.Target, bare(""),
			turn{`{"jsonrpc": "2.0", "id": 1, ` + longCall + `, "resumeToken": "` + token + `"}}`, `{"jsonrpc": "2.0", "id": 1, ` + longDone},
			turn{`{"jsonrpc": "2.0", "id": 2, ` + longCall + `, "resumeToken": "` + token + `"}}`, `{"jsonrpc": "2.0", "id": 2, ` + longDone},
			turn{`{"jsonrpc": "2.0", "id": 3, ` + longCall + `}}`, `{"jsonrpc": "2.0", "id": 3, ` + longDone}, // nothing to wait for
		)
		if n := server.ToolCalls("long_running_method"); n != 3 {
			t.Errorf("the tool was called %d times, want 3", n)
		}
		for _, m := range server.Received("tools/call") {
			if strings.Contains(string(m.Params), "resumeToken") {
				t.Errorf("the server was sent %s", m.Params)
			}
		}
	})
}

func nextToken(t *testing.T, r *Reply) string {
	t.Helper()
	result, _ := parse(t, r.Result).(map[string]any)
	token, _ := result["nextResumeToken"].(string)
	if content, ok := result["content"].([]any); token == "" || !ok || len(content) != 0 || len(result) != 2 {
		t.Fatalf("want a token and no payload: %s", r.Body)
	}
	return token
}

// Twice at once, and at whatever replica: all wait for the same call.
func TestResumeTokenTwiceAtOnce(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	g := newGate(t)
	longRunning(g)(server)
	h := StartFleet(t, Options{Upstream: to(server), Config: "dialects: {resume_token: {after: 1s}}"})
	token := nextToken(t, Post(t, h.URL, `{"jsonrpc": "2.0", "id": 1, `+longCall+`}}`, bare("resume-token")))
	replies := make(chan *Reply, 2*h.Size())
	var all sync.WaitGroup
	for i := range cap(replies) {
		all.Go(func() {
			replies <- Post(t, h.Replica(i%h.Size()).URL, `{"jsonrpc": "2.0", "id": 1, `+longCall+`, "resumeToken": "`+token+`"}}`, bare(""))
		})
	}
	all.Wait()
	close(replies)
	tokens := map[string]bool{}
	for r := range replies {
		tokens[nextToken(t, r)] = true
	}
	g.open()
	for token := range tokens {
		recite(t, h.Target, bare(""), turn{`{"jsonrpc": "2.0", "id": 1, ` + longCall + `, "resumeToken": "` + token + `"}}`, `{"jsonrpc": "2.0", "id": 1, ` + longDone})
	}
	if n := server.ToolCalls("long_running_method"); n != 1 {
		t.Errorf("the tool was called %d times, want once", n)
	}
}

// A token expires with its call, and the server is told; another's token, or one
// for other params, is none.
func TestResumeTokenExpires(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	longRunning(newGate(t))(server)
	h := Start(t, Options{Upstream: to(server), Config: "dialects: {resume_token: {after: 100ms}}\ncalls: {park_ttl: 1s}"})
	token := nextToken(t, Post(t, h.URL, `{"jsonrpc": "2.0", "id": 1, `+longCall+`}}`, bare("resume-token")))
	other := strings.Replace(longCall, "value", "other", 1)
	Post(t, h.URL, `{"jsonrpc": "2.0", "id": 1, `+other+`, "resumeToken": "`+token+`"}}`, bare("")).Fails(t, http.StatusBadRequest, -32602, "state_foreign")
	server.WaitCount("notifications/cancelled", 1)
	look := time.NewTicker(100 * time.Millisecond) // nothing happens when a token expires, in whole seconds
	defer look.Stop()
	for give := time.Now().Add(patience); ; <-look.C {
		reply := Post(t, h.URL, `{"jsonrpc": "2.0", "id": 1, `+longCall+`, "resumeToken": "`+token+`"}}`, bare(""))
		if reply.Error == nil {
			t.Fatalf("got %s", reply.Body)
		}
		if reply.Error.Reason() == "state_expired" || time.Now().After(give) {
			reply.Fails(t, http.StatusBadRequest, -32602, "state_expired")
			break
		}
	}
}

// The replica that holds the call dies: another goes on with it.
func TestResumeTokenOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	onlyStreamable(t, "only event ids let a stream go on")
	server := newServer(t, rawserver.Settings{Prime: true}) // or there is no event to go on from
	g := newGate(t)
	longRunning(g)(server)
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty + "dialects: {resume_token: {after: 300ms}}"})
	token := nextToken(t, Post(t, h.Replica(0).URL, `{"jsonrpc": "2.0", "id": 1, `+longCall+`}}`, bare("resume-token")))
	h.Replica(0).Kill()
	token = nextToken(t, Post(t, h.Replica(1).URL, `{"jsonrpc": "2.0", "id": 1, `+longCall+`, "resumeToken": "`+token+`"}}`, bare("")))
	g.open()
	recite(t, h.Replica(2).Target, bare(""), turn{`{"jsonrpc": "2.0", "id": 1, ` + longCall + `, "resumeToken": "` + token + `"}}`, `{"jsonrpc": "2.0", "id": 1, ` + longDone})
	if n := server.ToolCalls("long_running_method"); n != 1 {
		t.Errorf("the tool was called %d times, want once", n)
	}
}

// Nothing can be asked: the server is told so when it greets, and when it asks.
func TestResumeTokenDeclaresNothing(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) {
		c.Ask("elicitation/create", question("a"))
	})
	h := Start(t, Options{Upstream: to(server)})
	body := CallTool("ask", nil).Body() // with the capabilities of a client that could be asked
	Post(t, h.URL, body, bare("resume-token")).Fails(t, http.StatusBadRequest, -32021, "missing_capability")
	greeting, _ := parse(t, server.Received("initialize")[0].Params).(map[string]any)
	same(t, "capabilities", greeting["capabilities"], `{}`)
}

// Who has a token may lose the connection and come back; who has none yet has
// nothing to come back with, and the call is cancelled.
func TestResumeTokenAfterALostConnection(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	g, begun := newGate(t), make(chan struct{}, 2)
	server.Tool("long", func(c *rawserver.Call) {
		begun <- struct{}{}
		select {
		case <-g:
			c.Text("done")
		case <-c.Cancelled():
		}
	})
	h := Start(t, Options{Upstream: to(server), Config: "dialects: {resume_token: {after: 1s}}"})
	call := CallTool("long", nil, Header("Holdfast-Dialect", "resume-token"))
	token := nextToken(t, h.Send(t, call))
	receive(t, "call", begun)
	for range 3 {
		s := h.Open(t, call.Copy(Param("resumeToken", token)))
		if s.Answered() {
			t.Error("answered at once")
		}
		s.Close()
	}
	token = nextToken(t, h.Send(t, call.Copy(Param("resumeToken", token))))
	s := h.Open(t, call.Copy()) // without a token, which comes too late for it
	receive(t, "call", begun)
	s.Close()
	server.WaitCount("notifications/cancelled", 1)
	g.open()
	if got := string(h.Send(t, call.Copy(Param("resumeToken", token))).Result); got != `{"content":[{"type":"text","text":"done"}]}` {
		t.Errorf("got %s", got)
	}
	if n := len(server.Cancelled()); n != 1 {
		t.Errorf("%d calls were cancelled, want the one without a token", n)
	}
}
