package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/cmd/internal/modern"
)

// callOptions is the command line of holdfast call.
type callOptions struct {
	url  *url.URL
	tool string

	args     []callArg
	argsJSON string
	prepared preparedAnswers
	roots    []callRoot
	header   http.Header

	logLevel      string
	timeout       time.Duration
	progress      bool
	json          bool
	trace         bool
	traceLines    int
	noElicitation bool
	noSampling    bool
	list          bool
	discover      bool
}

// callArg is one --arg.
type callArg struct{ name, value string }

// callRoot is one --root.
type callRoot struct{ uri, name string }

const callHelp = `usage: holdfast call URL TOOL [--arg NAME=VALUE]... [flags]
       holdfast call URL --list | --discover [flags]

Calls a tool of a modern MCP server (revision 2026-07-28) and asks you what the
server asks: forms, pages to open, texts. While you are asked, these words
stand for an answer: !decline refuses, !cancel dismisses, !skip leaves an
optional field out; an empty line takes the default that is shown in brackets.

Exit codes: 0 done; 1 the tool reported an error; 2 JSON-RPC error; 3 no
connection, no usable answer or time-out; 4 wrong use, or a question without an
answer; 130 interrupted.

flags:
`

// callUsage is the text of holdfast call --help.
func callUsage() string {
	var text strings.Builder
	text.WriteString(callHelp)
	flags := (&callOptions{}).flags(func(string) error { return nil })
	flags.SetOutput(&text)
	flags.PrintDefaults()
	return text.String()
}

// flags declares the flags; bearer takes the name of --bearer-env.
func (o *callOptions) flags(bearer func(name string) error) *flag.FlagSet {
	f := flag.NewFlagSet("holdfast call", flag.ContinueOnError)
	f.SetOutput(io.Discard) // errors are returned; call prints them
	f.Usage = func() {}
	f.Func("arg", "an argument, `NAME=VALUE`; JSON where the tool's schema does not say string; repeatable", o.addArg)
	f.StringVar(&o.argsJSON, "args", "", "the arguments as a JSON `object`; --arg comes on top")
	f.Func("answer", "the answer for an input request, `KEY=JSON`, instead of a prompt; repeatable, for a key that is asked again too", o.prepared.addFlag)
	f.Func("answers", "a `file` with a JSON object of such answers", o.prepared.addFile)
	f.Func("root", "a root that the server may ask for, `URI[=NAME]`; repeatable", o.addRoot)
	f.Func("header", "an HTTP header to send, `'NAME: VALUE'`; repeatable", o.addHeader)
	f.Func("bearer-env", "the environment variable `NAME` holds a bearer token to send", bearer)
	f.StringVar(&o.logLevel, "log-level", "", "show log messages from this `level` on: "+strings.Join(modern.LogLevels, ", "))
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long one request may take, without your own thinking; 0 means any time")
	f.BoolVar(&o.progress, "progress", true, "ask for progress and show it")
	f.BoolVar(&o.json, "json", false, "print results as the JSON that came")
	f.BoolVar(&o.trace, "trace", false, "show each HTTP request and answer")
	f.IntVar(&o.traceLines, "trace-lines", 60, "how many `lines` of a body the trace shows; 0 means all")
	f.BoolVar(&o.noElicitation, "no-elicitation", false, "do not declare that forms and pages can be asked for")
	f.BoolVar(&o.noSampling, "no-sampling", false, "do not declare that texts can be asked for")
	f.BoolVar(&o.list, "list", false, "list the tools")
	f.BoolVar(&o.discover, "discover", false, "show who the server is and what it can do")
	return f
}

// parseCall reads the command line; flags may stand before, between and after
// URL and TOOL.
func parseCall(args []string, env func(string) string) (callOptions, error) {
	var o callOptions
	o.header = http.Header{}
	flags := o.flags(func(name string) error { return o.addBearer(name, env) })
	var words []string
	for {
		if err := flags.Parse(args); err != nil {
			return o, err
		}
		if flags.NArg() == 0 {
			break
		}
		words, args = append(words, flags.Arg(0)), flags.Args()[1:]
	}
	switch len(words) {
	case 0:
		return o, errors.New("the URL of a server is missing")
	case 1:
		if !o.list && !o.discover {
			return o, errors.New("name a tool, or give --list or --discover")
		}
	case 2:
		o.tool = words[1]
	default:
		return o, fmt.Errorf("too many words: %q", words[2:])
	}
	var err error
	if o.url, err = parseEndpoint(words[0]); err != nil {
		return o, err
	}
	if o.logLevel != "" && !slices.Contains(modern.LogLevels, o.logLevel) {
		return o, fmt.Errorf("--log-level %q: use one of %s", o.logLevel, strings.Join(modern.LogLevels, ", "))
	}
	if o.timeout < 0 || o.traceLines < 0 {
		return o, errors.New("--timeout and --trace-lines must not be negative")
	}
	return o, nil
}

func parseEndpoint(text string) (*url.URL, error) {
	endpoint, err := url.Parse(text)
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" {
		return nil, errors.New("the first word must be a server's URL, such as http://127.0.0.1:8080/mcp")
	}
	return endpoint, nil
}

// capabilities declares what can be answered, and no more.
func (o *callOptions) capabilities() modern.Capabilities {
	return modern.Capabilities{Elicitation: !o.noElicitation, Sampling: !o.noSampling, Roots: len(o.roots) > 0}
}

func (o *callOptions) addArg(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return errors.New("must be NAME=VALUE")
	}
	o.args = append(o.args, callArg{name, value})
	return nil
}

func (o *callOptions) addRoot(text string) error {
	uri, name, _ := strings.Cut(text, "=")
	// Spec, client/roots, "Root".
	if root, err := url.Parse(uri); err != nil || root.Scheme != "file" {
		return errors.New("must be a file:// URI")
	}
	o.roots = append(o.roots, callRoot{uri, name})
	return nil
}

// addHeader takes a header that is not the protocol's business.
func (o *callOptions) addHeader(text string) error {
	name, value, ok := strings.Cut(text, ":")
	name = http.CanonicalHeaderKey(strings.TrimSpace(name))
	if !ok || name == "" {
		return errors.New("must be 'NAME: VALUE'")
	}
	switch name {
	case "Accept", "Content-Type", "Content-Length", "Host", "Transfer-Encoding", "Connection":
		return fmt.Errorf("%s is set by the client", name)
	}
	if strings.HasPrefix(name, "Mcp-") {
		return fmt.Errorf("%s is set by the client", name)
	}
	o.header.Add(name, strings.TrimSpace(value))
	return nil
}

func (o *callOptions) addBearer(name string, env func(string) string) error {
	token := env(name)
	if token == "" {
		return errors.New("the environment variable is empty")
	}
	o.header.Set("Authorization", "Bearer "+token)
	return nil
}
