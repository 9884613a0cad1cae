// Package stdio is Holdfast's side towards a modern MCP client that started it as
// its server: the stdio transport of the specification 2026-07-28, one message a
// line on standard input and standard output.
//
// The goroutine of Serve reads lines, checks them and looks after ids and
// cancellations, in the order in which they come. Each request has a goroutine of
// its own, so that any number of them, up to Settings.MaxRequests, run beside
// each other; what they have to tell goes out one message at a time. A request
// ends with its response, or without one when the client has cancelled it: after
// that nothing is said about it any more.
//
// Nothing is kept for a client that does not read: a request waits for its turn
// to write, the engine bounds what it has to tell meanwhile, and past the limit
// of requests nothing more is read. A write that lasts longer than
// Settings.WriteTimeout means that the client is gone.
//
// The package knows nothing of upstreams, and of processes only their standard
// streams (Open).
package stdio
