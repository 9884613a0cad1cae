package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/cmd/internal/modern"
)

// Exit codes of holdfast call.
const (
	callDone        = 0
	callToolError   = 1   // the tool's result says isError
	callRPCError    = 2   // the server answered with a JSON-RPC error
	callNoAnswer    = 3   // no connection, no usable answer, time-out, too many rounds
	callMisused     = 4   // wrong flags, no answer to a question, or the person declined to answer
	callInterrupted = 130 // as shells have it for SIGINT
)

// call runs "holdfast call": a small modern MCP client for people. The result
// goes to stdout; questions, progress, log messages, the trace and errors go to
// stderr. It prompts when stdin is a terminal or no file at all.
//
// SIGINT, or the end of ctx, closes the connection, which cancels the call at
// the server. At a prompt there is no connection; a read of stdin that is
// under way then is left behind, because a terminal cannot be told to stop.
func call(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	options, err := parseCall(args, os.Getenv)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = io.WriteString(stdout, callUsage())
		return callDone
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "holdfast call: %v\n(see holdfast call --help)\n", err)
		return callMisused
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()

	connections := modern.NewHTTP()
	defer connections.CloseIdleConnections()
	person := newTerminal(stdin, stderr)
	run := callRun{
		options: options,
		out:     callPrinter{out: stdout, notes: stderr, raw: options.json, guard: isTerminal(stdout)},
		answers: callAnswers{prepared: options.prepared, roots: options.roots, endpoint: options.url, person: person},
		client: &modern.Client{
			Endpoint: options.url.String(), Header: options.header, HTTP: connections,
			Name: "holdfast-call", Release: callRelease(),
			Capabilities: options.capabilities(),
			LogLevel:     options.logLevel, Progress: options.progress, Timeout: options.timeout,
		},
	}
	run.client.Listener = run.out
	if options.trace {
		run.client.Trace = &callTrace{out: stderr, lines: options.traceLines}
	}
	err = run.steps(ctx)
	if err != nil && ctx.Err() != nil {
		_, _ = fmt.Fprintln(stderr, "holdfast call: interrupted")
		return callInterrupted
	}
	return run.out.outcome(err)
}

// callRun is one run of the command.
type callRun struct {
	options callOptions
	client  *modern.Client
	answers callAnswers
	out     callPrinter
}

// errToolFailed: the call went through, and its result says isError.
var errToolFailed = errors.New("the tool reported an error")

// steps does what the flags ask for: discover, list, call, in this order.
func (r *callRun) steps(ctx context.Context) error {
	if r.options.discover {
		discovery, err := r.client.Discover(ctx)
		if err != nil {
			return err
		}
		r.out.discovery(discovery)
	}
	if !r.options.list && r.options.tool == "" {
		return nil
	}
	list, err := r.client.ListTools(ctx)
	if err != nil {
		return err
	}
	for _, refused := range list.Refused {
		r.out.note("tool %q is left out: %v", refused.Name, refused.Reason)
	}
	if r.options.list {
		r.out.tools(list)
	}
	if r.options.tool == "" {
		return nil
	}
	return r.call(ctx, list)
}

func (r *callRun) call(ctx context.Context, list modern.ToolList) error {
	tool, found, err := list.Find(r.options.tool)
	if err != nil {
		return err
	}
	if !found {
		r.out.note("the server does not list a tool %q; calling it all the same", tool.Name)
	}
	arguments, err := callArguments(tool.InputSchema, r.options.argsJSON, r.options.args)
	if err != nil {
		return err
	}
	result, err := r.client.Call(ctx, tool, arguments, &r.answers)
	if err != nil {
		return err
	}
	for _, key := range r.answers.prepared.unused() {
		r.out.note("the answer for %q was not asked for", key)
	}
	r.out.result(result)
	if result.IsError {
		return errToolFailed
	}
	return nil
}

// callRelease is this binary's version, as the build info has it.
func callRelease() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// compact writes JSON on one line; what cannot be read stays as it is.
func compact(value jsontext.Value) string {
	copied := value.Clone()
	if copied.Compact(jsontext.AllowInvalidUTF8(true)) != nil {
		return string(value)
	}
	return string(copied)
}
