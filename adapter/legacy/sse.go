package legacy

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"sync"
	"time"
)

var (
	// ErrLineTooLong: a line of an event stream exceeds Settings.MaxLine.
	ErrLineTooLong = errors.New("line of the event stream is too long")
	// ErrEventTooLong: the data of an event exceeds Settings.MaxMessage.
	ErrEventTooLong = errors.New("event of the event stream is too long")
)

// maxEventID bounds what a server may make the proxy remember of each stream:
// an id goes back in a header, and a longer one would fit in none.
const maxEventID = 4 << 10

// sseEvent is one event that a blank line ended. Its slices are valid until the
// decoder is called again or the bytes that it was given are overwritten.
type sseEvent struct {
	// Data is the data lines joined by \n. Without data an event is no message,
	// but its ID and Retry count all the same.
	Data []byte
	Name []byte // the event field; empty stands for "message"
	// ID becomes the stream's last event id if HasID. An empty one takes that
	// back: nothing can be resumed from here.
	ID    []byte
	HasID bool
	Retry time.Duration // negative: the event does not say
}

// sseDecoder turns the bytes of a text/event-stream into events, as they come:
// WHATWG HTML, "Server-sent events", 9.2.5 and 9.2.6. Both limits must be set.
// It does not read itself, so that a stream may be left at any byte and gone on
// with later, and it holds memory only while an event has begun and not ended.
type sseDecoder struct {
	maxLine  int // bytes of a line without its end
	maxEvent int // bytes of an event's data

	pending *ssePending // what came of the current event; nil: nothing
	bom     uint8       // bytes seen of the byte order mark; len(byteOrderMark): past it
	skipLF  bool        // the last byte was a CR: an LF belongs to it
}

const byteOrderMark = "\xef\xbb\xbf"

// newDecoder returns a decoder at the start of a stream.
func newDecoder(s *Settings) sseDecoder {
	return sseDecoder{maxLine: s.MaxLine, maxEvent: s.MaxMessage}
}

// Next reads on in b. If ok, ev is the next event and rest the bytes after it,
// to be given to the next call. If not, b is used up and may be overwritten. An
// error is the end of the stream; it matches ErrLineTooLong or ErrEventTooLong.
// Events with neither data nor ID nor Retry are left out.
//
// Hot: once per event. An event with one data line that lies whole in b is
// returned as parts of b.
func (d *sseDecoder) Next(b []byte) (ev sseEvent, rest []byte, ok bool, err error) {
	d.release()
	b = d.begin(b)
	if d.pending == nil {
		if ev, b, ok = d.whole(b); ok {
			return ev, b, true, nil
		}
	}
	ev, rest, ok, err = d.pieces(b)
	if err != nil {
		d.free()
	}
	return ev, rest, ok, err
}

// release gives back the memory of the event that Next returned last, before a
// wait for more bytes. Next itself does so too.
func (d *sseDecoder) release() {
	if d.pending != nil && d.pending.returned {
		d.free()
	}
}

// free gives back all memory. An event that has not ended is dropped, as the
// end of a stream demands: 9.2.6, "any pending data must be discarded".
func (d *sseDecoder) free() {
	if d.pending != nil {
		d.pending.put()
		d.pending = nil
	}
}

// begin drops the byte order mark at the start of the stream and the LF of a
// CRLF that was cut in two.
func (d *sseDecoder) begin(b []byte) []byte {
	for len(b) > 0 && int(d.bom) < len(byteOrderMark) {
		if b[0] == byteOrderMark[d.bom] {
			d.bom++
			b = b[1:]
			continue
		}
		if d.bom > 0 { // it was the start of a line
			d.hold().add([]byte(byteOrderMark[:d.bom]))
		}
		d.bom = uint8(len(byteOrderMark))
	}
	if d.skipLF && len(b) > 0 {
		d.skipLF = false
		if b[0] == '\n' {
			b = b[1:]
		}
	}
	return b
}

