package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// newChild starts a server that is reached through processes, whatever the run
// is about.
func newChild(t testing.TB) *rawserver.Server {
	t.Helper()
	return newServer(t, rawserver.Settings{Transport: rawserver.Stdio})
}

// named is a configuration with one upstream that has a name.
func named(name string, u Upstream, rest string) Options {
	return Options{Config: "upstreams: [{name: " + name + ", " + u.YAML() + "}]\n" + rest}
}

// TestChildTalks: what a process says that is no message is logged, with its
// upstream's name, and does no harm.
func TestChildTalks(t *testing.T) {
	t.Parallel()
	server := newChild(t)
	server.Tool("say", saying)
	h := Start(t, named("files", to(server, "-banner", "Welcome to files 1.0", "-banner", `{"log":"ready"}`, "-stderr", "loading", "-stderr", "loaded"), ""))
	if got := h.Send(t, CallTool("say", map[string]any{"say": "x"})).Text(t); got != "said x" {
		t.Errorf("got %q", got)
	}
	for _, line := range []string{"loading", "loaded"} {
		h.Logs.Wait(t, `"upstream":"files"`, "said on standard error", `"line":"`+line+`"`, `"pid":`)
	}
	// What looks like a message may hold what is nobody's business: its size must do.
	for _, told := range []string{"Welcome to files 1.0", `"bytes":15`} {
		h.Logs.Wait(t, `"level":"warn"`, `"upstream":"files"`, "skipped what is no message", told)
	}
}

// TestChildCommand: `holdfast run` and the configuration start the same.
func TestChildCommand(t *testing.T) {
	t.Parallel()
	server := newChild(t)
	server.Tool("greet", greeting)
	for name, o := range map[string]Options{
		"run":    {Upstream: to(server), Run: true},
		"config": {Upstream: to(server)},
	} {
		h := StartOne(t, o)
		first := h.Send(t, CallTool("greet", nil))
		first.Asks(t, "elicitation-1")
		if got := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Text(t); got != "Hello Ada" {
			t.Errorf("%s: got %q", name, got)
		}
	}
	for name, args := range map[string][]string{
		"no command":            {"run"},
		"a variable's value":    {"run", "--env", "A=b", "--", "true"},
		"both sides":            {"run", "--stdio", "--listen", "127.0.0.1:0", "--", "true"},
		"variables for nothing": {"run", "--stdio", "--env", "A", "--upstream", "http://127.0.0.1:1/mcp"},
	} {
		if code, out := runs(t, nil, args...); code != 2 || !strings.Contains(out, "holdfast help run") {
			t.Errorf("%s: exit code %d\n%s", name, code, out)
		}
	}
}

