package main

// heapFloor keeps collections of garbage apart while there is little to keep.
// The collector begins when the heap has doubled, and a proxy keeps so little
// between calls that busy ones would have it begin fifteen times a second. It
// takes address space and no memory, because nothing is ever written to it; with
// it up to as many bytes of garbage more may wait for a collection.
const heapFloor = 8 << 20

// newHeapFloor returns what has to be kept alive for the floor to hold.
func newHeapFloor() []byte { return make([]byte, heapFloor) }
