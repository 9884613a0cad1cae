// Package downstream is what the transports towards clients have in common: what
// they ask of the engine, the checks of one message of a client, and how an
// error reaches it.
//
// A transport reads the text of a message, has Read check it, has the dialect
// decode it, and hands it to the Engine. It tells the client what the Round
// says, event by event. Every error becomes an answer in one place, ReplyTo;
// what HTTP has for it, a status, stands beside it in the same table.
//
// The package has no goroutine and no state. It knows nothing of connections,
// header fields and streams.
package downstream
