package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/demoserver"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// Specification 2026-07-28, basic/patterns/mrtr.

const sampling = `{"maxTokens":10,"messages":[{"role":"user","content":{"type":"text","text":"Say hi."}}]}`

// together is for questions that must arrive in one answer however busy the
// machine is.
const together = "calls: {gather: 500ms}"

func TestSeveralQuestionsInOneAnswer(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) {
		name := c.Start("elicitation/create", question("name"))
		text := c.Start("sampling/createMessage", sampling)
		roots := c.Start("roots/list", "")
		link := c.Start("elicitation/create", `{"mode":"url","elicitationId":"e","url":"https://example.com","message":"Go"}`)
		c.Text(name.Wait().Content("name") + " " + text.Wait().Content("text") + " " + string(roots.Wait().Result) + " " + link.Wait().Action())
	})
	h := Start(t, Options{Upstream: to(server), Config: together})
	first := h.Send(t, CallTool("ask", nil))
	first.Asks(t, "elicitation-1", "elicitation-2", "sampling-1", "roots-1")
	for key, want := range map[string]struct{ method, params string }{
		"elicitation-1": {"elicitation/create", question("name")},
		"elicitation-2": {"elicitation/create", `{"mode":"url","url":"https://example.com","message":"Go"}`},
		"sampling-1":    {"sampling/createMessage", sampling},
		"roots-1":       {"roots/list", `{}`},
	} {
		if got := first.Inputs[key].Method; got != want.method {
			t.Errorf("%s is %s, want %s", key, got, want.method)
		}
		same(t, key, parse(t, first.Inputs[key].Params), want.params)
	}
	same(t, "serverInfo", serverInfo(parse(t, first.Result).(map[string]any)), rawserverInfo)
	last := h.Retry(t, first, Answers{
		"roots-1": Roots("file:///a"), "sampling-1": Said("hi"), "elicitation-1": Accept("name", "Ada"),
		"elicitation-2": map[string]any{"action": "decline"},
	})
	if got := last.Text(t); got != `Ada hi {"roots":[{"uri":"file:///a"}]} decline` {
		t.Errorf("got %q", got)
	}
	if n := len(server.Responses()); n != 4 {
		t.Errorf("the server got %d answers, want 4", n)
	}
}

func TestSeveralRounds(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	const rounds = 5
	server.Tool("ask", func(c *rawserver.Call) {
		var answers []string
		for i := range rounds {
			answers = append(answers, c.Ask("elicitation/create", question("q"+strconv.Itoa(i))).Content("q"+strconv.Itoa(i)))
		}
		c.Text(strings.Join(answers, " "))
	})
	h := Start(t, Options{Upstream: to(server)})
	// Keys are stable: the same call asks under the same ones.
	for range 2 {
		reply := h.Send(t, CallTool("ask", nil))
		states := map[string]bool{}
		for i := range rounds {
			key := "elicitation-" + strconv.Itoa(i+1)
			reply.Asks(t, key)
			if states[reply.State] {
				t.Error("two rounds have the same requestState")
			}
			states[reply.State] = true
			reply = h.Retry(t, reply, Answers{key: Accept("q"+strconv.Itoa(i), "a"+strconv.Itoa(i))})
		}
		if got := reply.Text(t); got != "a0 a1 a2 a3 a4" {
			t.Errorf("got %q", got)
		}
	}
	if n := server.ToolCalls("ask"); n != 2 {
		t.Errorf("the tool was called %d times, want 2", n)
	}
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d sessions were opened, want 1", n)
	}
}

// "Error Handling": what is missing is asked again, what is unknown ignored.
func TestPartialMissingAndUnknownAnswers(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) {
		a, b := c.Start("elicitation/create", question("a")), c.Start("elicitation/create", question("b"))
		c.Text(a.Wait().Content("a") + b.Wait().Content("b"))
	})
	h := Start(t, Options{Upstream: to(server), Config: together})
	reply := h.Send(t, CallTool("ask", nil))
	reply.Asks(t, "elicitation-1", "elicitation-2")
	for _, answers := range []Answers{nil, {}, {"elicitation-3": Accept("a", "x")}, {"Elicitation-1": Accept("a", "x")}} {
		reply = h.Retry(t, reply, answers)
		reply.Asks(t, "elicitation-1", "elicitation-2")
	}
	if n := len(server.Responses()); n != 0 {
		t.Fatalf("the server got %d answers that nobody gave", n)
	}
	reply = h.Retry(t, reply, Answers{"elicitation-2": Accept("b", "B"), "other": 1})
	reply.Asks(t, "elicitation-1")
	// What was answered is not asked again, and an answer to it is ignored.
	reply = h.Retry(t, reply, Answers{"elicitation-1": Accept("a", "A"), "elicitation-2": Accept("b", "other")})
	if got := reply.Text(t); got != "AB" {
		t.Errorf("got %q, want AB", got)
	}
	if n := len(server.Responses()); n != 2 {
		t.Errorf("the server got %d answers, want 2", n)
	}
}

