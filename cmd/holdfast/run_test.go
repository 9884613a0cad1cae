package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/config"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

func TestWrongCommandLinesOfRun(t *testing.T) {
	two := writeFile(t, "upstreams: [{url: 'http://a'}, {url: 'http://b', name: b, path: /b}]")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"run"}, "no command: holdfast run [flags] -- COMMAND"},
		{[]string{"run", "--upstream", "http://a"}, "no command"},
		{[]string{"run", "--stdio"}, "--stdio serves one server, and 0 are given"},
		{[]string{"run", "--stdio", "--config", two}, "and 2 are given"},
		{[]string{"run", "--stdio", "--env", "A", "--upstream", "http://a"}, "--env is for a command"},
		{[]string{"run", "--stdio", "--listen", ":1", "--", "a"}, "--listen and --stdio: use one of the two"},
		{[]string{"run", "--upstream", "http://a", "--", "b"}, "--upstream: the command line has a command too"},
		{[]string{"run", "--config", two, "--", "b"}, "the file has upstreams; use one of the two"},
		{[]string{"run", "--env", "A=s3cret", "--", "b"}, "takes the name of a variable"},
		{[]string{"run", "--env", "A B", "--", "b"}, "names of variables"},
		{[]string{"run", "--calls.timeout", "5", "--", "b"}, `calls.timeout: "5"`},
		{[]string{"run", "--", ""}, "upstreams[0].url"},
	} {
		code, stdout, stderr := holdfast(t, nil, test.args...)
		if code != exitMisused || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("holdfast %q: exit code %d, stdout %q, stderr %q; want %d and %q", test.args, code, stdout, stderr, exitMisused, test.want)
		}
	}
}

// TestRunOnStreams: what comes on standard input is answered on standard output,
// the log goes elsewhere, and the end of the input is the end.
func TestRunOnStreams(t *testing.T) {
	raw := rawserver.New(t, rawserver.Settings{})
	raw.Tool("say", func(c *rawserver.Call) { c.Text("said") })
	input := `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"say","_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n"
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"run", "--stdio", "--upstream", raw.URL, "--admin", "127.0.0.1:0"}, nil, strings.NewReader(input), &stdout, &stderr)
	if got := stdout.String(); code != exitDone || !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":"a","result":{"resultType":"complete"`) ||
		!strings.Contains(got, `"said"`) || strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "\n") {
		t.Errorf("exit code %d, stdout %q", code, got)
	}
	for _, want := range []string{`"message":"serving"`, `"message":"admin listening"`, `"message":"the client has left, stopping"`, `"message":"stopped"`} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%s is not in the log:\n%s", want, &stderr)
		}
	}
	if n := raw.HTTPCount("DELETE"); n != 1 {
		t.Errorf("the session was ended %d times", n)
	}
}

func TestCommandSettings(t *testing.T) {
	c := config.Defaults()
	u := config.DefaultUpstream()
	u.Command, u.Args, u.Dir, u.Env = "server", []string{"-x"}, "/srv", config.Env{"KEY", "MODE=a", "NONE"}
	command, missing := commandSettings(c, u, []string{"PATH=/bin", "KEY=k", "OTHER=o"})
	if !slices.Equal(missing, []string{"NONE"}) {
		t.Errorf("missing: %q", missing)
	}
	if command.Path != "server" || !slices.Equal(command.Args, u.Args) || command.Dir != "/srv" ||
		!slices.Equal(command.Env, []string{"KEY=k", "MODE=a", "PATH=/bin"}) || command.Grace != c.Stdio.Grace ||
		command.RestartMin != c.Stdio.RestartMin || command.RestartMax != c.Stdio.RestartMax || command.MaxLine != int(c.Stdio.MaxLine) {
		t.Errorf("got %+v", command)
	}
	for _, word := range []string{config.TransportAuto, config.TransportStreamable, config.TransportSSE, config.TransportStdio} {
		u.Transport = word
		if got := legacySettings(c, u).Transport; (got == legacy.TransportAuto) != (word == config.TransportAuto) {
			t.Errorf("%s is transport %d", word, got)
		}
	}
}
