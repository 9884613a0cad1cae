package wire

import (
	"strconv"
	"sync"
)

// LargeSize is how long the text is that makes a large result.
const LargeSize = 10 << 20

// LargeText returns a text of [LargeSize] bytes that needs no escapes in JSON.
// It repeats nowhere, so that a piece that is missing, or in another's place,
// shows. It is not to be written to.
var LargeText = sync.OnceValue(func() []byte {
	text := make([]byte, 0, LargeSize+16)
	for n := uint64(100_000_000); len(text) < LargeSize; n++ {
		text = append(strconv.AppendUint(text, n, 10), ' ')
	}
	return text[:LargeSize]
})
