// Package adapter carries client operations over legacy sessions.
//
// A call is one client operation from its first request to its final result. It
// starts, parks when the server asks something, resumes when the client comes
// back with the answers, and ends once: with a result, an error or a
// cancellation. A Round is one HTTP request of the client on behalf of a call:
// Engine.Begin makes it, Next tells what its client is to be told, Close ends
// it. Several rounds wait at one call only when a client sent the same retry
// twice; they are told the same.
//
// Different calls run concurrently; the rounds of one call take turns. A call's
// phase changes only in call.enter. A call that is answered at once runs on the
// goroutine of its round; one that lasts gets a goroutine of its own, which the
// Engine's Close waits for.
//
// The package knows nothing of HTTP towards clients, of dialects, or of NATS.
package adapter
