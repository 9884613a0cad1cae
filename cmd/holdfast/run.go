package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/holdfast-mcp/holdfast/config"
	"github.com/holdfast-mcp/holdfast/proxy/stdio"
)

// variables are the names that --env gave.
type variables []string

func (v *variables) String() string { return strings.Join(*v, ",") }

// Set implements flag.Value. A value has no place on a command line, which other
// users of a machine see.
func (v *variables) Set(text string) error {
	if strings.Contains(text, "=") {
		return errors.New("takes the name of a variable, whose value is the environment's, and no value")
	}
	*v = append(*v, text)
	return nil
}

// runRun serves a command until a signal, the end of ctx, or, with --stdio, the
// end of the input.
func runRun(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	const name, help = "holdfast run", "holdfast help run"
	fs := newFlags(name)
	config.AddFlags(fs)
	var env variables
	fs.Var(&env, "env", "")
	onStreams := fs.Bool("stdio", false, "")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return printed(stdout, stderr, name, runUsage)
	} else if err != nil {
		return misused(stderr, name, err, help)
	}
	c, err := runSettings(fs, environ, env, *onStreams)
	if err != nil {
		return misused(stderr, name, err, help)
	}
	var std *streams
	if *onStreams {
		if std, err = openStreams(stdin, stdout); err != nil {
			return failed(stderr, name, err)
		}
		if file, ok := stderr.(*os.File); ok && !term.IsTerminal(int(file.Fd())) {
			stderr = stdio.OpenLog(file)
		}
		// A client that is gone must not end the process before it has ended its
		// children: os/signal, "SIGPIPE". Standard error may be the client's too.
		broken := make(chan os.Signal, 1)
		signal.Notify(broken, syscall.SIGPIPE)
		defer signal.Stop(broken)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := serve(ctx, c, environ, std, stderr); err != nil {
		return failed(stderr, name, err)
	}
	return exitDone
}

// runSettings are the settings with the one upstream that the command line names.
func runSettings(fs *flag.FlagSet, environ []string, env []string, onStreams bool) (*config.Config, error) {
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if onStreams && given["listen"] {
		return nil, errors.New("--listen and --stdio: use one of the two")
	}
	if fs.NArg() > 0 {
		return config.Wrap(fs, environ, fs.Args(), env)
	}
	switch {
	case !onStreams:
		return nil, errors.New("no command: holdfast run [flags] -- COMMAND ARGS... (holdfast serve is for servers with a URL)")
	case len(env) > 0:
		return nil, errors.New("--env is for a command, and there is none")
	}
	c, err := config.Load(fs, environ)
	if err == nil && len(c.Upstreams) != 1 {
		err = fmt.Errorf("--stdio serves one server, and %d are given: a command behind --, --upstream URL, or the one in the file", len(c.Upstreams))
	}
	return c, err
}

// streams are the two ends of a client that started this process.
type streams struct {
	in  io.ReadCloser
	out io.WriteCloser
}

func openStreams(stdin io.Reader, stdout io.Writer) (*streams, error) {
	s := &streams{in: io.NopCloser(stdin), out: nopWriteCloser{stdout}}
	if file, ok := stdin.(*os.File); ok {
		in, err := stdio.Open(file)
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		s.in = in
	}
	if file, ok := stdout.(*os.File); ok {
		out, err := stdio.Open(file)
		if err != nil {
			return nil, fmt.Errorf("standard output: %w", err)
		}
		s.out = out
	}
	return s, nil
}

type nopWriteCloser struct{ io.Writer }

func (nopWriteCloser) Close() error { return nil }
