package bus

import (
	"errors"
	"fmt"
)

// What becomes of a stream, or of the attempt to open one.
var (
	// ErrNoReplica: for OwnerTimeout nobody took the stream. Its handler has
	// not answered, but a frozen replica may still find the request later.
	ErrNoReplica = errors.New("replica is not there")
	// ErrLeft: the replica said goodbye.
	ErrLeft = errors.New("replica has left")
	// ErrDisconnected: this replica has lost the bus.
	ErrDisconnected = errors.New("bus is disconnected")
	// ErrLost: the peer was silent for OwnerTimeout, or a message is missing.
	ErrLost = errors.New("stream is lost")
	// ErrReset: the peer has let go of the stream without ending it.
	ErrReset = errors.New("stream was closed by the peer")
	// ErrRefused: the peer does not serve the stream; the text says why.
	ErrRefused = errors.New("stream was refused")
	// ErrTooLarge: a message is larger than MaxMessage. A handler's stream ends
	// with it, at the opener too.
	ErrTooLarge = errors.New("message is too large")
	// ErrDeadline: nothing came until the given time. The stream goes on.
	ErrDeadline = errors.New("nothing received in time")
	// ErrClosed: this side closed the stream, ended its direction, or closed
	// the bus.
	ErrClosed = errors.New("closed")
)

var (
	errLostLeft   = fmt.Errorf("%w: %w", ErrLost, ErrLeft)
	errLostSilent = fmt.Errorf("%w: the peer is silent", ErrLost)
	errLostGap    = fmt.Errorf("%w: a message is missing", ErrLost)
	errLostPeer   = fmt.Errorf("%w: the peer says so", ErrLost)
	errLostSent   = fmt.Errorf("%w: a message had no receiver", ErrLost)
	errLostNoBus  = fmt.Errorf("%w: %w", ErrLost, ErrDisconnected)
	errOverrun    = fmt.Errorf("%w: the peer sent more than it may", ErrLost)
	errUnknown    = fmt.Errorf("%w: it does not know the stream", ErrReset)
)

// errFull: the window has no room.
var errFull = errors.New("window is full")
