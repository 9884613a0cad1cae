// Package wire is the little HTTP/1.1 and JSON that the benchmark's own client
// and mock server need, written so that measuring costs as little as possible.
//
// A [Reader] reads the messages of one connection into a buffer that it uses
// again; what it returns is valid until the next head or chunk is asked for.
// It takes what the benchmark's peers send and refuses the rest: it is no
// parser for foreign traffic.
package wire
