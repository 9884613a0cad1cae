// Package legacy holds sessions with legacy MCP servers: the handshake, the
// session id, the standing GET stream, and the response stream of every
// request in flight.
//
// Servers over stdio and over HTTP+SSE have one stream for all of a session, its
// channel: a process of its own, or an event stream. What comes on it is routed as
// what comes on a GET stream is, a request in flight just waits for its response,
// and the end of the channel is that of the session. Which of the two HTTP
// transports a server speaks is found out at a handshake.
//
// A Server is one upstream. Its sessions are pooled by Key, because a legacy
// server reads the client's capabilities once, at initialize, and keeps what
// it knows of a client per session. An Exchange is one request in flight on a
// session; whoever started it drives it, by Step or by Run, and its Sink
// learns what the server sends for it. What arrives on the session's GET
// stream is given to the exchange that it belongs to, to the session's
// listeners, or refused: never guessed.
//
// Where several replicas serve one upstream, Settings.Peers, they share one
// session for each key. Its home, which all of them find by the same hash, opens
// it, lends its id to the others, and gives out the places on it where the server
// takes one question at a time. One replica holds the session: it alone has the
// GET stream, passes on what comes there to the replica whose call it is for, and
// deletes the session in the end; when the home changes, so does the holder. What
// replicas say to each other is a parcel.
//
// All types are safe for concurrent use, but one goroutine at a time drives an
// Exchange. The package knows nothing of clients: it is told who asks by a Key
// and by the Credentials of each request.
package legacy
