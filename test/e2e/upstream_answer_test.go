package e2e

import (
	"encoding/json"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// TestBatches: servers of 2025-03-26 may send arrays of messages, as events
// and as bodies.
func TestBatches(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]rawserver.Settings{
		"event": {Version: "2025-03-26"},
		"body":  {Version: "2025-03-26", JSON: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, settings)
			server.Tool("batch", func(c *rawserver.Call) {
				c.Batch(
					c.NotificationText("notifications/progress", `{"progressToken":`+string(c.Token())+`,"progress":1}`),
					c.NotificationText("notifications/message", `{"level":"info","data":"in a batch"}`),
					c.ResultText(`{"content":[{"type":"text","text":"done"}]}`),
				)
			})
			h := Start(t, Options{Upstream: to(server)})
			reply := h.Send(t, CallTool("batch", nil, Progress("p"), Level("info")))
			if got := reply.Text(t); got != "done" {
				t.Errorf("got %q", got)
			}
			progress := reply.Notifications("notifications/progress")
			if len(progress) != 1 || string(at(progress[0].Params, "progressToken")) != `"p"` {
				t.Errorf("want one progress notification under p:\n%s", reply.Body)
			}
			if n := len(reply.Notifications("notifications/message")); n != 1 {
				t.Errorf("%d log messages, want 1:\n%s", n, reply.Body)
			}
		})
	}
}

// TestBatchOfQuestions: questions in one array arrive in one answer.
func TestBatchOfQuestions(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{Version: "2025-03-26"})
	server.Tool("ask", func(c *rawserver.Call) {
		c.SendBatch(
			`{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":`+askName+`}`,
			`{"jsonrpc":"2.0","id":"q2","method":"roots/list"}`,
		)
		server.Wait("two answers", func() bool { return len(server.Responses()) == 2 })
		c.Text("thanks")
	})
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("ask", nil))
	first.Asks(t, "elicitation-1", "roots-1")
	last := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada"), "roots-1": Roots("file:///r")})
	if got := last.Text(t); got != "thanks" {
		t.Errorf("got %q", got)
	}
	ids := map[string]bool{}
	for _, m := range server.Responses() {
		ids[string(m.ID)] = m.Result != nil
	}
	if !ids[`"q1"`] || !ids[`"q2"`] {
		t.Errorf("answers have the ids %v, want q1 and q2", ids)
	}
}

// TestPing: the proxy answers pings by itself, wherever they come from.
func TestPing(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ping", func(c *rawserver.Call) {
		own := c.Ask("ping", "")
		pushed := c.Push("ping", `{}`)
		both, err := json.Marshal([]json.RawMessage{own.Result, pushed.Result})
		if err != nil || !own.OK() || !pushed.OK() {
			c.Error(-32000, "no answer", "")
			return
		}
		c.Text(string(both))
	})
	h := Start(t, Options{Upstream: to(server)})
	reply := h.Send(t, CallTool("ping", nil, Caps(NoCapabilities)))
	if got := reply.Text(t); got != "[{},{}]" {
		t.Errorf("pings were answered with %s, want empty results", got)
	}
	if reply.SSE() {
		t.Errorf("the client hears of the ping: %s", reply.Body)
	}
	// Outside any call, too.
	if answer := server.Session().Push("ping", "").Wait(); !answer.OK() {
		t.Errorf("a ping outside any call got %v", answer.Error)
	}
}

// TestUnknownRequest: what no client knows is refused to the server, and the
// call goes on.
func TestUnknownRequest(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("odd", func(c *rawserver.Call) {
		answer := c.Ask("tasks/list", `{}`)
		if answer.Error == nil {
			c.Text("no error")
			return
		}
		c.Result(`{"content":[{"type":"text","text":"went on"}],"structuredContent":{"code":` + jsonText(answer.Error.Code) + `}}`)
	})
	h := Start(t, Options{Upstream: to(server)})
	reply := h.Send(t, CallTool("odd", nil))
	if got := reply.Text(t); got != "went on" {
		t.Errorf("got %q", got)
	}
	if got := string(at(reply.Result, "structuredContent", "code")); got != "-32601" {
		t.Errorf("the server got code %s, want -32601", got)
	}
}