// TestChildDies: a process that ends in mid-call takes the call along, unless
// that may run twice; the next call has a new process.
func TestChildDies(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		annotations string
		again       bool
	}{
		"may have run": {`{}`, false},
		"destructive":  {`{"destructiveHint":true}`, false},
		"read-only":    {`{"readOnlyHint":true}`, true},
		"idempotent":   {`{"idempotentHint":true}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newChild(t)
			runs := make(chan struct{}, 1)
			runs <- struct{}{}
			server.Declare("work", `{"name":"work","inputSchema":{"type":"object"},"annotations":`+test.annotations+`}`, func(c *rawserver.Call) {
				select {
				case <-runs:
					c.Cut()
				default:
					c.Text("worked")
				}
			})
			h := Start(t, Options{Upstream: to(server, "-code", "7", "-stderr", "starting")})
			reply := h.Send(t, CallTool("work", nil))
			calls := 1
			if test.again {
				calls = 2
				if got := reply.Text(t); got != "worked" {
					t.Errorf("got %q", got)
				}
			} else {
				reply.Fails(t, 200, -32603, "upstream_lost")
				if !mayHaveRun(t, reply) {
					t.Errorf("the error does not say that the call may have run: %s", reply.Body)
				}
			}
			if n := server.ToolCalls("work"); n != calls {
				t.Errorf("the tool was called %d times, want %d", n, calls)
			}
			h.Logs.Wait(t, `"level":"warn"`, "its process has ended: exit status 7", "starting")
			if got := h.Send(t, CallTool("work", nil)).Text(t); got != "worked" {
				t.Errorf("the next call got %q", got)
			}
			if n := server.Count("initialize"); n != 2 {
				t.Errorf("%d processes were started, want 2", n)
			}
		})
	}
}

// TestChildKeepsDying: a command that is no good is started ever more seldom, and
// whoever looks is told what its processes said last.
func TestChildKeepsDying(t *testing.T) {
	t.Parallel()
	server := newChild(t)
	h := StartOne(t, named("files", to(server, "-die-in", "0", "-code", "3", "-stderr", "no such directory: /srv/files"),
		"stdio: {restart_min: 10ms}\nsessions: {open_timeout: 2s}"))
	code, status, reasons := readiness(t, h)
	for give := time.Now().Add(patience); len(reasons) == 1 && reasons[0] == "not listening yet" && time.Now().Before(give); {
		code, status, reasons = readiness(t, h)
	}
	if code != 200 || status != "ready" {
		t.Errorf("HTTP %d %s %q before anybody has called, want ready", code, status, reasons)
	}
	for range 3 {
		reply := h.Send(t, Request("tools/list", nil))
		reply.Fails(t, 200, -32603, "upstream_down")
		if mayHaveRun(t, reply) {
			t.Error("the call is said to have run perhaps, but nobody got it")
		}
	}
	code, status, reasons = readiness(t, h)
	if code != http.StatusServiceUnavailable || status != "not ready" || len(reasons) != 1 || !strings.Contains(reasons[0], "files") {
		t.Errorf("HTTP %d %s %q, want not ready, and which", code, status, reasons)
	}
	has(t, "the reason", reasons[0], "3 processes in a row have ended", "exit status 3", "no such directory: /srv/files", "!\n")
	h.Logs.Wait(t, `"message":"request refused"`, `"cause":`, "exit status 3", "no such directory: /srv/files")
	h.Logs.Wait(t, `"level":"warn"`, "exit status 3", "no such directory: /srv/files")
	h.Logs.Wait(t, "readiness check", "3 processes in a row have ended", "exit status 3", "no such directory: /srv/files")
}

// TestChildBackOff: nobody waits for a start that is later than a session may take
// to open.
func TestChildBackOff(t *testing.T) {
	t.Parallel()
	server := newChild(t)
	h := StartOne(t, named("files", to(server, "-die-in", "0", "-stderr", "out of order"), "stdio: {restart_min: 10m, restart_max: 10m}"))
	for range 3 {
		h.Send(t, Request("tools/list", nil)).Fails(t, 200, -32603, "upstream_down")
	}
	if n := h.Logs.Count("said on standard error"); n != 2 {
		t.Errorf("%d processes were started, want 2: the third is to come in ten minutes", n)
	}
}

// TestChildBrokenMessage: a message that is broken, or longer than stdio.max_line,
// fails its call, not its process.
func TestChildBrokenMessage(t *testing.T) {
	t.Parallel()
	server := newChild(t)
	server.Tool("broken", func(c *rawserver.Call) { c.Send(`{"jsonrpc":"2.0","id":` + string(c.ID) + `,"result":{"content":[}}`) })
	server.Tool("long", func(c *rawserver.Call) { c.Text(strings.Repeat("x", 200<<10)) })
	server.Tool("list", func(c *rawserver.Call) { c.Send(c.ResultText(`[]`)) })
	server.Tool("longest", func(c *rawserver.Call) { // its id comes last
		c.Send(`{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 2<<20) + `"}]},"id":` + string(c.ID) + `}`)
	})
	server.Tool("say", saying)
	h := Start(t, Options{Upstream: to(server), Config: "stdio: {max_line: 64KiB}"})
	for _, tool := range []string{"broken", "long", "longest", "list"} {
		reply := h.Send(t, CallTool(tool, nil))
		reply.Fails(t, 200, -32603, "upstream_reply")
		if !mayHaveRun(t, reply) {
			t.Errorf("%s: the error does not say that the call may have run", tool)
		}
		if got := h.Send(t, CallTool("say", map[string]any{"say": tool})).Text(t); got != "said "+tool {
			t.Errorf("the next call got %q", got)
		}
	}
	reaches(t, h, "holdfast_http_errors_total", 4)
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d processes, want the first to go on", n)
	}
}

