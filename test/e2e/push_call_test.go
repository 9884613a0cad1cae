package e2e

import (
	"fmt"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// pushing asks for a name on the session's GET stream, as the TypeScript SDK's
// plain elicitInput does.
func pushing(c *rawserver.Call) {
	answer := c.Push("elicitation/create", askName)
	if !answer.OK() {
		c.Text("refused: " + answer.Error.Message)
		return
	}
	c.Text("Hello " + answer.Content("name") + " from " + c.Argument("from"))
}

// pushes is a configuration with one upstream that is known to push.
func pushes(server *rawserver.Server, rest string) Options {
	return Options{Config: "upstreams: [{" + to(server).YAML() + ", pushes_on_get: true}]\n" + rest}
}

// TestPushedQuestion: a question on the GET stream belongs to the only call
// that it can belong to. Sequential calls of a stateful server stay on one
// session.
func TestPushedQuestion(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("push", pushing)
	h := Start(t, Options{Upstream: to(server)})
	for _, name := range []string{"Ada", "Bob", "Cleo"} {
		first := h.Send(t, CallTool("push", map[string]any{"from": "1"}))
		first.Asks(t, "elicitation-1")
		last := h.Retry(t, first, Answers{"elicitation-1": Accept("name", name)})
		if got, want := last.Text(t), "Hello "+name+" from 1"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if oneStream(t) { // there is nothing to learn
	} else if h.Logs.Wait(t, "pushes its input requests on the GET stream"); h.Logs.Count("pushes its input requests on the GET stream") != 1 {
		n := h.Logs.Count("pushes its input requests on the GET stream")
		t.Errorf("it was learned %d times", n)
	}
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d sessions for calls one after the other, want 1", n)
	}
}

// TestPushedKinds: each kind of question finds its call.
func TestPushedKinds(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("push", func(c *rawserver.Call) {
		c.Session.WaitListening()
		questions := []*rawserver.Question{
			c.Session.Push("elicitation/create", askName),
			c.Session.Push("sampling/createMessage", `{"messages":[],"maxTokens":1}`),
			c.Session.Push("roots/list", ""),
		}
		c.Text(questions[0].Wait().Content("name") + " " + questions[1].Wait().Content("text") + " " +
			string(at(questions[2].Wait().Result, "roots")))
	})
	h := Start(t, Options{Upstream: to(server), Config: "calls: {gather: 1s}"})
	first := h.Send(t, CallTool("push", nil))
	first.Asks(t, "elicitation-1", "sampling-1", "roots-1")
	last := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada"), "sampling-1": Said("hi"), "roots-1": Roots("file:///r")})
	if got, want := last.Text(t), `Ada hi [{"uri":"file:///r"}]`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPushedBesideOthers: calls that cannot be asked anything are no
// candidates.
func TestPushedBesideOthers(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("push", pushing)
	hold := newGate(t)
	server.Handle("prompts/list", func(c *rawserver.Call) {
		<-hold
		c.Result(`{"prompts":[]}`)
	})
	h := Start(t, Options{Upstream: to(server)})
	list := h.Open(t, Request("prompts/list", nil))
	server.WaitCount("prompts/list", 1)
	first := h.Send(t, CallTool("push", map[string]any{"from": "1"}))
	first.Asks(t, "elicitation-1")
	if got := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Text(t); got != "Hello Ada from 1" {
		t.Errorf("got %q", got)
	}
	hold.open()
	list.Reply().Completes(t)
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
}

// TestPushedAmbiguous: before the proxy knows that a server pushes, a question
// may have several candidates. It is refused, never guessed.
func TestPushedAmbiguous(t *testing.T) {
	onlyStreamable(t, "there is a stream beside those of calls")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	hold := newGate(t)
	server.Tool("hold", hold.holding)
	server.Tool("push", pushing)
	h := Start(t, Options{Upstream: to(server)})
	other := h.Open(t, CallTool("hold", map[string]any{"say": "x"}))
	server.WaitCount("tools/call", 1)
	// The server is told, and its tool goes on.
	got := h.Send(t, CallTool("push", map[string]any{"from": "1"})).Text(t)
	if want := "refused: several calls of this session are in flight"; len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("got %q, want %q", got, want)
	}
	line := h.Logs.Wait(t, `"level":"warn"`, "input request refused")
	var said struct {
		Upstream, Method string
		Calls            int
	}
	parseLine(t, line, &said)
	if said.Upstream != "default" || said.Method != "elicitation/create" || said.Calls != 2 {
		t.Errorf("the log does not say which question was refused, and why: %s", line)
	}
	hold.open()
	if got := other.Reply().Text(t); got != "said x" {
		t.Errorf("the other call got %q", got)
	}
	// Now it is known: the same again works.
	again := newGate(t)
	server.Tool("hold", again.holding)
	other = h.Open(t, CallTool("hold", map[string]any{"say": "y"}))
	server.WaitCount("tools/call", 3)
	first := h.Send(t, CallTool("push", map[string]any{"from": "1"}))
	first.Asks(t, "elicitation-1")
	again.open()
	if got := other.Reply().Text(t); got != "said y" {
		t.Errorf("the other call got %q", got)
	}
	if got := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Text(t); got != "Hello Ada from 1" {
		t.Errorf("got %q", got)
	}
}

// TestPushedOverflow: where a server pushes, calls that may be asked get a
// session each while they are concurrent, and the primary one otherwise.
func TestPushedOverflow(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("push", pushing)
	h := Start(t, pushes(server, ""))
	const calls = 5
	var parked [calls]*Reply
	for i := range parked { // each stays parked while the others begin
		parked[i] = h.Send(t, CallTool("push", map[string]any{"from": fmt.Sprint(i)}))
		parked[i].Asks(t, "elicitation-1")
	}
	sessions := sessionsOf(server, "tools/call")
	if distinct(sessions) != calls {
		t.Errorf("%d calls at once took the sessions %q, want one each", calls, sessions)
	}
	h.Send(t, Request("tools/list", nil)).Completes(t) // needs none of its own
	if n := server.Count("initialize"); n != calls {
		t.Errorf("%d sessions, want %d", n, calls)
	}
	for i := range parked {
		last := h.Retry(t, parked[i], Answers{"elicitation-1": Accept("name", fmt.Sprint("n", i))})
		if got, want := last.Text(t), fmt.Sprintf("Hello n%d from %d", i, i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for range 3 {
		first := h.Send(t, CallTool("push", map[string]any{"from": "p"}))
		first.Asks(t, "elicitation-1")
		h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Completes(t)
	}
	for i, got := range sessionsOf(server, "tools/call")[calls:] {
		if got != sessions[0] {
			t.Errorf("later call %d went to %s, want the primary session %s", i, got, sessions[0])
		}
	}
}

// TestPushedOverflowAtOnce: the same with calls that begin at the same moment.
func TestPushedOverflowAtOnce(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("push", pushing)
	h := Start(t, pushes(server, ""))
	const calls = 10
	var streams [calls]*Stream
	for i := range streams {
		streams[i] = h.Open(t, CallTool("push", map[string]any{"from": fmt.Sprint(i)}, ID("same")))
	}
	for i, s := range streams {
		first := s.Reply()
		first.Asks(t, "elicitation-1")
		last := h.Retry(t, first, Answers{"elicitation-1": Accept("name", fmt.Sprint("n", i))})
		if got, want := last.Text(t), fmt.Sprintf("Hello n%d from %d", i, i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestOwnStreams: where a server asks on the calls' own streams, concurrent
// calls share a session, and each gets its own question.
func TestOwnStreams(t *testing.T) {
	onlyStreamable(t, "there is a stream beside those of calls")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	const calls = 10
	server.Tool("greet", func(c *rawserver.Call) {
		server.WaitCount("tools/call", calls)
		c.Text("Hello " + c.Ask("elicitation/create", askName).Content("name") + " from " + c.Argument("from"))
	})
	h := Start(t, Options{Upstream: to(server)})
	var streams [calls]*Stream
	for i := range streams {
		streams[i] = h.Open(t, CallTool("greet", map[string]any{"from": fmt.Sprint(i)}, ID(0)))
	}
	var parked [calls]*Reply
	for i, s := range streams {
		parked[i] = s.Reply()
		parked[i].Asks(t, "elicitation-1")
	}
	for i := range parked { // the other way round than they were asked
		i = calls - 1 - i
		last := h.Retry(t, parked[i], Answers{"elicitation-1": Accept("name", fmt.Sprint("n", i))})
		if got, want := last.Text(t), fmt.Sprintf("Hello n%d from %d", i, i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
}

// TestQuestionWithdrawn: the server cancels its question while the client
// thinks about it. The answer is not sent, and the call goes on.
func TestQuestionWithdrawn(t *testing.T) {
	t.Parallel()
	for name, pushed := range map[string]bool{"own stream": false, "GET stream": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			thinking := newGate(t)
			questions := make(chan *rawserver.Question, 1)
			server.Tool("hasty", func(c *rawserver.Call) {
				var q *rawserver.Question
				if pushed {
					q = c.Session.Push("elicitation/create", askName)
				} else {
					q = c.Start("elicitation/create", askName)
				}
				questions <- q
				<-thinking
				cancelled := `{"requestId":` + q.ID + `,"reason":"too late"}`
				if pushed {
					c.Session.Notify("notifications/cancelled", cancelled)
					c.Session.Push("ping", "").Wait() // it has arrived
				} else {
					c.Notify("notifications/cancelled", cancelled)
				}
				c.Text("without you")
			})
			h := Start(t, Options{Upstream: to(server)})
			first := h.Send(t, CallTool("hasty", nil))
			first.Asks(t, "elicitation-1")
			thinking.open()
			last := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")})
			if got := last.Text(t); got != "without you" {
				t.Errorf("got %q", got)
			}
			// A client may come back before the server's cancellation: then its answer
			// was still wanted.
			if n := len((<-questions).Answers()); n > 1 {
				t.Errorf("the question was answered %d times", n)
			}
		})
	}
}

// TestQuestionWithdrawnFirst: once the server has cancelled its question, no
// answer reaches it.
func TestQuestionWithdrawnFirst(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	thinking, finish := newGate(t), newGate(t)
	questions := make(chan *rawserver.Question, 1)
	server.Tool("hasty", func(c *rawserver.Call) {
		q := c.Start("elicitation/create", askName)
		questions <- q
		<-thinking
		c.Notify("notifications/cancelled", `{"requestId":`+q.ID+`}`)
		c.Ask("ping", "") // the proxy has read on to here
		finish.open()
		c.Text("without you")
	})
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("hasty", nil))
	first.Asks(t, "elicitation-1")
	thinking.open()
	<-finish
	last := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")})
	if got := last.Text(t); got != "without you" {
		t.Errorf("got %q", got)
	}
	if n := len((<-questions).Answers()); n != 0 {
		t.Errorf("the question was answered %d times after it was cancelled", n)
	}
}