// TestForeignMessages: a response to nothing, a notification that nobody
// knows, and progress under a strange token are no reason to stop.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("odd", func(c *rawserver.Call) {
		c.Raw(": a comment\n\n")
		c.Send(`{"jsonrpc":"2.0","id":"nobody","result":{"content":[]}}`)
		c.Send(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		c.Notify("notifications/of/tomorrow", `{"x":1}`)
		c.Notify("notifications/progress", `{"progressToken":"nobody","progress":1}`)
		c.Text("done")
	})
	h := Start(t, Options{Upstream: to(server)})
	reply := h.Send(t, CallTool("odd", nil, Progress("p")))
	if got := reply.Text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	if len(reply.Messages) != 1 {
		t.Errorf("the client hears of what is not its own:\n%s", reply.Body)
	}
}

// TestMalformedAnswers: a call whose answer cannot be read ends with a clear
// error that says that it may have run.
func TestMalformedAnswers(t *testing.T) {
	onlyStreamable(t, "it is answered in HTTP")
	t.Parallel()
	for name, body := range map[string]string{
		"no JSON":     `{"jsonrpc":`,
		"no message":  `"hello"`,
		"no response": `[]`,
		"other id":    `{"jsonrpc":"2.0","id":"x","result":{}}`,
		"empty":       ``,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			server.Once(rawserver.ForMethod("tools/call"), func(x *rawserver.Exchange) {
				x.Reply(200, body, "Content-Type", "application/json")
			})
			h := Start(t, Options{Upstream: to(server)})
			reply := h.Send(t, CallTool("any", nil))
			reply.Fails(t, 200, -32603, "upstream_reply")
			if !mayHaveRun(t, reply) {
				t.Errorf("the error does not say that the call may have run: %s", reply.Body)
			}
			if n := server.Count("tools/call"); n != 1 {
				t.Errorf("tools/call was sent %d times, want once", n)
			}
		})
	}
}

// TestEndlessAnswers: upstream.max_message bounds what is read of a body, an
// event, and a line of one.
func TestEndlessAnswers(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	for name, flood := range map[string]struct{ contentType, prefix string }{
		"body":  {"application/json", `{"jsonrpc":"2.0","id":1,"result":{"x":"`},
		"event": {"text/event-stream", `data: {"x":"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			server.Once(rawserver.ForMethod("tools/call"), func(x *rawserver.Exchange) {
				x.Flood(flood.contentType, flood.prefix, 64<<20, `"}}`)
			})
			h := Start(t, Options{Upstream: to(server), Config: "upstream: {max_message: 1MiB, max_line: 1MiB}"})
			reply := h.Send(t, CallTool("any", nil))
			reply.Fails(t, 200, -32603, "upstream_reply")
			if !mayHaveRun(t, reply) {
				t.Errorf("the error does not say that the call may have run: %s", reply.Body)
			}
			h.Send(t, Request("tools/list", nil)).Completes(t) // it lives on
		})
	}
}

// TestStatus: an HTTP status that is no answer to a request is a clear error;
// only one that comes from the server's inside says that the call may have run.
func TestStatus(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	for status, ran := range map[int]bool{400: false, 429: false, 500: true, 502: true} {
		t.Run(jsonText(status), func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			server.Once(rawserver.ForMethod("tools/call"), func(x *rawserver.Exchange) { x.Reply(status, "s3cret detail") })
			h := Start(t, Options{Upstream: to(server)})
			reply := h.Send(t, CallTool("any", nil))
			reply.Fails(t, 200, -32603, "upstream_status")
			if got := mayHaveRun(t, reply); got != ran {
				t.Errorf("mayHaveRun is %v, want %v", got, ran)
			}
			if n := server.Count("tools/call"); n != 1 {
				t.Errorf("tools/call was sent %d times, want once", n)
			}
		})
	}
}

func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // the test's own mistake
	}
	return string(text)
}
