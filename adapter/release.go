package adapter

import (
	"bytes"
	"container/heap"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// record is what stays of a parked call whose stream was let go
// (calls.release_after): enough to keep the session open, to let one replica go
// on with the call, and to tell the server when its client does not come back.
// Everything else is in the client's request state. With its place in the
// registry it takes less than 256 bytes: there may be a hundred thousand.
type record struct {
	session *legacy.Session
	request string    // the request id at the server
	asked   []byte    // raw ids of the open input requests and of the task, each behind its kind
	until   int64     // Unix nanoseconds; not before its request states are refused
	since   uint64    // since when the call is this replica's, in Unix nanoseconds
	left    *heirloom // of a lasting call, or nil
	vigil   *vigil    // likewise
}

// released says how a released call is found among others, oldest first.
type releasedCall struct {
	id    [16]byte
	until int64
}

// release lets go of a parked call's stream, where the server can go on with
// it. It reports whether it did. mu is held.
func (c *call) release() bool {
	if c.phase != parked || c.x == nil || c.estate != nil || c.driver != byGoroutine || c.lasting != nil {
		return false
	}
	at := c.x.Position()
	if at.Event == "" && c.task == nil {
		return false
	}
	s := c.x.Session()
	rec := &record{
		session: s, request: at.Request, asked: c.askedIDs(),
		until: (c.until.Unix() + 2) * int64(time.Second), since: c.since,
	}
	if len(rec.asked) > maxAsked {
		return false // it would not be small
	}
	if !c.engine.calls.release(c, rec) {
		return false
	}
	s.Hold()
	c.hush()
	return true
}

// maxAsked bounds the ids in a record of this replica's.
const maxAsked = 80

// askedIDs packs the ids of a record, with no room to spare. mu is held.
func (c *call) askedIDs() []byte { return bytes.Clone(c.task.pack(questionIDs(c.inputs))) }

// questionIDs packs the ids of open input requests: a kind, a length and the raw
// id each.
func questionIDs(inputs []*input) (packed []byte) {
	for _, in := range inputs {
		kind := byte('o')
		if in.Method == mcp.MethodElicit {
			kind = 'e'
		}
		if len(in.id) > 0 && len(in.id) < 256 && in.own() == "" {
			packed = append(append(packed, kind, byte(len(in.id))), in.id...)
		}
	}
	return packed
}

// validIDs reports whether packed is what questionIDs has written, of ids that
// JSON-RPC allows.
func validIDs(packed []byte) bool {
	for len(packed) > 0 {
		if len(packed) < 2 || packed[1] == 0 || len(packed) < 2+int(packed[1]) ||
			jsonrpc.Validate(packed[2:2+int(packed[1])], jsonrpc.Lenient, 1) != nil {
			return false
		}
		packed = packed[2+int(packed[1]):]
	}
	return true
}

// endAfar tells the server of the end of a call whose stream is gone, in the
// background. mu is held.
func (c *call) endAfar(left *estate, asked []*input, why string) {
	at := legacy.Position(left.position)
	if at.Session == "" || at.Request == "" {
		return
	}
	rec := &record{request: at.Request, asked: c.task.pack(questionIDs(asked))}
	key, creds := c.key, c.creds
	c.engine.wg.Add(1)
	go func() {
		defer c.engine.wg.Done()
		s, err := c.up.Server.Adopt(c.engine.ctx, &key, at, false, creds)
		if err != nil {
			return // the session is gone, and the call with it
		}
		rec.session = s
		rec.end(why)
	}()
}

// releaseLasting is release for a lasting call that others can go on with from
// its handle, whether or not it is parked. mu is held.
func (c *call) releaseLasting() bool {
	if c.lasting == nil || c.phase != parked && c.phase != running || c.x == nil || c.moving || c.estate != nil ||
		c.driver != byGoroutine || !c.sure() || !c.handleLeads() {
		return false
	}
	s, until := c.x.Session(), c.lasting.until
	if f := c.lasting.following; f != nil { // its client may be away for no longer
		away := f.awayAt
		if away.IsZero() {
			away = time.Now().Add(f.away)
		}
		if away.Before(until) {
			until = away
		}
	}
	rec := &record{
		session: s, request: c.x.Position().Request, asked: c.askedIDs(),
		until: (until.Unix() + 2) * int64(time.Second), since: c.since, left: c.heirloom(), vigil: c.vigil(),
	}
	if !c.engine.calls.release(c, rec) {
		return false
	}
	s.Hold()
	c.hush()
	c.wake()
	return true
}

// handOver lets go of a parked call for another replica. mu is held.
func (c *call) handOver() bool {
	if c.phase != parked || c.x == nil || c.estate != nil || c.driver != byGoroutine || c.x.Position().Event == "" && c.task == nil || c.lasting != nil {
		return false
	}
	c.engine.calls.forgetParked(c)
	c.hush()
	return true
}

// hush ends a parked call here, without a word to the server. mu is held.
func (c *call) hush() {
	c.x.Release()
	c.unwatchTask()
	c.unexpect()
	c.x = nil
	c.phase, c.forgotten = done, true // no other way leads from parked to an end that nobody hears of
	c.err, c.elsewhere = errAway, true
	c.closeBacklog()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.inputs, c.transcript, c.names, c.early, c.creds, c.stat = nil, nil, nil, responses{}, nil, nil
}

// release takes a parked call off the books and keeps a record of it. It
// reports false where there are too many.
func (r *registry) release(c *call, rec *record) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.released)+r.lapsing >= r.settings.MaxReleased {
		return false
	}
	if c.phase == parked {
		r.unparkLocked(c)
	}
	if c.lasting != nil {
		r.relentLocked(c)
		if f := c.lasting.following; f != nil {
			f.backlog.leave() // the record has a copy: what waits counts once
		}
	}
	delete(r.named, c.id)
	delete(r.live, c)
	r.check()
	r.put(c.id, rec)
	return true
}

