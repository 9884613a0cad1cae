package e2e

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// resumes are the GET requests that go on with a stream.
func resumes(s *rawserver.Server) (list []*rawserver.Record) {
	for _, r := range sent(s, "GET") {
		if r.Header.Get("Last-Event-ID") != "" {
			list = append(list, r)
		}
	}
	return list
}

// TestResume: a stream that breaks, and one that the server closes on purpose
// (SEP-1699), are gone on with by GET after the server's retry. Spec
// 2025-11-25, basic/transports, "Resumability and Redelivery".
func TestResume(t *testing.T) {
	onlyStreamable(t, "only event ids let a stream go on")
	t.Parallel()
	for name, leave := range map[string]func(*rawserver.Call){
		"cut":     (*rawserver.Call).Cut,
		"hang up": (*rawserver.Call).HangUp,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const retry = 300 * time.Millisecond
			server := newServer(t, rawserver.Settings{Retry: retry, Prime: true})
			var left atomic.Int64
			server.Tool("leave", func(c *rawserver.Call) {
				c.Progress(1, 3)
				left.Store(time.Now().UnixNano())
				leave(c)
				if !c.WaitResumed(1) {
					return
				}
				c.Progress(2, 3)
				leave(c)
				if !c.WaitResumed(2) {
					return
				}
				c.Progress(3, 3)
				c.Text("done")
			})
			h := Start(t, Options{Upstream: to(server)})
			reply := h.Send(t, CallTool("leave", nil, Progress(7)))
			if got := reply.Text(t); got != "done" {
				t.Errorf("got %q", got)
			}
			var steps []string
			for _, n := range reply.Notifications("notifications/progress") {
				steps = append(steps, string(at(n.Params, "progress")))
			}
			if got := strings.Join(steps, " "); got != "1 2 3" {
				t.Errorf("progress came as %q, want each step once", got)
			}
			got := resumes(server)
			if len(got) != 2 {
				t.Fatalf("the stream was resumed %d times, want 2", len(got))
			}
			if id := got[0].Header.Get("Last-Event-ID"); !strings.HasSuffix(id, "-0") {
				t.Errorf("first resumed after event %s, want the first", id)
			}
			if pause := got[0].At.Sub(time.Unix(0, left.Load())); pause < retry {
				t.Errorf("resumed after %v, want at least the server's retry of %v", pause, retry)
			}
			if sessionOf(got[0]) != "session-1" || got[0].Header.Get("MCP-Protocol-Version") != versionHeader(t) {
				t.Errorf("resumed with the header %v", got[0].Header)
			}
			if n := server.ToolCalls("leave"); n != 1 {
				t.Errorf("the tool was called %d times", n)
			}
		})
	}
}

// TestResumeFromPriming: the empty first event counts, although it is no
// message.
func TestResumeFromPriming(t *testing.T) {
	onlyStreamable(t, "only event ids let a stream go on")
	t.Parallel()
	server := newServer(t, rawserver.Settings{Prime: true})
	server.Tool("leave", func(c *rawserver.Call) {
		c.HangUp()
		if c.WaitResumed(1) {
			c.Text("done")
		}
	})
	h := Start(t, Options{Upstream: to(server)})
	if got := h.Send(t, CallTool("leave", nil)).Text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	if got := resumes(server); len(got) != 1 || !strings.HasSuffix(got[0].Header.Get("Last-Event-ID"), "--1") {
		t.Errorf("resumed %d times, want once after the priming event", len(got))
	}
}

// TestResumeWhileParked: the stream of a parked call may break as often as it
// likes.
func TestResumeWhileParked(t *testing.T) {
	onlyStreamable(t, "only event ids let a stream go on")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	parked := newGate(t)
	server.Tool("greet", func(c *rawserver.Call) {
		q := c.Start("elicitation/create", askName)
		select {
		case <-parked:
		case <-c.Context().Done():
			return
		}
		c.Cut()
		if !c.WaitResumed(1) {
			return
		}
		c.HangUp()
		if !c.WaitResumed(2) {
			return
		}
		c.Text("Hello " + q.Wait().Content("name"))
	})
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("greet", nil))
	first.Asks(t, "elicitation-1")
	parked.open()
	server.Wait("the stream to be resumed twice", func() bool { return len(resumes(server)) == 2 })
	last := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")})
	if got := last.Text(t); got != "Hello Ada" {
		t.Errorf("got %q", got)
	}
}

// TestResumeAgain: a server that cannot take the GET just now is asked
// again; the attempts are bounded.
func TestResumeAgain(t *testing.T) {
	onlyStreamable(t, "only event ids let a stream go on")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("leave", func(c *rawserver.Call) {
		c.Log("info", "x")
		c.Cut()
		if c.WaitResumed(1) {
			c.Text("done")
		}
	})
	var refused atomic.Int64
	server.Hook(func(x *rawserver.Exchange) bool {
		if x.R.Header.Get("Last-Event-ID") == "" || refused.Add(1) > 2 {
			return false
		}
		x.Reply(503, "later")
		return true
	})
	h := Start(t, Options{Upstream: to(server), Config: "upstream: {retry_min: 1ms, retry_max: 10ms}"})
	if got := h.Send(t, CallTool("leave", nil)).Text(t); got != "done" {
		t.Errorf("got %q", got)
	}

	bounded := newServer(t, rawserver.Settings{})
	bounded.Tool("leave", func(c *rawserver.Call) {
		c.Log("info", "x")
		c.Cut()
	})
	bounded.Hook(func(x *rawserver.Exchange) bool {
		gone := x.R.Header.Get("Last-Event-ID") != ""
		if gone {
			x.Reply(503, "never")
		}
		return gone
	})
	h = Start(t, Options{Upstream: to(bounded), Config: "upstream: {retry_min: 1ms, retry_max: 10ms, max_resumes: 3}"})
	reply := h.Send(t, CallTool("leave", nil))
	reply.Fails(t, 200, -32603, "upstream_lost")
	if !mayHaveRun(t, reply) {
		t.Error("the error does not say that the call may have run")
	}
	if n := len(resumes(bounded)); n != 3 {
		t.Errorf("%d attempts, want upstream.max_resumes", n)
	}
}

