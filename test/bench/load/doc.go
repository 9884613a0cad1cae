// Package load is the client side of the benchmark: two kinds of MCP client on
// connections of their own, and the running of many at once.
//
// [Modern] speaks 2026-07-28 to Holdfast: every request stands alone, and a
// call that needs an answer is sent again with it. [Legacy] speaks 2025-11-25
// to a server, directly or through a plain proxy: it has a session, reads the
// question on the call's event stream and posts the answer. Both check that
// each call ends with its own result. The calls of [Tasks] become tasks, and
// [Resumable] loses the stream of each of its calls. [Spread] is a modern client of several
// replicas. [Piped] is a legacy client of a server's pipes, which [Lines] are; a
// modern client can be at them too. A client belongs to one goroutine at a
// time; [Run] and [Each] use one client in each concurrency slot, [InTurn] uses
// one after the other.
package load