// whole returns the next event without a copy if it lies in b to its end and
// has at most one data line. Otherwise rest starts where the event does.
func (d *sseDecoder) whole(b []byte) (ev sseEvent, rest []byte, ok bool) {
	ev.Retry = -1
	hasData := false
	for at := b; ; {
		line, next, found, cr := cutEventLine(at)
		if !found || len(line) > d.maxLine {
			return sseEvent{}, b, false
		}
		at = next
		if len(line) == 0 {
			d.skipLF = cr
			if hasData || ev.HasID || ev.Retry >= 0 {
				return ev, at, true
			}
			ev.Name, b = nil, at // comments alone: what follows may be an event
			continue
		}
		name, value := cutField(line)
		switch string(name) {
		case "data":
			if hasData || len(value) > d.maxEvent {
				return sseEvent{}, b, false
			}
			ev.Data, hasData = value, true
		case "event":
			ev.Name = value
		case "id":
			if id, ok := eventID(value); ok {
				ev.ID, ev.HasID = id, true
			}
		case "retry":
			if retry, ok := eventRetry(value); ok {
				ev.Retry = retry
			}
		}
	}
}

// pieces reads on line by line and keeps what it needs of each.
func (d *sseDecoder) pieces(b []byte) (ev sseEvent, rest []byte, ok bool, err error) {
	for len(b) > 0 {
		line, next, found, cr := cutEventLine(b)
		if !found {
			p := d.hold()
			if len(p.partial())+len(b) > d.maxLine {
				return sseEvent{}, nil, false, ErrLineTooLong
			}
			p.add(b)
			return sseEvent{}, nil, false, nil
		}
		b, d.skipLF = next, cr
		held := d.pending != nil && len(d.pending.partial()) > 0
		if held {
			if len(d.pending.partial())+len(line) > d.maxLine {
				return sseEvent{}, nil, false, ErrLineTooLong
			}
			d.pending.add(line)
			line = d.pending.partial()
		} else if len(line) > d.maxLine {
			return sseEvent{}, nil, false, ErrLineTooLong
		}
		if len(line) == 0 {
			if d.pending != nil && d.pending.counts() {
				d.pending.returned = true
				return d.pending.event(), b, true, nil
			}
			d.free()
			continue
		}
		if err := d.field(line, held); err != nil {
			return sseEvent{}, nil, false, err
		}
	}
	if d.pending != nil && d.pending.empty() {
		d.free()
	}
	return sseEvent{}, nil, false, nil
}

// field takes in a line that is not blank. held says that the line is the
// partial one at the end of the pending buffer.
func (d *sseDecoder) field(line []byte, held bool) error {
	name, value := cutField(line)
	switch string(name) {
	case "data":
		p := d.hold()
		if p.size(value) > d.maxEvent {
			return ErrEventTooLong
		}
		p.addData(value, held)
		return nil
	case "event":
		p := d.hold()
		p.name = append(p.name[:0], value...)
	case "id":
		if id, ok := eventID(value); ok {
			p := d.hold()
			p.id, p.hasID = append(p.id[:0], id...), true
		}
	case "retry":
		if retry, ok := eventRetry(value); ok {
			d.hold().retry = retry
		}
	}
	if held {
		d.pending.buf = d.pending.buf[:d.pending.end]
	}
	return nil
}

func (d *sseDecoder) hold() *ssePending {
	if d.pending == nil {
		d.pending = pendings.Get().(*ssePending)
	}
	return d.pending
}

// ssePending is an event that came in pieces.
type ssePending struct {
	buf        []byte // the data so far is buf[start:end], the partial line buf[end:]
	start, end int
	name, id   []byte
	retry      time.Duration // negative: none
	hasData    bool
	hasID      bool
	returned   bool // by Next; to be given back
}

// maxPending bounds the buffers that stay in the pool, so that one large event
// does not stay in memory for good.
const maxPending = 256 << 10

var pendings = sync.Pool{New: func() any { return &ssePending{retry: -1} }}

func (p *ssePending) put() {
	if cap(p.buf)+cap(p.name)+cap(p.id) > maxPending {
		return
	}
	*p = ssePending{buf: p.buf[:0], name: p.name[:0], id: p.id[:0], retry: -1}
	pendings.Put(p)
}

