package load_test

import (
	"os"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
	"github.com/holdfast-mcp/holdfast/test/bench/mock"
)

// startPiped runs a mock at pipes, and returns their other ends.
func startPiped(t *testing.T, takes time.Duration) *load.Lines {
	t.Helper()
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- (&mock.Stdio{Takes: takes}).Serve(theirIn, theirOut) }()
	t.Cleanup(func() {
		in.Close()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		for _, f := range []*os.File{theirIn, out, theirOut} {
			f.Close()
		}
	})
	l := load.NewLines(in, out)
	if err := l.Initialize(); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestPipedCalls(t *testing.T) {
	p := load.NewPiped(startPiped(t, 0), 5)
	for range 3 {
		if err := p.Echo(); err != nil {
			t.Errorf("echo: %v", err)
		}
		if err := p.Ask(); err != nil {
			t.Errorf("ask: %v", err)
		}
	}
}

func TestLinesAreShared(t *testing.T) {
	for _, takes := range []time.Duration{0, time.Millisecond} {
		const callers, calls = 16, 320
		l := startPiped(t, takes)
		var clients []*load.Piped
		for slot := range callers {
			clients = append(clients, load.NewPiped(l, slot))
		}
		begin := time.Now()
		r := load.Each(t.Context(), callers, calls, func(slot, _ int) error { return clients[slot].Echo() })
		if r.Calls != calls || r.Errors != 0 {
			t.Errorf("%d calls, %d errors, %v", r.Calls, r.Errors, r.First)
		}
		if took := time.Since(begin); took < calls/callers*takes {
			t.Errorf("calls that take %s each, %d at a time, took %s", takes, callers, took)
		}
	}
}

// TestLinesThatEnd: whoever waits learns of it, reading or not.
func TestLinesThatEnd(t *testing.T) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l := load.NewLines(in, out)
	failed := make(chan error, 2)
	for slot := range 2 {
		go func() { failed <- load.NewPiped(l, slot).Echo() }()
	}
	requests := make([]byte, 1)
	if _, err := theirIn.Read(requests); err != nil {
		t.Fatal(err)
	}
	theirOut.Close()
	for range 2 {
		if err := <-failed; err == nil {
			t.Error("a call ended well on pipes that had ended")
		}
	}
	for _, f := range []*os.File{theirIn, in, out} {
		f.Close()
	}
}