// TestResumeRefused: a server that does not go on with the stream has run the
// call all the same.
func TestResumeRefused(t *testing.T) {
	onlyStreamable(t, "only event ids let a stream go on")
	t.Parallel()
	for _, status := range []int{400, 401, 405} {
		t.Run(jsonText(status), func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			server.Tool("leave", func(c *rawserver.Call) {
				c.Log("info", "x")
				c.Cut()
			})
			server.Hook(func(x *rawserver.Exchange) bool {
				resume := x.R.Header.Get("Last-Event-ID") != ""
				if resume {
					x.Reply(status, "no", "WWW-Authenticate", "Bearer")
				}
				return resume
			})
			h := Start(t, Options{Upstream: to(server)})
			reply := h.Send(t, CallTool("leave", nil))
			reply.Fails(t, 200, -32603, "upstream_lost")
			if !mayHaveRun(t, reply) {
				t.Errorf("the error does not say that the call may have run: %s", reply.Body)
			}
			if n := server.ToolCalls("leave"); n != 1 {
				t.Errorf("the tool was called %d times", n)
			}
		})
	}
}

// TestCutWithoutIDs: a stream without event ids cannot be gone on with. What
// may have run is not sent again.
func TestCutWithoutIDs(t *testing.T) {
	onlyStreamable(t, "the other transports have none of these forms")
	t.Parallel()
	for name, leave := range map[string]func(*rawserver.Call){
		"cut":     (*rawserver.Call).Cut,
		"hang up": (*rawserver.Call).HangUp,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{NoEventIDs: true})
			server.Tool("leave", func(c *rawserver.Call) {
				c.Log("info", "x")
				leave(c)
			})
			h := Start(t, Options{Upstream: to(server)})
			reply := h.Send(t, CallTool("leave", nil))
			reply.Fails(t, 200, -32603, "upstream_lost")
			if !mayHaveRun(t, reply) {
				t.Errorf("the error does not say that the call may have run: %s", reply.Body)
			}
			if n := server.ToolCalls("leave"); n != 1 {
				t.Errorf("the tool was called %d times, want once", n)
			}
			if n := len(resumes(server)); n != 0 {
				t.Errorf("the stream was resumed %d times without an event id", n)
			}
		})
	}
}

// TestDropped: the connection ends before the answer's header.
func TestDropped(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	if oneStream(t) {
		server.Tool("say", (*rawserver.Call).Cut)
	} else {
		server.Once(rawserver.ForMethod("tools/call"), (*rawserver.Exchange).Drop)
	}
	h := Start(t, Options{Upstream: to(server)})
	reply := h.Send(t, CallTool("say", nil))
	reply.Fails(t, 200, -32603, "upstream_lost")
	if !mayHaveRun(t, reply) {
		t.Errorf("the error does not say that the call may have run: %s", reply.Body)
	}
	if n := server.Count("tools/call"); n != 1 {
		t.Errorf("tools/call was sent %d times, want once", n)
	}
}

// TestHarmlessAgain: what may run twice is sent once more when the connection
// was lost, and only once more.
func TestHarmlessAgain(t *testing.T) {
	t.Parallel()
	for method, params := range map[string]map[string]any{
		"tools/list":     nil,
		"prompts/get":    {"name": "p"},
		"resources/read": {"uri": "x:y"},
	} {
		for name, lose := range map[string]func(*rawserver.Call){
			"before the header": nil,
			"in mid-stream": func(c *rawserver.Call) {
				c.Log("info", "x")
				c.Cut()
			},
		} {
			t.Run(method+" "+name, func(t *testing.T) {
				t.Parallel()
				server := newServer(t, rawserver.Settings{NoEventIDs: true})
				if oneStream(t) && lose == nil {
					lose = (*rawserver.Call).Cut
				}
				var times atomic.Int64
				server.Handle(method, func(c *rawserver.Call) {
					if times.Add(1) == 1 && lose != nil {
						lose(c)
						return
					}
					c.Result(`{"tools":[],"messages":[],"contents":[]}`)
				})
				if lose == nil {
					server.Once(rawserver.ForMethod(method), (*rawserver.Exchange).Drop)
				}
				h := Start(t, Options{Upstream: to(server)})
				h.Send(t, Request(method, params)).Completes(t)
				if n := server.Count(method); n != 2 {
					t.Errorf("%s was sent %d times, want twice", method, n)
				}
			})
		}
	}
	t.Run("only once more", func(t *testing.T) {
		t.Parallel()
		server := newServer(t, rawserver.Settings{})
		if oneStream(t) {
			server.Handle("prompts/list", (*rawserver.Call).Cut)
		} else {
			server.Hook(func(x *rawserver.Exchange) bool {
				if x.Record.Method() == "prompts/list" {
					x.Drop()
				}
				return false
			})
		}
		h := Start(t, Options{Upstream: to(server)})
		h.Send(t, Request("prompts/list", nil)).Fails(t, 200, -32603, "upstream_lost")
		if n := server.Count("prompts/list"); n != 2 {
			t.Errorf("prompts/list was sent %d times, want twice", n)
		}
	})
}
