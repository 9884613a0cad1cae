// Package modern is a small client of the modern protocol (revision
// 2026-07-28, stateless) over Streamable HTTP: discover, list tools, and call
// one in as many rounds as the server needs.
//
// A Client is an endpoint and what is said with every request. Each request is
// one POST that carries its whole context; the answer is one JSON body or one
// SSE stream, whose notifications go to the Observer while it lasts. A call
// that is answered with input_required asks its Answerer and is sent again,
// with a new id, the same params, the answers and the exact request state.
//
// The package shares no code with the proxy on purpose: what drives the demo
// and the tests must not agree with the proxy's mistakes.
//
// A Client may be used by several goroutines at once. It starts none of its
// own; a request ends with its context, which closes the connection and so
// cancels it (spec, basic/transports/streamable-http, "Cancellation").
// Everything that is read is bounded by MaxMessage.
package modern
