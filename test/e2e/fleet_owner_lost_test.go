package e2e

import (
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// These tests kill the replica that holds a call, or freeze it. What can be
// done then depends on the server: see the failover ladder in the README.

// hasty makes replicas give each other up soon.
const hasty = "bus: {owner_timeout: 1s}\n"

// TestOwnerKilledTakenOver: where the server's events carry ids, another
// replica goes on with the stream. Nothing runs twice.
func TestOwnerKilledTakenOver(t *testing.T) {
	onlyStreamable(t, "only event ids let a stream go on")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) {
		name := c.Ask("elicitation/create", question("name")).Content("name")
		c.Progress(1, 2)
		colour := c.Ask("elicitation/create", question("colour")).Content("colour")
		c.Text(name + " likes " + colour)
	})
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty})
	first := h.Replica(0).Send(t, CallTool("ask", nil, Progress("p")))
	first.Asks(t, "elicitation-1")
	h.Replica(0).Kill()
	second := h.Retry(t, first, ada, Progress("q"))
	second.Asks(t, "elicitation-2")
	if n := len(second.Notifications("notifications/progress")); n != 1 {
		t.Errorf("%d progress notifications, want 1: %s", n, second.Body)
	}
	// From now on the call lives where it was taken over, for both.
	last := h.Retry(t, second, Answers{"elicitation-2": Accept("colour", "red")})
	if got := last.Text(t); got != "Ada likes red" {
		t.Errorf("got %q", got)
	}
	sameOutcome(t, last, h.Retry(t, second, Answers{"elicitation-2": Accept("colour", "blue")}))
	if n := server.ToolCalls("ask"); n != 1 {
		t.Errorf("the tool was called %d times, want once", n)
	}
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d sessions, want the one that outlived its replica", n)
	}
	if n := len(server.Responses()); n != 2 {
		t.Errorf("the server got %d answers, want 2", n)
	}
	if n := h.Rounds(t, "taken_over"); n != 1 {
		t.Errorf("%v rounds were taken over, want 1", n)
	}
}

// TestOwnerKilledTakenOverOnce: the same retry at both other replicas at once
// is taken over by one of them.
func TestOwnerKilledTakenOverOnce(t *testing.T) {
	onlyStreamable(t, "a session of one stream ends with the replica that keeps it")
	t.Parallel()
	server := asking(t)
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty})
	first := h.Replica(0).Send(t, CallTool("greet", nil))
	first.Asks(t, "elicitation-1")
	h.Replica(0).Kill()
	retry := RetryOf(first, ada)
	var streams []*Stream
	for i := range 6 {
		streams = append(streams, h.Replica(1+i%2).Open(t, retry.Copy(ID(i))))
	}
	for _, s := range streams {
		if got := s.Reply().Text(t); got != "greet Ada" {
			t.Errorf("got %q", got)
		}
	}
	if n := server.ToolCalls("greet"); n != 1 {
		t.Errorf("the tool was called %d times, want once", n)
	}
	if n := len(server.Responses()); n != 1 {
		t.Errorf("the server got %d answers, want 1", n)
	}
}

// TestOwnerKilledInMidRound: the client's request waits at another replica when
// the owner dies, and is answered all the same.
func TestOwnerKilledInMidRound(t *testing.T) {
	onlyStreamable(t, "a session of one stream ends with the replica that keeps it")
	t.Parallel()
	server, answered, gate := slow(t)
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty + "stream: {after: 10m}"})
	first := h.Replica(0).Send(t, CallTool("slow", nil, Progress("p")))
	first.Asks(t, "elicitation-1")
	stream := h.Replica(1).Open(t, RetryOf(first, ada, Progress("q")))
	receive(t, "answer", answered)
	h.Replica(0).Kill()
	close(gate)
	reply := stream.Reply()
	if got := reply.Text(t); got != "Ada" {
		t.Errorf("got %q", got)
	}
	if n := len(reply.Notifications("notifications/progress")); n != 1 {
		t.Errorf("%d progress notifications, want 1: %s", n, reply.Body)
	}
	if n := server.ToolCalls("slow"); n != 1 {
		t.Errorf("the tool was called %d times, want once", n)
	}
}

