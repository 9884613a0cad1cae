package e2e

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// runs runs the binary to its end and returns its exit code and all that it
// printed.
func runs(t testing.TB, env []string, args ...string) (code int, output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, binary, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HOLDFAST_") {
			command.Env = append(command.Env, v)
		}
	}
	command.Env = append(command.Env, env...)
	text, err := command.CombinedOutput()
	if command.ProcessState == nil || ctx.Err() != nil {
		t.Fatalf("holdfast %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return command.ProcessState.ExitCode(), string(text)
}

func writeConfig(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestShutdownWaits: a running call gets its result within shutdown.grace, and
// its session is ended after that.
func TestShutdownWaits(t *testing.T) {
	t.Parallel()
	for name, settled := range map[string]bool{
		"a call that has lasted":     true,
		"a call that has just begun": false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			hold := newGate(t)
			server.Tool("hold", hold.holding)
			server.Tool("say", saying)
			fleet := Start(t, Options{Upstream: to(server), Config: "stream: {after: 20ms}"})
			h := fleet.One()                             // shutting down is of each replica; the session goes on with the others
			h.Send(t, CallTool("say", nil)).Completes(t) // there is a session
			call := h.Open(t, CallTool("hold", map[string]any{"say": "x"}))
			server.Wait("the tool", func() bool { return server.ToolCalls("hold") == 1 })
			if settled {
				call.Header() // it streams by now
			}
			h.Signal(syscall.SIGTERM)
			h.Logs.Wait(t, `"message":"stopping"`)
			for range 5 { // the session lives on under the running call
				select {
				case <-server.Session().Push("ping", "").Answered():
				case <-time.After(patience):
					t.Fatal("no answer to a ping")
				}
			}
			if n := len(server.Ended()); n != 0 {
				t.Error("the session was ended under the running call")
			}
			hold.open()
			if got := call.Reply().Text(t); got != "said x" {
				t.Errorf("got %q", got)
			}
			h.ends(t)
			fleet.Stop()
			records := server.Records()
			if oneStream(t) {
				server.WaitEnded(1)
			} else if last := records[len(records)-1]; last.HTTP != "DELETE" || server.HTTPCount("DELETE") != 1 {
				t.Errorf("last comes %s, want the only DELETE", last.HTTP)
			}
			if n := server.Count("notifications/cancelled"); n != 0 {
				t.Errorf("%d calls were cancelled", n)
			}
		})
	}
}

// TestShutdownCutsShort: a call that does not end within shutdown.grace is
// cancelled at the server, and its client told; the process ends in time.
func TestShutdownCutsShort(t *testing.T) {
	t.Parallel()
	const method = "completion/complete"
	for name, test := range map[string]struct {
		start   func(testing.TB, Options) *Holdfast
		request *Message
	}{
		// One with others lets go of such a call: see TestDrainLetsGo.
		"one that could go on elsewhere": {StartOne, CallTool("hold", nil)},
		"one that could not": {Start, Request(method, map[string]any{
			"ref": map[string]any{"type": "ref/prompt", "name": "p"}, "argument": map[string]any{"name": "a", "value": ""}})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			hold := newGate(t)
			server.Tool("hold", hold.holding)
			server.Handle(method, hold.holding)
			const grace = 2 * time.Second // the farewell comes after it
			fleet := test.start(t, Options{Upstream: to(server), Config: "shutdown: {grace: 2s}"})
			h := fleet.One() // shutting down is of each replica; the session goes on with the others
			call := h.Open(t, test.request)
			server.WaitCount(test.request.Method, 1)
			begun := time.Now()
			h.Signal(syscall.SIGTERM)
			reply := call.Reply()
			reply.Fails(t, http.StatusServiceUnavailable, -32603, "shutdown")
			if took := time.Since(begun); took < grace {
				t.Errorf("the call was ended after %v of its %v", took, grace)
			}
			if !mayHaveRun(t, reply) {
				t.Error("the error does not say that the call may have run")
			}
			h.ends(t)
			stopsWithin(t, begun, grace)
			if n := server.Count("notifications/cancelled"); n != 1 {
				t.Errorf("%d cancellations, want 1", n)
			}
			fleet.Stop()
			server.WaitEnded(1)
			if n := server.HTTPCount("DELETE"); n != 1 && !oneStream(t) {
				t.Errorf("%d DELETE, want 1", n)
			}
			if n := len(server.Sessions()); n != 0 {
				t.Errorf("the server has %d sessions left", n)
			}
		})
	}
}

