package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/config"
)

const inspectUsage = `usage: holdfast inspect [flags] URL
       holdfast inspect [flags] -- COMMAND ARGS...

Tells what a server is, and what Holdfast would do for it: its era, transport and
revision, what it can do, its tools, whether its calls can be taken over or run
again, whether it gives out session ids, how fast it answers. No tool of the
server is called.

  --json             print JSON
  --timeout DURATION how long all of it may take (default 30s)
  --bearer-env NAME  the environment variable NAME holds a bearer token to send
  --env NAME         a variable that the command inherits; repeatable
All other flags are those of holdfast serve. Exit codes: 0 done; 1 the server
could not be inspected; 2 wrong flags or settings.
`

// inspectTime is how long an inspection may take where nothing else is said.
const inspectTime = 30 * time.Second

// runInspect tells a person what a server is.
func runInspect(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	const name, help = "holdfast inspect", "holdfast help inspect"
	fs := newFlags(name)
	config.AddFlags(fs)
	var env variables
	fs.Var(&env, "env", "")
	asJSON := fs.Bool("json", false, "")
	timeout := fs.Duration("timeout", inspectTime, "")
	bearer := fs.String("bearer-env", "", "")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return printed(stdout, stderr, name, inspectUsage)
	} else if err != nil {
		return misused(stderr, name, err, help)
	}
	c, err := inspectSettings(fs, args, environ, env, *timeout)
	if err != nil {
		return misused(stderr, name, err, help)
	}
	var creds legacy.Credentials
	if *bearer != "" {
		token := ""
		for _, v := range environ {
			if value, ok := strings.CutPrefix(v, *bearer+"="); ok {
				token = value
			}
		}
		if token == "" {
			return misused(stderr, name, fmt.Errorf("--bearer-env: %s is not set", *bearer), help)
		}
		creds = legacy.Credentials{{Name: "Authorization", Value: "Bearer " + token}}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	log := newLogger(c.Log, stderr).Level(zerolog.WarnLevel)
	found, err := inspect(ctx, c, environ, creds, log)
	if err != nil {
		return failed(stderr, name, err)
	}
	if *asJSON {
		text, err := json.MarshalIndent(found, "", "  ")
		if err != nil {
			return failed(stderr, name, err)
		}
		return printed(stdout, stderr, name, string(text)+"\n")
	}
	return printed(stdout, stderr, name, found.text())
}

// inspectSettings are the settings with the one upstream that the command line
// names.
func inspectSettings(fs *flag.FlagSet, args, environ []string, env []string, timeout time.Duration) (*config.Config, error) {
	switch {
	case timeout <= 0:
		return nil, fmt.Errorf("--timeout: %v is not positive", timeout)
	case fs.NArg() == 0:
		return nil, errors.New("nothing to inspect: give a URL, or a command behind --")
	case slices.Contains(args, "--"):
		return config.Wrap(fs, environ, fs.Args(), env)
	case fs.NArg() > 1:
		return nil, fmt.Errorf("unexpected argument %q: flags stand before the URL, and a command behind --", fs.Arg(1))
	case len(env) > 0:
		return nil, errors.New("--env is for a command, and there is none")
	}
	if err := fs.Set("upstream", fs.Arg(0)); err != nil {
		return nil, err
	}
	return config.Load(fs, environ)
}
