package e2e

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/demoserver"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// counted is what the demo server saw of a key.
func counted(t *testing.T, g Target, key string) (c struct {
	Started, Finished int
	Answers           []string
}) {
	t.Helper()
	text := g.Send(t, CallTool("counts", map[string]any{"key": key})).Text(t)
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// sameOutcome compares two results but for what differs from round to round.
func sameOutcome(t *testing.T, a, b *Reply) {
	t.Helper()
	strip := func(r *Reply) any {
		result := parse(t, r.Result).(map[string]any)
		delete(result, "requestState")
		return result
	}
	want, err := json.Marshal(strip(a))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the second outcome", strip(b), string(want))
}

func TestRetrySentTwice(t *testing.T) {
	t.Parallel()
	h := Start(t, Options{Upstream: Demo(t, demoserver.Settings{})})
	first := h.Send(t, CallTool("count", map[string]any{"key": "twice", "asks": 2}))
	first.Asks(t, "elicitation-1")
	toSecond := RetryOf(first, Answers{"elicitation-1": Accept("value", "one")})
	second := h.Send(t, toSecond)
	second.Asks(t, "elicitation-2")
	again := h.Send(t, toSecond.Copy(ID("again")))
	again.Asks(t, "elicitation-2")
	sameOutcome(t, second, again)
	// Other answers in the copy change nothing: the first ones took effect.
	h.Retry(t, first, Answers{"elicitation-1": Accept("value", "other")}).Asks(t, "elicitation-2")

	toLast := RetryOf(again, Answers{"elicitation-2": Accept("value", "two")})
	last := h.Send(t, toLast)
	last.Text(t)
	sameOutcome(t, last, h.Send(t, toLast.Copy(ID("again"))))
	sameOutcome(t, last, h.Retry(t, second, Answers{"elicitation-2": Accept("value", "other")}))
	if c := counted(t, h.Target, "twice"); c.Started != 1 || c.Finished != 1 || len(c.Answers) != 2 || c.Answers[0] != "one" || c.Answers[1] != "two" {
		t.Errorf("the server counted %+v, want one run with the answers one and two", c)
	}
}

// slow starts a server whose tool asks once, and then waits for the gate.
func slow(t *testing.T) (server *rawserver.Server, answered chan *rawserver.Call, gate chan struct{}) {
	t.Helper()
	server = newServer(t, rawserver.Settings{})
	answered, gate = make(chan *rawserver.Call, 1), newGate(t)
	server.Tool("slow", func(c *rawserver.Call) {
		name := c.Ask("elicitation/create", question("name")).Content("name")
		answered <- c
		select {
		case <-gate:
			c.Progress(1, 1)
			c.Text(name)
		case <-c.Context().Done():
		}
	})
	return server, answered, gate
}

// cameAgain waits until so many retries have reached the replica that holds
// their call as copies of another one: those of other replicas have been handed
// on by then.
func cameAgain(t *testing.T, h *Holdfast, copies int) {
	t.Helper()
	h.Logs.WaitNth(t, copies, `"message":"retry came again, and has the outcome of the first"`)
}

func TestRetrySentTwiceAtOnce(t *testing.T) {
	t.Parallel()
	server, answered, gate := slow(t)
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("slow", nil, Progress("token"))) // the server learns of no later wish for progress
	first.Asks(t, "elicitation-1")
	retry := RetryOf(first, Answers{"elicitation-1": Accept("name", "Ada")})
	var streams []*Stream
	for _, id := range []string{"a", "b", "c"} {
		streams = append(streams, h.Open(t, retry.Copy(ID(id), Progress("token-"+id))))
	}
	receive(t, "answer", answered)
	cameAgain(t, h, len(streams)-1)
	close(gate)
	for i, id := range []string{"a", "b", "c"} {
		reply := streams[i].Reply()
		if got := reply.Text(t); got != "Ada" {
			t.Errorf("%s got %q", id, got)
		}
		list := reply.Notifications("notifications/progress")
		if len(list) != 1 {
			t.Fatalf("%s got %d progress notifications", id, len(list))
		}
		same(t, "token", parse(t, list[0].Params).(map[string]any)["progressToken"], `"token-`+id+`"`)
	}
	if n := len(server.Responses()); n != 1 {
		t.Errorf("the server got %d answers, want 1", n)
	}
	if n := server.ToolCalls("slow"); n != 1 {
		t.Errorf("the tool was called %d times, want 1", n)
	}
}

