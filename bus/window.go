package bus

import (
	"io"
	"slices"
)

// inbound is what a stream has received. The sender may have as much on its
// way as the window allows; what Recv takes makes room again.
type inbound struct {
	queue     []piece
	inSeq     uint64
	received  uint64 // cost of all frames that arrived
	consumed  uint64 // of those that Recv has taken
	announced uint64 // of those, what the peer knows of
	exempt    uint64 // cost of the opening frame, sent before the window was known
	ended     bool   // the peer's end mark has arrived
	letGo     bool   // Close was called: nothing more is delivered
	parts     [][]byte
	size      int // of parts
}

// piece is one data frame that Recv has not taken.
type piece struct {
	data       []byte
	more, void bool
}

// push takes a data frame, whose message belongs to it.
func (in *inbound) push(f *frame, window int) error {
	switch {
	case f.seq <= in.inSeq:
		return nil // a copy
	case f.seq != in.inSeq+1:
		return errLostGap
	case in.ended:
		return errOverrun
	}
	cost := uint64(len(f.payload) + frameCost)
	if in.received+cost-in.consumed > uint64(window)+in.exempt {
		return errOverrun
	}
	in.inSeq++
	in.received += cost
	in.ended = f.flags&flagEnd != 0
	in.queue = append(in.queue, piece{f.payload, f.flags&flagMore != 0, f.flags&flagVoid != 0})
	return nil
}

// next takes the next message out of the queue, if it is whole.
func (in *inbound) next(largest int) (msg []byte, ok bool, err error) {
	if in.letGo {
		return nil, false, nil
	}
	for i := range in.queue {
		p := in.queue[i]
		in.queue[i].data = nil
		in.consumed += uint64(len(p.data) + frameCost)
		if in.size += len(p.data); in.size > largest {
			in.queue = nil
			return nil, false, ErrTooLarge
		}
		if p.more || len(in.parts) > 0 {
			in.parts = append(in.parts, p.data)
		}
		switch {
		case p.more:
			continue
		case p.void && len(in.parts) == 0:
			continue
		}
		in.queue = in.queue[i+1:]
		msg = p.data
		if len(in.parts) > 0 {
			msg = slices.Concat(in.parts...)
		}
		in.parts, in.size = nil, 0
		return msg, true, nil
	}
	in.queue = in.queue[:0]
	if in.ended {
		return nil, false, io.EOF
	}
	return nil, false, nil
}

// ackDue reports that the peer should learn what was consumed: when it is half
// of what may be under way, since no frame costs more than that.
func (in *inbound) ackDue(limit uint64) bool {
	return !in.ended && in.consumed-in.announced >= limit/2
}

// outbound is what a stream has sent.
type outbound struct {
	outSeq  uint64
	sent    uint64 // cost of all data frames
	acked   uint64 // of those that the peer has consumed
	window  uint64 // what the peer takes; 0 while not known
	endSent bool
	spoken  bool // something has been sent
}

// acknowledge notes what a frame says of what its sender has consumed.
func (o *outbound) acknowledge(f *frame) {
	if f.acked > o.acked && f.acked <= o.sent {
		o.acked = f.acked
	}
	o.window = uint64(f.window)
}

// limit is how much may be under way, given this side's own window: the
// smaller of both, in both directions.
func (o *outbound) limit(own int) uint64 {
	if o.window == 0 {
		return uint64(own)
	}
	return min(o.window, uint64(own))
}

// fits returns how many of n bytes may be sent in a frame now, and false if
// none. A frame takes at most half the window, so that a receiver that
// acknowledges each half never waits for a sender that waits for it.
func (o *outbound) fits(n, chunk, own int) (int, bool) {
	limit := o.limit(own)
	n = min(n, chunk, int(limit/2)-frameCost)
	return n, o.sent-o.acked+uint64(n+frameCost) <= limit
}
