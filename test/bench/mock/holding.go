package mock

import (
	"sync"

	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// holding are the calls of the tool later, which have not asked yet.
type holding struct {
	mu    sync.Mutex // guards calls
	calls []uint64   // by their questions
}

// join takes in a call and opens its stream. Whoever has seen the stream is one
// of those that the next ask reaches.
func (h *holding) join(question uint64, open func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if open() == nil { // else its own goroutine sees it and ends
		h.calls = append(h.calls, question)
	}
}

// ask has all of them ask but those that were left meanwhile.
func (h *holding) ask(open *questions) {
	h.mu.Lock()
	calls := h.calls
	h.calls = nil
	h.mu.Unlock()
	var event, chunk []byte
	for _, id := range calls {
		q := open.find(id)
		if q == nil {
			continue
		}
		event = appendAsking(event[:0], id)
		chunk = wire.AppendChunk(chunk[:0], event)
		if _, err := q.conn.nc.Write(chunk); err != nil {
			q.conn.nc.Close() // its own goroutine sees it and ends
		}
	}
}
