package wait

import (
	"context"
	"testing"
	"time"
)

func TestForTakesWhatComes(t *testing.T) {
	from := make(chan int)
	go func() {
		from <- 7
		close(from)
	}()
	late := time.Now().Add(time.Hour)
	if got, came := For(from, late); got != 7 || !came {
		t.Errorf("got %d, %v", got, came)
	}
	if got, came := For(from, late); got != 0 || !came {
		t.Errorf("of a closed channel: got %d, %v", got, came)
	}
}

func TestForEndsInTime(t *testing.T) {
	for _, limit := range []time.Duration{10 * time.Millisecond, 0, -time.Hour, time.Millisecond} {
		until := time.Now().Add(limit)
		if _, came := For[int](nil, until); came || time.Now().Before(until) {
			t.Errorf("with %v to wait it came back %v before its time: %v", limit, time.Until(until), came)
		}
	}
}

// A timer that fires as it goes back to the pool does not end a later wait.
func TestForLeavesNothingBehind(t *testing.T) {
	ready := make(chan struct{})
	close(ready)
	for range 1000 {
		For(ready, time.Now()) // both are due
		until := time.Now().Add(100 * time.Microsecond)
		if For[int](nil, until); time.Now().Before(until) {
			t.Fatalf("the wait after it was %v too short", time.Until(until))
		}
	}
}

func TestPause(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	began := time.Now()
	if !Pause(ctx, 10*time.Millisecond) || time.Since(began) < 10*time.Millisecond {
		t.Errorf("it came back after %v", time.Since(began))
	}
	cancel()
	if Pause(ctx, time.Hour) {
		t.Error("it did not tell that the context has ended")
	}
}
