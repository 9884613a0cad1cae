package legacy

import (
	"context"
	"errors"
	"fmt"
)

// open opens a session over the transport that the server speaks, which is found
// out where the configuration does not say: what has worked last comes first,
// then the other one. Only initialize is ever sent twice. Spec 2025-11-25,
// basic/transports, "Backwards Compatibility".
func (s *Server) open(ctx context.Context, e *entry, creds Credentials) (*Session, error) {
	transport := s.settings.Transport
	if transport != TransportAuto {
		return s.openOver(ctx, transport, e, creds)
	}
	first, other := TransportStreamable, TransportSSE
	if s.overSSE.Load() {
		first, other = other, first
	}
	session, err := s.openOver(ctx, first, e, creds)
	if err == nil {
		s.settled.Store(true)
	}
	if err == nil || !mistaken(first, err) {
		return session, err
	}
	session, failed := s.openOver(ctx, other, e, creds)
	if failed != nil && other == TransportSSE && telling(failed) {
		return nil, fmt.Errorf("%w (over Streamable HTTP: %w)", failed, hidden{err})
	}
	if failed != nil {
		s.speaks(TransportStreamable) // where the next one begins
		if first == TransportSSE {
			err, failed = failed, err
		}
		return nil, fmt.Errorf("%w (over HTTP+SSE: %w)", err, hidden{failed})
	}
	s.speaks(other)
	s.settled.Store(true)
	s.log.Info().Str("upstream", s.settings.Name).Stringer("transport", other).Msg("transport of the upstream found out")
	return session, nil
}

// telling reports whether the error of a handshake over HTTP+SSE says more than
// the refusal that led to it: who is called has to be known first, or the stream
// has begun as it should.
func telling(err error) bool {
	var status *StatusError
	if errors.As(err, &status) {
		return status.Unauthorized()
	}
	return !errors.Is(err, errNoEndpoint)
}

// hidden keeps an error's text only: another one counts.
type hidden struct{ err error }

func (h hidden) Error() string { return h.err.Error() }

// speaks notes which transport a server was found to speak.
func (s *Server) speaks(t Transport) {
	sse := t == TransportSSE
	if s.overSSE.Swap(sse) != sse {
		s.pushes.Store(sse || s.settings.PushesOnGET)
	}
}

// mistaken reports whether the error of a handshake says that the server speaks
// another transport.
func mistaken(t Transport, err error) bool {
	var status *StatusError
	switch {
	case errors.As(err, &status) && t == TransportSSE:
		return !status.Unauthorized() && !transient(err)
	case errors.As(err, &status): // as the specification says
		return status.Status == 400 || status.Status == 404 || status.Status == 405
	}
	return t == TransportSSE && errors.Is(err, errNoEndpoint)
}
