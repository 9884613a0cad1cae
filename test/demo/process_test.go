package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets the test binary play the servers that the tests start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "play-server": // prints its URL and runs until SIGTERM
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
			fmt.Println("http://127.0.0.1:1/mcp")
			fmt.Println("more")
			<-ctx.Done()
			stop()
			os.Exit(0)
		case "play-broken":
			fmt.Fprintln(os.Stderr, "no such port")
			os.Exit(3)
		}
	}
	os.Exit(m.Run())
}

func TestProcessTellsItsFirstLineAndStops(t *testing.T) {
	p, first, err := start("the server", os.Args[0], "play-server")
	if err != nil {
		t.Fatal(err)
	}
	line, err := p.firstLine(t.Context(), first)
	if err != nil || line != "http://127.0.0.1:1/mcp" {
		t.Errorf("got %q, %v", line, err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	<-p.ended
	if log := p.log.String(); log != "more\n" {
		t.Errorf("the log is %q", log)
	}
}

func TestProcessThatEndsIsAnError(t *testing.T) {
	p, first, err := start("the server", os.Args[0], "play-broken")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{second(p.firstLine(t.Context(), first)), p.stop()} {
		if err == nil || !strings.Contains(err.Error(), "no such port") || !strings.Contains(err.Error(), "exit status 3") {
			t.Errorf("got %v, want its exit status and what it said", err)
		}
	}
}

func second(_ string, err error) error { return err }

func TestTailKeepsTheEnd(t *testing.T) {
	var log tail
	for i := range 10000 {
		if _, err := fmt.Fprintf(&log, "line %d\n", i); err != nil {
			t.Fatal(err)
		}
	}
	if got := log.String(); len(got) > tailBytes || !strings.HasSuffix(got, "line 9999\n") {
		t.Errorf("%d bytes, ending with %q", len(got), got[len(got)-20:])
	}
}

// A demo whose programs do nothing must fail, and leave nothing running.
func TestRunFailsWhenTheServerDoes(t *testing.T) {
	var shown strings.Builder
	err := run(t.Context(), []string{"-holdfast", os.Args[0], "-server", "/nonexistent/server"}, &shown, &shown)
	if err == nil || !strings.Contains(err.Error(), "the legacy server") {
		t.Errorf("got %v", err)
	}
}