func TestAnswersThatDoNotFit(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) {
		form := c.Start("elicitation/create", `{"message":"?","requestedSchema":{"type":"object","required":["age"],"properties":{
			"age":{"type":"integer","minimum":18},"mail":{"type":"string","format":"email"},"size":{"type":"string","enum":["S","L"]}}}}`)
		text := c.Start("sampling/createMessage", sampling)
		roots := c.Start("roots/list", "")
		c.Text(string(form.Wait().Result) + text.Wait().Content("text") + string(roots.Wait().Result))
	})
	h := Start(t, Options{Upstream: to(server), Config: together})
	reply := h.Send(t, CallTool("ask", nil))
	reply.Asks(t, "elicitation-1", "roots-1", "sampling-1")
	for _, responses := range []any{[]any{}, "answers", 1, true} {
		h.Retry(t, reply, nil, Param("inputResponses", responses)).Fails(t, http.StatusBadRequest, -32602, "invalid_params")
	}
	h.Retry(t, reply, nil, func(m *Message) { m.Params["inputResponses"] = nil }).Fails(t, http.StatusBadRequest, -32602, "invalid_params")
	for _, answers := range []Answers{
		{"elicitation-1": 12345},
		{"elicitation-1": nil},
		{"elicitation-1": []any{}},
		{"elicitation-1": map[string]any{}},
		{"elicitation-1": map[string]any{"action": "agree"}},
		{"elicitation-1": map[string]any{"action": "accept"}},
		{"elicitation-1": map[string]any{"action": "accept", "content": "18"}},
		{"elicitation-1": Accept("age", "18")},
		{"elicitation-1": Accept("age", 17)},
		{"elicitation-1": Accept("age", 18.5)},
		{"elicitation-1": Accept("mail", "a@example.com")},
		{"elicitation-1": Accept("age", 18, "mail", "nobody")},
		{"elicitation-1": Accept("age", 18, "size", "M")},
		{"sampling-1": map[string]any{"role": "assistant", "model": "m"}},
		{"sampling-1": map[string]any{"role": "robot", "model": "m", "content": map[string]any{"type": "text", "text": "hi"}}},
		{"sampling-1": map[string]any{"role": "assistant", "content": map[string]any{"type": "text", "text": "hi"}}},
		{"sampling-1": map[string]any{"role": "assistant", "model": "m", "content": "hi"}},
		{"roots-1": map[string]any{}},
		{"roots-1": map[string]any{"roots": "file:///a"}},
		{"roots-1": map[string]any{"roots": []any{map[string]any{"name": "a"}}}},
	} {
		reply = h.Retry(t, reply, answers)
		reply.Asks(t, "elicitation-1", "roots-1", "sampling-1")
	}
	if n := len(server.Responses()); n != 0 {
		t.Fatalf("the server got %d answers that do not fit", n)
	}
	// A good answer beside a bad one counts.
	reply = h.Retry(t, reply, Answers{"elicitation-1": Accept("age", 18, "size", "L"), "sampling-1": 1, "roots-1": Roots()})
	reply.Asks(t, "sampling-1")
	if got := h.Retry(t, reply, Answers{"sampling-1": Said("hi")}).Text(t); got != `{"action":"accept","content":{"age":18,"size":"L"}}hi{"roots":[]}` {
		t.Errorf("got %s", got)
	}
}

func TestDeclineAndCancelReachTheServer(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) { c.Text(string(c.Ask("elicitation/create", question("a")).Result)) })
	h := Start(t, Options{Upstream: to(server)})
	for _, action := range []string{"decline", "cancel"} {
		first := h.Send(t, CallTool("ask", nil))
		first.Asks(t, "elicitation-1")
		last := h.Retry(t, first, Answers{"elicitation-1": map[string]any{"action": action}})
		if got := last.Text(t); got != `{"action":"`+action+`"}` {
			t.Errorf("the server got %s", got)
		}
	}
}

// A question that comes while the call is parked goes out with the next round.
func TestQuestionWhileParked(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	gate, asked := newGate(t), make(chan struct{})
	server.Tool("ask", func(c *rawserver.Call) {
		a := c.Start("elicitation/create", question("a"))
		<-gate
		b := c.Start("elicitation/create", question("b"))
		c.Session.Notify("notifications/message", `{"level":"info","data":"after the question"}`)
		close(asked)
		c.Text(a.Wait().Content("a") + b.Wait().Content("b"))
	})
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("ask", nil))
	first.Asks(t, "elicitation-1")
	close(gate)
	receive(t, "second question", asked)
	second := h.Retry(t, first, Answers{"elicitation-1": Accept("a", "A")})
	second.Asks(t, "elicitation-2")
	if got := h.Retry(t, second, Answers{"elicitation-2": Accept("b", "B")}).Text(t); got != "AB" {
		t.Errorf("got %q", got)
	}
}

