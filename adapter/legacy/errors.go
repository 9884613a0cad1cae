package legacy

import (
	"errors"
	"fmt"
)

var (
	// ErrUnreachable: no connection; nothing was sent.
	ErrUnreachable = errors.New("upstream cannot be reached")
	// ErrUnsent: the connection was closed before the first byte of a request
	// went out. It is an ErrUnreachable.
	ErrUnsent = fmt.Errorf("%w: its idle connection was closed", ErrUnreachable)
	// ErrSessionGone: the server does not know the session (404). The request
	// that met it has not run.
	ErrSessionGone = errors.New("upstream does not know the session")
	// ErrBroken: the connection or stream ended before the response. The
	// request may have run.
	ErrBroken = errors.New("upstream stream broke before the response")
	// ErrMalformed: the answer is not HTTP or JSON-RPC, or exceeds a limit. The
	// request may have run.
	ErrMalformed = errors.New("upstream answer is malformed")
	// ErrNotResumable: the server does not go on with the stream that an exchange
	// was to resume. Its request may have run.
	ErrNotResumable = errors.New("upstream does not go on with the stream")
	// ErrDeadline: nothing more came in time; the exchange goes on.
	ErrDeadline = errors.New("nothing came in time")
	// ErrNeedsRun: the exchange's stream broke and can be resumed, by Run.
	ErrNeedsRun = errors.New("stream has to be resumed")
	// ErrFull: a limit on sessions or on waiting calls is reached.
	ErrFull = errors.New("no session is free")
	// ErrClosed: the Server is closed.
	ErrClosed = errors.New("upstream is closed")

	errDry         = errors.New("nothing more has been read")
	errInterrupted = errors.New("interrupted")
)

// StatusError is an HTTP status that is no answer to a JSON-RPC request.
type StatusError struct {
	Status       int
	Authenticate []string // WWW-Authenticate, with 401 and 403
	ContentType  string
	Body         []byte // bounded
}

func (e *StatusError) Error() string { return fmt.Sprintf("upstream answered HTTP %d", e.Status) }

// Unauthorized reports whether the status is for the client to act on.
func (e *StatusError) Unauthorized() bool { return e.Status == 401 || e.Status == 403 }
