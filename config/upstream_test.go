package config

import (
	"errors"
	"flag"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const commands = `
upstreams:
  - name: files
    command: mcp-files
    args: [--root, /srv, "a b", "two\nlines", "7"]
    env: {TOKEN: s3cret-env, PORT: 8080}
    dir: /srv
    inherit_env: true
    transport: stdio
  - name: mail
    path: /mail
    command: ./mail
    env: [API_KEY, "MODE=s3cret=x", "EMPTY="]
`

func TestCommandUpstreams(t *testing.T) {
	c := mustLoad(t, commands, nil)
	want := []Upstream{
		{Name: "files", Command: "mcp-files", Args: []string{"--root", "/srv", "a b", "two\nlines", "7"}, Env: Env{"PORT=8080", "TOKEN=s3cret-env"},
			Dir: "/srv", InheritEnv: true, Transport: TransportStdio, Protocol: ProtocolAuto, Path: "/mcp", Dialect: DialectMRTR, Cache: Cache{Scope: ScopePrivate}},
		{Name: "mail", Command: "./mail", Env: Env{"API_KEY", "MODE=s3cret=x", "EMPTY="},
			Transport: TransportAuto, Protocol: ProtocolAuto, Path: "/mail", Dialect: DialectMRTR, Cache: Cache{Scope: ScopePrivate}},
	}
	if !reflect.DeepEqual(c.Upstreams, want) {
		t.Errorf("got  %+v\nwant %+v", c.Upstreams, want)
	}
}

// TestUpstreamProblems has the ways in which url, command and what belongs to
// them do not go together: each error names the key, its value and what is
// allowed.
func TestUpstreamProblems(t *testing.T) {
	for name, test := range map[string]struct {
		upstream string
		want     []string
	}{
		"both":                  {"url: 'http://a/?k=s3cret', command: b", []string{`upstreams[0].command: "b"`, "http://a/?k=" + Mask, "an upstream has url", "or command"}},
		"neither":               {"name: a", []string{`upstreams[0].url: ""`, "absolute http or https URL", "or command"}},
		"no such dialect":       {"command: a, dialect: none", []string{`upstreams[0].dialect: "none"`, "mrtr, incomplete-result, dependent-requests, saga, resume-token, resumable"}},
		"SSE with a command":    {"command: a, transport: http+sse", []string{`upstreams[0].transport: "http+sse"`, "allowed with command: auto, stdio"}},
		"stdio with a URL":      {"url: 'http://a', transport: stdio", []string{`upstreams[0].transport: "stdio"`, "allowed with url: auto, streamable-http, http+sse"}},
		"no transport":          {"url: 'http://a', transport: sse", []string{`upstreams[0].transport: "sse"`, "auto, streamable-http, http+sse, stdio"}},
		"endpoints":             {"command: b, endpoints: ['http://a']", []string{"upstreams[0].endpoints: only with url"}},
		"resolve":               {"command: b, resolve: true", []string{"upstreams[0].resolve: true", "only with url"}},
		"a modern command":      {"command: b, protocol: modern", []string{`upstreams[0].protocol: "modern"`, "allowed with command: auto, legacy"}},
		"args with a URL":       {"url: 'http://a', args: [b]", []string{"upstreams[0].args: only with command"}},
		"env with a URL":        {"url: 'http://a', env: [B=s3cret]", []string{"upstreams[0].env: only with command"}},
		"dir with a URL":        {"url: 'http://a', dir: /b", []string{"upstreams[0].dir: only with command"}},
		"inheritance, and URL":  {"url: 'http://a', inherit_env: true", []string{"upstreams[0].inherit_env: only with command"}},
		"headers of a command":  {"command: a, headers: {X: s3cret}", []string{"upstreams[0].headers: only with url"}},
		"forwarded to one":      {"command: a, forward_headers: [X]", []string{"upstreams[0].forward_headers: only with url"}},
		"a variable's name":     {"command: a, env: ['B C=s3cret']", []string{`upstreams[0].env."B C": allowed: names of variables`}},
		"no name":               {"command: a, env: ['=s3cret']", []string{`upstreams[0].env."": allowed: names of variables`}},
		"a variable twice":      {"command: a, env: [B, B=s3cret]", []string{"upstreams[0].env.B: is there twice"}},
		"a variable's value":    {"command: a, env: {B: \"s3cret\\0\"}", []string{"upstreams[0].env.B: the value must be UTF-8 without NUL"}},
		"a masked variable":     {"command: a, env: {B: '" + Mask + "'}", []string{"upstreams[0].env.B: is masked"}},
		"a text for variables":  {"command: a, env: B=s3cret", []string{"upstreams[0].env: want names with their values, or a list"}},
		"nothing as a value":    {"command: a, env: {B: }", []string{"upstreams[0].env: want names with their values"}},
		"a list of sections":    {"command: a, env: [{B: s3cret}]", []string{"upstreams[0].env[0]: want one value"}},
		"an argument with NUL":  {"command: a, args: [\"b\\0\"]", []string{`upstreams[0].args[0]: "b\x00"`, "texts without NUL"}},
		"a command and no text": {"command: [a, b]", []string{"upstreams[0].command: a list: want one value"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, "upstreams: [{"+test.upstream+"}]", nil)
			var wrong *Error
			if !errors.As(err, &wrong) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if len(wrong.Problems) != 1 {
				t.Fatalf("got %d problems, want 1: %v", len(wrong.Problems), err)
			}
			text := wrong.Problems[0].String()
			if strings.Contains(text, "s3cret") {
				t.Errorf("the error shows the secret: %q", text)
			}
			for _, want := range append(test.want, "holdfast.yaml") {
				if !strings.Contains(text, want) {
					t.Errorf("got %q, want %q in it", text, want)
				}
			}
		})
	}
}