// Many at once, without a gate: whoever comes first wins, and all hear of it.
func TestRetryRace(t *testing.T) {
	t.Parallel()
	h := Start(t, Options{Upstream: Demo(t, demoserver.Settings{})})
	for _, key := range []string{"r1", "r2", "r3"} {
		first := h.Send(t, CallTool("count", map[string]any{"key": key, "asks": 1}))
		first.Asks(t, "elicitation-1")
		retry := RetryOf(first, Answers{"elicitation-1": Accept("value", "v")})
		var streams []*Stream
		for i := range 8 {
			streams = append(streams, h.Open(t, retry.Copy(ID(i))))
		}
		var outcome *Reply
		for _, s := range streams {
			reply := s.Reply()
			reply.Text(t)
			if outcome != nil {
				sameOutcome(t, outcome, reply)
			}
			outcome = reply
		}
		if c := counted(t, h.Target, key); c.Started != 1 || c.Finished != 1 || len(c.Answers) != 1 {
			t.Errorf("the server counted %+v, want one run with one answer", c)
		}
	}
}

func TestOnlyTheLastDisconnectCancels(t *testing.T) {
	t.Parallel()
	server, answered, gate := slow(t)
	h := Start(t, Options{Upstream: to(server), Config: "stream: {after: 10m}"})
	left := func(n int) { h.Logs.WaitNth(t, n, `"message":"request"`, `"method":"tools/call"`, `"status":0`) }

	first := h.Send(t, CallTool("slow", nil))
	first.Asks(t, "elicitation-1")
	retry := RetryOf(first, Answers{"elicitation-1": Accept("name", "Ada")})
	one, two := h.Open(t, retry.Copy(ID(1))), h.Open(t, retry.Copy(ID(2)))
	receive(t, "answer", answered)
	cameAgain(t, h, 1)
	one.Close()
	left(1)
	if n := server.Count("notifications/cancelled"); n != 0 {
		t.Fatal("the first of two disconnects cancelled the call")
	}
	gate <- struct{}{}
	if got := two.Reply().Text(t); got != "Ada" {
		t.Errorf("got %q", got)
	}

	first = h.Send(t, CallTool("slow", nil))
	first.Asks(t, "elicitation-1")
	retry = RetryOf(first, Answers{"elicitation-1": Accept("name", "Ada")})
	one, two = h.Open(t, retry.Copy(ID(1))), h.Open(t, retry.Copy(ID(2)))
	call := receive(t, "answer", answered)
	cameAgain(t, h, 2)
	one.Close()
	left(2)
	two.Close()
	receive(t, "cancellation", call.Cancelled())
	left(3)
}

// A client that has lost its connection in mid-call comes back, and learns that
// its call was cancelled, and may have run.
func TestRetryOfACancelledCall(t *testing.T) {
	t.Parallel()
	server, answered, _ := slow(t)
	h := Start(t, Options{Upstream: to(server), Config: "stream: {after: 10m}"})
	first := h.Send(t, CallTool("slow", nil))
	first.Asks(t, "elicitation-1")
	stream := h.Open(t, RetryOf(first, Answers{"elicitation-1": Accept("name", "Ada")}))
	call := receive(t, "answer", answered)
	stream.Close()
	receive(t, "cancellation", call.Cancelled())
	reply := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")})
	reply.Fails(t, http.StatusOK, -32603, "call_lost")
	same(t, "mayHaveRun", parse(t, reply.Error.Data).(map[string]any)["mayHaveRun"], `true`)
	if n := len(server.Responses()); n != 1 {
		t.Errorf("the server got %d answers, want 1", n)
	}
}

