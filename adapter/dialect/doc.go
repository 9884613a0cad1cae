// Package dialect holds the client-facing forms of "the answer is not ready
// yet, come back": how a client's request is read, and how the outcome of a
// round is written.
//
// MRTR is the form of the specification. The others are proposals that came
// before it, or extensions; clients were built on them. A Set knows which ones
// are spoken, and which one a request is of.
//
// A dialect has no state and no goroutine: what outlives a round lives in the
// engine (package adapter). Its methods may be called concurrently. It knows
// nothing of HTTP, of the headers that mirror a request, or of upstreams.
package dialect

import (
	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

// Dialect is one client-facing form.
type Dialect interface {
	// Name is what configuration, clients and logs call it.
	Name() string
	// Modern reports whether the revision's own rules hold: _meta, and the headers
	// that mirror the body, are required.
	Modern() bool
	// Decode fills req from a request that was parsed strictly. It leaves
	// Upstream, Credentials, PrincipalHeader and Headers alone. The slices of
	// req alias those of msg, or are new. An error is an *adapter.Refusal or a
	// *jsonrpc.Error, and req then holds what could be read. What the client
	// did not send is nil; an empty text is not.
	Decode(msg *jsonrpc.Message, req *adapter.Request) error
	// AppendOutcome appends the complete JSON-RPC response that tells a client
	// how its round ended. id is the raw id of the client's request.
	AppendOutcome(dst, id []byte, o *adapter.Outcome) []byte
}

// Watching is a Dialect with a form for how a lasting call stands.
type Watching interface {
	// AppendStanding appends the complete JSON-RPC message that tells a client
	// how a call stands that it watches.
	AppendStanding(dst, id []byte, o *adapter.Outcome) []byte
}
