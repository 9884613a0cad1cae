package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-mcp/holdfast/config"
)

const usage = `Holdfast lets modern MCP clients (2026-07-28) use legacy MCP servers.

usage: holdfast COMMAND [flags]

  serve    serve legacy servers to modern clients
  run      start one legacy server, and serve it to modern clients
  config   print the settings that serve would use, or their table
  keygen   print a new request-state key
  inspect  tell what a legacy server is, and what Holdfast would do for it
  call     call a tool of a modern MCP server, for people
  replicas list the replicas that one of them knows
  version  print the version of this program and its parts
  help     explain a command: holdfast help serve

A start: holdfast serve --upstream http://127.0.0.1:3001/mcp
serves that server to modern clients at http://127.0.0.1:8080/mcp, and
holdfast run -- COMMAND ARGS... one that speaks over its standard input and output.
`

const serveUsage = `usage: holdfast serve --upstream URL [flags]
       holdfast serve --config FILE [flags]

Serves legacy MCP servers to modern clients until SIGTERM or SIGINT; then it
ends within shutdown.grace, or at once at a second signal. Exit codes: 0 ended
as asked; 1 could not serve; 2 wrong flags or settings.

`

var runUsage = `usage: holdfast run [--listen ADDR | --stdio] [--env NAME]... [flags] -- COMMAND ARGS...
       holdfast run --stdio --upstream URL [flags]

Starts a legacy server that speaks over its standard input and output, and serves
it to modern clients at http://ADDR/mcp (by default 127.0.0.1:8080). With --stdio
it serves the one client that started it, over standard input and output; its log
goes to standard error, and it ends with its input. Then the server may also be
one at a URL.

Of the environment the command gets each variable that --env names, and
` + strings.Join(config.Inherited(), " ") + `.
All other flags are those of holdfast serve. Exit codes: 0 ended as asked; 1 could
not serve; 2 wrong flags or settings.
`

const configUsage = `usage: holdfast config [flags of serve]
       holdfast config --markdown

Prints the settings that holdfast serve would use with the same file, variables
and flags, as a YAML file. Secrets are masked; put them back before the file is
used. --markdown prints the table of all settings instead. See holdfast help serve
for the flags.
`

const replicasUsage = `usage: holdfast replicas [--json] [ADMIN-ADDRESS]

Lists the live replicas as the one knows them whose admin listener is at the
address: their version, uptime, rounds in flight, calls, parked calls, sessions,
and the round trip over the bus. Without an address: the admin setting, as
holdfast serve would read it from HOLDFAST_ADMIN or --config.
`

const versionUsage = `usage: holdfast version

Prints the version, commit and Go version of this program, and the versions of
the modules that matter most.
`

const keygenUsage = `usage: holdfast keygen

Prints a new random request-state key, 64 hexadecimal digits, for state.keys or a
line of the file that --state-key-file names. It is a secret.
`

// runHelp explains a command, or lists them.
func runHelp(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 1 {
		return misused(stderr, "holdfast help", fmt.Errorf("one command at a time, not %q", args), "holdfast help")
	}
	text := usage
	if len(args) == 1 {
		switch args[0] {
		case "serve":
			text = serveUsage + config.Usage()
		case "run":
			text = runUsage
		case "config":
			text = configUsage
		case "version":
			text = versionUsage
		case "keygen":
			text = keygenUsage
		case "inspect":
			text = inspectUsage
		case "replicas":
			text = replicasUsage
		case "call":
			return call(ctx, []string{"--help"}, stdin, stdout, stderr)
		case "help":
		default:
			return misused(stderr, "holdfast help", fmt.Errorf("there is no command %q", args[0]), "holdfast help")
		}
	}
	return printed(stdout, stderr, "holdfast help", text)
}