// put keeps a record, and gives up the one of the same call that it replaces.
// mu is held.
func (r *registry) put(id [16]byte, rec *record) {
	if old := r.released[id]; old != nil {
		r.unput(id, old)
		defer old.session.Return(false)
	}
	r.released[id] = rec
	rec.expect()
	if rec.left != nil {
		r.stock.admit(&rec.left.backlog, rec.left.who)
	}
	heap.Push(&r.releasedQueue, releasedCall{id, rec.until})
	if len(r.releasedQueue) > 2*len(r.released)+1024 { // most of it is of calls that have gone on
		r.releasedQueue = r.releasedQueue[:0]
		for id, rec := range r.released {
			r.releasedQueue = append(r.releasedQueue, releasedCall{id, rec.until})
		}
		heap.Init(&r.releasedQueue)
	}
}

// unput takes a record off the books. mu is held.
func (r *registry) unput(id [16]byte, rec *record) {
	rec.unexpect()
	r.strike(id, rec)
}

// strike is unput for a record whose vigil goes on. mu is held.
func (r *registry) strike(id [16]byte, rec *record) {
	delete(r.released, id)
	if rec.left != nil {
		rec.left.backlog.leave()
	}
}

func (r *registry) forgetParked(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unparkLocked(c)
	delete(r.named, c.id)
	delete(r.live, c)
	r.markAway(c.id)
	r.check()
}

// take takes the record of a released call off the books.
func (r *registry) take(id [16]byte) (rec *record, away bool) {
	if rec, away = r.claim(id); rec != nil {
		rec.unexpect()
	}
	return rec, away
}

// claim gives the record of a released call to the one who goes on with it. Its vigil
// hears on until that one does, or undoes expect.
func (r *registry) claim(id [16]byte) (rec *record, away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec = r.released[id]; rec != nil {
		r.strike(id, rec)
		return rec, true
	}
	return nil, r.isAway(id)
}

// left notes that a call goes on elsewhere.
func (r *registry) left(id [16]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.markAway(id)
}

// gaveUp reports whether a call was here and goes on elsewhere.
func (r *registry) gaveUp(id [16]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isAway(id)
}

// releasedQueue is a heap: who ends first is the first.
type releasedQueue []releasedCall

func (q releasedQueue) Len() int           { return len(q) }
func (q releasedQueue) Less(i, j int) bool { return q[i].until < q[j].until }
func (q releasedQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *releasedQueue) Push(x any)        { *q = append(*q, x.(releasedCall)) }

// Pop implements heap.Interface.
func (q *releasedQueue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// end tells the server that nobody will answer.
func (rec *record) end(why string) {
	for _, text := range rec.lastWords(why) {
		rec.session.PostLater(rec.session.Housekeeping(), text)
	}
	rec.session.Return(false)
}

// lastWords are the messages that say so.
func (rec *record) lastWords(why string) (texts [][]byte) {
	for b := rec.asked; len(b) >= 2; {
		id := b[2 : 2+int(b[1])]
		switch {
		case b[0] == 'e':
			texts = append(texts, jsonrpc.AppendResult(legacy.Text(), id, []byte(`{"action":"cancel"}`)))
		case b[0] != taskKind:
			texts = append(texts, jsonrpc.AppendError(legacy.Text(), id, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: why}))
		case rec.session.CancelsTasks():
			texts = append(texts, taskCancel(legacy.Text(), rec.session.AppendNewID(nil), id))
		}
		b = b[2+len(id):]
	}
	return append(texts, legacy.AppendCancelled(legacy.Text(), rec.request, why))
}