// stopsWithin checks how long a process took to stop.
func stopsWithin(t *testing.T, begun time.Time, grace time.Duration) {
	t.Helper()
	if took := time.Since(begun); took > grace+5*time.Second { // which are for a busy machine
		t.Errorf("it took %v to stop with a grace of %v", took, grace)
	}
}

// TestShutdownDeafServer: a server that does not answer DELETE does not keep
// the process beyond shutdown.grace.
func TestShutdownDeafServer(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Hook(func(x *rawserver.Exchange) bool {
		deaf := x.R.Method == "DELETE"
		if deaf {
			x.Silence()
		}
		return deaf
	})
	h := Start(t, Options{Upstream: to(server), Config: "shutdown: {grace: 500ms}"})
	h.Send(t, Request("tools/list", nil)).Completes(t)
	begun := time.Now()
	h.Signal(syscall.SIGTERM)
	h.ends(t)
	stopsWithin(t, begun, 500*time.Millisecond)
}

// TestShutdownDeafToAnswers: neither does one that does not take an answer, or
// a cancellation.
func TestShutdownDeafToAnswers(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	for name, deafTo := range map[string]func(*rawserver.Record) bool{
		"answer":       func(r *rawserver.Record) bool { return r.HTTP == "POST" && r.Method() == "" },
		"cancellation": rawserver.ForMethod("notifications/cancelled"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			server.Tool("greet", greeting)
			deaf := make(chan struct{}, 10)
			server.Hook(func(x *rawserver.Exchange) bool {
				yes := deafTo(x.Record)
				if yes {
					deaf <- struct{}{}
					x.Silence()
				}
				return yes
			})
			start := Start
			if name == "answer" {
				start = StartOne // with others the client is told to come back there
			}
			h := start(t, Options{Upstream: to(server), Config: "shutdown: {grace: 500ms}"})
			first := h.Send(t, CallTool("greet", nil))
			first.Asks(t, "elicitation-1")
			var retry *Stream
			if name == "answer" {
				retry = h.Open(t, RetryOf(first, Answers{"elicitation-1": Accept("name", "Ada")}))
				<-deaf
			}
			begun := time.Now()
			h.Signal(syscall.SIGTERM)
			if retry != nil {
				retry.Reply().Fails(t, http.StatusServiceUnavailable, -32603, "shutdown")
			}
			h.ends(t)
			stopsWithin(t, begun, 500*time.Millisecond)
		})
	}
}

// TestShutdownParked: parked calls do not hold up the end; the server is told
// that no answer will come.
func TestShutdownParked(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	answers := make(chan rawserver.Answer, 3)
	server.Tool("ask", func(c *rawserver.Call) {
		for _, q := range []*rawserver.Question{
			c.Start("elicitation/create", askName), c.Start("sampling/createMessage", `{"messages":[],"maxTokens":1}`), c.Start("roots/list", ""),
		} {
			answers <- q.Wait()
		}
		<-c.Context().Done()
	})
	h := Start(t, Options{Upstream: to(server), Config: "calls: {gather: 500ms}"})
	h.Send(t, CallTool("ask", nil)).Asks(t, "elicitation-1", "roots-1", "sampling-1")
	h.Signal(syscall.SIGTERM)
	h.ends(t)
	if got := receive(t, "answer", answers).Action(); got != "cancel" {
		t.Errorf("the elicitation got action %q, want cancel", got)
	}
	for range 2 {
		if answer := receive(t, "answer", answers); answer.Error == nil {
			t.Errorf("a question got %s, want an error", answer.Result)
		}
	}
	server.WaitEnded(1)
	var order []string
	for _, r := range server.Records() {
		if r.Method() == "notifications/cancelled" || r.HTTP == "DELETE" {
			order = append(order, r.HTTP)
		}
	}
	if got := strings.Join(order, " "); got != "POST DELETE" && !oneStream(t) {
		t.Errorf("cancellation and end came as %q, want POST DELETE", got)
	} else if len(order) == 0 {
		t.Error("the call was not cancelled")
	}
}

