package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// serverKind is what a server is made of.
type serverKind struct {
	name string
	// make starts a server that speaks a transport and, at the newest, a revision.
	make func(t *testing.T, transport rawserver.Transport, revision mcp.Revision) Upstream
	// instead are steps of core, by name, that such servers cannot play over a
	// transport, and what is played in their place. It may be nil.
	instead func(transport rawserver.Transport) map[string]play
}

// play is what is done in a step.
type play func(t *testing.T, h *Holdfast, revision mcp.Revision)

// kinds are what the servers of the table are made of. Each offers the same
// tools, see test/fixture/sdkserver.
var kinds = []serverKind{
	{"made by hand", rawTable, nil},
	{"official Go SDK", sdkTable, nil},
	{"mcp-go", mcpgoTable, mcpgoInstead},
}

// TestEveryServer is the table: what a client needs most works with every server
// over every transport, in every revision.
func TestEveryServer(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		for _, transport := range []rawserver.Transport{rawserver.Streamable, rawserver.SSE, rawserver.Stdio} {
			for revision := mcp.R20241105; revision.Legacy(); revision++ {
				name := fmt.Sprintf("%s/%s/%s", kind.name, transportNames[transport], revision)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					if transport == rawserver.Streamable {
						onlyStreamable(t, "the table says over what")
					}
					var instead map[string]play
					if kind.instead != nil {
						instead = kind.instead(transport)
					}
					h := Start(t, Options{Upstream: kind.make(t, transport, revision)})
					for _, step := range core {
						run, name := step.run, step.what
						if other := instead[step.what]; other != nil {
							run, name = other, step.what+", as it can"
							delete(instead, step.what)
						}
						if step.since <= revision {
							t.Run(name, func(t *testing.T) { run(t, h, revision) })
						}
					}
					for what := range instead {
						t.Errorf("core has no step %q that could be played otherwise", what)
					}
				})
			}
		}
	}
}

var transportNames = map[rawserver.Transport]string{rawserver.Streamable: "Streamable HTTP", rawserver.SSE: "HTTP+SSE", rawserver.Stdio: "stdio"}

