package adapter

import (
	"container/list"
	"slices"
	"strconv"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// backlog is what the client of a lasting call is yet to be told, in order. Of
// notifications there are no more than the settings allow: the oldest give way,
// and where they were the client is told how many. While the client is here, one
// alone is never too large: it is told at once, and its size was bounded when it was
// read. All backlogs together are bounded as well (stock.go).
type backlog struct {
	stock   *stock        // that guards the rest, or nil
	counted bool          // in the stock
	who     principal     // of the stock's callers
	shelved *list.Element // on the caller's shelf, or nil

	waiting []pending
	notes   int // notifications among them
	bytes   int // and their bytes
	closed  bool
}

// pending is one thing to be told: a notification, a question, or a gap. All
// zero, it is the call's handle.
type pending struct {
	note []byte // a complete JSON-RPC notification
	key  string // of an open input request
	lost int    // notifications that gave way here
}

// isHandle reports whether it is the call's handle.
func (p pending) isHandle() bool { return p.note == nil && p.key == "" && p.lost == 0 }

func (b *backlog) lock() {
	if b.stock != nil {
		b.stock.mu.Lock()
	}
}

func (b *backlog) unlock() {
	if b.stock != nil {
		b.stock.mu.Unlock()
	}
}

// put appends a notification. here says whether the client is.
func (b *backlog) put(note []byte, s *Settings, here bool) {
	b.lock()
	defer b.unlock()
	b.add(len(b.waiting), pending{note: note})
	b.trim(s, here)
}

// ask appends a question.
func (b *backlog) ask(key string) {
	b.lock()
	defer b.unlock()
	b.add(len(b.waiting), pending{key: key})
}

// first puts the handle or questions before all else.
func (b *backlog) first(all ...pending) {
	b.lock()
	defer b.unlock()
	for i, p := range all {
		b.add(i, p)
	}
}

// take returns what is to be told next. ok is false where there is nothing.
func (b *backlog) take() (p pending, ok bool) {
	b.lock()
	defer b.unlock()
	if len(b.waiting) == 0 {
		return pending{}, false
	}
	p = b.waiting[0]
	b.waiting[0], b.waiting = pending{}, b.waiting[1:]
	b.count(p, -1)
	return p, true
}

// giveBack puts what was taken, and not told after all, where it was.
func (b *backlog) giveBack(taken []pending, s *Settings, here bool) {
	b.lock()
	defer b.unlock()
	for i, p := range taken {
		b.add(i, p)
	}
	b.trim(s, here)
}

// fit is trim for a backlog that the stock has admitted with what it had.
func (b *backlog) fit(s *Settings) {
	b.lock()
	defer b.unlock()
	b.trim(s, false)
}

// withdraw takes out handles and questions that are over.
func (b *backlog) withdraw(over func(pending) bool) {
	b.lock()
	defer b.unlock()
	b.waiting = slices.DeleteFunc(b.waiting, func(p pending) bool { return p.note == nil && p.lost == 0 && over(p) })
}

// next returns what is to be told next, and leaves it there. ok is false where there
// is nothing.
func (b *backlog) next() (p pending, ok bool) {
	b.lock()
	defer b.unlock()
	if len(b.waiting) == 0 {
		return pending{}, false
	}
	return b.waiting[0], true
}

// left is how much waits, with what has given way.
func (b *backlog) left() (n int) {
	b.lock()
	defer b.unlock()
	for _, p := range b.waiting {
		n += max(p.lost, 1)
	}
	return n
}

// all returns what waits.
func (b *backlog) all() []pending {
	b.lock()
	defer b.unlock()
	return slices.Clone(b.waiting)
}

// size is how many bytes of notifications wait.
func (b *backlog) size() int {
	b.lock()
	defer b.unlock()
	return b.bytes
}

// leave takes the backlog out of its stock, as it is.
func (b *backlog) leave() {
	b.lock()
	defer b.unlock()
	if !b.counted {
		return
	}
	notes := b.notes
	b.notes = 0 // as the stock is to see it
	b.stock.count(b, -b.bytes)
	b.notes, b.counted = notes, false
}

// close forgets all, and takes nothing more: nobody is told any of it.
func (b *backlog) close() {
	b.lock()
	defer b.unlock()
	bytes := b.bytes
	b.waiting, b.notes, b.bytes, b.closed = nil, 0, 0, true
	if b.counted {
		b.stock.count(b, -bytes)
	}
}

// Below, the stock's mu is held, where there is one.

func (b *backlog) add(at int, p pending) {
	if b.closed {
		return
	}
	b.waiting = slices.Insert(b.waiting, at, p)
	b.count(p, 1)
}

func (b *backlog) count(p pending, sign int) {
	if p.note == nil {
		return
	}
	b.notes += sign
	b.bytes += sign * len(p.note)
	if b.counted {
		b.stock.count(b, sign*len(p.note))
	}
}

// trim lets the oldest notifications give way: here, and wherever there are too many.
func (b *backlog) trim(s *Settings, here bool) {
	for b.notes > s.MaxUndelivered || b.bytes > s.MaxUndeliveredBytes && (b.notes > 1 || !here) {
		b.giveWay()
	}
	if b.counted {
		b.stock.trim(b, here)
	}
}

// giveWay makes the oldest notification, of which there is one, part of a gap.
func (b *backlog) giveWay() {
	i := slices.IndexFunc(b.waiting, func(p pending) bool { return p.note != nil })
	b.count(b.waiting[i], -1)
	lost := 1
	if i+1 < len(b.waiting) && b.waiting[i+1].lost > 0 { // a gap that was given back before
		lost += b.waiting[i+1].lost
		b.waiting = slices.Delete(b.waiting, i+1, i+2)
	}
	if i > 0 && b.waiting[i-1].lost > 0 {
		b.waiting[i-1].lost += lost
		b.waiting = slices.Delete(b.waiting, i, i+1)
	} else {
		b.waiting[i] = pending{lost: lost}
	}
}

// dropped is the notification that says so: a log message of ours.
func dropped(lost int) []byte {
	n := append([]byte(nil), `{"jsonrpc":"2.0","method":"`+mcp.NotifyMessage+`","params":{"level":"warning","logger":"holdfast","data":{"reason":"overflow","dropped":`...)
	n = strconv.AppendInt(n, int64(lost), 10)
	return append(n, `,"message":"notifications were dropped here: more of them waited than are kept"}}}`...)
}
