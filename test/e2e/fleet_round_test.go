package e2e

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// These tests choose the replica for each round. In a mode with one replica
// they start a fleet of their own.

// TestAnyReplica: whichever replica a retry reaches, it is as if it had come to
// the one that holds the call.
func TestAnyReplica(t *testing.T) {
	t.Parallel()
	server := asking(t)
	h := StartFleet(t, Options{Upstream: to(server)})
	n := 0
	for owner := range h.Size() {
		for other := range h.Size() {
			first := h.Replica(owner).Send(t, CallTool("greet", map[string]any{"call": n}))
			first.Asks(t, "elicitation-1")
			last := h.Replica(other).Retry(t, first, ada)
			if got := last.Text(t); got != "greet Ada" {
				t.Errorf("call of replica %d at replica %d: got %q", owner, other, got)
			}
			// The same again is answered the same, wherever it comes to.
			sameOutcome(t, last, h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Eve")}))
			n++
		}
	}
	if got := server.ToolCalls("greet"); got != n {
		t.Errorf("the tool was called %d times for %d calls", got, n)
	}
	if got := len(server.Responses()); got != n {
		t.Errorf("the server got %d answers to %d questions", got, n)
	}
	for i := range h.Size() {
		if got := h.Replica(i).Rounds(t, "forwarded"); got < 2 && !oneStream(t) { // else one of them keeps all sessions
			t.Errorf("replica %d has forwarded %v rounds, want those of the other two", i, got)
		}
	}
	for _, way := range []string{"taken_over", "replayed"} {
		if got := h.Rounds(t, way); got != 0 {
			t.Errorf("%v rounds were %s, but their owners live", got, way)
		}
	}
}

// TestRoundsHop: each round of a call comes to another replica than the one
// before.
func TestRoundsHop(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	const rounds = 6
	server.Tool("ask", func(c *rawserver.Call) {
		var answers []string
		for i := range rounds {
			name := "q" + strconv.Itoa(i)
			answers = append(answers, c.Ask("elicitation/create", question(name)).Content(name))
		}
		c.Text(strings.Join(answers, " "))
	})
	h := StartFleet(t, Options{Upstream: to(server)})
	reply := h.Replica(0).Send(t, CallTool("ask", nil))
	for i := range rounds {
		key := "elicitation-" + strconv.Itoa(i+1)
		reply.Asks(t, key)
		reply = h.Replica((i+1)%h.Size()).Retry(t, reply, Answers{key: Accept("q"+strconv.Itoa(i), "a"+strconv.Itoa(i))})
	}
	if got := reply.Text(t); got != "a0 a1 a2 a3 a4 a5" {
		t.Errorf("got %q", got)
	}
	if n := server.ToolCalls("ask"); n != 1 {
		t.Errorf("the tool was called %d times, want once", n)
	}
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
}

// TestHopRefusals: what the owner would refuse is refused, in the same words.
func TestHopRefusals(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) {
		for range 3 {
			c.Ask("elicitation/create", question("a"))
		}
		c.Text("done")
	})
	h := StartFleet(t, Options{Upstream: to(server)})
	a, b := h.Replica(0), h.Replica(1)
	first := a.Send(t, CallTool("ask", nil, Bearer("alice")))
	second := b.Retry(t, first, Answers{"elicitation-1": Accept("a", "1")})
	third := b.Retry(t, second, Answers{"elicitation-2": Accept("a", "2")})
	third.Asks(t, "elicitation-3")
	answer := Answers{"elicitation-3": Accept("a", "x")}
	refused(t, b, server, RetryOf(third, answer, Bearer("bob")), "state_foreign")
	refused(t, b, server, RetryOf(third, answer, Param("arguments", map[string]any{"x": 1})), "state_foreign")
	refused(t, b, server, RetryOf(first, answer), "state_stale")
	refused(t, b, server, RetryOf(third, answer, Param("requestState", third.State+"A")), "state_invalid")
	b.Retry(t, third, nil, Param("inputResponses", "x")).Fails(t, http.StatusBadRequest, -32602, "invalid_params")
	// An answer that does not fit is asked for again, by the owner.
	again := b.Retry(t, third, Answers{"elicitation-3": 12345})
	again.Asks(t, "elicitation-3")
	b.Retry(t, again, Answers{"elicitation-3": Accept("a", "3")}).Text(t)
	if n := len(server.Responses()); n != 3 {
		t.Errorf("the server got %d answers, want 3", n)
	}
}

