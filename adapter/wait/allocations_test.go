//go:build !race

package wait

import (
	"testing"
	"time"
)

// Under the race detector, a sync.Pool drops some of what it is given.
func TestForAllocatesNothing(t *testing.T) {
	ready := make(chan string, 1)
	until := time.Now().Add(time.Hour)
	if n := testing.AllocsPerRun(100, func() {
		ready <- "x"
		For(ready, until)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFor(b *testing.B) {
	ready := make(chan struct{}, 1)
	until := time.Now().Add(time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		ready <- struct{}{}
		For(ready, until)
	}
}
