package legacy

import (
	"context"
	"errors"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Era is which revisions a server speaks: spec 2026-07-28, basic/versioning,
// "Terminology". A server of both counts as modern.
type Era uint8

const (
	EraUnknown Era = iota
	EraLegacy      // with an initialize handshake: 2025-11-25 and earlier
	EraModern      // with _meta in every request: 2026-07-28
)

func (e Era) String() string { return [...]string{"unknown", "legacy", "modern"}[e] }

// Probe finds out which era a server is of, with a server/discover as a modern
// client would send it, which harms no server. EraUnknown without an error: the
// server has just now said nothing that would tell. An error is an
// ErrUnreachable, an unauthorized StatusError, ctx's, or ErrDeadline: the server
// was silent for OpenTimeout, as a legacy one may be, or one that is busy.
//
// A server counts as legacy that answers anything but a result or an error that
// only modern servers know: basic/transports/streamable-http, "Backward
// Compatibility".
func (s *Server) Probe(ctx context.Context, creds Credentials) (Era, error) {
	if !s.Lends() { // a process, or told to be HTTP+SSE
		return EraLegacy, nil
	}
	within, cancel := context.WithTimeout(ctx, s.settings.OpenTimeout)
	defer cancel()
	result, err := s.Inquire(within, creds, []byte(`"discover-1"`), mcp.MethodDiscover, nil)
	if err != nil {
		return s.judge(ctx, err)
	}
	versions := jsonrpc.Array(jsonrpc.Get(result, "supportedVersions"))
	for versions.Next() {
		if v, _ := jsonrpc.Unquote(versions.Value()); v == mcp.Modern {
			return EraModern, nil
		}
	}
	return EraLegacy, nil
}

// judge decides what a probe without a result says.
func (s *Server) judge(ctx context.Context, err error) (Era, error) {
	var status *StatusError
	var said *jsonrpc.Error
	switch {
	case errors.As(err, &said):
		if said.Code == mcp.CodeHeaderMismatch || said.Code == mcp.CodeMissingCapability {
			return EraModern, nil
		}
		return EraLegacy, nil
	case ctx.Err() != nil:
		return EraUnknown, ctx.Err()
	case errors.As(err, &status) && status.Unauthorized():
		return EraUnknown, err
	case errors.As(err, &status):
		switch status.Status {
		case 408, 425, 429, 502, 503, 504: // somebody in front, or in no mood
			return EraUnknown, nil
		}
		return EraLegacy, nil
	case errors.Is(err, ErrUnreachable):
		return EraUnknown, err
	case errors.Is(err, context.DeadlineExceeded): // its own, for ctx has not ended
		return EraUnknown, ErrDeadline
	case errors.Is(err, ErrMalformed):
		return EraLegacy, nil
	}
	return EraUnknown, nil // the connection broke
}

// IsModernOnly reports whether an error of opening a session, or of a request on
// one, says that the server no longer speaks a legacy revision: then it has done
// nothing of what it was asked.
func IsModernOnly(code int) bool {
	return code == mcp.CodeUnsupportedVersion || code == mcp.CodeHeaderMismatch
}