// TestShutdownRefuses: while the last calls end, new ones are not taken, and
// /readyz says so.
func TestShutdownRefuses(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	hold := newGate(t)
	server.Tool("hold", hold.holding)
	h := Start(t, Options{Upstream: to(server)}).One() // readiness is of each replica
	call := h.Open(t, CallTool("hold", nil))
	server.WaitCount("tools/call", 1)
	if code, status, _ := readiness(t, h); code != 200 || status != "ready" {
		t.Errorf("/readyz: HTTP %d %s", code, status)
	}
	h.Signal(syscall.SIGTERM)
	waitReady(t, h, "not ready")
	message := CallTool("hold", nil)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL, strings.NewReader(message.Body()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = message.Header
	if response, err := newClient(t).Do(request); err == nil {
		_ = response.Body.Close()
		if response.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a new call got HTTP %d", response.StatusCode)
		}
	}
	if code, status, reasons := readiness(t, h); code != http.StatusServiceUnavailable || status != "not ready" || len(reasons) != 1 {
		t.Errorf("/readyz: HTTP %d %s %q, want not ready", code, status, reasons)
	}
	if n := server.Count("tools/call"); n != 1 {
		t.Errorf("%d calls reached the server, want 1", n)
	}
	hold.open()
	call.Reply().Completes(t)
	h.ends(t)
}

// TestNothingIsLeft: after all kinds of calls have ended, in every way that
// they can, the process is where it was before.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("say", saying)
	server.Tool("greet", greeting)
	server.Tool("push", pushing)
	server.Tool("forever", func(c *rawserver.Call) { <-c.Context().Done() })
	server.Tool("cut", func(c *rawserver.Call) {
		c.Progress(1, 2)
		c.Cut()
		if c.WaitResumed(1) {
			c.Text("done")
		}
	})
	h := Start(t, Options{Upstream: to(server), Config: `
calls: {park_ttl: 1s, outcome_ttl: 10ms}
sessions: {idle_ttl: 10ms}
upstream: {idle_conn_ttl: 10ms}
http: {idle_timeout: 10ms}
`})
	rounds := 0
	use := func(times int) {
		for range times {
			rounds++
			token := func(m *Message) {
				Bearer(strings.Repeat("x", rounds))(m)
				Header("Connection", "close")(m) // idle connections would keep their goroutines for a while
			}
			listener := h.Open(t, listenTo(everything("x:1", "x:2"), token))
			listener.Notification(acknowledged)
			left := h.Open(t, CallTool("forever", nil, token))
			server.Wait("the call", func() bool { return server.ToolCalls("forever") == rounds })
			h.Send(t, CallTool("say", nil, token)).Completes(t)
			if cut := h.Send(t, CallTool("cut", nil, token, Progress(1))); oneStream(t) {
				cut.Fails(t, 200, -32603, "upstream_lost")
			} else {
				cut.Completes(t)
			}
			answered := h.Send(t, CallTool("greet", nil, token))
			answered.Asks(t, "elicitation-1")
			h.Retry(t, answered, Answers{"elicitation-1": Accept("name", "Ada")}).Completes(t)
			h.Send(t, CallTool("greet", nil, token)).Asks(t, "elicitation-1") // and does not come back
			left.Close()
			server.Wait("the cancellation", func() bool { return len(server.Cancelled()) >= rounds })
			listener.Close()
			reaches(t, h, "holdfast_http_connections_open", 0) // so that each use needs as many at once
		}
		for _, name := range []string{
			"holdfast_rounds_in_flight", "holdfast_calls_parked", "holdfast_listeners", "holdfast_upstream_sessions",
			"holdfast_http_streams_open",
		} {
			reaches(t, h, name, 0)
		}
		if n := len(server.Sessions()); n != 0 {
			t.Errorf("the server has %d sessions left", n)
		}
	}
	// The first use pays for what stays: workers that wait for the next
	// connection, most of all.
	use(2)
	goroutines, files := gauge(t, h, "go_goroutines"), gauge(t, h, "process_open_fds")
	use(8)
	const slack = 5 // less than one of each use
	settles(t, h, "go_goroutines", "what it was before", func(n float64) bool { return n <= goroutines+slack })
	settles(t, h, "process_open_fds", "what it was before", func(n float64) bool { return n <= files+slack })
}
