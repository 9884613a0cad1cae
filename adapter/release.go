package adapter

import (
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
	request string // the request id at the server
	asked   []byte // raw ids of the open input requests, each behind its kind
	until   int64  // Unix nanoseconds; not before its request states are refused
	since   uint64 // since when the call is this replica's, in Unix nanoseconds
}

// released says how a released call is found among others, oldest first.
type releasedCall struct {
	id    [16]byte
	until int64
}

// release lets go of a parked call's stream, where the server can go on with
// it. It reports whether it did. mu is held.
func (c *call) release() bool {
	if c.phase != parked || c.x == nil || c.estate != nil || c.driver != byGoroutine {
		return false
	}
	at := c.x.Position()
	if at.Event == "" {
		return false
	}
	s := c.x.Session()
	rec := &record{session: s, request: at.Request, until: (c.until.Unix() + 2) * int64(time.Second), since: c.since}
	for _, in := range c.inputs {
		kind := byte('o')
		if in.Method == mcp.MethodElicit {
			kind = 'e'
		}
		if len(in.id) > 0 && len(in.id) < 256 {
			rec.asked = append(append(rec.asked, kind, byte(len(in.id))), in.id...)
		}
	}
	if !c.engine.calls.release(c, rec) {
		return false
	}
	s.Hold()
	c.hush()
	return true
}

// handOver lets go of a parked call for another replica. mu is held.
func (c *call) handOver() bool {
	if c.phase != parked || c.x == nil || c.estate != nil || c.driver != byGoroutine || c.x.Position().Event == "" {
		return false
	}
	c.engine.calls.forgetParked(c)
	c.hush()
	return true
}

// hush ends a parked call here, without a word to the server. mu is held.
func (c *call) hush() {
	c.x.Release()
	c.x = nil
	c.phase, c.forgotten = done, true // no other way leads from parked to an end that nobody hears of
	c.err, c.elsewhere = errAway, true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.inputs, c.transcript, c.names, c.early, c.creds, c.stat = nil, nil, nil, nil, nil, nil
}

// release takes a parked call off the books and keeps a record of it. It
// reports false where there are too many.
func (r *registry) release(c *call, rec *record) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.released) >= r.settings.MaxReleased {
		return false
	}
	r.unparkLocked(c)
	delete(r.named, c.id)
	delete(r.live, c)
	r.check()
	r.released[c.id] = rec
	r.releasedQueue = append(r.releasedQueue, releasedCall{c.id, rec.until})
	return true
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

// take gives the record of a released call to the one who goes on with it.
func (r *registry) take(id [16]byte) (rec *record, away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec = r.released[id]; rec != nil {
		delete(r.released, id)
		return rec, true
	}
	_, away = r.away[id]
	return nil, away
}

// left notes that a call goes on elsewhere.
func (r *registry) left(id [16]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.markAway(id)
}

// lapsed takes the released calls off the books whose clients did not come
// back.
func (r *registry) lapsed(now int64) []*record {
	r.mu.Lock()
	defer r.mu.Unlock()
	var late []*record
	n := 0
	for _, q := range r.releasedQueue {
		rec := r.released[q.id]
		if rec != nil && q.until > now {
			break
		}
		if n++; rec != nil {
			delete(r.released, q.id)
			late = append(late, rec)
		}
	}
	if r.releasedQueue = r.releasedQueue[n:]; len(r.releasedQueue) == 0 {
		r.releasedQueue = nil
	}
	return late
}

// end tells the server that nobody will answer.
func (rec *record) end(why string) {
	s := rec.session
	for b := rec.asked; len(b) >= 2; {
		id := b[2 : 2+int(b[1])]
		text := []byte(nil)
		if b[0] == 'e' {
			text = jsonrpc.AppendResult(legacy.Text(), id, []byte(`{"action":"cancel"}`))
		} else {
			text = jsonrpc.AppendError(legacy.Text(), id, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: why})
		}
		s.PostLater(s.Housekeeping(), text)
		b = b[2+len(id):]
	}
	s.CancelRequest(s.Housekeeping(), rec.request, why)
	s.Return(false)
}

// expireReleased ends what was released for too long.
func (e *Engine) expireReleased(now time.Time) {
	if !e.confirmed() {
		return // another replica may have gone on with some
	}
	for _, rec := range e.calls.lapsed(now.UnixNano()) {
		e.metrics.expired()
		rec.end("the client did not come back")
	}
}
