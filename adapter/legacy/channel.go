package legacy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// channel is the way to and from a server that has one stream for all of a
// session: the pipes of a process, or the event stream of HTTP+SSE. Its messages
// are routed as those of a GET stream are.
type channel interface {
	// post sends a message. ErrUnreachable says that not one byte of it went out,
	// ErrUnsent that none will any more. It returns once the server has taken the
	// message; where that is the request of an exchange, it may return before,
	// taken being false, and spoils the exchange if the server does not take it.
	post(ctx context.Context, creds Credentials, text []byte, x *Exchange) (taken bool, err error)
	// try sends a message that can go out at once, without waiting for anything.
	// It reports whether it has.
	try(text []byte) bool
	// close ends the channel for sure: nothing of it is left when it returns. When
	// ctx ends, it does so by force. It may be called again.
	close(ctx context.Context)
}

// attach makes a channel the session's. read routes what comes on it, until it
// ends, and returns why.
func (s *Session) attach(c channel, read func() error) {
	s.channel, s.unread = c, make(chan struct{})
	s.outbox.held = false // the messages of a channel name no session
	s.server.background(func() {
		defer close(s.unread)
		s.lose(read())
	})
}

// lose is the end of a session's channel: nothing more will come on it, and no
// other session will do for the calls in flight.
func (s *Session) lose(why error) {
	s.mu.Lock()
	s.lost = why
	calls := slices.Collect(maps.Values(s.calls))
	s.mu.Unlock()
	for _, x := range calls {
		x.Wake() // whoever drives it tells its sink
	}
	s.forget()
}

// whyLost returns why the session's channel has ended, or nil.
func (s *Session) whyLost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// post sends the request on the session's channel. What goes wrong the sink hears
// from whoever drives the exchange.
func (x *Exchange) post(ctx context.Context, c channel, dial bool) error {
	if !dial {
		if !c.try(x.message) {
			return ErrDeadline
		}
	} else {
		taken, err := c.post(ctx, x.creds, x.message, x)
		switch {
		case err != nil && ctx.Err() != nil && errors.Is(err, ErrUnreachable):
			return err
		case err != nil:
			x.spoil(err)
			return nil
		case !taken:
			x.phase = phaseHead
			return nil
		}
	}
	x.phase = phaseSSE
	if x.message != nil && !x.keep {
		putText(x.message)
		x.message = nil
	}
	return nil
}

// spoil notes that no response will come, and why, for whoever drives the
// exchange.
func (x *Exchange) spoil(err error) {
	x.mar(err)
	x.Wake()
}

// mar is spoil for one who wakes the exchange later.
func (x *Exchange) mar(err error) {
	x.session.mu.Lock()
	defer x.session.mu.Unlock()
	if x.spoilt == nil {
		x.spoilt = asBroken(err)
	}
}

// over reports whether the exchange has ended, after which its sink has had its
// last word, or was aborted.
func (x *Exchange) over() bool {
	if x.aborted() { // as who ends it does when the sink has been told
		return true
	}
	s := x.session
	s.mu.Lock()
	err := x.spoilt
	if err == nil && s.lost != nil {
		err = asBroken(s.lost)
	}
	s.mu.Unlock()
	var status *StatusError
	switch {
	case err == nil:
		return false
	case errors.As(err, &status) && x.answeredBy(status), x.fail(err):
		x.interrupt() // for the next who drives it
		return true
	}
	return x.aborted()
}

// stepOn is Step for a session with a channel.
func (x *Exchange) stepOn(until time.Time) error {
	if !x.over() {
		wait.For(x.woke, until)
		if !x.over() {
			return ErrDeadline
		}
	}
	if !x.Ended() {
		return ErrDeadline
	}
	return nil
}

// runOn is Run for a session with a channel.
func (x *Exchange) runOn(ctx context.Context) {
	for !x.over() {
		select {
		case <-x.woke:
		case <-ctx.Done():
			return
		}
	}
}

// closeChannel ends the session's channel, when what waits to be posted has gone
// out, or ctx ends.
func (s *Session) closeChannel(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { s.channel.close(ctx) }) // it ends a write in flight, too
	s.outbox.close(ctx)
	stop()
	s.channel.close(ctx) // or waits for that
	<-s.unread
}

// giveUp ends the channel of a session that could not be opened, and adds what
// became of it to the error.
func (s *Session) giveUp(ctx context.Context, err error) error {
	if s.channel == nil {
		return err
	}
	s.mu.Lock()
	s.closed = errors.Is(ctx.Err(), context.Canceled) // not the server's fault
	s.mu.Unlock()
	s.closeChannel(ctx)
	why := s.whyLost()
	switch {
	case ctx.Err() != nil: // it was ended because of that
	case errors.Is(err, ErrBroken): // nothing has run on it, and nothing will
		return fmt.Errorf("%w: %w", ErrUnreachable, hidden{err})
	}
	return fmt.Errorf("%w (%w)", err, hidden{why})
}

// openChannel opens the channel that a transport has, or none.
func (s *Session) openChannel(ctx context.Context, transport Transport, creds Credentials) error {
	switch transport {
	case TransportStdio:
		return s.openPipes(ctx)
	case TransportSSE:
		return s.openEvents(ctx, creds)
	}
	return nil
}