// The result that comes while the call is parked waits for the retry.
func TestOutcomeWhileParked(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*rawserver.Call){
		"result": func(c *rawserver.Call) { c.Text("done without you") },
		"error":  func(c *rawserver.Call) { c.Error(-32099, "no luck", "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			gate := newGate(t)
			server.Tool("impatient", func(c *rawserver.Call) {
				c.Start("elicitation/create", question("name"))
				<-gate
				end(c)
			})
			h := Start(t, Options{Upstream: to(server)})
			first := h.Send(t, CallTool("impatient", nil))
			first.Asks(t, "elicitation-1")
			h.WaitMetric(t, "holdfast_calls_parked", 1)
			close(gate)
			h.WaitMetric(t, "holdfast_calls_parked", 0)
			for range 2 {
				reply := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")})
				if name == "result" {
					if got := reply.Text(t); got != "done without you" {
						t.Errorf("got %q", got)
					}
				} else if reply.Error == nil || reply.Error.Code != -32099 {
					t.Errorf("got %s, want the server's error", reply.Body)
				}
			}
			if n := len(server.Responses()); n != 0 {
				t.Errorf("the server got %d answers although it no longer waits", n)
			}
		})
	}
}

// A server that takes its question back is not answered.
func TestQuestionTakenBack(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	gate := newGate(t)
	server.Tool("ask", func(c *rawserver.Call) {
		q := c.Start("elicitation/create", question("a"))
		<-gate
		c.Notify("notifications/cancelled", `{"requestId":`+q.ID+`,"reason":"never mind"}`)
		c.Text(c.Ask("elicitation/create", question("b")).Content("b"))
	})
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("ask", nil))
	first.Asks(t, "elicitation-1")
	close(gate)
	// The retry may come before the server's change of mind, or after.
	second := h.Retry(t, first, nil)
	for len(second.Inputs) == 1 && second.Inputs["elicitation-1"].Method != "" {
		second = h.Retry(t, second, nil)
	}
	second.Asks(t, "elicitation-2")
	if got := h.Retry(t, second, Answers{"elicitation-1": Accept("a", "A"), "elicitation-2": Accept("b", "B")}).Text(t); got != "B" {
		t.Errorf("got %q", got)
	}
	if n := len(server.Responses()); n != 1 {
		t.Errorf("the server got %d answers, want 1", n)
	}
}

func TestParkedCallExpires(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	told := make(chan [3]rawserver.Answer, 1)
	server.Tool("ask", func(c *rawserver.Call) {
		form, text, roots := c.Start("elicitation/create", question("a")), c.Start("sampling/createMessage", sampling), c.Start("roots/list", "")
		told <- [3]rawserver.Answer{form.Wait(), text.Wait(), roots.Wait()}
		<-c.Context().Done()
	})
	h := Start(t, Options{Upstream: to(server), Config: "calls: {gather: 500ms, park_ttl: 50ms}"})
	first := h.Send(t, CallTool("ask", nil))
	first.Asks(t, "elicitation-1", "sampling-1", "roots-1")
	answers := receive(t, "end of the call", told)
	if answers[0].Action() != "cancel" {
		t.Errorf("the elicitation was answered %s, want cancel", answers[0].Result)
	}
	for _, answer := range answers[1:] {
		if answer.Error == nil {
			t.Errorf("sampling or roots was answered %s, want an error", answer.Result)
		}
	}
	server.WaitCount("notifications/cancelled", 1)
	h.Retry(t, first, Answers{"elicitation-1": Accept("a", "A")}).Fails(t, http.StatusBadRequest, -32602, "state_expired")
	if n := len(server.Responses()); n != 3 {
		t.Errorf("the server got %d answers, want 3", n)
	}
	if n := h.Metric(t, "holdfast_calls_parked"); n != 0 {
		t.Errorf("%v calls are parked", n)
	}
}