// TestHopUnauthorized: the server's 401 to an answer reaches the client of
// another replica as it is, and the call waits on.
func TestHopUnauthorized(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	server := asking(t)
	server.Hook(func(x *rawserver.Exchange) bool {
		bad := x.R.Method == "POST" && x.Record.Method() == "" && x.R.Header.Get("Authorization") == "Bearer old"
		if bad {
			x.Unauthorized(challenge)
		}
		return bad
	})
	h := StartFleet(t, Options{Upstream: to(server), Config: "principal: {header: X-User}"})
	first := h.Replica(0).Send(t, CallTool("greet", nil, Header("X-User", "ada"), Bearer("old")))
	first.Asks(t, "elicitation-1")
	reply := h.Replica(1).Retry(t, first, ada)
	if reply.Status != http.StatusUnauthorized || reply.Header.Get("WWW-Authenticate") != challenge {
		t.Fatalf("HTTP %d %v, want the server's 401", reply.Status, reply.Header)
	}
	if got := h.Replica(2).Retry(t, first, ada, Bearer("new")).Text(t); got != "greet Ada" {
		t.Errorf("got %q", got)
	}
}

// TestHopDisconnect: a client that leaves another replica than the owner's
// cancels its call at the server within a second.
func TestHopDisconnect(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{
		"before anything is written": "stream: {after: 10m}",
		"on a stream":                "stream: {after: 10ms}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, answered, _ := slow(t)
			h := StartFleet(t, Options{Upstream: to(server), Config: config})
			first := h.Replica(0).Send(t, CallTool("slow", nil))
			first.Asks(t, "elicitation-1")
			stream := h.Replica(1).Open(t, RetryOf(first, ada))
			call := receive(t, "answer", answered)
			if name == "on a stream" {
				stream.Comment()
			}
			left := time.Now()
			stream.Close()
			cancelled(t, server, call, left)
			reply := h.Replica(2).Retry(t, first, ada)
			reply.Fails(t, http.StatusOK, -32603, "call_lost")
			if !mayHaveRun(t, reply) {
				t.Error("the error does not say that the call may have run")
			}
		})
	}
}

// TestHopDuplicates: copies of a retry at all replicas at once have the same
// outcome, each under its own id and token; the server sees one answer.
func TestHopDuplicates(t *testing.T) {
	t.Parallel()
	server, answered, gate := slow(t)
	h := StartFleet(t, Options{Upstream: to(server)})
	first := h.Replica(0).Send(t, CallTool("slow", nil, Progress("token")))
	first.Asks(t, "elicitation-1")
	retry := RetryOf(first, ada)
	var streams []*Stream
	copies := []string{"a", "b", "c", "d", "e", "f"}
	for i, id := range copies {
		streams = append(streams, h.Replica(i%h.Size()).Open(t, retry.Copy(ID(id), Progress("token-"+id))))
	}
	receive(t, "answer", answered)
	cameAgain(t, h, len(copies)-1)
	close(gate)
	for i, id := range copies {
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
		t.Errorf("the tool was called %d times, want once", n)
	}
}

