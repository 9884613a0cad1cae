package adapter

//lint:file-ignore SA1019 legacy servers use what 2026-07-28 deprecates

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/legacyhttp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// childFile is the environment variable that makes the test binary a server over
// stdio. It names a file whose absence makes some tools end the process.
const childFile = "HOLDFAST_TEST_CHILD"

func serveStdio(file string) int {
	server := sdk.NewServer(&sdk.Implementation{Name: "stdio", Version: "1"}, legacyhttp.Options(sdk.ServerOptions{}))
	type none struct{}
	tool := func(name string, harmless bool, does func(context.Context, *sdk.ServerSession) string) {
		sdk.AddTool(server, &sdk.Tool{Name: name, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: harmless}},
			func(ctx context.Context, r *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: does(ctx, r.Session)}}}, nil, nil
			})
	}
	ask := func(ctx context.Context, s *sdk.ServerSession, what string) string {
		answer, err := s.Elicit(ctx, &sdk.ElicitParams{Message: "?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"` + what + `":{"type":"string"}}}`)})
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(answer.Content[what])
	}
	dieOnce := func() {
		if _, err := os.Stat(file); err != nil {
			_ = os.WriteFile(file, nil, 0o600)
			os.Exit(7)
		}
	}
	pid := func(context.Context, *sdk.ServerSession) string { return strconv.Itoa(os.Getpid()) }
	greet := func(ctx context.Context, s *sdk.ServerSession) string {
		name := ask(ctx, s, "name")
		return ask(ctx, s, "title") + " " + name
	}
	tool("pid", true, pid)
	server.AddPrompt(&sdk.Prompt{Name: "look"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		dieOnce()
		return &sdk.GetPromptResult{Description: strconv.Itoa(os.Getpid())}, nil
	})
	tool("act", false, func(ctx context.Context, s *sdk.ServerSession) string { dieOnce(); return pid(ctx, s) })
	tool("greet", true, greet)
	tool("register", false, greet)
	tool("wait", false, func(ctx context.Context, _ *sdk.ServerSession) string {
		<-ctx.Done()
		_ = os.WriteFile(file, nil, 0o600)
		return "cancelled"
	})
	if err := server.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		return 1
	}
	return 0
}

// overStdio is a rig in front of a command, and the file that its tools know.
func overStdio(t *testing.T) (r *rig, file string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file = t.TempDir() + "/there"
	return newRig(t, func(_ *Settings, up *legacy.Settings, _ *rawserver.Settings) {
		up.Transport = legacy.TransportStdio
		up.Command = &legacy.Command{
			Path: self, Env: []string{childFile + "=" + file}, MaxLine: 1 << 20,
			Grace: 10 * time.Second, RestartMin: time.Millisecond, RestartMax: time.Second,
		}
	}), file
}

func (r *rig) pid() int {
	r.t.Helper()
	pid, err := strconv.Atoi(r.play(toolCall("pid")).text(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	return pid
}

func TestStdioCalls(t *testing.T) {
	r, _ := overStdio(t)
	pid := r.pid()
	if again := r.pid(); again != pid {
		t.Errorf("two calls ran on processes %d and %d", pid, again)
	}
	q := toolCall("register")
	first := r.play(q)
	if got := first.asked(t); got != "elicitation-1" {
		t.Fatalf("asked %q", got)
	}
	if beside := r.pid(); beside == pid {
		t.Error("a call that can be asked ran beside one that waits for an answer")
	}
	second := r.play(q.retry(first, accept("elicitation-1", "name", "Ada")))
	last := r.play(q.retry(second, accept(second.asked(t), "title", "Dr")))
	if got := last.text(t); got != "Dr Ada" {
		t.Errorf("got %q", got)
	}
	if n := r.upstreams()["up"].Server.Sessions(); n != 2 {
		t.Errorf("there are %d processes, want 2", n)
	}
}

func TestStdioCallIsCancelled(t *testing.T) {
	r, file := overStdio(t)
	pid := r.pid()
	v := r.mustBegin(toolCall("wait"))
	if _, err := v.Next(time.Now().Add(20 * time.Millisecond)); err == nil {
		t.Error("it has ended")
	}
	v.Gone()
	v.close()
	eventually(t, "the tool to be cancelled", func() bool { _, err := os.Stat(file); return err == nil })
	if again := r.pid(); again != pid {
		t.Errorf("a process %d has replaced %d", again, pid)
	}
}

// A call whose process dies runs again if it may, and else ends with an error
// that says so.
func TestStdioProcessDiesDuringACall(t *testing.T) {
	t.Run("harmless", func(t *testing.T) {
		r, _ := overStdio(t)
		pid := r.pid()
		o := r.play(query{method: mcp.MethodPromptsGet, params: `"name":"look"`})
		if got, _ := jsonrpc.Unquote(jsonrpc.Get(o.Result, "description")); got == strconv.Itoa(pid) || got == "" {
			t.Errorf("it ran again on process %q", got)
		}
	})
	t.Run("not harmless", func(t *testing.T) {
		r, _ := overStdio(t)
		r.pid()
		if refusal := r.refused(toolCall("act"), ReasonUpstreamLost); !refusal.MayHaveRun || !strings.Contains(refusal.Error(), "exit status 7") {
			t.Errorf("the refusal is %v, may have run: %v", refusal, refusal.MayHaveRun)
		}
		r.pid()
	})
}

func TestStdioProcessDiesWhileACallIsParked(t *testing.T) {
	for tool, again := range map[string]bool{"greet": true, "register": false} {
		t.Run(tool, func(t *testing.T) {
			r, _ := overStdio(t)
			pid := r.pid()
			q := toolCall(tool)
			first := r.play(q)
			second := r.play(q.retry(first, accept("elicitation-1", "name", "Ada")))
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the session to be off the books", func() bool { return r.upstreams()["up"].Server.Sessions() == 0 })
			q = q.retry(second, accept(second.asked(t), "title", "Dr"))
			if !again {
				if refusal := r.refused(q, ReasonUpstreamLost); !refusal.MayHaveRun {
					t.Errorf("the refusal is %v", refusal)
				}
				return
			}
			if got := r.play(q).text(t); got != "Dr Ada" {
				t.Errorf("got %q", got)
			}
		})
	}
}
