package adapter

import (
	"container/heap"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
)

// lapse is the end of released calls of one session whose clients do not come
// back: the server is told of each. They may be a hundred thousand, far more than
// wait to be posted elsewhere, so that some tellers post them side by side.
type lapse struct {
	records []*record
	why     string
	next    atomic.Int64
	unheard atomic.Int64 // tellings in a row that did not reach the server
}

const (
	tellers    = 16          // of a lapse
	maxUnheard = 2 * tellers // tellings in a row, after which the server is told no more of a lapse
)

// lapses sorts records by their sessions.
func lapses(records []*record, why string) (all []*lapse) {
	of := make(map[*legacy.Session]*lapse)
	for _, rec := range records {
		l := of[rec.session]
		if l == nil {
			l = &lapse{why: why}
			of[rec.session] = l
			all = append(all, l)
		}
		l.records = append(l.records, rec)
	}
	return all
}

// start has the server told until e.ctx ends, by goroutines of group. The session
// of each record is given back then, and told called.
func (l *lapse) start(e *Engine, group *sync.WaitGroup, told func()) {
	for range min(tellers, len(l.records)) {
		group.Go(func() {
			for i := l.next.Add(1) - 1; i < int64(len(l.records)); i = l.next.Add(1) - 1 {
				rec := l.records[i]
				l.records[i] = nil
				l.tell(e, rec)
				rec.session.Return(false)
				told()
			}
		})
	}
}

// tell tells the server of one.
func (l *lapse) tell(e *Engine, rec *record) {
	if e.ctx.Err() != nil || l.unheard.Load() >= maxUnheard {
		return
	}
	for _, text := range rec.lastWords(l.why) {
		err := rec.session.Post(e.ctx, rec.session.Housekeeping(), text)
		legacy.FreeText(text)
		var status *legacy.StatusError
		switch {
		case err == nil || errors.As(err, &status):
			continue
		case errors.Is(err, legacy.ErrSessionGone): // and all its calls with it
			l.unheard.Store(maxUnheard)
		case e.ctx.Err() != nil:
		case l.unheard.Add(1) == maxUnheard:
			name := ""
			if up := e.upstreamOf(rec); up != nil {
				name = up.Name
			}
			e.log.Warn().Err(err).Str("upstream", name).Msg("the server is not told of all calls that have expired: it takes no messages")
		}
		return
	}
	l.unheard.Store(0)
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
	for _, l := range lapses(late, "the client did not come back") {
		l.start(e, &e.housekeeping, e.calls.heardOf)
	}
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
	for _, l := range lapses(left, "the proxy is stopping") {
		l.start(e, &e.wg, func() {})
	}
}