// TestHopRace: the same without a gate, again and again.
func TestHopRace(t *testing.T) {
	t.Parallel()
	server := asking(t)
	h := StartFleet(t, Options{Upstream: to(server)})
	const times = 10
	for i := range times {
		first := h.Send(t, CallTool("greet", map[string]any{"call": i}))
		first.Asks(t, "elicitation-1")
		retry := RetryOf(first, ada)
		var streams []*Stream
		for id := range 2 * h.Size() {
			streams = append(streams, h.Open(t, retry.Copy(ID(id))))
		}
		for _, s := range streams {
			if got := s.Reply().Text(t); got != "greet Ada" {
				t.Errorf("got %q", got)
			}
		}
	}
	if n := len(server.Responses()); n != times {
		t.Errorf("the server got %d answers to %d questions", n, times)
	}
}

// TestHopOnlyTheLastDisconnectCancels: a client that leaves one of two replicas
// takes nothing from the one that waits at the other.
func TestHopOnlyTheLastDisconnectCancels(t *testing.T) {
	t.Parallel()
	server, answered, gate := slow(t)
	h := StartFleet(t, Options{Upstream: to(server), Config: "stream: {after: 10m}"})
	first := h.Replica(0).Send(t, CallTool("slow", nil))
	first.Asks(t, "elicitation-1")
	retry := RetryOf(first, ada)
	one, two := h.Replica(1).Open(t, retry.Copy(ID(1))), h.Replica(2).Open(t, retry.Copy(ID(2)))
	receive(t, "answer", answered)
	cameAgain(t, h, 1)
	one.Close()
	h.WaitMetric(t, "holdfast_rounds_in_flight", 1)
	if n := server.Count("notifications/cancelled"); n != 0 {
		t.Fatal("the first of two disconnects cancelled the call")
	}
	close(gate)
	if got := two.Reply().Text(t); got != "Ada" {
		t.Errorf("got %q", got)
	}
}

// TestHopNotifications: progress and log messages reach a client at another
// replica in order, under the token and at the level of its own round.
func TestHopNotifications(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	const steps = 50
	server.Tool("work", func(c *rawserver.Call) {
		c.Ask("elicitation/create", question("name"))
		for i := range steps {
			c.Progress(float64(i), steps)
			c.Log("debug", "d"+strconv.Itoa(i))
			c.Log("error", "e"+strconv.Itoa(i))
		}
		c.Text("done")
	})
	h := StartFleet(t, Options{Upstream: to(server)})
	first := h.Replica(0).Send(t, CallTool("work", nil, Progress("one")))
	first.Asks(t, "elicitation-1")
	last := h.Replica(1).Retry(t, first, ada, Progress("two"), Level("warning"))
	if got := last.Text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	if n := len(last.Messages); n != 2*steps+1 {
		t.Fatalf("%d messages, want %d", n, 2*steps+1)
	}
	for i := range steps {
		n := strconv.Itoa(i)
		same(t, "progress", parse(t, last.Messages[2*i].Params), `{"progressToken":"two","progress":`+n+`,"total":50}`)
		same(t, "log message", parse(t, last.Messages[2*i+1].Params), `{"level":"error","data":"e`+n+`"}`)
	}
}

// TestHopKeepAlive: silence at another replica is filled with comments.
func TestHopKeepAlive(t *testing.T) {
	t.Parallel()
	server, answered, gate := slow(t)
	h := StartFleet(t, Options{Upstream: to(server), Config: "stream: {after: 20ms, keepalive: 20ms}"})
	first := h.Replica(0).Send(t, CallTool("slow", nil))
	first.Asks(t, "elicitation-1")
	stream := h.Replica(1).Open(t, RetryOf(first, ada))
	receive(t, "answer", answered)
	for range 5 {
		stream.Comment()
	}
	close(gate)
	if got := stream.Reply().Text(t); got != "Ada" {
		t.Errorf("got %q", got)
	}
}

