package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// The next collection begins no sooner than the heap has twice the floor.
func TestHeapFloor(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	floor := newHeapFloor()
	runtime.GC()
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(goal)
	runtime.KeepAlive(floor)
	if got := goal[0].Value.Uint64(); got < 2*heapFloor {
		t.Errorf("the heap's goal is %d bytes, want at least %d", got, 2*heapFloor)
	}
}