// TestChildEnvironment: a process gets a few variables, and what is named.
func TestChildEnvironment(t *testing.T) {
	t.Parallel()
	server := newChild(t)
	command := to(server).Command
	tells := Upstream{Command: append([]string{"sh", "-c", `env >&2; echo dir=$(pwd) >&2; echo end >&2; exec "$@"`, "sh"}, command...)}
	dir := t.TempDir()
	env := []string{"TZ=Europe/Rome", "API_TOKEN=t0ken", "OTHER=other", "HOLDFAST_LOG__FORMAT=json"}
	for name, test := range map[string]struct {
		o    Options
		want []string
	}{
		"run": {Options{Run: true, Upstream: tells, Args: []string{"--env", "API_TOKEN"}},
			[]string{"API_TOKEN=t0ken", "TZ=Europe/Rome", "PATH=", "!OTHER=", "!HOLDFAST_"}},
		"run, nothing named": {Options{Run: true, Upstream: tells},
			[]string{"!API_TOKEN=", "TZ=Europe/Rome", "PATH=", "!OTHER=", "!HOLDFAST_"}},
		"config": {Options{Config: "upstreams: [{" + tells.YAML() + ", dir: " + yamlText(dir) + ", env: {MODE: fast, TZ: UTC}}]"},
			[]string{"MODE=fast", "TZ=UTC", "PATH=", "!API_TOKEN=", "!OTHER=", "!HOLDFAST_", "dir=" + dir}},
		"config, a list": {Options{Config: "upstreams: [{" + tells.YAML() + ", env: [MODE=fast, API_TOKEN]}]"},
			[]string{"MODE=fast", "API_TOKEN=t0ken", "TZ=Europe/Rome", "!OTHER=", "!HOLDFAST_"}},
		"inherited": {Options{Config: "upstreams: [{" + tells.YAML() + ", inherit_env: true, env: {MODE: fast}}]"},
			[]string{"MODE=fast", "API_TOKEN=t0ken", "OTHER=other", "TZ=Europe/Rome", "!HOLDFAST_"}},
	} {
		t.Run(name, func(t *testing.T) {
			test.o.Env = env
			h := StartOne(t, test.o)
			h.Send(t, Request("tools/list", nil)).Completes(t)
			h.Logs.Wait(t, "said on standard error", `"line":"end"`)
			for _, want := range test.want {
				name, absent := strings.CutPrefix(want, "!")
				if got := h.Logs.Count("said on standard error", `"line":"`+name) > 0; got == absent {
					t.Errorf("the process has %s: %v, want %v", name, got, !absent)
				}
			}
		})
	}
}

// TestChildrenEnd: no process outlives Holdfast, however that ends, and whatever
// the process does not listen to; nor, unless Holdfast is killed, does what it
// has started.
func TestChildrenEnd(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"well-behaved":       nil,
		"deaf to the end":    {"-ignore-end"},
		"deaf to signals":    {"-ignore-end", "-ignore-term"},
		"with a child":       {"-leave", "same"},
		"with a deaf child":  {"-leave", "same", "-ignore-term", "-ignore-end"},
		"dead, with a child": {"-leave", "same", "-die-out", "4"},
		"killed":             {"-ignore-end", "-ignore-term"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newChild(t)
			server.Tool("say", saying)
			hold := newGate(t)
			server.Tool("hold", hold.holding)
			h := StartOne(t, Options{Upstream: to(server, flags...), Config: "{stdio: {grace: 200ms}, shutdown: {grace: 3s}}"})
			for _, who := range []string{"a", "b"} {
				h.Send(t, CallTool("say", nil, Bearer(who)))
			}
			if strings.HasPrefix(name, "killed") {
				h.Kill()
			} else {
				h.Stop()
			}
			server.Wait("the end of all processes", func() bool { return server.Bridges() == 0 })
		})
	}
}