// TestHopQuestions: the owner's further questions reach the client at another
// replica, those asked together in one answer.
func TestHopQuestions(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) {
		name := c.Ask("elicitation/create", question("name")).Content("name")
		text, roots := c.Start("sampling/createMessage", sampling), c.Start("roots/list", "")
		c.Text(name + " " + text.Wait().Content("text") + " " + string(roots.Wait().Result))
	})
	h := StartFleet(t, Options{Upstream: to(server), Config: together})
	first := h.Replica(0).Send(t, CallTool("ask", nil))
	first.Asks(t, "elicitation-1")
	second := h.Replica(1).Retry(t, first, ada)
	second.Asks(t, "sampling-1", "roots-1")
	last := h.Replica(2).Retry(t, second, Answers{"sampling-1": Said("hi"), "roots-1": Roots("file:///a")})
	if got := last.Text(t); got != `Ada hi {"roots":[{"uri":"file:///a"}]}` {
		t.Errorf("got %q", got)
	}
	ids := make(map[string]bool) // of the one call, whichever replica logs it
	for i := range h.Size() {
		var line struct{ Call string }
		text := h.Replica(i).Logs.Wait(t, `"message":"request"`, `"method":"tools/call"`)
		if err := json.Unmarshal([]byte(text), &line); err != nil || line.Call == "" {
			t.Errorf("no call is named in %s: %v", text, err)
		}
		ids[line.Call] = true
	}
	if len(ids) != 1 {
		t.Errorf("the replicas log the call as %v, want one id", ids)
	}
}

// TestHopURLElicitation: -32042 is asked by one replica, and the request sent
// again by another.
func TestHopURLElicitation(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	visited := newGate(t)
	server.Tool("authorize", func(c *rawserver.Call) {
		select {
		case <-visited:
			c.Text("authorized")
		default:
			c.Error(-32042, "URL elicitation required", `{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://example.com/a","message":"One"}]}`)
		}
	})
	h := StartFleet(t, Options{Upstream: to(server)})
	first := h.Replica(0).Send(t, CallTool("authorize", nil))
	first.Asks(t, "elicitation-1")
	visited.open()
	consent := Answers{"elicitation-1": map[string]any{"action": "accept"}}
	for i := range h.Size() { // the last two are copies
		if got := h.Replica((i+1)%h.Size()).Retry(t, first, consent).Text(t); got != "authorized" {
			t.Errorf("got %q", got)
		}
	}
	if n := server.ToolCalls("authorize"); n != 2 {
		t.Errorf("the tool was called %d times, want 2", n)
	}
}

// TestHopBigResult: 10 MiB across replicas.
func TestHopBigResult(t *testing.T) {
	t.Parallel()
	const size = 10 << 20
	server := newServer(t, rawserver.Settings{})
	server.Tool("big", func(c *rawserver.Call) {
		c.Ask("elicitation/create", question("name"))
		c.Text(strings.Repeat("0123456789abcdef", size/16))
	})
	h := StartFleet(t, Options{Upstream: to(server)})
	first := h.Replica(0).Send(t, CallTool("big", nil))
	first.Asks(t, "elicitation-1")
	if got := h.Replica(1).Retry(t, first, ada).Text(t); got != strings.Repeat("0123456789abcdef", size/16) {
		t.Errorf("got %d bytes, want the %d that the server sent", len(got), size)
	}
}

// TestHopBigAnswer: so do answers, up to http.max_body.
func TestHopBigAnswer(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) {
		c.Text(strconv.Itoa(len(c.Ask("elicitation/create", question("name")).Content("name"))))
	})
	h := StartFleet(t, Options{Upstream: to(server)})
	first := h.Replica(0).Send(t, CallTool("ask", nil))
	first.Asks(t, "elicitation-1")
	const size = 3 << 20
	last := h.Replica(1).Retry(t, first, Answers{"elicitation-1": Accept("name", strings.Repeat("x", size))})
	if got := last.Text(t); got != strconv.Itoa(size) {
		t.Errorf("the server got %s bytes, want %d", got, size)
	}
}