// A client that leaves while its question still waits for siblings.
func TestDisconnectWhileGathering(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	asked, told := make(chan *rawserver.Call, 1), make(chan rawserver.Answer, 1)
	server.Tool("ask", func(c *rawserver.Call) {
		c.Progress(1, 2)
		q := c.Start("elicitation/create", question("a"))
		c.Progress(2, 2)
		asked <- c
		told <- q.Wait()
		<-c.Context().Done()
	})
	h := Start(t, Options{Upstream: to(server), Config: "calls: {gather: 1s}"})
	stream := h.Open(t, CallTool("ask", nil, Progress("p")))
	call := receive(t, "question", asked)
	stream.Notification("notifications/progress")
	stream.Notification("notifications/progress") // the question came before this one
	stream.Close()
	if answer := receive(t, "answer", told); answer.Action() != "cancel" {
		t.Errorf("the server was answered %s %v, want cancel", answer.Result, answer.Error)
	}
	receive(t, "cancellation", call.Cancelled())
}

// The retry after -32042, sent twice at once, runs the request once.
func TestURLRetrySentTwiceAtOnce(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	first, running, gate := make(chan struct{}, 1), make(chan struct{}, 10), newGate(t)
	first <- struct{}{}
	server.Tool("authorize", func(c *rawserver.Call) {
		select {
		case <-first:
			c.Error(-32042, "URL elicitation required", `{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://example.com/a","message":"One"}]}`)
		default:
			running <- struct{}{}
			<-gate
			c.Text("authorized")
		}
	})
	h := Start(t, Options{Upstream: to(server)})
	reply := h.Send(t, CallTool("authorize", nil))
	reply.Asks(t, "elicitation-1")
	retry := RetryOf(reply, Answers{"elicitation-1": map[string]any{"action": "accept"}})
	one, two := h.Open(t, retry.Copy(ID(1))), h.Open(t, retry.Copy(ID(2)))
	receive(t, "call", running)
	cameAgain(t, h, 1)
	close(gate)
	one.Reply().Text(t)
	two.Reply().Text(t)
	h.Send(t, retry.Copy(ID(3))).Text(t)
	if n := server.ToolCalls("authorize"); n != 2 {
		t.Errorf("the tool was called %d times, want 2", n)
	}
}

// Headers are held against the body in every round.
func TestParamHeadersOfARetry(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Declare("route", `{"name":"route","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`,
		func(c *rawserver.Call) { c.Text(c.Ask("elicitation/create", question("name")).Content("name")) })
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("route", map[string]any{"region": "eu"}, Header("Mcp-Param-Region", "eu")))
	first.Asks(t, "elicitation-1")
	for _, region := range []string{"us", ""} {
		h.Retry(t, first, ada, Header("Mcp-Param-Region", region)).Fails(t, http.StatusBadRequest, -32020, "header_mismatch")
	}
	if n := len(server.Responses()); n != 0 {
		t.Errorf("the server got %d answers, want none", n)
	}
	if got := h.Retry(t, first, ada).Text(t); got != "Ada" {
		t.Errorf("got %q", got)
	}
}

// Two retries with an answer each: the first to come wins the round, and what
// the other brought is asked for again.
func TestRetriesWithDifferentAnswers(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) {
		a, b := c.Start("elicitation/create", question("a")), c.Start("elicitation/create", question("b"))
		c.Text(a.Wait().Content("a") + b.Wait().Content("b"))
	})
	h := Start(t, Options{Upstream: to(server), Config: together})
	first := h.Send(t, CallTool("ask", nil))
	first.Asks(t, "elicitation-1", "elicitation-2")
	one := h.Open(t, RetryOf(first, Answers{"elicitation-1": Accept("a", "A")}))
	two := h.Open(t, RetryOf(first, Answers{"elicitation-2": Accept("b", "B")}))
	replies := []*Reply{one.Reply(), two.Reply()}
	for _, reply := range replies {
		if len(reply.Inputs) != 1 {
			t.Fatalf("asks %d questions, want the one that is left: %s", len(reply.Inputs), reply.Body)
		}
	}
	sameOutcome(t, replies[0], replies[1])
	last := h.Retry(t, replies[0], Answers{"elicitation-1": Accept("a", "A"), "elicitation-2": Accept("b", "B")})
	if got := last.Text(t); got != "AB" {
		t.Errorf("got %q, want AB", got)
	}
	if n := len(server.Responses()); n != 2 {
		t.Errorf("the server got %d answers, want 2", n)
	}
}