// TestChildrenEndInMidCall: likewise while calls run and are parked.
func TestChildrenEndInMidCall(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]bool{"SIGTERM": false, "SIGKILL": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newChild(t)
			hold := newGate(t)
			server.Tool("hold", hold.holding)
			server.Tool("greet", greeting)
			h := StartOne(t, Options{Upstream: to(server), Run: true, Args: []string{"--shutdown.grace", "1s"}})
			h.Send(t, CallTool("greet", nil, Bearer("a"))).Asks(t, "elicitation-1")
			h.Open(t, CallTool("hold", nil, Bearer("b")))
			server.Wait("the call", func() bool { return server.ToolCalls("hold") == 1 })
			if n := server.Bridges(); n != 2 {
				t.Errorf("%d processes, want 2", n)
			}
			if kill {
				h.Kill()
			} else {
				h.Stop()
			}
			server.Wait("the end of all processes", func() bool { return server.Bridges() == 0 })
		})
	}
}

// TestProcessesAreLimited: sessions.max is how many processes there are; who
// comes when that is reached waits its turn behind those who came before, and is
// told when that takes too long.
func TestProcessesAreLimited(t *testing.T) {
	t.Parallel()
	server := newChild(t)
	server.Tool("greet", greeting)
	h := StartOne(t, Options{Upstream: to(server), Config: "sessions: {max: 2, queue: 3, queue_timeout: 1h}"})
	var parked []*Reply
	for range 2 {
		first := h.Send(t, CallTool("greet", nil))
		first.Asks(t, "elicitation-1")
		parked = append(parked, first)
	}
	var waiting []*Stream
	for i := range 3 {
		waiting = append(waiting, h.Open(t, CallTool("greet", map[string]any{"n": i})))
		h.Logs.Wait(t, "call waits for a session", fmt.Sprintf(`"waiting":%d`, i+1))
	}
	overloaded(t, h.Send(t, CallTool("greet", nil)), http.StatusServiceUnavailable, "overload")
	h.Send(t, Request("tools/list", nil)).Completes(t) // needs none of its own
	if n := server.Bridges(); n != 2 {
		t.Errorf("%d processes, want 2", n)
	}
	ada := Answers{"elicitation-1": Accept("name", "Ada")}
	h.Retry(t, parked[0], ada).Completes(t)
	for i, stream := range waiting {
		first := stream.Reply()
		first.Asks(t, "elicitation-1")
		if got := string(at(server.Received("tools/call")[2+i].Params, "arguments", "n")); got != fmt.Sprint(i) {
			t.Errorf("call %s came after %d others, want first come, first served", got, i)
		}
		h.Retry(t, first, ada).Completes(t)
	}
	h.Retry(t, parked[1], ada).Completes(t)
	if n := server.Count("initialize"); n != 2 {
		t.Errorf("%d processes were started, want 2", n)
	}
}

// TestProcessQueueTimeout: a call does not wait for a process for ever.
func TestProcessQueueTimeout(t *testing.T) {
	t.Parallel()
	server := newChild(t)
	server.Tool("greet", greeting)
	h := StartOne(t, Options{Upstream: to(server), Config: "sessions: {max: 1, queue_timeout: 50ms}"})
	first := h.Send(t, CallTool("greet", nil))
	first.Asks(t, "elicitation-1")
	late := h.Send(t, CallTool("greet", nil))
	overloaded(t, late, http.StatusServiceUnavailable, "overload")
	if mayHaveRun(t, late) {
		t.Error("the call is said to have run perhaps")
	}
	h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Completes(t)
}