// core is what the table plays, in this order.
var core = []struct {
	what  string
	since mcp.Revision
	run   play
}{
	{"discover", 0, func(t *testing.T, h *Holdfast, _ mcp.Revision) {
		reply := h.Send(t, Request("server/discover", nil))
		reply.Completes(t)
		has(t, "the result", string(reply.Result), `"supportedVersions":["2026-07-28"]`, `"tools":{`, `"resources":{`)
	}},
	{"list", 0, func(t *testing.T, h *Holdfast, _ mcp.Revision) {
		reply := h.Send(t, Request("tools/list", nil))
		reply.Completes(t)
		has(t, "the list", string(reply.Result), `"name":"echo"`, `"name":"sample"`, `"inputSchema":{`)
		h.Send(t, Request("prompts/list", nil)).Completes(t)
		h.Send(t, Request("resources/list", nil)).Completes(t)
	}},
	{"call", 0, func(t *testing.T, h *Holdfast, _ mcp.Revision) {
		if got := h.Send(t, CallTool("echo", map[string]any{"text": "grüß dich\n"})).Text(t); got != "grüß dich\n" {
			t.Errorf("got %q", got)
		}
	}},
	{"structured result", mcp.R20250618, func(t *testing.T, h *Holdfast, _ mcp.Revision) {
		reply := h.Send(t, CallTool("echo", map[string]any{"text": "x"}))
		if got := at(reply.Result, "structuredContent"); !sameJSON(t, got, []byte(`{"text":"x"}`)) {
			t.Errorf("got %s", got)
		}
	}},
	{"elicitation", mcp.R20250618, func(t *testing.T, h *Holdfast, _ mcp.Revision) {
		first := h.Send(t, CallTool("elicit", map[string]any{}))
		first.Asks(t, "elicitation-1")
		if got := h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Text(t); got != "Hello Ada" {
			t.Errorf("got %q", got)
		}
	}},
	{"sampling", 0, func(t *testing.T, h *Holdfast, _ mcp.Revision) {
		first := h.Send(t, CallTool("sample", map[string]any{"text": "a"}))
		first.Asks(t, "sampling-1")
		if got := h.Retry(t, first, Answers{"sampling-1": Said("b")}).Text(t); got != "a: b" {
			t.Errorf("got %q", got)
		}
	}},
	{"roots", 0, func(t *testing.T, h *Holdfast, _ mcp.Revision) {
		first := h.Send(t, CallTool("roots", map[string]any{}))
		first.Asks(t, "roots-1")
		if got := h.Retry(t, first, Answers{"roots-1": Roots("file:///r")}).Text(t); got != "file:///r" {
			t.Errorf("got %q", got)
		}
	}},
	{"progress", 0, func(t *testing.T, h *Holdfast, _ mcp.Revision) {
		reply := h.Send(t, CallTool("progress", map[string]any{}, Progress("mine")))
		if got := reply.Text(t); got != "done" {
			t.Errorf("got %q", got)
		}
		notes := reply.Notifications("notifications/progress")
		if len(notes) != 2 {
			t.Fatalf("%d notifications, want 2: %s", len(notes), reply.Body)
		}
		for i, n := range notes {
			has(t, "the notification", string(n.Params), `"progressToken":"mine"`, fmt.Sprintf(`"progress":%d`, i+1))
		}
	}},
	{"log", 0, func(t *testing.T, h *Holdfast, _ mcp.Revision) {
		for level, want := range map[string][]string{"": nil, "warning": {`"at error"`}, "debug": {`"at debug"`, `"at error"`}} {
			var changes []func(*Message)
			if level != "" {
				changes = append(changes, Level(level))
			}
			reply := h.Send(t, CallTool("log", map[string]any{}, changes...))
			reply.Completes(t)
			notes := reply.Notifications("notifications/message")
			if len(notes) != len(want) {
				t.Fatalf("%d messages with level %q, want %d: %s", len(notes), level, len(want), reply.Body)
			}
			for i, n := range notes {
				if got := string(at(n.Params, "data")); got != want[i] {
					t.Errorf("got %s, want %s", got, want[i])
				}
			}
		}
	}},
	{"error", 0, func(t *testing.T, h *Holdfast, _ mcp.Revision) {
		reply := h.Send(t, CallTool("fail", map[string]any{}))
		reply.Completes(t)
		has(t, "the result", string(reply.Result), `"isError":true`, "out of soup")
		reply = h.Send(t, CallTool("none", map[string]any{}))
		if reply.Error == nil || reply.Error.Code != -32602 || reply.Error.Reason() != "" {
			t.Errorf("got %s, want the server's own error", reply.Body)
		}
		h.Send(t, Request("resources/read", map[string]any{"uri": "note://none"})).Fails(t, 200, -32602, "")
	}},
	{"cancel", 0, func(t *testing.T, h *Holdfast, _ mcp.Revision) {
		slept := func() string {
			return h.Send(t, CallTool("slept", map[string]any{"key": "x"}, Caps(NoCapabilities))).Text(t)
		}
		call := h.Open(t, CallTool("sleep", map[string]any{"key": "x"}, Caps(NoCapabilities))) // on the same session as slept
		for slept() != "sleeping" {
		}
		call.Close()
		for slept() != "cancelled" {
		}
	}},
	{"listen", 0, func(t *testing.T, h *Holdfast, _ mcp.Revision) {
		stream := h.Open(t, listenTo(everything("note://1")))
		stream.Notification(acknowledged)
		for range 2 {
			h.Send(t, CallTool("touch", map[string]any{})).Completes(t)
			has(t, "the notification", string(stream.Notification("notifications/resources/updated").Params), `"uri":"note://1"`)
		}
		stream.Close()
	}},
	{"parallel calls", 0, func(t *testing.T, h *Holdfast, _ mcp.Revision) {
		const calls = 4
		var streams [calls]*Stream
		for i := range streams {
			streams[i] = h.Open(t, CallTool("sample", map[string]any{"text": fmt.Sprint(i)}, ID("same")))
		}
		for i, s := range streams {
			first := s.Reply()
			first.Asks(t, "sampling-1")
			has(t, "the question", string(first.Inputs["sampling-1"].Params), fmt.Sprintf(`"text":"%d"`, i))
			if got, want := h.Retry(t, first, Answers{"sampling-1": Said("for " + fmt.Sprint(i))}).Text(t), fmt.Sprintf("%d: for %d", i, i); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}},
}

// rawTable is a server made by hand that says only what its revision has.
func rawTable(t *testing.T, transport rawserver.Transport, revision mcp.Revision) Upstream {
	server := newServer(t, rawserver.Settings{Transport: transport, Version: revision.String()})
	const echo = `{"name":"echo","description":"Says what it is told","inputSchema":{"type":"object"}`
	if revision >= mcp.R20250618 {
		server.Declare("echo", echo+`,"outputSchema":{"type":"object"}}`, func(c *rawserver.Call) {
			c.Result(`{"content":[{"type":"text","text":` + jsonText(c.Argument("text")) + `}],"structuredContent":` + string(c.Arguments()) + `}`)
		})
	} else {
		server.Declare("echo", echo+"}", func(c *rawserver.Call) { c.Text(c.Argument("text")) })
	}
	server.Tool("fail", func(c *rawserver.Call) {
		c.Result(`{"isError":true,"content":[{"type":"text","text":"out of soup"}]}`)
	})
	server.Tool("elicit", greeting)
	server.Tool("sample", func(c *rawserver.Call) {
		said := c.Argument("text")
		c.Text(said + ": " + c.Ask("sampling/createMessage",
			`{"maxTokens":9,"messages":[{"role":"user","content":{"type":"text","text":`+jsonText(said)+`}}]}`).Content("text"))
	})
	server.Tool("roots", func(c *rawserver.Call) {
		var list []struct{ URI string }
		if err := json.Unmarshal(at(c.Ask("roots/list", "").Result, "roots"), &list); err != nil || len(list) != 1 {
			c.Error(-32000, "no root", "")
			return
		}
		c.Text(list[0].URI)
	})
	server.Tool("progress", func(c *rawserver.Call) {
		c.Progress(1, 2)
		c.Progress(2, 2)
		c.Text("done")
	})
	server.Tool("log", func(c *rawserver.Call) {
		c.Log("debug", "at debug")
		c.Log("error", "at error")
		c.Text("logged")
	})
	var mu sync.Mutex
	state := ""
	become := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		state = s
	}
	server.Tool("sleep", func(c *rawserver.Call) {
		become("sleeping")
		<-c.Cancelled()
		become("cancelled")
	})
	server.Tool("slept", func(c *rawserver.Call) {
		mu.Lock()
		defer mu.Unlock()
		c.Text(state)
	})
	server.Tool("touch", func(c *rawserver.Call) {
		c.Session.Notify("notifications/resources/updated", `{"uri":"note://1"}`)
		c.Text("touched")
	})
	server.Handle("resources/read", func(c *rawserver.Call) { c.Error(-32002, "Resource not found", "") })
	return to(server)
}

