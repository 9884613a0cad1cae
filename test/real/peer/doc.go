// Package peer has two clients that can do the same things: [Legacy] speaks
// 2025-11-25 to a server directly, with a handshake, a session and a GET
// stream; [Modern] speaks 2026-07-28, one POST a request. What a server says to
// both can so be compared.
//
// [Official] is a third one, which is not ours: the official client of the tasks
// extension, for tools alone.
//
// A [Request] is what is asked, an [Outcome] all that came of it: result or
// error, progress, log messages, and the questions that the server asked in the
// middle. Both clients answer questions by the same [Answers].
//
// The clients share no code with the proxy, and keep all JSON as it came
// (numbers by their text), so that nothing that the proxy changes is lost in a
// type of ours. One client runs one call at a time; its listener may be open
// beside it. Close ends what a client started.
package peer
