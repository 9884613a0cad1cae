package load_test

import (
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
	"github.com/holdfast-mcp/holdfast/test/bench/mock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func startMock(t *testing.T) (*mock.Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &mock.Server{}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close(l)
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, l.Addr().String()
}

func TestLegacyCalls(t *testing.T) {
	server, addr := startMock(t)
	client, err := load.NewLegacy(addr, "/mcp", 3)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 3 {
		if err := client.Echo(); err != nil {
			t.Errorf("echo: %v", err)
		}
		if err := client.Ask(); err != nil {
			t.Errorf("ask: %v", err)
		}
	}
	stats := server.Stats()
	if got := stats.Echoed.Load(); got != 3 {
		t.Errorf("echoed: got %d, want 3", got)
	}
	if asked, answered := stats.Asked.Load(), stats.Answered.Load(); asked != 3 || answered != 3 {
		t.Errorf("asked %d and answered %d times, want 3 and 3", asked, answered)
	}
}

func TestRunCountsWhatEndedWell(t *testing.T) {
	server, addr := startMock(t)
	var ops []func() error
	for slot := range 4 {
		client, err := load.NewLegacy(addr, "/mcp", slot)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		ops = append(ops, client.Echo)
	}
	r := load.Run(t.Context(), ops, 50*time.Millisecond)
	if r.Errors != 0 || r.Calls == 0 || int64(r.Calls) != server.Stats().Echoed.Load() || len(r.Latency) != r.Calls {
		t.Errorf("%d calls, %d errors (%v), %d latencies; the server saw %d",
			r.Calls, r.Errors, r.First, len(r.Latency), server.Stats().Echoed.Load())
	}
	if r.Elapsed < 50*time.Millisecond {
		t.Errorf("elapsed: got %v, want at least what was asked for", r.Elapsed)
	}
}

func TestRunGivesUpOnAServerThatFails(t *testing.T) {
	broken := errors.New("broken")
	r := load.Run(t.Context(), []func() error{func() error { return broken }}, time.Hour)
	if r.Calls != 0 || r.Errors == 0 || !errors.Is(r.First, broken) {
		t.Errorf("got %+v", r)
	}
}

func TestEachDoesEveryThingOnce(t *testing.T) {
	const n = 1000
	done := make([]int, n)
	r := load.Each(t.Context(), 7, n, func(slot, i int) error {
		if i%7 != slot {
			t.Errorf("thing %d came to slot %d", i, slot)
		}
		done[i]++
		if i == 500 {
			return load.ErrAnswer
		}
		return nil
	})
	for i, times := range done {
		if times != 1 {
			t.Fatalf("thing %d was done %d times", i, times)
		}
	}
	if r.Calls != n-1 || r.Errors != 1 || !errors.Is(r.First, load.ErrAnswer) {
		t.Errorf("got %d calls, %d errors, %v", r.Calls, r.Errors, r.First)
	}
}

func TestInTurnDoesOneOfEachAfterTheOther(t *testing.T) {
	var order []int
	way := func(w int) func(int) error {
		return func(i int) error {
			order = append(order, 10*i+w)
			if w == 1 && i == 2 {
				return load.ErrAnswer
			}
			return nil
		}
	}
	results := load.InTurn(t.Context(), 3, []func(int) error{way(0), way(1)})
	if want := []int{0, 1, 10, 11, 20, 21}; !slices.Equal(order, want) {
		t.Errorf("order: got %v, want %v", order, want)
	}
	if a, b := results[0], results[1]; a.Calls != 3 || a.Errors != 0 || b.Calls != 2 || b.Errors != 1 || !errors.Is(b.First, load.ErrAnswer) || len(b.Latency) != 2 {
		t.Errorf("got %+v and %+v", a, b)
	}
}
