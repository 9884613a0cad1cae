package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/demoserver"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// overloaded checks an answer that tells the client to come back later.
func overloaded(t *testing.T, reply *Reply, status int, reason string) {
	t.Helper()
	reply.Fails(t, status, -32603, reason)
	if seconds, err := strconv.Atoi(reply.Header.Get("Retry-After")); err != nil || seconds < 1 {
		t.Errorf("Retry-After is %q, want seconds", reply.Header.Get("Retry-After"))
	}
}

func TestCallsInFlight(t *testing.T) {
	t.Parallel()
	server, running, gate := gated(t)
	h := Start(t, Options{Upstream: to(server), Config: "{calls: {max: 2}, stream: {after: 10m}}"}).One() // calls.max is of each replica
	reaches(t, h, "holdfast_rounds_in_flight", 0)                                                         // what asked whether it is ready has gone
	one, two := h.Open(t, CallTool("wait", nil)), h.Open(t, CallTool("wait", nil))
	receive(t, "call", running)
	receive(t, "call", running)
	overloaded(t, h.Send(t, CallTool("wait", nil)), http.StatusServiceUnavailable, "overload")
	overloaded(t, h.Send(t, Request("tools/list", nil)), http.StatusServiceUnavailable, "overload")
	close(gate)
	one.Reply().Text(t)
	two.Reply().Text(t)
	h.Send(t, CallTool("wait", nil)).Text(t)
}

// A call that finds no place to park is ended, and the server told.
func TestParkedCalls(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config, second string
		status         int
		reason         string
	}{
		"overall":       {"calls: {max_parked: 1}", "bob", http.StatusServiceUnavailable, "overload"},
		"per principal": {"calls: {max_parked_per_principal: 1}", "alice", http.StatusTooManyRequests, "quota"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			told := make(chan rawserver.Answer, 10)
			server.Tool("ask", func(c *rawserver.Call) {
				answer := c.Ask("elicitation/create", question("a"))
				told <- answer
				if answer.Action() == "cancel" {
					<-c.Cancelled() // of a call that has ended nobody says so
				}
				c.Text(answer.Action())
			})
			h := StartAlone(t, Options{Upstream: to(server), Config: test.config}) // each replica has so many places
			first := h.Send(t, CallTool("ask", nil, Bearer("alice")))
			first.Asks(t, "elicitation-1")
			overloaded(t, h.Send(t, CallTool("ask", nil, Bearer(test.second))), test.status, test.reason)
			if answer := receive(t, "answer", told); answer.Action() != "cancel" {
				t.Errorf("the server was answered %s %v, want cancel", answer.Result, answer.Error)
			}
			server.WaitCount("notifications/cancelled", 1)
			if name == "per principal" {
				h.Send(t, CallTool("ask", nil, Bearer("bob"))).Asks(t, "elicitation-1")
			}
			// Whoever has a place keeps it, and gives it back.
			h.Retry(t, first, Answers{"elicitation-1": Accept("a", "A")}).Text(t)
			h.Send(t, CallTool("ask", nil, Bearer(test.second))).Asks(t, "elicitation-1")
		})
	}
}

func TestRounds(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("endless", func(c *rawserver.Call) {
		for c.Context().Err() == nil {
			if c.Ask("elicitation/create", question("a")).Action() != "accept" {
				return
			}
		}
	})
	h := Start(t, Options{Upstream: to(server), Config: "calls: {max_rounds: 3}"})
	reply := h.Send(t, CallTool("endless", nil))
	rounds := 1
	for reply.Type == "input_required" && rounds < 10 {
		for key := range reply.Inputs {
			reply = h.Retry(t, reply, Answers{key: Accept("a", "A")})
		}
		rounds++
	}
	reply.Fails(t, http.StatusOK, -32603, "too_many_rounds")
	if rounds > 4 {
		t.Errorf("%d rounds were allowed, want 3", rounds)
	}
	server.WaitCount("notifications/cancelled", 1)
}

// The question beyond the limit is refused to the server, the others go on.
func TestOpenQuestions(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) {
		a, b, d := c.Start("elicitation/create", question("a")), c.Start("elicitation/create", question("b")), c.Start("elicitation/create", question("d"))
		third := "refused"
		if answer := d.Wait(); answer.Error == nil {
			third = "answered"
		}
		c.Text(a.Wait().Content("a") + b.Wait().Content("b") + third)
	})
	h := Start(t, Options{Upstream: to(server), Config: "calls: {max_inputs: 2, gather: 500ms}"})
	first := h.Send(t, CallTool("ask", nil))
	first.Asks(t, "elicitation-1", "elicitation-2")
	last := h.Retry(t, first, Answers{"elicitation-1": Accept("a", "A"), "elicitation-2": Accept("b", "B")})
	if got := last.Text(t); got != "ABrefused" {
		t.Errorf("got %q", got)
	}
}

