package e2e

import (
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// askRoots makes a server ask for roots right after the handshake, as file
// system servers do, and hands over the question.
func askRoots(server *rawserver.Server) <-chan *rawserver.Question {
	asked := make(chan *rawserver.Question, 100)
	server.Initialized(func(s *rawserver.Session) { asked <- s.Push("roots/list", "") })
	return asked
}

// TestOrphan: a request outside any call waits for the next call that can
// carry it, and holds up nothing else.
func TestOrphan(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	asked := askRoots(server)
	h := Start(t, Options{Upstream: to(server)})
	h.Send(t, Request("server/discover", nil)).Completes(t)
	question := <-asked
	if answer := server.Session().Push("ping", "").Wait(); !answer.OK() { // it has been read by now
		t.Fatal("no answer to a ping")
	}
	// Lists are never answered with input_required, and do not wait.
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "server/discover"} {
		h.Send(t, Request(method, nil)).Completes(t)
	}
	first := h.Send(t, CallTool("say", map[string]any{"say": "x"}))
	first.Asks(t, "roots-1")
	if first.Inputs["roots-1"].Method != "roots/list" {
		t.Errorf("asks %v", first.Inputs)
	}
	if n := server.ToolCalls("say"); n != 0 {
		t.Error("the tool runs before the server knows what it asked for")
	}
	select {
	case <-question.Answered():
		t.Error("the question was answered by somebody else than the client")
	default:
	}
	last := h.Retry(t, first, Answers{"roots-1": Roots("file:///r")})
	if got := last.Text(t); got != "said x" {
		t.Errorf("got %q", got)
	}
	answer := question.Wait()
	if got := string(at(answer.Result, "roots")); got != `[{"uri":"file:///r"}]` {
		t.Errorf("the server got the roots %s", got)
	}
	if n := len(question.Answers()); n != 1 {
		t.Errorf("the question was answered %d times", n)
	}
	h.Send(t, CallTool("say", map[string]any{"say": "y"})).Completes(t) // it is not asked again
}

// TestOrphanRefused: nobody came, and the server is told.
func TestOrphanRefused(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	asked := askRoots(server)
	h := Start(t, Options{Upstream: to(server), Config: "sessions: {orphan_ttl: 10ms}"})
	h.Send(t, Request("tools/list", nil)).Completes(t)
	if answer := (<-asked).Wait(); answer.OK() || answer.Error == nil {
		t.Errorf("the question got %s, want an error", answer.Result)
	}
	h.Send(t, CallTool("say", nil)).Completes(t)
}

// TestOrphanAtTheEnd: what still waits when the session ends is refused.
func TestOrphanAtTheEnd(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	asked := askRoots(server)
	h := Start(t, Options{Upstream: to(server)})
	h.Send(t, Request("tools/list", nil)).Completes(t)
	question := <-asked
	if answer := server.Session().Push("ping", "").Wait(); !answer.OK() {
		t.Fatal("no answer to a ping")
	}
	h.Stop()
	answers := question.Answers()
	if len(answers) != 1 || answers[0].Error == nil {
		t.Errorf("the question got %v, want an error", answers)
	}
	server.WaitEnded(1)
	records := server.Records()
	if last := records[len(records)-1]; last.HTTP != "DELETE" && !oneStream(t) {
		t.Errorf("last comes %s %s, want DELETE", last.HTTP, last.Body)
	}
}

// TestOrphanNotDeclared: what no client of the session can answer is refused at
// once.
func TestOrphanNotDeclared(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	asked := askRoots(server)
	h := Start(t, Options{Upstream: to(server)})
	h.Send(t, Request("tools/list", nil, Caps(`{"elicitation":{}}`))).Completes(t)
	answer := (<-asked).Wait() // outside any call
	if answer.Error == nil || answer.Error.Code != -32601 {
		t.Errorf("the question got %v, want -32601", answer.Error)
	}
	h.Send(t, CallTool("say", nil, Caps(`{"elicitation":{}}`))).Completes(t)
}

// TestOrphansBounded: sessions.max_orphans.
func TestOrphansBounded(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	h := Start(t, Options{Upstream: to(server), Config: "sessions: {max_orphans: 2}\ncalls: {gather: 1s}"})
	h.Send(t, Request("tools/list", nil)).Completes(t)
	session := server.Session()
	kept := []*rawserver.Question{session.Push("roots/list", ""), session.Push("elicitation/create", askName)}
	answer := session.Push("roots/list", "").Wait()
	if answer.Error == nil {
		t.Errorf("one question too many got %s, want an error", answer.Result)
	}
	first := h.Send(t, CallTool("say", nil))
	first.Asks(t, "roots-1", "elicitation-1")
	h.Retry(t, first, Answers{"roots-1": Roots(), "elicitation-1": Accept("name", "Ada")}).Completes(t)
	for _, q := range kept {
		if !q.Wait().OK() {
			t.Errorf("%s got no answer", q.Method)
		}
	}
}

// TestOrphanWithdrawn: the server no longer wants an answer to what waits.
func TestOrphanWithdrawn(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	asked := askRoots(server)
	h := Start(t, Options{Upstream: to(server)})
	h.Send(t, Request("tools/list", nil)).Completes(t)
	question := <-asked
	session := server.Session()
	session.Notify("notifications/cancelled", `{"requestId":`+question.ID+`}`)
	if answer := session.Push("ping", "").Wait(); !answer.OK() {
		t.Fatal("no answer to a ping")
	}
	h.Send(t, CallTool("say", nil)).Completes(t)
	if n := len(question.Answers()); n != 0 {
		t.Errorf("the question was answered %d times after it was cancelled", n)
	}
}

// TestOrphanAbandoned: the client that was asked does not come back. The server
// is told, and its tool has never run.
func TestOrphanAbandoned(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	asked := askRoots(server)
	h := Start(t, Options{Upstream: to(server), Config: "calls: {park_ttl: 50ms}"})
	h.Send(t, Request("tools/list", nil)).Completes(t)
	question := <-asked
	if answer := server.Session().Push("ping", "").Wait(); !answer.OK() {
		t.Fatal("no answer to a ping")
	}
	h.Send(t, CallTool("say", nil)).Asks(t, "roots-1")
	if answer := question.Wait(); answer.Error == nil {
		t.Errorf("the question got %s, want an error", answer.Result)
	}
	reaches(t, h, "holdfast_calls_parked", 0)
	h.Send(t, CallTool("say", nil)).Completes(t)
	if n := server.ToolCalls("say"); n != 1 {
		t.Errorf("the tool was called %d times, want once", n)
	}
}

// TestOrphanOfAnother: what waits on one principal's session is no business of
// another's call.
func TestOrphanOfAnother(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	h := Start(t, Options{Upstream: to(server)})
	h.Send(t, Request("tools/list", nil, Bearer("a"))).Completes(t)
	question := server.Session().Push("roots/list", "")
	if answer := server.Session().Push("ping", "").Wait(); !answer.OK() {
		t.Fatal("no answer to a ping")
	}
	h.Send(t, CallTool("say", nil, Bearer("b"))).Completes(t)
	if n := len(question.Answers()); n != 0 {
		t.Error("another principal answered")
	}
	first := h.Send(t, CallTool("say", nil, Bearer("a")))
	first.Asks(t, "roots-1")
	h.Retry(t, first, Answers{"roots-1": Roots()}).Completes(t)
}
