package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/holdfast-mcp/holdfast/adapter/legacy/child"
)

// Exit codes of the commands; holdfast call has its own.
const (
	exitDone    = 0
	exitFailed  = 1 // could not do it, or not to the end
	exitMisused = 2 // wrong command line or settings
)

func main() {
	child.ServeGuard() // a process that was started as a guard is nothing else
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// run is main with everything that it uses of the process.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		_, _ = io.WriteString(stderr, usage)
		return exitMisused
	}
	name, args := args[0], args[1:]
	switch name {
	case "serve":
		return runServe(ctx, args, environ, stdout, stderr)
	case "run":
		return runRun(ctx, args, environ, stdin, stdout, stderr)
	case "config":
		return runConfig(args, environ, stdout, stderr)
	case "version", "--version", "-version":
		return runVersion(args, stdout, stderr)
	case "keygen":
		return runKeygen(args, stdout, stderr)
	case "inspect":
		return runInspect(ctx, args, environ, stdout, stderr)
	case "replicas":
		return runReplicas(ctx, args, environ, stdout, stderr)
	case "call":
		return call(ctx, args, stdin, stdout, stderr)
	case "help", "--help", "-help", "-h":
		return runHelp(ctx, args, stdin, stdout, stderr)
	default:
		return misused(stderr, "holdfast", fmt.Errorf("there is no command %q", name), "holdfast help")
	}
}

// misused reports a wrong command line or setting, and where to read on.
func misused(stderr io.Writer, command string, err error, help string) int {
	_, _ = fmt.Fprintf(stderr, "%s: %v\n(see %s)\n", command, err, help)
	return exitMisused
}

// failed reports what kept a command from its end.
func failed(stderr io.Writer, command string, err error) int {
	_, _ = fmt.Fprintf(stderr, "%s: %v\n", command, err)
	return exitFailed
}

// printed writes a command's whole output; what cannot be written is a failure,
// so that a full disk does not pass for an empty answer.
func printed(stdout, stderr io.Writer, command, text string) int {
	if _, err := io.WriteString(stdout, text); err != nil {
		return failed(stderr, command, err)
	}
	return exitDone
}
