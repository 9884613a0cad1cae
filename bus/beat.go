package bus

import (
	"encoding/binary"
	"errors"
	"time"
)

// A beat is what a replica tells all others: that it lives, and whom it heard.
// It is the payload of a frame of typeBeat; what follows the known fields, of
// the whole and of each entry, is skipped.
type beat struct {
	number    uint64        // counts the sender's beats from 1
	uptime    time.Duration // of the sender
	routePort uint16        // where it listens for routes; 0 outside a cluster
	version   string
	about     []byte
	heard     []hearing
}

// hearing is what the sender of a beat knows of a third replica.
type hearing struct {
	id     string
	left   bool          // it said goodbye
	number uint64        // of the last beat heard from it
	ago    time.Duration // since then
}

const (
	maxHearings = 1024
	maxBeat     = 128 << 10
	entryFixed  = 18 // of an entry without its id: length of the id, flags, number, ago
)

var errBeat = errors.New("heartbeat is cut short")

func (t *beat) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, t.number)
	b = binary.BigEndian.AppendUint64(b, uint64(t.uptime.Microseconds()))
	b = binary.BigEndian.AppendUint16(b, t.routePort)
	b = append(b, byte(len(t.version)))
	b = append(b, t.version...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(t.about)))
	b = append(b, t.about...)
	heard := t.heard[:min(len(t.heard), maxHearings)]
	b = binary.BigEndian.AppendUint16(b, uint16(len(heard)))
	for _, h := range heard {
		b = append(b, byte(entryFixed+len(h.id)), byte(len(h.id)))
		b = append(b, h.id...)
		var left byte
		if h.left {
			left = 1
		}
		b = append(b, left)
		b = binary.BigEndian.AppendUint64(b, h.number)
		b = binary.BigEndian.AppendUint64(b, uint64(h.ago.Microseconds()))
	}
	return b
}

// parseBeat reads b and keeps nothing of it.
func parseBeat(b []byte) (beat, error) {
	var t beat
	if len(b) > maxBeat {
		return t, errors.New("heartbeat is too large")
	}
	r := reader{b: b}
	t.number = r.uint64()
	t.uptime = r.duration()
	t.routePort = r.uint16()
	t.version = string(r.bytes(int(r.byte())))
	if about := r.bytes(int(r.uint16())); len(about) > 0 {
		t.about = append(t.about, about...)
	}
	n := int(r.uint16())
	if r.short || len(t.version) > maxVersion || len(t.about) > maxAbout || n > maxHearings {
		return beat{}, errBeat
	}
	for range n {
		e := reader{b: r.bytes(int(r.byte()))}
		id := e.bytes(int(e.byte()))
		h := hearing{id: string(id)}
		h.left = e.byte()&1 != 0
		h.number = e.uint64()
		h.ago = e.duration()
		if r.short || e.short || !validID(id) {
			return beat{}, errBeat
		}
		t.heard = append(t.heard, h)
	}
	return t, nil
}

// reader takes fields off the front of b. After the first that is not there
// whole it is short, and everything is zero.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) bytes(n int) []byte {
	if r.short || n > len(r.b) {
		r.short = true
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if v := r.bytes(1); v != nil {
		return v[0]
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if v := r.bytes(2); v != nil {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if v := r.bytes(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// duration reads microseconds; more than 285 years are that many.
func (r *reader) duration() time.Duration {
	const most = 1 << 53 // microseconds; as nanoseconds they still fit
	return time.Duration(min(r.uint64(), most)) * time.Microsecond
}
