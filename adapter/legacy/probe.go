package legacy

import (
	"context"
	"errors"
	"time"

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
	until := time.Now().Add(s.settings.OpenTimeout)
	dial, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	id := []byte(`"discover-1"`)
	text := s.appendDiscover(Text(), id)
	defer FreeText(text)
	p, err := s.Pass(dial, &Request{
		ID: id, Text: text, Creds: creds, Headers: []Field{{Name: mcp.HeaderMethod, Value: mcp.MethodDiscover}},
	})
	if err != nil {
		return s.judge(ctx, err)
	}
	defer p.Finish()
	stop := context.AfterFunc(ctx, p.Abort)
	defer stop()
	for {
		a, err := p.Next(until)
		switch {
		case errors.Is(err, ErrDeadline) && time.Now().Before(until):
		case err != nil:
			return s.judge(ctx, err)
		case a.Result != nil:
			versions := jsonrpc.Array(jsonrpc.Get(a.Result, "supportedVersions"))
			for versions.Next() {
				if v, _ := jsonrpc.Unquote(versions.Value()); v == mcp.Modern {
					return EraModern, nil
				}
			}
			return EraLegacy, nil
		case a.Error != nil:
			if e, ok := jsonrpc.ParseError(a.Error); ok && (e.Code == mcp.CodeHeaderMismatch || e.Code == mcp.CodeMissingCapability) {
				return EraModern, nil
			}
			return EraLegacy, nil
		}
	}
}

func (s *Server) appendDiscover(dst, id []byte) []byte {
	params := append(getText(256), `{"_meta":{"`+mcp.MetaProtocolVersion+`":"`+mcp.Modern+`","`+mcp.MetaClientInfo+`":{"name":`...)
	params = jsonrpc.AppendQuote(params, s.settings.ClientName)
	params = append(params, `,"version":`...)
	params = jsonrpc.AppendQuote(params, s.settings.ClientVersion)
	params = append(params, `},"`+mcp.MetaClientCapabilities+`":{}}}`...)
	defer putText(params)
	return jsonrpc.AppendRequest(dst, id, mcp.MethodDiscover, params)
}

// judge decides what a probe without a message says.
func (s *Server) judge(ctx context.Context, err error) (Era, error) {
	var status *StatusError
	switch {
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
	case errors.Is(err, ErrUnreachable), errors.Is(err, ErrDeadline):
		return EraUnknown, err
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