func TestPrintedCommandsLoadToTheSame(t *testing.T) {
	c := mustLoad(t, commands, nil)
	text, err := c.yaml(func(_ *setting, text string) string { return text })
	if err != nil {
		t.Fatal(err)
	}
	if again := mustLoad(t, string(text), nil); !reflect.DeepEqual(again, c) {
		t.Errorf("\n%s\nloads to  %+v\nit was of %+v", text, again, c)
	}
	masked, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(masked), "s3cret") || strings.Contains(string(masked), "8080\n      - ") {
		t.Errorf("a variable's value is in:\n%s", masked)
	}
	for _, want := range []string{"- TOKEN=" + Mask, "- API_KEY\n", "- MODE=" + Mask, "- EMPTY=\n", "- a b\n"} {
		if !strings.Contains(string(masked), want) {
			t.Errorf("%q is missing in:\n%s", want, masked)
		}
	}
}

func TestEnvironmentOfACommand(t *testing.T) {
	own := []string{"PATH=/bin", "HOME=/home/me", "USER=me", "SHELL=() { evil; }", "TMPDIR=/t", "SECRET=s3cret", "API_KEY=k", "HOLDFAST_STATE__KEYS=s3cret", "BROKEN"}
	for name, test := range map[string]struct {
		upstream      Upstream
		want, missing []string
	}{
		"the minimum": {Upstream{}, []string{"HOME=/home/me", "PATH=/bin", "TMPDIR=/t", "USER=me"}, nil},
		"what is named": {Upstream{Env: Env{"API_KEY", "PATH=/opt", "NONE", "EMPTY="}},
			[]string{"API_KEY=k", "EMPTY=", "HOME=/home/me", "PATH=/opt", "TMPDIR=/t", "USER=me"}, []string{"NONE"}},
		"everything": {Upstream{InheritEnv: true, Env: Env{"X=1"}},
			[]string{"API_KEY=k", "HOME=/home/me", "PATH=/bin", "SECRET=s3cret", "TMPDIR=/t", "USER=me", "X=1"}, nil},
		"a setting, by its name": {Upstream{Env: Env{"HOLDFAST_STATE__KEYS"}},
			[]string{"HOLDFAST_STATE__KEYS=s3cret", "HOME=/home/me", "PATH=/bin", "TMPDIR=/t", "USER=me"}, nil},
	} {
		got, missing := test.upstream.Environment(own)
		if !slices.Equal(got, test.want) || !slices.Equal(missing, test.missing) {
			t.Errorf("%s: got %q without %q\nwant %q without %q", name, got, missing, test.want, test.missing)
		}
	}
}

func TestWrap(t *testing.T) {
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	AddFlags(fs)
	if err := fs.Parse([]string{"--calls.max", "7"}); err != nil {
		t.Fatal(err)
	}
	c, err := Wrap(fs, []string{"HOLDFAST_UPSTREAM=http://a"}, []string{"npx", "-y", "server"}, []string{"API_KEY"})
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultUpstream()
	want.Command, want.Args, want.Env = "npx", []string{"-y", "server"}, Env{"API_KEY"}
	if !reflect.DeepEqual(c.Upstreams, []Upstream{want}) || c.Calls.Max != 7 {
		t.Errorf("got %+v and calls.max %d", c.Upstreams, c.Calls.Max)
	}
	for name, args := range map[string][]string{
		"--upstream too":         {"--upstream", "http://a"},
		"the file has upstreams": {"--config", write(t, "upstreams: [{url: 'http://a'}]")},
	} {
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		AddFlags(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		if _, err := Wrap(fs, nil, []string{"a"}, nil); err == nil || !strings.Contains(err.Error(), "use one of the two") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// An upstream's own dialect must be one that is spoken.
func TestDialectThatIsOff(t *testing.T) {
	const file = `
upstreams: [{url: 'http://a/mcp', dialect: saga}]
dialects: {saga: {enabled: false, capabilities: [elicitation, elicitation.url]}, resume_token: {after: 3s}}
`
	_, err := load(t, file, nil)
	if err == nil || !strings.Contains(err.Error(), `upstreams[0].dialect: "saga"`) || !strings.Contains(err.Error(), "dialects.saga.enabled") {
		t.Errorf("got %v, want an error that names the setting", err)
	}
	if c := mustLoad(t, strings.Replace(file, "false", "true", 1), nil); c.Upstreams[0].Dialect != DialectSaga ||
		!slices.Equal(c.Dialects.Saga.Capabilities, []string{"elicitation", "elicitation.url"}) || c.Dialects.ResumeToken.After != 3*time.Second {
		t.Errorf("got %+v", c.Dialects)
	}
}
