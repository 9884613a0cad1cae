package e2e

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/test/fixture/demoserver"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// stdioCommand is `holdfast run --stdio` in front of a server.
func stdioCommand(upstream Upstream, args ...string) *exec.Cmd {
	args = append([]string{"run", "--stdio", "--log-level", "debug"}, args...)
	if upstream.Command != nil {
		args = append(append(args, "--"), upstream.Command...)
	} else {
		args = append(args, "--upstream", upstream.URL)
	}
	command := exec.Command(binary, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HOLDFAST_") {
			command.Env = append(command.Env, v)
		}
	}
	return command
}

// TestStdioOfficialClient: the official modern client starts Holdfast as it
// starts any server, and everything works.
func TestStdioOfficialClient(t *testing.T) {
	t.Parallel()
	command := stdioCommand(Demo(t, demoserver.Settings{}))
	c := connectSDKOver(t, overheard(t, &mcp.CommandTransport{Command: command}), true)
	ctx, cancel := within(t)
	defer cancel()
	if got := c.InitializeResult(); got.ServerInfo.Name != "demoserver" || got.Capabilities.Tools == nil {
		t.Errorf("server/discover says %+v", got)
	}
	for _, test := range []struct {
		tool      string
		arguments map[string]any
		want      string
	}{
		{"book_table", map[string]any{"restaurant": "Pier"}, "Booked at Pier: 4 guests at 21:00. Note: Hello"},
		{"ask_twice", nil, "my name likes my colour"},
		{"ask_both", nil, "Hello, my name"},
		{"ask_url", nil, "accept"},
		{"count", map[string]any{"key": "sdk", "asks": 2}, `{"started":1,"finished":1,"answers":["my value","my value"]}`},
		{"big", map[string]any{"bytes": 1_000_000}, strings.Repeat("x", 1_000_000)},
		{"route", map[string]any{"region": "zürich", "priority": 3}, `routed {"priority":3,"region":"zürich"}`},
		{"fail", nil, "error: the kitchen is on fire"},
	} {
		if got := c.call(t, test.tool, test.arguments); got != test.want {
			t.Errorf("%s: %.200q, want %.200q", test.tool, got, test.want)
		}
	}
	for range 3 {
		if p := receive(t, "progress", c.progress); p.ProgressToken != "of book_table" {
			t.Errorf("progress of %v", p.ProgressToken)
		}
	}
	if err := c.Subscribe(ctx, &mcp.SubscribeParams{URI: "demo://board"}); err != nil {
		t.Fatal(err)
	}
	for len(c.changed) == 0 && ctx.Err() == nil { // Subscribe does not wait for the acknowledgement
		c.call(t, "touch", map[string]any{"uri": "demo://board"})
	}
	if got := receive(t, "change", c.changed); got != "demo://board" {
		t.Errorf("changed: %s", got)
	}

	calling, giveUp := context.WithCancel(ctx)
	defer giveUp()
	ended := make(chan error, 1)
	go func() {
		_, err := c.CallTool(calling, &mcp.CallToolParams{Name: "sleep", Arguments: map[string]any{"key": "sdk"}})
		ended <- err
	}()
	slept := func() string { return c.call(t, "slept", map[string]any{"key": "sdk"}) }
	for slept() != "sleeping" {
	}
	giveUp()
	if err := receive(t, "end of the call", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	for slept() != "cancelled" {
	}

	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if code := command.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// stdioProcess is one whose client is the test itself.
type stdioProcess struct {
	t       *testing.T
	command *exec.Cmd
	in      io.WriteCloser
	out     *os.File
	lines   *bufio.Scanner
	logs    *Logs
	logged  chan struct{} // closed when the log has been read to its end
	ended   chan error    // how the process ended

	dialogue *dialogue
}

func startStdio(t *testing.T, upstream Upstream, args ...string) *stdioProcess {
	t.Helper()
	p := &stdioProcess{t: t, command: stdioCommand(upstream, args...), logs: newLogs(1), logged: make(chan struct{}), ended: make(chan error, 1), dialogue: newDialogue(t)}
	var err error
	if p.in, err = p.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stderr, err := p.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	// Not StdoutPipe: Wait closes that before it is read to its end.
	out, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out, p.lines, p.command.Stdout = out, bufio.NewScanner(out), theirs
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close() // the process has its own
	go func() {
		defer close(p.logged)
		readLogs(stderr, p.logs)
	}()
	go func() {
		<-p.logged
		p.ended <- p.command.Wait()
	}()
	t.Cleanup(func() {
		_ = p.command.Process.Kill() // unless it has ended
		<-p.logged
		_ = p.out.Close()
		if t.Failed() {
			t.Logf("log:\n%s", strings.Join(p.logs.Lines(), "\n"))
		}
	})
	return p
}

func (p *stdioProcess) send(m *Message) {
	p.t.Helper()
	text := m.Body()
	p.dialogue.asks([]byte(text))
	if _, err := io.WriteString(p.in, text+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// reads returns the next line.
func (p *stdioProcess) reads() string {
	p.t.Helper()
	if err := p.out.SetReadDeadline(time.Now().Add(patience)); err != nil {
		p.t.Fatal(err)
	}
	if !p.lines.Scan() {
		p.t.Fatalf("the output has ended: %v", p.lines.Err())
	}
	p.dialogue.hears(p.lines.Bytes())
	return p.lines.Text()
}

// ends waits for the end of the process and checks how it was.
func (p *stdioProcess) ends(code int) {
	p.t.Helper()
	err := receive(p.t, "end of the process", p.ended)
	if got := p.command.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit code %d (%v), want %d", got, err, code)
	}
}

// TestStdioEndOfInput: what runs is answered, then the session and the process
// end.
func TestStdioEndOfInput(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	hold := newGate(t)
	server.Tool("hold", hold.holding)
	p := startStdio(t, to(server))
	p.send(CallTool("hold", map[string]any{"say": "x"}))
	server.Wait("the tool", func() bool { return server.ToolCalls("hold") == 1 })
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	p.logs.Wait(t, `"message":"the client has left, stopping"`)
	hold.open()
	if got := p.reads(); !strings.Contains(got, "said x") {
		t.Errorf("got %s", got)
	}
	p.ends(0)
	server.WaitEnded(1)
}

// TestStdioSignals: a signal ends what runs within the grace; one after the end
// of the input, at once.
func TestStdioSignals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		closes bool
		grace  string
	}{
		"while it serves":       {false, "200ms"},
		"after the input's end": {true, "1h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			hold := newGate(t)
			server.Tool("hold", hold.holding)
			p := startStdio(t, to(server), "--shutdown.grace", test.grace)
			p.send(CallTool("hold", nil))
			server.Wait("the tool", func() bool { return server.ToolCalls("hold") == 1 })
			if test.closes {
				if err := p.in.Close(); err != nil {
					t.Fatal(err)
				}
				p.logs.Wait(t, `"message":"the client has left, stopping"`)
			}
			if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			p.ends(0)
			if transportOf(t) == rawserver.Stdio && name != "while it serves" {
				server.WaitEnded(1) // its process was given no time to hear of anything
			} else {
				server.WaitCount("notifications/cancelled", 1)
			}
		})
	}
}

// TestStdioClientVanishes: a client that is killed takes its calls along, and no
// process is left.
func TestStdioClientVanishes(t *testing.T) {
	t.Parallel()
	for name, alsoInput := range map[string]bool{"altogether": true, "as a reader": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			hold := newGate(t)
			server.Tool("hold", hold.holding)
			p := startStdio(t, to(server))
			p.send(CallTool("hold", nil))
			server.Wait("the tool", func() bool { return server.ToolCalls("hold") == 1 })
			if alsoInput {
				if err := p.in.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.out.Close(); err != nil {
				t.Fatal(err)
			}
			server.WaitCount("notifications/cancelled", 1)
			p.logs.Wait(t, `"message":"stopped"`)
			err := receive(t, "end of the process", p.ended)
			if code := p.command.ProcessState.ExitCode(); code != 0 && code != 1 {
				t.Errorf("exit code %d (%v)", code, err)
			}
			if n := len(server.Sessions()); n != 0 {
				t.Errorf("%d sessions are left", n)
			}
		})
	}
}
