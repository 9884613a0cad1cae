package bus

import (
	"context"
	"sync"
)

// Send sends one message. It blocks while the peer has not made room for it.
// If it fails when a part of the message is already on its way, the stream is
// over (ErrLost at the peer). Before the peer has taken the stream, Send waits
// for that.
func (s *Stream) Send(ctx context.Context, msg []byte) error {
	return s.send(ctx, msg, 0)
}

// End sends a last message, or none if msg is nil, and the end mark; together
// they are one NATS message if msg is small. After a handler's End its stream
// is over, whatever the opener may still have to send.
func (s *Stream) End(ctx context.Context, msg []byte) error {
	fl := flagEnd
	if msg == nil {
		fl |= flagVoid
	}
	return s.send(ctx, msg, fl)
}

func (s *Stream) send(ctx context.Context, msg []byte, last flags) error {
	if len(msg) > s.bus.s.MaxMessage {
		if !s.key.opened {
			s.end(ErrTooLarge, codeTooLarge) // the opener waits for what will not come
		}
		return ErrTooLarge
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.sendRest(ctx, msg, last, false)
}

// sendRest sends what is left of a message in frames. s.sending is held.
func (s *Stream) sendRest(ctx context.Context, msg []byte, last flags, begun bool) error {
	chunk := s.bus.chunk()
	for {
		n, err := s.sendFrame(msg, chunk, last)
		if err == errFull {
			err = s.awaitRoom(ctx)
			if err == nil {
				continue
			}
		}
		if err != nil {
			if begun {
				s.end(err, codeLost)
			}
			return err
		}
		if begun = true; n == len(msg) {
			return nil
		}
		msg = msg[n:]
	}
}

// sendFrame sends as much of msg as one frame takes, or fails with errFull.
func (s *Stream) sendFrame(msg []byte, chunk int, last flags) (int, error) {
	s.mu.Lock()
	if s.err != nil || s.endSent {
		err := s.err
		if err == nil {
			err = ErrClosed
		}
		s.mu.Unlock()
		return 0, err
	}
	if s.key.opened && !s.isTaken {
		s.mu.Unlock()
		return 0, errFull
	}
	n, ok := s.fits(len(msg), chunk, s.bus.s.Window)
	if !ok {
		s.mu.Unlock()
		return 0, errFull
	}
	s.outSeq++
	s.sent += uint64(n + frameCost)
	s.spoken = true
	f := s.header(typeData)
	f.seq = s.outSeq
	if n < len(msg) {
		f.flags |= flagMore
	} else {
		f.flags |= last
		s.endSent = last&flagEnd != 0
	}
	s.mu.Unlock()
	notice := s.notice
	if s.key.opened {
		notice = s.bus.noticeOf(s.key, typeData)
	}
	b := buffers.get()
	defer buffers.put(b)
	*b = append(f.appendHeader(*b), msg[:n]...)
	if err := s.bus.publish(s.subject, notice, *b); err != nil {
		s.end(errLostNoBus, 0)
		return 0, errLostNoBus
	}
	s.published.Store(f.seq)
	return n, nil
}

// awaitRoom returns when it may be worth to try again.
func (s *Stream) awaitRoom(ctx context.Context) error {
	s.mu.Lock()
	untaken := s.key.opened && !s.isTaken && s.err == nil
	s.mu.Unlock()
	if untaken {
		s.urge()
	}
	select {
	case <-s.room:
		return nil
	case <-s.done:
		return nil // sendFrame says why
	case <-ctx.Done():
		return ctx.Err()
	}
}

// buffers are for frames while they are published; NATS copies them.
var buffers = bufferPool{sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}}

type bufferPool struct{ p sync.Pool }

func (p *bufferPool) get() *[]byte {
	b := p.p.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

func (p *bufferPool) put(b *[]byte) {
	if cap(*b) <= 256<<10 {
		p.p.Put(b)
	}
}