func TestHintedKeys(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) {
		var open []*rawserver.Question
		for _, key := range []string{"name", "name", "elicitation-1", "", "größe \"x\"", strings.Repeat("k", 1000)} {
			open = append(open, c.Start("elicitation/create", hinted("v", key)))
		}
		open = append(open, c.Start("sampling/createMessage", `{"maxTokens":1,"messages":[],"_meta":{"dev.holdfast/key":"greeting"}}`))
		var answers []string
		for _, q := range open {
			answers = append(answers, q.Wait().Content("v"))
		}
		c.Text(strings.Join(answers, " "))
	})
	h := Start(t, Options{Upstream: to(server), Config: together})
	for range 2 {
		first := h.Send(t, CallTool("ask", nil))
		if len(first.Inputs) != 7 {
			t.Fatalf("%d questions, want 7: %s", len(first.Inputs), first.Body)
		}
		answers := Answers{"greeting": Said("hi")}
		for key, input := range first.Inputs {
			if input.Method == "elicitation/create" {
				answers[key] = Accept("v", key)
			}
		}
		got := strings.Split(h.Retry(t, first, answers).Text(t), " ")
		for i, want := range []string{"name", "name-2", "elicitation-1"} {
			if got[i] != want {
				t.Errorf("question %d has the key %s, want %s", i, got[i], want)
			}
		}
		if got[3] == "elicitation-1" || !strings.HasPrefix(got[3], "elicitation-") {
			t.Errorf("a question without a hint has the key %s", got[3])
		}
		if got[4]+" "+got[5] != "größe \"x\"" {
			t.Errorf("got %q", got[4:])
		}
	}
}

// "Answers on the first request": basic/patterns/mrtr.
func TestAnswersOnTheFirstRequest(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("hinted", func(c *rawserver.Call) {
		c.Text(c.Ask("elicitation/create", hinted("v", "name")).Content("v") + c.Ask("elicitation/create", hinted("v", "colour")).Content("v"))
	})
	server.Tool("plain", func(c *rawserver.Call) { c.Text(c.Ask("elicitation/create", question("v")).Content("v")) })
	h := Start(t, Options{Upstream: to(server)})
	with := func(answers Answers) func(*Message) { return Param("inputResponses", answers) }

	all := Answers{"name": Accept("v", "Ada"), "colour": Accept("v", "red"), "unknown": 1, "elicitation-1": Accept("v", "x")}
	if got := h.Send(t, CallTool("hinted", nil, with(all))).Text(t); got != "Adared" {
		t.Errorf("got %q", got)
	}
	one := h.Send(t, CallTool("hinted", nil, with(Answers{"name": Accept("v", "Ada")})))
	one.Asks(t, "colour")
	if got := h.Retry(t, one, Answers{"colour": Accept("v", "red")}).Text(t); got != "Adared" {
		t.Errorf("got %q", got)
	}
	// What is asked only later is used, too.
	later := h.Send(t, CallTool("hinted", nil, with(Answers{"colour": Accept("v", "red")})))
	later.Asks(t, "name")
	if got := h.Retry(t, later, Answers{"name": Accept("v", "Ada")}).Text(t); got != "Adared" {
		t.Errorf("got %q", got)
	}
	h.Send(t, CallTool("hinted", nil, with(Answers{"wrong": Accept("v", "x")}))).Asks(t, "name")
	h.Send(t, CallTool("hinted", nil, with(Answers{"name": 12345}))).Asks(t, "name")
	h.Send(t, CallTool("hinted", nil, with(Answers{"name": Accept("other", "x")}))).Asks(t, "name")
	// The ordinal of a question says nothing about what it asks.
	h.Send(t, CallTool("plain", nil, with(Answers{"elicitation-1": Accept("v", "x")}))).Asks(t, "elicitation-1")
	for _, m := range server.Received("tools/call") {
		if strings.Contains(string(m.Params), "inputResponses") {
			t.Errorf("the server was sent %s", m.Params)
		}
	}
}

func TestPromptsAndResourcesThatAsk(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]demoserver.Settings{
		"asks on the call's stream": {},
		"asks on the GET stream":    {PushGet: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := Start(t, Options{Upstream: Demo(t, settings)})
			first := h.Send(t, Request("prompts/get", map[string]any{"name": "interview"}))
			first.Asks(t, "elicitation-1")
			last := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")})
			same(t, "messages", last.Completes(t)["messages"], `[{"role":"user","content":{"type":"text","text":"Interview Ada"}}]`)

			first = h.Send(t, Request("resources/read", map[string]any{"uri": "demo://secret"}))
			first.Asks(t, "elicitation-1")
			result := h.Retry(t, first, Answers{"elicitation-1": Accept("password", "xyz")}).Completes(t)
			same(t, "contents", result["contents"], `[{"uri":"demo://secret","mimeType":"text/plain","text":"You said xyz."}]`)
			same(t, "ttlMs", result["ttlMs"], `0`)
		})
	}
}