// sdkserver and mcpgoserver are programs, each built by the first test that
// needs it.
var (
	sdkserver   = sync.OnceValues(func() (string, error) { return built("sdkserver") })
	mcpgoserver = sync.OnceValues(func() (string, error) { return built("mcpgoserver") })
)

// built builds the fixture of a name.
func built(name string) (string, error) {
	path := filepath.Join(filepath.Dir(binary), name)
	return path, build(path, "github.com/holdfast-mcp/holdfast/test/fixture/"+name)
}

// sdkTable is a process of a server of the official SDK.
func sdkTable(t *testing.T, transport rawserver.Transport, revision mcp.Revision) Upstream {
	path, err := sdkserver()
	if err != nil {
		t.Fatal(err)
	}
	return program(t, path, transport, revision)
}

// program is one that Holdfast starts, or one that listens.
func program(t *testing.T, path string, transport rawserver.Transport, revision mcp.Revision) Upstream {
	kind := map[rawserver.Transport]string{rawserver.Streamable: "http", rawserver.SSE: "sse", rawserver.Stdio: "stdio"}[transport]
	args := []string{"-transport", kind, "-version", revision.String()}
	if transport == rawserver.Stdio {
		return Upstream{Command: append([]string{path}, args...)}
	}
	command := exec.Command(path, args...)
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		if err := command.Wait(); err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return atURL(strings.TrimSpace(url))
}
