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
	conn    *conn  // whose stream the result goes out on; nil while nobody has it
	session string // on which the answer has to come
	call    []byte // raw id of the call
	text    []byte // what the call brought, to be part of its result
	tool    tool

	answered bool   // while nobody had the stream
	result   []byte // the event for whoever resumes the stream
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
	q.conn.endStream() // before the client can know that the response is over
	if _, err := last.WriteTo(q.conn.nc); err != nil {
		q.conn.nc.Close() // its own goroutine sees it and ends
	}
}

// questions are those without an answer, and those with one whose result nobody
// has had. Whoever takes a question out owns its stream: there is one writer only.
type questions struct {
	most   int64 // how many of those may be kept that nobody has the stream of
	kept   atomic.Int64
	last   atomic.Uint64
	shards [64]shard
}

// shard is a part of the questions.
type shard struct {
	mu   sync.Mutex // guards open, and what of a question changes
	open map[uint64]*question
}

func (a *questions) shard(id uint64) *shard { return &a.shards[id%uint64(len(a.shards))] }

// add keeps q and returns its id.
func (a *questions) add(q *question) uint64 {
	id := a.last.Add(1)
	s := a.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[uint64]*question)
	}
	s.open[id] = q
	return id
}

// find returns the question, which stays where it is, or nil.
func (a *questions) find(id uint64) *question {
	s := a.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[id]
}

// take takes the question out for its answer if it was asked on session. One whose
// stream nobody has stays, for [questions.keep].
func (a *questions) take(id uint64, session []byte) *question {
	s := a.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.open[id]
	if q == nil || q.answered || q.session != string(session) {
		return nil
	}
	if q.conn == nil {
		q.answered = true
	} else {
		delete(s.open, id)
	}
	return q
}

// keep keeps the result of a question that was taken, and reports whether nobody
// has its stream. Else the stream is the caller's.
func (a *questions) keep(id uint64, q *question, result []byte) bool {
	if a.most == 0 {
		return false
	}
	s := a.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.open[id] != q:
		return false
	case q.conn == nil:
		q.result = result
		return true
	}
	delete(s.open, id)
	return false
}

// leave notes that c, which had the question's stream, is gone. It reports whether
// the question goes with it.
func (a *questions) leave(id uint64, c *conn) bool {
	s := a.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.open[id]
	if q == nil || q.conn != c {
		return false // it was answered, or another connection has the stream
	}
	if q.tool == ask && a.room() {
		q.conn = nil
		return false
	}
	delete(s.open, id)
	return !q.answered
}

// room takes the place of a question that is kept, if there is one.
func (a *questions) room() bool {
	if a.kept.Add(1) <= a.most {
		return true
	}
	a.kept.Add(-1)
	return false
}

// attach gives a question's stream to c. Where the result is there already, it takes
// the question out and returns it. known says whether there was one.
func (a *questions) attach(id uint64, c *conn) (ended *question, known bool) {
	s := a.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.open[id]
	if q == nil {
		return nil, false
	}
	if q.conn == nil {
		a.kept.Add(-1)
	} else {
		q.conn.nc.Close() // one stream at a time, and the newest has it
	}
	q.conn = c
	if q.result == nil {
		return nil, true
	}
	delete(s.open, id)
	return q, true
}
