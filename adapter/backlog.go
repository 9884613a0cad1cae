package adapter

import (
	"slices"
	"strconv"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// backlog is what the client of a lasting call is yet to be told, in order. Of
// notifications there are no more than the settings allow: the oldest give way,
// and where they were the client is told how many. While the client is here, one
// alone is never too large: it is told at once, and its size was bounded when it was
// read.
type backlog struct {
	waiting []pending
	notes   int // notifications among them
	bytes   int // and their bytes
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

// put appends a notification. here says whether the client is.
func (b *backlog) put(note []byte, s *Settings, here bool) {
	b.add(len(b.waiting), pending{note: note})
	b.trim(s, here)
}

// ask appends a question.
func (b *backlog) ask(key string) { b.add(len(b.waiting), pending{key: key}) }

// take returns what is to be told next.
func (b *backlog) take() pending {
	p := b.waiting[0]
	b.waiting[0], b.waiting = pending{}, b.waiting[1:]
	b.count(p, -1)
	return p
}

// giveBack puts what was taken, and not told after all, where it was.
func (b *backlog) giveBack(taken []pending, s *Settings, here bool) {
	for i, p := range taken {
		b.add(i, p)
	}
	b.trim(s, here)
}

func (b *backlog) add(at int, p pending) {
	b.waiting = slices.Insert(b.waiting, at, p)
	b.count(p, 1)
}

func (b *backlog) count(p pending, sign int) {
	if p.note != nil {
		b.notes += sign
		b.bytes += sign * len(p.note)
	}
}

// trim lets the oldest notifications give way.
func (b *backlog) trim(s *Settings, here bool) {
	for b.notes > s.MaxUndelivered || b.bytes > s.MaxUndeliveredBytes && (b.notes > 1 || !here) {
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
}

// dropped is the notification that says so: a log message of ours.
func dropped(lost int) []byte {
	n := append([]byte(nil), `{"jsonrpc":"2.0","method":"`+mcp.NotifyMessage+`","params":{"level":"warning","logger":"holdfast","data":{"reason":"overflow","dropped":`...)
	n = strconv.AppendInt(n, int64(lost), 10)
	return append(n, `,"message":"notifications were dropped here: more of them waited for the client than are kept"}}}`...)
}
