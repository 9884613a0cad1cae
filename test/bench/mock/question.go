package mock

import (
	"sync"
	"sync/atomic"
)

// question is one elicitation that a call waits for.
type question struct {
	conn    *conn  // whose stream it was asked on
	session string // on which the answer has to come
	call    []byte // raw id of the call
	text    []byte // what the call brought, to be part of its result
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
