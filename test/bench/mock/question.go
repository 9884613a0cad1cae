package mock

import (
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// question is one elicitation that a call waits for.
type question struct {
	conn    *conn  // whose stream it was asked on
	session string // on which the answer has to come
	call    []byte // raw id of the call
	text    []byte // what the call brought, to be part of its result
	tool    tool
}

// tool is one of those that ask.
type tool byte

const (
	ask   tool = iota // answers at once
	large             // answers with [wire.LargeText] bytes of text
	meet              // answers when as many callers have answered as were said to come
	later             // asks when it is told to
)

// end ends the stream that the question was asked on with the event of the
// call's result.
func (q *question) end(event []byte) {
	last := make([]byte, 0, len(event)+32)
	last = wire.AppendChunk(last, event)
	q.write(net.Buffers{append(last, wire.LastChunk...)})
}

// endLarge is end with a text in the event's middle that is not copied.
func (q *question) endLarge(before, text, after []byte) {
	size := strconv.AppendInt(make([]byte, 0, 16), int64(len(before)+len(text)+len(after)), 16)
	q.write(net.Buffers{append(size, "\r\n"...), before, text, after, []byte("\r\n" + wire.LastChunk)})
}

func (q *question) write(last net.Buffers) {
	q.conn.streaming.Store(false) // before the client can know that the response is over
	if _, err := last.WriteTo(q.conn.nc); err != nil {
		q.conn.nc.Close() // its own goroutine sees it and ends
	}
}

// questions are those without an answer. Whoever takes a question out owns its
// stream: there is one writer only.
type questions struct {
	last   atomic.Uint64
	shards [64]struct {
		mu   sync.Mutex // guards open
		open map[uint64]*question
	}
}

// add keeps q and returns its id.
func (a *questions) add(q *question) uint64 {
	id := a.last.Add(1)
	shard := &a.shards[id%uint64(len(a.shards))]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if shard.open == nil {
		shard.open = make(map[uint64]*question)
	}
	shard.open[id] = q
	return id
}

// find returns the question, which stays where it is, or nil.
func (a *questions) find(id uint64) *question {
	shard := &a.shards[id%uint64(len(a.shards))]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	return shard.open[id]
}

// take takes the question out if it was asked on session, or whatever the
// session when that is empty.
func (a *questions) take(id uint64, session []byte) *question {
	shard := &a.shards[id%uint64(len(a.shards))]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	q := shard.open[id]
	if q == nil || len(session) > 0 && q.session != string(session) {
		return nil
	}
	delete(shard.open, id)
	return q
}
