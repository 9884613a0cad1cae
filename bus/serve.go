package bus

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// Handle sets what serves the streams of a kind that peers open. f runs in a
// goroutine of its own; whoever asks for a kind without a handler is refused,
// except that a Bus just opened gets some time for its calls of Handle. The
// stream ends when it returns: with ErrReset at
// the opener, unless f has called End, or with ErrLost if f has called Abandon,
// or panicked. first is f's to keep.
//
// ctx ends with the stream; its cause is ErrReset if the opener let go, ErrLost
// if the opener is lost or left, ErrClosed if this bus is being closed, when
// the stream can still be ended. f must return soon then.
func (b *Bus) Handle(kind byte, f func(ctx context.Context, s *Stream, first []byte)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handlers[kind] = f
}

// open takes a request to open a stream, or a copy of one.
func (b *Bus) open(f *frame) {
	key := streamKey{peer: string(f.from), token: f.token}
	b.mu.Lock()
	if s := b.streams[key]; s != nil {
		b.mu.Unlock()
		s.sendAlive()
		return
	}
	if c, ok := b.ended.code(key); ok {
		b.mu.Unlock()
		b.sendReset(key, c, "")
		return
	}
	handler := b.handlers[f.kind]
	if handler == nil && b.now() < b.timeout()/2 {
		b.mu.Unlock()
		return // it may be set in a moment, and the opener will ask again
	}
	why, c := "", codeRefused
	switch {
	case b.closing:
		c = codeLeft
	case handler == nil:
		why = fmt.Sprintf("nothing here serves streams of kind %d", f.kind)
	case b.serving >= b.s.MaxStreams:
		why = fmt.Sprintf("%d streams are open here, which is the limit", b.serving)
	}
	if why != "" || c != codeRefused {
		b.mu.Unlock()
		b.sendReset(key, c, why)
		return
	}
	s := b.newStream(key)
	s.notice = b.noticeOf(key, typeData)
	s.ctx, s.cancel = context.WithCancelCause(b.base)
	s.inSeq = 1
	s.acknowledge(f)
	whole := f.flags&flagMore == 0
	s.received = uint64(len(f.payload) + frameCost)
	s.exempt = s.received
	if whole {
		s.consumed = s.received
	} else {
		s.queue = append(s.queue, piece{data: f.payload, more: true})
	}
	s.ended = f.flags&flagEnd != 0
	b.streams[key] = s
	b.serving++
	b.running.Add(1)
	b.mu.Unlock()
	if !whole {
		s.sendAlive() // the opener waits for it
	}
	go b.serve(s, handler, f.payload, whole)
}

func (b *Bus) serve(s *Stream, handler func(context.Context, *Stream, []byte), first []byte, whole bool) {
	defer b.running.Done()
	defer b.served()
	defer s.Close()
	defer b.recovered(s)
	if !whole {
		var err error
		if first, err = s.Recv(time.Time{}); err != nil {
			return // the opener never said all of it, or said too much
		}
	}
	handler(s.ctx, s, first)
}

// recovered keeps a handler that panics from ending the process. Its stream is
// lost: that the handler let go on purpose would be another thing to say.
func (b *Bus) recovered(s *Stream) {
	if p := recover(); p != nil {
		b.log.log.Error().Any("panic", p).Bytes("stack", debug.Stack()).Str("peer", s.key.peer).Msg("handler of a bus stream panicked")
		s.Abandon()
	}
}

func (b *Bus) served() {
	b.mu.Lock()
	b.serving--
	b.mu.Unlock()
	signal(b.idle)
}
