package bus

import (
	"context"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"
)

// A Stream carries messages between two replicas, whole and in order, both
// ways. Whoever got it from Ask must Close it; for a handler, returning does.
type Stream struct {
	bus     *Bus
	key     streamKey
	subject string          // of what goes to the peer
	notice  string          // where NATS says that an open, or a handler's data, had no receiver
	ctx     context.Context // of the handler; nil at the opener
	cancel  context.CancelCauseFunc

	sending sync.Mutex // held while one message is published, so that frames leave by seq

	arrived chan struct{} // to Recv; room for one
	room    chan struct{} // to Send; room for one
	done    chan struct{} // closed by end

	published atomic.Uint64 // seq of the last data frame that NATS has

	mu     sync.Mutex // guards what follows
	err    error      // why it is over
	opened int64
	heard  int64 // last frame from the peer
	spoke  int64 // last frame to the peer
	opening
	inbound
	outbound
}

// streamKey names a stream within a replica. A replica may ask itself: then
// the two ends differ in opened.
type streamKey struct {
	peer   string
	token  token
	opened bool // by this replica
}

// newStream makes one end of a stream. It is not yet registered.
func (b *Bus) newStream(key streamKey) *Stream {
	now := b.now()
	return &Stream{
		bus:     b,
		key:     key,
		subject: b.subject(key.peer) + ".s",
		arrived: make(chan struct{}, 1),
		room:    make(chan struct{}, 1),
		done:    make(chan struct{}),
		opened:  now,
		heard:   now,
		spoke:   now,
		cancel:  func(error) {},
	}
}

// Peer is the id of the replica at the other end.
func (s *Stream) Peer() string { return s.key.peer }

// Recv returns the next message, which is valid until the next Recv. The zero
// time waits for ever. Messages that arrived are returned before an error:
// io.EOF after the peer's last one, ErrDeadline, or what ended the stream.
func (s *Stream) Recv(until time.Time) ([]byte, error) {
	var late <-chan time.Time
	for {
		s.mu.Lock()
		msg, ok, err := s.next(s.bus.s.MaxMessage)
		if !ok && err == nil {
			err = s.err
		}
		ack := s.ackDue(s.limit(s.bus.s.Window)) && s.err == nil
		s.mu.Unlock()
		if ack {
			s.sendAlive()
		}
		switch {
		case ok:
			return msg, nil
		case err == ErrTooLarge:
			s.end(err, codeTooLarge)
			return nil, err
		case err != nil:
			return nil, err
		}
		if late == nil && !until.IsZero() {
			timer := time.NewTimer(time.Until(until))
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-s.arrived:
		case <-s.done:
		case <-late:
			return nil, ErrDeadline
		}
	}
}

// Close lets go of the stream. If it has not ended, the peer learns that this
// was on purpose: its handler's context ends with ErrReset, its Recv fails with
// it. Idempotent.
func (s *Stream) Close() { s.quit(codeClosed) }

// Abandon lets go of the stream as if this replica had fallen silent: the peer
// learns ErrLost, and not that this was on purpose. Idempotent, also with Close.
func (s *Stream) Abandon() { s.quit(codeLost) }

func (s *Stream) quit(c code) {
	s.mu.Lock()
	over := s.err != nil
	s.letGo = true
	if s.finished() {
		c = codeFinished
	}
	s.mu.Unlock()
	if !over {
		s.end(ErrClosed, c)
	}
}

// finished reports that nothing is owed: the handler has said its last word,
// and what the opener may still have to say does not matter. s.mu is held.
func (s *Stream) finished() bool {
	if s.key.opened {
		return s.ended
	}
	return s.endSent
}

// end is the only way in which a stream ends; the first reason stands. The
// peer is told the code, unless that is 0 or it needs not be told.
func (s *Stream) end(reason error, c code) bool {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return false
	}
	s.err = reason
	s.stopOpening()
	close(s.done)
	s.mu.Unlock()
	s.bus.forget(s, c)
	s.cancel(reason)
	if c != 0 && c != codeFinished {
		s.bus.sendReset(s.key, c, "")
	}
	return true
}

// Taken reports whether the peer has all that this side has sent.
func (s *Stream) Taken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (s.isTaken || !s.key.opened) && s.acked == s.sent
}

// header is that of a frame that s sends. s.mu is held.
func (s *Stream) header(t frameType) frame {
	s.announced = s.consumed
	s.spoke = s.bus.now()
	f := frame{
		typ: t, token: s.key.token, seq: s.published.Load(), acked: s.consumed,
		window: uint32(s.bus.s.Window), from: s.bus.id,
	}
	if s.key.opened {
		f.flags = flagOpener
	}
	return f
}

// sendAlive says that this end is there, what it has sent and what it has
// consumed. Its loss does no harm: the clock sends another.
func (s *Stream) sendAlive() {
	s.mu.Lock()
	f := s.header(typeAlive)
	s.mu.Unlock()
	b := buffers.get()
	*b = f.appendHeader(*b)
	_ = s.bus.publish(s.subject, "", *b)
	buffers.put(b)
}

// take is what a frame from the peer does to the stream, other than opening
// and resetting it. Hot: once per frame. It never blocks.
func (s *Stream) take(f *frame) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.heard = s.bus.now()
	s.taken()
	s.acknowledge(f)
	var err error
	if f.typ == typeData {
		err = s.push(f, s.bus.s.Window)
	} else if f.seq > s.inSeq {
		err = errLostGap
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		s.end(err, codeLost)
	case f.typ == typeData:
		signal(s.arrived)
	}
	signal(s.room)
}

// tick is the clock's look at the stream.
func (s *Stream) tick(now int64, patient bool) {
	t := s.bus.timeout()
	s.mu.Lock()
	switch {
	case s.err != nil || s.finished():
		s.mu.Unlock()
	case s.key.opened && !s.isTaken:
		again := now-s.asked > t/6
		s.mu.Unlock()
		if now-s.opened > t && !patient {
			err := ErrNoReplica
			if !s.bus.nc.IsConnected() {
				err = ErrDisconnected
			}
			s.end(err, codeLost)
		} else if again {
			s.ask()
		}
	default:
		silent := now-s.heard > t && !patient
		speak := now-s.spoke > t/3 || !s.key.opened && !s.spoken && now-s.opened > t/12
		s.spoken = s.spoken || speak
		s.mu.Unlock()
		if silent {
			s.end(errLostSilent, codeLost)
		} else if speak {
			s.sendAlive()
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// noticeOf is the subject on which NATS says that a frame had no receiver.
func (b *Bus) noticeOf(k streamKey, t frameType) string {
	buf := make([]byte, 0, 128)
	buf = append(buf, b.inbox...)
	switch {
	case t == typeOpen:
		buf = append(buf, ".o."...)
	case k.opened:
		buf = append(buf, ".d."...)
	default:
		buf = append(buf, ".h."...)
	}
	buf = hex.AppendEncode(buf, k.token[:])
	if !k.opened {
		buf = append(buf, '.')
		buf = append(buf, k.peer...)
	}
	return string(buf)
}