// TestScopes: whose calls share a process.
func TestScopes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		processes int // for two calls of each of two principals, one after the other
		left      int // of them, afterwards
	}{
		"principal": {2, 2},
		"shared":    {1, 1},
		"call":      {4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newChild(t)
			server.Tool("say", saying)
			server.Tool("greet", greeting)
			h := Start(t, Options{Upstream: to(server), Config: "sessions: {scope: " + name + "}"})
			for range 2 {
				for _, who := range []string{"a", "b"} {
					h.Send(t, CallTool("say", nil, Bearer(who))).Completes(t)
				}
			}
			if n := server.Count("initialize"); n != test.processes {
				t.Errorf("%d processes for two calls of each of two principals, want %d", n, test.processes)
			}
			server.Wait("processes of ended calls to end", func() bool { return server.Bridges() == test.left })
			// At one time no two calls that may be asked something are on one.
			var parked []*Reply
			for _, who := range []string{"a", "b"} {
				first := h.Send(t, CallTool("greet", nil, Bearer(who)))
				first.Asks(t, "elicitation-1")
				parked = append(parked, first)
			}
			if ids := sessionsOf(server, "tools/call"); ids[4] == ids[5] {
				t.Errorf("two principals' calls are on one process at a time")
			}
			for i, who := range []string{"a", "b"} {
				h.Retry(t, parked[i], Answers{"elicitation-1": Accept("name", "of b")}, Bearer([]string{"b", "a"}[i])).Fails(t, 400, -32602, "")
				got := h.Retry(t, parked[i], Answers{"elicitation-1": Accept("name", "of "+who)}, Bearer(who)).Text(t)
				if got != "Hello of "+who {
					t.Errorf("%s got %q", who, got)
				}
			}
		})
	}
}

// TestListsBesideEachOther: what cannot be asked anything runs on the process that
// there is, beside a call that waits for its client.
func TestListsBesideEachOther(t *testing.T) {
	t.Parallel()
	server := newChild(t)
	server.Tool("greet", greeting)
	hold := newGate(t)
	server.Tool("hold", hold.holding)
	server.Handle("prompts/list", func(c *rawserver.Call) {
		<-hold
		c.Result(`{"prompts":[]}`)
	})
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("greet", nil))
	first.Asks(t, "elicitation-1")
	const lists = 8
	var streams []*Stream
	for range lists {
		streams = append(streams, h.Open(t, Request("prompts/list", nil)))
	}
	server.WaitCount("prompts/list", lists) // all at once
	hold.open()
	for _, s := range streams {
		s.Reply().Completes(t)
	}
	if n := server.Bridges(); n != 1 {
		t.Errorf("%d processes, want 1", n)
	}
	h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Completes(t)

	again := newGate(t)
	server.Tool("hold", again.holding)
	streams = nil
	for range lists { // of clients that can answer nothing
		streams = append(streams, h.Open(t, CallTool("hold", map[string]any{"say": "x"}, Caps(NoCapabilities))))
	}
	server.Wait("the calls", func() bool { return server.ToolCalls("hold") == lists })
	again.open()
	for _, s := range streams {
		if got := s.Reply().Text(t); got != "said x" {
			t.Errorf("got %q", got)
		}
	}
	if n := server.Count("initialize"); n != 2 {
		t.Errorf("%d processes were started, want one for each set of capabilities", n)
	}
}

// TestOneProcessOfAll: with three replicas a principal has one process, wherever
// its requests arrive, and that goes on with its state.
func TestOneProcessOfAll(t *testing.T) {
	t.Parallel()
	server := newChild(t)
	server.Tool("greet", greeting)
	server.Tool("say", saying)
	h := StartFleet(t, Options{Upstream: to(server)})
	for i := range 2 * h.Size() {
		for _, who := range []string{"a", "b"} {
			h.Replica(i%h.Size()).Send(t, Request("tools/list", nil, Bearer(who))).Completes(t)
			if got := h.Replica(i%h.Size()).Send(t, CallTool("say", map[string]any{"say": who}, Bearer(who))).Text(t); got != "said "+who {
				t.Errorf("got %q", got)
			}
			first := h.Replica((i+1)%h.Size()).Send(t, CallTool("greet", nil, Bearer(who)))
			first.Asks(t, "elicitation-1")
			last := h.Replica((i+2)%h.Size()).Retry(t, first, Answers{"elicitation-1": Accept("name", who)}, Bearer(who))
			if got := last.Text(t); got != "Hello "+who {
				t.Errorf("got %q", got)
			}
		}
	}
	if n := server.Count("initialize"); n != 2 {
		t.Errorf("%d processes were started, want one for each principal", n)
	}
	if n := server.Bridges(); n != 2 {
		t.Errorf("%d processes, want 2", n)
	}
}
