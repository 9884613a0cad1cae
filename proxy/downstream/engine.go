package downstream

import (
	"context"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter"
)

// Round is one request of a client in the engine's hands; an adapter.Round is
// one.
type Round interface {
	// Next waits for what the client is told next. It returns
	// adapter.ErrDeadline when nothing happened until then, adapter.ErrGone
	// after Gone, and otherwise an error that ends the round. One goroutine
	// calls it.
	Next(until time.Time) (adapter.Event, error)
	// Gone says that the client closed its connection, or cancelled its request.
	// Any goroutine may call it, but none after Close.
	Gone()
	// Close is called once, after the last Next.
	Close()
}

// Engine is what the transports ask of package adapter.
type Engine interface {
	// Begin starts a round. Its error is an *adapter.Refusal, an
	// *adapter.Unauthorized, a *jsonrpc.Error, or unexpected.
	Begin(req *adapter.Request) (Round, error)
	// ProtectedResource fetches an upstream's metadata of RFC 9728. suffix is
	// what the client's path has after /.well-known/oauth-protected-resource.
	ProtectedResource(ctx context.Context, upstream, suffix string) (status int, contentType string, body []byte, err error)
	// Ready says whether a call could be served, and what is amiss.
	Ready(ctx context.Context) (ok bool, reasons []string)
}

// engine is an Engine but for the concrete type of its rounds.
type engine[R Round] interface {
	Begin(req *adapter.Request) (R, error)
	ProtectedResource(ctx context.Context, upstream, suffix string) (status int, contentType string, body []byte, err error)
	Ready(ctx context.Context) (ok bool, reasons []string)
}

// Behind makes an Engine of one whose Begin returns a concrete round, as
// *adapter.Engine does.
func Behind[R Round](e engine[R]) Engine { return behind[R]{e} }

type behind[R Round] struct{ engine[R] }

func (b behind[R]) Begin(req *adapter.Request) (Round, error) {
	round, err := b.engine.Begin(req)
	if err != nil {
		return nil, err // not a Round that holds a nil pointer
	}
	return round, nil
}
