// Package proxy is Holdfast's HTTP side towards modern MCP clients: the
// Streamable HTTP transport of the specification 2026-07-28, on fasthttp.
//
// One POST is one JSON-RPC request. The proxy checks where it comes from
// (Host, Origin), what it is (media types, size, strict JSON) and that its
// headers say the same as its body, has the dialect decode it, and hands it to
// the engine. The engine's round then tells it event by event what to answer:
// the outcome as a plain JSON body when it comes first, a stream of
// server-sent events otherwise. Every error becomes an answer in one place,
// answer.go.
//
// A request stays on the goroutine of its connection from the first byte to
// the last, streams included. One more goroutine, the watcher, looks at the
// connections of requests that wait, because nobody reads from them: a client
// that closed its connection has cancelled its request.
//
// The proxy knows nothing of sessions, of upstream transports and of NATS.
package proxy
