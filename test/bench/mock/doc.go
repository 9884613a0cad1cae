// Package mock is a legacy MCP server (2025-11-25, Streamable HTTP) that costs
// as little as it can, so that a benchmark measures what stands in front of it.
//
// It keeps to the revision where a client can tell: sessions are opened by
// initialize and closed by DELETE, a request without one is refused, every
// event has an id. Its tools are echo, which answers at once with plain JSON,
// and ask, which opens an event stream, asks one elicitation on it, and ends
// the stream with the result when the answer has been posted. Two more do the
// same: large adds 10 MiB to the result, and meet ends its calls when many have
// been answered, so that as many are under way at once. A call of later runs
// until GET /ask has all of them ask. With [Server.Keep] a call of ask goes on when
// its stream is left; GET with the id of the last event that came goes on with the
// stream, and has the result if there is one by then. A connection whose stream
// waits costs one goroutine that reads, which is also how the client's leaving is
// noticed; what is written to it is written by the goroutine of the connection that
// brought the answer, or that had it ask, unless it had to wait for others.
//
// [Stdio] is such a server over stdio.
package mock