func (p *ssePending) partial() []byte { return p.buf[p.end:] }

// counts reports whether the event is worth a return.
func (p *ssePending) counts() bool { return p.hasData || p.hasID || p.retry >= 0 }

func (p *ssePending) empty() bool {
	return !p.counts() && len(p.name) == 0 && len(p.partial()) == 0
}

func (p *ssePending) event() sseEvent {
	return sseEvent{Data: p.buf[p.start:p.end:p.end], Name: p.name, ID: p.id, HasID: p.hasID, Retry: p.retry}
}

// add appends to the partial line. The buffer doubles, so that an event in many
// small pieces costs no more than in few.
func (p *ssePending) add(b []byte) {
	if cap(p.buf)-len(p.buf) < len(b) {
		p.buf = slices.Grow(p.buf, max(len(b), cap(p.buf)))
	}
	p.buf = append(p.buf, b...)
}

// size is that of the data with one more line.
func (p *ssePending) size(value []byte) int {
	if !p.hasData {
		return len(value)
	}
	return p.end - p.start + 1 + len(value)
}

// addData adds a data line. A held value is already in the buffer, behind its
// field name: the first one stays there, the others move up over the name.
func (p *ssePending) addData(value []byte, held bool) {
	if !held {
		if p.hasData {
			p.add([]byte{'\n'})
		}
		p.add(value)
	} else if !p.hasData {
		p.start = len(p.buf) - len(value)
	} else {
		p.buf[p.end] = '\n'
		p.buf = p.buf[:p.end+1+copy(p.buf[p.end+1:], value)]
	}
	p.end, p.hasData = len(p.buf), true
}

// cutEventLine cuts the first line off b; it ends with LF, CR or CRLF. cr says
// that the end is a CR and the last byte of b: an LF may still belong to it.
func cutEventLine(b []byte) (line, rest []byte, found, cr bool) {
	i := lineEnd(b)
	if i < 0 {
		return nil, b, false, false
	}
	line, rest = b[:i:i], b[i+1:]
	if b[i] == '\r' {
		if len(rest) == 0 {
			cr = true
		} else if rest[0] == '\n' {
			rest = rest[1:]
		}
	}
	return line, rest, true, cr
}

// lineEnd returns the index of the first CR or LF in b, or -1. It looks for one
// after the other in growing windows: a search of all of b for an LF, line by
// line, would be quadratic where lines end with CR.
func lineEnd(b []byte) int {
	for at, window := 0, 512; at < len(b); window *= 2 {
		part := b[at:min(at+window, len(b))]
		i := bytes.IndexByte(part, '\n')
		if i >= 0 {
			part = part[:i]
		}
		if j := bytes.IndexByte(part, '\r'); j >= 0 {
			return at + j
		}
		if i >= 0 {
			return at + i
		}
		at += len(part)
	}
	return -1
}

// cutField splits a line into field name and value; one space after the colon
// is not part of the value. The name of a comment is empty.
func cutField(line []byte) (name, value []byte) {
	i := bytes.IndexByte(line, ':')
	if i < 0 {
		return line, nil
	}
	name, value = line[:i], line[i+1:]
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return name, value
}

// eventID returns the id that a server set. One with a NUL is ignored; one that
// is too long to be sent back counts as none at all, because resuming from the
// id before it would repeat what was seen.
func eventID(value []byte) (id []byte, ok bool) {
	if bytes.IndexByte(value, 0) >= 0 {
		return nil, false
	}
	if len(value) > maxEventID {
		return nil, true
	}
	return value, true
}

// eventRetry reads milliseconds, digits only. What exceeds a Duration is cut.
func eventRetry(value []byte) (time.Duration, bool) {
	const most = math.MaxInt64 / int64(time.Millisecond)
	var ms int64
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		if ms = ms*10 + int64(c-'0'); ms > most {
			ms = most
		}
	}
	return time.Duration(ms) * time.Millisecond, len(value) > 0
}
