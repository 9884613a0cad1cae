package bus

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// dispatch takes all that is sent to this replica, one message at a time, and
// never blocks on what a stream's owner does. Hot: once per frame.
func (b *Bus) dispatch(m *nats.Msg) {
	if len(m.Data) == 0 {
		if m.Header.Get("Status") == "503" {
			b.undelivered(m.Subject)
		}
		return
	}
	f, err := parseFrame(m.Data)
	if errors.Is(err, errVersion) && f.typ != typeReset {
		b.refuseVersion(&f)
		return
	}
	if err != nil && !errors.Is(err, errVersion) {
		b.log.warn("bus frame is not understood", func(e *zerolog.Event) { e.Err(err) })
		return
	}
	switch f.typ {
	case typeOpen:
		if f.flags&flagOpener != 0 {
			b.open(&f)
		}
	case typeData, typeAlive:
		b.mu.Lock()
		s := b.streams[streamKey{string(f.from), f.token, f.flags&flagOpener == 0}]
		b.mu.Unlock()
		if s == nil {
			b.unknown(&f)
			return
		}
		s.take(&f)
	case typeReset:
		b.reset(&f)
	case typeTell:
		b.told(&f)
	default:
		b.log.warn("bus frame of unknown type", func(e *zerolog.Event) {
			e.Bytes("peer", f.from).Uint8("type", byte(f.typ))
		})
		if f.token != (token{}) {
			b.sendReset(keyOf(&f), codeRefused, fmt.Sprintf("frames of type %d are not understood here", f.typ))
		}
	}
}

// keyOf is the stream here that a frame belongs to.
func keyOf(f *frame) streamKey {
	return streamKey{string(f.from), f.token, f.flags&flagOpener == 0}
}

// refuseVersion answers a frame of which only the sender is known. During an
// upgrade that is a replica much newer or older than this one.
func (b *Bus) refuseVersion(f *frame) {
	b.log.warn("bus peer speaks a version that is not understood here", func(e *zerolog.Event) {
		e.Bytes("peer", f.from).Uint8("theirs", f.version).Uint8("ours", version)
	})
	if f.token != (token{}) {
		b.sendReset(keyOf(f), codeRefused, fmt.Sprintf("version %d of the bus is not understood here, only %d", f.version, version))
	}
}

// undelivered: a frame had no receiver. The subject says which.
func (b *Bus) undelivered(subject string) {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(subject, b.inbox+"."), ".")
	text, peer, _ := strings.Cut(rest, ".")
	var t token
	if n, err := hex.Decode(t[:], []byte(text[:min(len(text), 2*len(t))])); err != nil || n != len(t) {
		return
	}
	b.mu.Lock()
	var s *Stream
	if kind == "h" {
		s = b.streams[streamKey{peer, t, false}]
	} else {
		s = b.asked[t]
	}
	b.mu.Unlock()
	switch {
	case s == nil:
	case kind == "o":
		s.unheard()
	default:
		s.end(errLostSent, codeLost)
	}
}

// unknown answers a frame for a stream that is not here.
func (b *Bus) unknown(f *frame) {
	key := keyOf(f)
	b.mu.Lock()
	c, ok := b.ended.code(key)
	b.mu.Unlock()
	if !ok {
		c = codeUnknown
	}
	b.sendReset(key, c, "")
}

const maxReason = 256

// sendReset tells the peer of a stream that it is over. A reset is never
// answered, whatever it says.
func (b *Bus) sendReset(k streamKey, c code, why string) {
	f := frame{typ: typeReset, token: k.token, kind: byte(c), from: b.id}
	if k.opened {
		f.flags = flagOpener
	}
	buf := buffers.get()
	defer buffers.put(buf)
	*buf = append(f.appendHeader(*buf), why[:min(len(why), maxReason)]...)
	// If it does not arrive, the peer's next sign of life is answered with it.
	_ = b.publish(b.subject(k.peer)+".s", "", *buf)
}

// reset ends a stream as its peer says. The opener is told apart: for a handler
// only a code that the opener sent on purpose means that it let go, since that
// cancels what the handler does for it.
func (b *Bus) reset(f *frame) {
	b.mu.Lock()
	s := b.streams[keyOf(f)]
	b.mu.Unlock()
	if s == nil {
		return
	}
	c := code(f.kind)
	var err error
	switch {
	case c == codeClosed:
		err = ErrReset
	case c == codeLeft && s.untaken():
		err = ErrLeft
	case c == codeLeft:
		err = errLostLeft
	case c == codeTooLarge && s.key.opened:
		err = ErrTooLarge
	case c == codeRefused && s.key.opened:
		err = fmt.Errorf("%w: %q", ErrRefused, f.payload[:min(len(f.payload), maxReason)])
	case c == codeUnknown && s.key.opened:
		err = errUnknown
	default:
		err = errLostPeer
	}
	s.mu.Lock()
	finished := s.finished()
	s.mu.Unlock()
	if !finished {
		s.end(err, 0)
	}
}