// TestOwnerKilledReplayed: where the stream is lost and the call is harmless,
// it runs again on a session that may be a new one; what was answered is not
// asked again.
func TestOwnerKilledReplayed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ annotations, config string }{
		"readOnlyHint":   {annotations: `{"readOnlyHint":true}`},
		"idempotentHint": {annotations: `{"idempotentHint":true}`},
		"replay: always": {annotations: `{"destructiveHint":true}`, config: "calls: {replay: always}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{NoEventIDs: true})
			server.Declare("ask", `{"name":"ask","annotations":`+test.annotations+`,"inputSchema":{"type":"object"}}`, func(c *rawserver.Call) {
				name := c.Ask("elicitation/create", question("name")).Content("name")
				c.Text(name + " likes " + c.Ask("elicitation/create", question("colour")).Content("colour") + c.Argument("mark"))
			})
			h := StartFleet(t, Options{Upstream: to(server), Config: hasty + test.config})
			first := h.Replica(0).Send(t, CallTool("ask", map[string]any{"mark": "!"}))
			first.Asks(t, "elicitation-1")
			h.ownerFirst(t)
			second := h.Replica(1).Retry(t, first, ada)
			second.Asks(t, "elicitation-2")
			h.Replica(0).Kill()
			last := h.Retry(t, second, Answers{"elicitation-2": Accept("colour", "red")})
			for last.Type == "input_required" { // the answer came before the question was asked again
				last = h.Retry(t, last, Answers{"elicitation-2": Accept("colour", "red")})
			}
			if got := last.Text(t); got != "Ada likes red!" {
				t.Errorf("got %q", got)
			}
			if n := server.ToolCalls("ask"); n != 2 {
				t.Errorf("the tool was called %d times, want twice", n)
			}
			if n := h.Rounds(t, "replayed"); n != 1 {
				t.Errorf("%v rounds were replayed, want 1", n)
			}
		})
	}
}

// TestReplayAsksWhatIsNew: yes to "delete A?" must never answer "delete B?".
func TestReplayAsksWhatIsNew(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{NoEventIDs: true})
	var runs atomic.Int64
	server.Declare("delete", `{"name":"delete","annotations":{"idempotentHint":true},"inputSchema":{"type":"object"}}`, func(c *rawserver.Call) {
		what := "A"
		if runs.Add(1) > 1 {
			what = "B"
		}
		ask := func(message string) string {
			return c.Ask("elicitation/create", `{"message":"`+message+`","requestedSchema":{"type":"object","properties":{"sure":{"type":"string"}}}}`).Content("sure")
		}
		c.Text(what + ": " + ask("delete "+what+"?") + " " + ask("sure?"))
	})
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty})
	first := h.Replica(0).Send(t, CallTool("delete", nil))
	first.Asks(t, "elicitation-1")
	h.ownerFirst(t)
	second := h.Replica(0).Retry(t, first, Answers{"elicitation-1": Accept("sure", "yes")})
	second.Asks(t, "elicitation-2")
	h.Replica(0).Kill()
	third := h.Retry(t, second, Answers{"elicitation-2": Accept("sure", "yes")})
	if len(third.Inputs) != 1 {
		t.Fatalf("want one question, about B: %s", third.Body)
	}
	for key, input := range third.Inputs {
		if !strings.Contains(string(input.Params), "delete B?") {
			t.Fatalf("asks %s, want about B", input.Params)
		}
		third = h.Retry(t, third, Answers{key: Accept("sure", "no")})
	}
	for key := range third.Inputs { // what was answered to "sure?" may be asked again, or not
		third = h.Retry(t, third, Answers{key: Accept("sure", "yes")})
	}
	if got := third.Text(t); got != "B: no yes" {
		t.Errorf("got %q", got)
	}
}

// TestReplayByMethod: prompts and resources may be fetched twice.
func TestReplayByMethod(t *testing.T) {
	t.Parallel()
	for method, params := range map[string]map[string]any{
		"prompts/get":    {"name": "p"},
		"resources/read": {"uri": "x:y"},
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{NoEventIDs: true})
			server.Handle(method, func(c *rawserver.Call) {
				name := c.Ask("elicitation/create", question("name")).Content("name")
				c.Result(`{"messages":[],"contents":[],"name":"` + name + `"}`)
			})
			h := StartFleet(t, Options{Upstream: to(server), Config: hasty})
			reply := h.Replica(0).Send(t, Request(method, params))
			reply.Asks(t, "elicitation-1")
			h.ownerFirst(t)
			h.Replica(0).Kill()
			for reply.Type == "input_required" {
				reply = h.Retry(t, reply, ada)
			}
			if got := reply.Completes(t)["name"]; got != "Ada" {
				t.Errorf("got %v", got)
			}
			if n := server.Count(method); n != 2 {
				t.Errorf("%s was sent %d times, want twice", method, n)
			}
		})
	}
}

