// Package jsonrpc reads and writes JSON-RPC messages without decoding them.
//
// A text is checked once, in one pass, by [Validate], [ParseRequest] or
// [ParseServer]: the grammar of RFC 8259, nesting, duplicate names and, for
// what clients send, UTF-8. After that a message is a handful of slices of the
// same text. What is inside them is walked with a [Cursor], so that bytes which
// need no change are never copied, and reach the other side as they came.
//
// A proxy and the server behind it must never read two different requests out
// of one body. Hence a name that stands twice in an object is refused
// everywhere, also when one of the two is spelt with escapes, and so is an
// envelope member such as "Method", which some servers read as "method".
//
// Slices in a Message and those that a Cursor returns alias the text: they are
// valid as long as it is, and keep it alive. Functions that take raw JSON
// expect it to have passed Validate; on anything else they do not panic, but
// what they return means nothing. All functions may be called concurrently; a
// Cursor belongs to one goroutine.
//
// The package knows nothing of MCP, except that it has the names of its methods
// at hand, so that the usual ones cost no allocation.
package jsonrpc
