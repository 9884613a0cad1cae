package bus

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"
)

const (
	retryMin = 20 * time.Millisecond
	retryMax = 250 * time.Millisecond
)

// opening is how a stream that this replica opens comes to be taken. The open
// is sent again, under the same token, until something comes back.
type opening struct {
	isTaken bool
	frame   []byte // the open, while not taken
	asked   int64  // last time it was sent
	urged   bool   // it was sent again so that the peer answers
	pause   time.Duration
	retry   *time.Timer // nil: none planned
}

// Ask opens a stream to a replica, maybe this one, with its first message, and
// returns once that is published: the normal exchange costs one message each
// way. That nobody takes it is what Recv says: ErrNoReplica after OwnerTimeout,
// ErrLeft at once, ErrRefused. A first message larger than a chunk is an
// exception: Ask returns when the peer has taken it, or not.
//
// The stream does not end with ctx, which only bounds Ask itself.
func (b *Bus) Ask(ctx context.Context, replica string, kind byte, first []byte) (*Stream, error) {
	switch {
	case !replicaForm.MatchString(replica):
		return nil, fmt.Errorf("ask %q: %w", replica, ErrNoReplica)
	case len(first) > b.s.MaxMessage:
		return nil, ErrTooLarge
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case b.mode == Embedded && replica != b.s.Replica:
		return nil, fmt.Errorf("ask %s: %w", replica, ErrNoReplica)
	case b.peers.hasLeft(replica):
		return nil, fmt.Errorf("ask %s: %w", replica, ErrLeft)
	}
	key := streamKey{peer: replica, opened: true}
	rand.Read(key.token[:])
	s := b.newStream(key)
	s.notice = b.noticeOf(key, typeOpen)
	rest := s.prepare(kind, first)
	if !b.register(s) {
		return nil, ErrClosed
	}
	if err := b.publish(s.subject, s.notice, s.frame); err != nil {
		s.end(ErrDisconnected, 0)
		return nil, fmt.Errorf("ask %s: %w", replica, err)
	}
	if len(rest) > 0 {
		s.sending.Lock()
		defer s.sending.Unlock()
		if err := s.sendRest(ctx, rest, 0, true); err != nil {
			return nil, fmt.Errorf("ask %s: %w", replica, err)
		}
	}
	return s, nil
}

// prepare makes the open and returns what did not fit. s is not shared yet.
func (s *Stream) prepare(kind byte, first []byte) (rest []byte) {
	n, _ := s.fits(len(first), s.bus.chunk(), s.bus.s.Window)
	s.outSeq = 1
	s.sent = uint64(n + frameCost)
	s.asked = s.opened
	s.pause = retryMin
	s.published.Store(1)
	f := s.header(typeOpen)
	f.kind = kind
	if n < len(first) {
		f.flags |= flagMore // which the peer answers at once
		s.urged = true
	}
	s.frame = append(f.appendHeader(make([]byte, 0, fixedHeader+maxID+n)), first[:n]...)
	return first[n:]
}

// taken notes that the peer has the open. s.mu is held.
func (s *Stream) taken() {
	if !s.key.opened || s.isTaken {
		return
	}
	s.isTaken = true
	s.stopOpening()
}

// stopOpening forgets the open. s.mu is held.
func (s *Stream) stopOpening() {
	s.frame = nil
	if s.retry != nil {
		s.retry.Stop()
	}
}

func (s *Stream) untaken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key.opened && !s.isTaken
}

// ask sends the open again.
func (s *Stream) ask() {
	s.mu.Lock()
	frame := s.frame
	s.asked = s.bus.now()
	s.mu.Unlock()
	if frame == nil {
		return
	}
	// Not connected is like not delivered: the clock tries again.
	_ = s.bus.publish(s.subject, s.notice, frame)
}

// urge sends the open once more, because a peer answers a repeated one at once.
func (s *Stream) urge() {
	s.mu.Lock()
	again := !s.urged
	s.urged = true
	s.mu.Unlock()
	if again {
		s.ask()
	}
}

// unheard: nobody had a subscription for the open. That proves no more than
// that this one was not delivered: a replica that starts, or was frozen for a
// while, is there a moment later.
func (s *Stream) unheard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isTaken || s.err != nil {
		return
	}
	pause := s.pause
	s.pause = min(2*s.pause, retryMax)
	if s.retry != nil {
		s.retry.Stop()
	}
	s.retry = time.AfterFunc(pause, func() {
		if s.bus.begin() {
			defer s.bus.running.Done()
			s.ask()
		}
	})
}