// TestOwnerKilledLost: where nothing can be done, the client is told so, and
// that its call may have run. It does not run again.
func TestOwnerKilledLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ annotations, config string }{
		"not harmless":  {annotations: `{"destructiveHint":false}`},
		"replay: never": {annotations: `{"readOnlyHint":true}`, config: "calls: {replay: never}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{NoEventIDs: true})
			server.Declare("ask", `{"name":"ask","annotations":`+test.annotations+`,"inputSchema":{"type":"object"}}`, greeting)
			h := StartFleet(t, Options{Upstream: to(server), Config: hasty + test.config})
			first := h.Replica(0).Send(t, CallTool("ask", nil))
			first.Asks(t, "elicitation-1")
			h.ownerFirst(t)
			h.Replica(0).Kill()
			begun := time.Now()
			for i := range 2 {
				reply := h.Replica(1+i).Retry(t, first, ada)
				reply.Fails(t, http.StatusOK, -32603, "call_lost")
				if !mayHaveRun(t, reply) {
					t.Error("the error does not say that the call may have run")
				}
			}
			if took := time.Since(begun); took > 15*time.Second {
				t.Errorf("it took %v to say so, with an owner_timeout of 1s", took)
			}
			if n := server.ToolCalls("ask"); n != 1 {
				t.Errorf("the tool was called %d times, want once", n)
			}
			if n := len(server.Responses()); n != 0 {
				t.Errorf("the server got %d answers that nobody waits for", n)
			}
		})
	}
}

// TestForwarderKilled: the replica that a client's retry reached dies. The
// call is not cancelled: the client comes back elsewhere with the same retry.
func TestForwarderKilled(t *testing.T) {
	t.Parallel()
	server, answered, gate := slow(t)
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty + "stream: {after: 10ms}"})
	first := h.Replica(0).Send(t, CallTool("slow", nil))
	first.Asks(t, "elicitation-1")
	h.ownerFirst(t)
	stream := h.Replica(1).Open(t, RetryOf(first, ada))
	receive(t, "answer", answered)
	stream.Comment()
	h.Replica(1).Kill()
	h.Replica(0).waitPeers(t, 1) // by now it has noticed
	again := h.Replica(2).Open(t, RetryOf(first, ada))
	again.Comment()
	close(gate)
	if got := again.Reply().Text(t); got != "Ada" {
		t.Errorf("got %q", got)
	}
	if n := len(server.Cancelled()); n != 0 {
		t.Errorf("%d calls were cancelled", n)
	}
	if n := len(server.Responses()); n != 1 {
		t.Errorf("the server got %d answers, want 1", n)
	}
}

// TestOwnerFrozen: an owner that falls silent, and comes back after its call was
// taken over, does nothing for it any more. What it held has one owner.
func TestOwnerFrozen(t *testing.T) {
	onlyStreamable(t, "only event ids let a stream go on")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) {
		name := c.Ask("elicitation/create", question("name")).Content("name")
		c.Text(name + " likes " + c.Ask("elicitation/create", question("colour")).Content("colour"))
	})
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty})
	owner := h.Replica(0)
	first := owner.Send(t, CallTool("ask", nil))
	first.Asks(t, "elicitation-1")
	owner.Freeze()
	thawed := false
	thaw := func() {
		if !thawed {
			thawed = true
			owner.Signal(syscall.SIGCONT)
		}
	}
	defer thaw() // or it could not be stopped
	second := h.Replica(1).Retry(t, first, ada)
	second.Asks(t, "elicitation-2")
	thaw()
	// The late owner takes neither the old retry nor the new one for its own. It
	// does nothing at all before its peers have heard of it again.
	late := owner.Retry(t, first, Answers{"elicitation-1": Accept("name", "Eve")})
	again := time.NewTicker(10 * time.Millisecond) // as the error says
	defer again.Stop()
	for late.Error != nil && late.Error.Reason() == "bus_down" {
		<-again.C
		late = owner.Retry(t, first, Answers{"elicitation-1": Accept("name", "Eve")})
	}
	late.Asks(t, "elicitation-2")
	sameOutcome(t, second, late)
	last := owner.Retry(t, second, Answers{"elicitation-2": Accept("colour", "red")})
	if got := last.Text(t); got != "Ada likes red" {
		t.Errorf("got %q", got)
	}
	if n := server.ToolCalls("ask"); n != 1 {
		t.Errorf("the tool was called %d times, want once", n)
	}
	answers := map[string]string{} // one may be posted a second time by a take-over, as it was
	for _, m := range server.Responses() {
		if was, again := answers[string(m.ID)]; again && was != string(m.Result) {
			t.Errorf("question %s was answered with %s and %s", m.ID, was, m.Result)
		}
		answers[string(m.ID)] = string(m.Result)
	}
	if len(answers) != 2 {
		t.Errorf("the server got answers to %d questions, want 2", len(answers))
	}
	if n := len(server.Cancelled()); n != 0 {
		t.Errorf("%d calls were cancelled", n)
	}
}
