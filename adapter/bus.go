package adapter

import (
	"context"
	"errors"
	"time"
)

// Bus is what an Engine needs of the way to the other replicas.
type Bus interface {
	// Ask opens a stream to a replica with its first message. It does not wait
	// for the other side: what went wrong is what Recv returns.
	Ask(ctx context.Context, replica string, kind Kind, first []byte) (Stream, error)
	// Tell sends one message that nobody answers. It may be lost.
	Tell(replica string, kind Kind, message []byte)
	// Live returns the other replicas that are known to live, in order.
	Live() []string
	// Staying are those of them that do not stop just now.
	Staying() []string
	// Serving are those of them that still take clients' requests, or have some in
	// progress.
	Serving() []string
	// Announce has the others know at once what Report says. It does not block.
	Announce()
	// Heard tells how long ago this or another live replica heard of one, and
	// whether that one has said goodbye.
	Heard(replica string) (ago time.Duration, left bool)
	// Confirmed reports whether this replica holds its lease: whether its peers
	// have heard of it so lately that none of them can have taken its calls over.
	Confirmed() bool
	// Missing reports whether another replica may live that is not heard of.
	Missing() bool
	// Lapses counts how often the lease had run out before it was confirmed again.
	Lapses() uint64
	// Status reports whether the bus is reached, and why not.
	Status() (reached bool, reason string)
	// Patience is how long a replica may be silent before it is given up.
	Patience() time.Duration
}

// Kind says what a stream or a message between replicas is about.
type Kind byte

// Kinds.
const (
	KindRound   Kind = 'r' // a round for the owner of its call
	KindSeek    Kind = 's' // who has a call?
	KindKeep    Kind = 'k' // records of calls that a replica leaves to another
	KindSession Kind = 'l' // a question about shared sessions
	KindNote    Kind = 'n' // a message about shared sessions
)

// Stream is one conversation with another replica. Send and End are called by
// one goroutine, Recv by one; the others by any, also while another is called.
type Stream interface {
	// Send sends a message. It waits while the other side does not read.
	Send(ctx context.Context, message []byte) error
	// End sends the last message.
	End(ctx context.Context, message []byte) error
	// Recv returns the next message, valid until the next Recv; io.EOF after the
	// last one; ErrDeadline; ErrNobody, ErrLost, ErrClosed, ErrBusDown or
	// ErrTooLarge.
	Recv(until time.Time) ([]byte, error)
	// Close ends the stream. The other side learns that this one did not wait for
	// the end.
	Close()
	// Abandon ends the stream as if this replica had fallen silent: the other side
	// learns ErrLost.
	Abandon()
	// Taken reports whether the other side has all that this one has sent.
	Taken() bool
}

// Errors of a Bus and its streams.
var (
	// ErrNobody: nobody has taken the stream. A replica that was frozen may find its
	// first message when it thaws, without its lease.
	ErrNobody = errors.New("replica not reached")
	// ErrLost: the replica fell silent. It may have seen what was sent.
	ErrLost = errors.New("replica fell silent")
	// ErrClosed: the other side has closed the stream before its end.
	ErrClosed = errors.New("stream closed by the other replica")
	// ErrBusDown: this replica does not reach the bus.
	ErrBusDown = errors.New("bus not reached")
	// ErrTooLarge: the other side has an answer that is too large for the bus.
	ErrTooLarge = errors.New("message too large for the bus")
)