func TestSilentServer(t *testing.T) {
	t.Parallel()
	server, running, _ := gated(t)
	h := Start(t, Options{Upstream: to(server), Config: "calls: {timeout: 2s}"})
	reply := h.Send(t, CallTool("wait", nil))
	reply.Fails(t, http.StatusOK, -32603, "call_timeout")
	same(t, "mayHaveRun", parse(t, reply.Error.Data).(map[string]any)["mayHaveRun"], `true`)
	receive(t, "cancellation", receive(t, "call", running).Cancelled())
}

// Progress is a sign of life.
func TestProgressResetsTheTimeout(t *testing.T) {
	t.Parallel()
	h := Start(t, Options{Upstream: Demo(t, demoserver.Settings{}), Config: "calls: {timeout: 2s}"})
	reply := h.Send(t, CallTool("progress", map[string]any{"steps": 10, "every_ms": 250}, Progress("p")))
	if got := reply.Text(t); got != "10 steps" {
		t.Errorf("got %q", got)
	}
}

func TestMaxDuration(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	ended := make(chan struct{})
	server.Tool("chatter", func(c *rawserver.Call) {
		defer close(ended)
		report := time.NewTicker(20 * time.Millisecond)
		defer report.Stop()
		for i := 0.0; ; i++ {
			c.Progress(i, 0)
			select {
			case <-report.C:
			case <-c.Context().Done():
				return
			}
		}
	})
	h := Start(t, Options{Upstream: to(server), Config: "calls: {timeout: 10s, max_duration: 2s}"})
	reply := h.Send(t, CallTool("chatter", nil, Progress("p")))
	reply.Fails(t, http.StatusOK, -32603, "call_duration")
	receive(t, "end of the call", ended)
}

// Outcomes are kept for a retry that is sent twice, for a time.
func TestOutcomesAreForgotten(t *testing.T) {
	t.Parallel()
	server := asking(t)
	h := Start(t, Options{Upstream: to(server), Config: "calls: {outcome_ttl: 100ms}"})
	first := h.Send(t, CallTool("greet", nil))
	last := h.Retry(t, first, ada)
	last.Text(t)
	reply := last
	for reply.Error == nil {
		sameOutcome(t, last, reply)
		reply = h.Retry(t, first, ada)
	}
	reply.Fails(t, http.StatusOK, -32603, "call_lost")
	same(t, "mayHaveRun", parse(t, reply.Error.Data).(map[string]any)["mayHaveRun"], `true`)
	if n := len(server.Responses()); n != 1 {
		t.Errorf("the server got %d answers, want 1", n)
	}
}

func TestOutcomesAreBounded(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("big", func(c *rawserver.Call) {
		c.Ask("elicitation/create", question("name"))
		c.Text(strings.Repeat("x", 400<<10))
	})
	h := Start(t, Options{Upstream: to(server), Config: "calls: {max_outcome_bytes: 1MiB}"}).One() // what each replica keeps
	var calls []*Reply
	for range 4 {
		first := h.Send(t, CallTool("big", nil))
		h.Retry(t, first, ada).Text(t)
		calls = append(calls, first)
	}
	for i, first := range calls {
		reply := h.Retry(t, first, ada)
		if kept := i >= 2; kept {
			reply.Text(t)
		} else {
			reply.Fails(t, http.StatusOK, -32603, "call_lost")
		}
	}
}

func TestMessageOfTheServerTooLarge(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]rawserver.Settings{"JSON": {JSON: true}, "SSE": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, settings)
			server.Tool("big", func(c *rawserver.Call) { c.Text(strings.Repeat("x", 100<<10)) })
			server.Tool("small", func(c *rawserver.Call) { c.Text("x") })
			h := Start(t, Options{Upstream: to(server), Config: "upstream: {max_message: 64KiB}\nstdio: {max_line: 64KiB}"})
			h.Send(t, CallTool("big", nil)).Fails(t, http.StatusOK, -32603, "upstream_reply")
			h.Send(t, CallTool("small", nil)).Text(t)
		})
	}
}

