package adapter

import (
	"container/heap"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
)

// lapses are the released calls of one upstream whose clients do not come back: its
// server is told of the end of each. They may be a hundred thousand, far more than
// wait to be posted elsewhere, and each may have a session of its own: some tellers
// post them side by side, in the order in which they came.
type lapses struct {
	mu      sync.Mutex
	queue   []lapse // that no teller has taken yet; calls.max_released bounds it
	tellers int     // goroutines
	unheard int     // tellings in a row that did not reach the server
}

// lapse is the end of one of them.
type lapse struct {
	rec  *record
	why  string
	told func() // called when the session was given back
}

const (
	tellers    = 16          // of an upstream, at most
	maxUnheard = 2 * tellers // tellings in a row, after which the server is told no more until the tellers are done
)

// tell has the server told of the end of released calls until e.ctx ends, by
// goroutines of e.housekeeping, which has others as long as there is need of this.
// The session of each record is given back then, and told called.
func (e *Engine) tell(records []*record, why string, told func()) {
	for _, rec := range records {
		up := e.upstreamOf(rec)
		if up == nil { // it has retired, and is closed
			rec.session.Return(false)
			told()
			continue
		}
		if up.lapses.add(lapse{rec, why, told}) {
			e.housekeeping.Go(func() { up.lapses.work(e, up.Name) })
		}
	}
}

// add reports whether another teller is to begin.
func (l *lapses) add(next lapse) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, next)
	if l.tellers == tellers {
		return false
	}
	l.tellers++
	return true
}

// work is a teller: it ends when there is nothing left to tell.
func (l *lapses) work(e *Engine, upstream string) {
	for next, try, ok := l.take(); ok; next, try, ok = l.take() {
		if try && e.ctx.Err() == nil && !next.rec.session.Gone() { // with a session, all its calls are gone
			l.note(e, upstream, next.tell(e))
		}
		next.rec.session.Return(false)
		next.told()
	}
}

// take returns the next one, and whether the server is to be told of it. ok is false
// where there is none, and one teller less.
func (l *lapses) take() (next lapse, try, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.queue = nil
		if l.tellers--; l.tellers == 0 {
			l.unheard = 0
		}
		return lapse{}, false, false
	}
	next, l.queue[0], l.queue = l.queue[0], lapse{}, l.queue[1:]
	return next, l.unheard < maxUnheard, true
}

// tell tells the server of one.
func (l *lapse) tell(e *Engine) error {
	for _, text := range l.rec.lastWords(l.why) {
		err := l.rec.session.Post(e.ctx, l.rec.session.Housekeeping(), text)
		legacy.FreeText(text)
		var status *legacy.StatusError
		if err != nil && !errors.As(err, &status) {
			return err
		}
	}
	return nil
}

// note notes whether that has reached the server.
func (l *lapses) note(e *Engine, upstream string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil, errors.Is(err, legacy.ErrSessionGone):
		l.unheard = 0
		return
	case e.ctx.Err() != nil:
		return
	}
	if l.unheard++; l.unheard == maxUnheard {
		e.log.Warn().Err(err).Str("upstream", upstream).Msg("the server is not told of all calls that have expired: it takes no messages")
	}
}

// lapsed takes the released calls off the books whose clients did not come
// back. Until the server was told of them, [registry.heardOf] each, they count
// against calls.max_released.
func (r *registry) lapsed(now int64) []*record {
	r.mu.Lock()
	defer r.mu.Unlock()
	var late []*record
	for len(r.releasedQueue) > 0 && r.releasedQueue[0].until <= now {
		q := heap.Pop(&r.releasedQueue).(releasedCall)
		// A call that went on and was let go again has another end.
		if rec := r.released[q.id]; rec != nil && rec.until == q.until {
			r.unput(q.id, rec)
			late = append(late, rec)
		}
	}
	r.lapsing += len(late)
	return late
}

// heardOf notes that the server was told of a call that lapsed.
func (r *registry) heardOf() {
	r.mu.Lock()
	r.lapsing--
	r.mu.Unlock()
}

// expireReleased ends what was released for too long.
func (e *Engine) expireReleased(now time.Time) {
	if !e.confirmed() {
		return // another replica may have gone on with some
	}
	// From here on it does not matter: request states are refused by now.
	late := e.calls.lapsed(now.UnixNano())
	for range late {
		e.metrics.expired()
	}
	e.tell(late, "the client did not come back", e.calls.heardOf)
}

// endReleased tells the servers that nobody comes back to the calls that are
// left. Where other replicas stay that did not take their records, clients may
// well come back there, with what is needed in their request states: the
// sessions count as used, so that a peer is given them. Shutdown waits.
func (e *Engine) endReleased(staying bool) {
	var left []*record
	for id := range e.calls.records() {
		if rec, _ := e.calls.take(id); rec != nil && !staying {
			left = append(left, rec)
		}
	}
	e.wg.Add(len(left))
	e.tell(left, "the proxy is stopping", e.wg.Done)
}
