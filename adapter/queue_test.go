package adapter

import (
	"strings"
	"testing"
)

func TestQueueIsBounded(t *testing.T) {
	s := &Settings{Buffer: 3, BufferBytes: 10}
	for name, c := range map[string]struct {
		sizes []int
		fits  bool
	}{
		"few":            {[]int{1, 1, 1}, true},
		"too many":       {[]int{1, 1, 1, 1}, false},
		"all the bytes":  {[]int{4, 6}, true},
		"too many bytes": {[]int{4, 7}, false},
		"one large":      {[]int{100}, true},
		"behind a large": {[]int{100, 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var q queue
			fits := true
			for _, n := range c.sizes {
				fits = q.put([]byte(strings.Repeat("x", n)), s)
			}
			if fits != c.fits {
				t.Fatalf("the last one fits: %v, want %v", fits, c.fits)
			}
			if !fits && (q.bytes != 0 || q.take() != nil) {
				t.Error("what a client will never get is kept")
			}
		})
	}
}

func TestQueueGivesInOrder(t *testing.T) {
	s := &Settings{Buffer: 2, BufferBytes: 2}
	var q queue
	for _, n := range []string{"a", "b", "c", "d"} {
		if !q.put([]byte(n), s) {
			t.Fatalf("%s was refused, though what was before it was taken", n)
		}
		if got := string(q.take()); got != n {
			t.Fatalf("got %q, want %q", got, n)
		}
	}
	if q.take() != nil {
		t.Error("something is left")
	}
}