func TestSessionsOfAnUpstream(t *testing.T) {
	t.Parallel()
	server, running, gate := gated(t)
	h := StartAlone(t, Options{Upstream: to(server), Config: "{sessions: {max: 1, queue_timeout: 50ms}, stream: {after: 10m}}"}) // sessions.max is of each replica
	stream := h.Open(t, CallTool("wait", nil, Bearer("alice")))
	receive(t, "call", running)
	overloaded(t, h.Send(t, Request("tools/list", nil, Bearer("bob"))), http.StatusServiceUnavailable, "overload")
	h.Send(t, Request("tools/list", nil, Bearer("alice"))).Completes(t)
	close(gate)
	stream.Reply().Text(t)
	// A session without use makes room.
	h.Send(t, Request("tools/list", nil, Bearer("bob"))).Completes(t)
}

func TestListenersAreLimited(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config, second string
		status         int
		reason         string
	}{
		"overall":       {"listeners: {max: 1}", "bob", http.StatusServiceUnavailable, "overload"},
		"per principal": {"listeners: {max_per_principal: 1}", "alice", http.StatusTooManyRequests, "quota"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			h := StartAlone(t, Options{Upstream: to(server), Config: test.config}) // each replica has so many places
			listen := func(who string) *Message {
				return Request("subscriptions/listen", map[string]any{"notifications": map[string]any{"toolsListChanged": true}}, Bearer(who))
			}
			one := h.Open(t, listen("alice"))
			one.Notification("notifications/subscriptions/acknowledged")
			overloaded(t, h.Send(t, listen(test.second)), test.status, test.reason)
			one.Close()
			h.WaitMetric(t, "holdfast_listeners", 0)
			two := h.Open(t, listen(test.second))
			two.Notification("notifications/subscriptions/acknowledged")
		})
	}
}

// A client that reads too slowly loses its call, and nobody else anything.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	flooding, ended := newGate(t), make(chan struct{})
	server.Tool("flood", func(c *rawserver.Call) {
		text := strings.Repeat("x", 256<<10)
		c.Log("info", "first")
		<-flooding
		for range 200 {
			c.Log("info", text)
		}
		<-c.Context().Done()
		close(ended)
	})
	server.Tool("other", func(c *rawserver.Call) { c.Text("served") })
	h := Start(t, Options{Upstream: to(server), Config: "stream: {buffer: 4}"})
	m := CallTool("flood", nil, Level("info"))
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.Base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	request, err := http.NewRequest(http.MethodPost, h.URL, strings.NewReader(m.Body()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = m.Header
	if err := request.Write(conn); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		t.Fatal(err)
	}
	close(flooding) // and nothing is read for now
	receive(t, "end of the call", ended)
	if got := h.Send(t, CallTool("other", nil)).Text(t); got != "served" {
		t.Errorf("got %q", got)
	}
	rest, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(rest), `"slow_client"`) {
		t.Errorf("the stream ends with %s, want the error slow_client", rest[max(0, len(rest)-300):])
	}
}

// A request that does not come to its end is not waited for.
func TestSlowRequest(t *testing.T) {
	t.Parallel()
	_, h := echoing(t, "http: {read_timeout: 200ms}")
	for name, bytes := range map[string]string{
		"header": "POST /mcp HTTP/1.1\r\nHost: localhost\r\n",
		"body":   "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			if got := wire(t, h, bytes); got != http.StatusRequestTimeout {
				t.Errorf("HTTP %d, want 408", got)
			}
		})
	}
}

// Connections over the limit are turned away, not left waiting.
func TestConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	server, running, gate := gated(t)
	h := Start(t, Options{Upstream: to(server), Config: "{http: {max_connections: 2}, stream: {after: 10m}}"}).One() // http.max_connections is of each replica
	one, two := h.Open(t, CallTool("wait", nil)), h.Open(t, CallTool("wait", nil))
	receive(t, "call", running)
	receive(t, "call", running)
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.Base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	body := Request("tools/list", nil).Body()
	// A reset may come before all is written.
	_, _ = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	var netErr *net.OpError
	switch {
	case err == nil:
		if response.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("HTTP %d, want 503", response.StatusCode)
		}
		_ = response.Body.Close() // of no interest
	case !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) && !errors.As(err, &netErr):
		t.Errorf("the connection over the limit: %v, want it closed", err)
	}
	close(gate)
	one.Reply().Text(t)
	two.Reply().Text(t)
}

func TestStateTooLong(t *testing.T) {
	t.Parallel()
	server := asking(t)
	h := Start(t, Options{Upstream: to(server), Config: "state: {max_bytes: 1KiB}"})
	first := h.Send(t, CallTool("greet", nil))
	h.Retry(t, first, ada, Param("requestState", strings.Repeat("A", 2000))).Fails(t, http.StatusBadRequest, -32602, "state_invalid")
	h.Retry(t, first, ada).Text(t)
}
