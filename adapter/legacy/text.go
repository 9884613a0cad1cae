package legacy

import "sync"

// texts holds byte slices that messages and requests are built in. What grew
// beyond maxPooled is left to the garbage collector, so that one large result
// does not stay in memory for good.
var texts = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

const maxPooled = 64 << 10

func getText(size int) []byte {
	b := *texts.Get().(*[]byte)
	if cap(b) < size {
		b = make([]byte, 0, size)
	}
	return b[:0]
}

func putText(b []byte) {
	if cap(b) > maxPooled || cap(b) == 0 {
		return
	}
	texts.Put(&b)
}

// freeSpace gives a buffer back that texts has lent with its pointer, which
// saves the pointer's allocation.
func freeSpace(b *[]byte) {
	if cap(*b) <= maxPooled {
		texts.Put(b)
	}
}
