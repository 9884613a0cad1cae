// Package bus carries bytes between the replicas of a deployment over NATS.
//
// A Bus is one replica's place on it: with a NATS server of its own that no one
// else sees (the default), as one of a cluster of such embedded servers, or as
// a client of NATS servers that somebody else runs. Open neither needs the
// servers nor the peers to be there: a Bus starts degraded and recovers by
// itself.
//
// # Streams
//
// A Stream is a request to one replica and what comes back. Ask opens it with
// its first message; over there a function that was given to Handle serves it
// in a goroutine of its own. Both sides may send messages of any size up to
// Settings.MaxMessage; they arrive whole and in order, or the stream ends with
// ErrLost: never is one missing in silence. A receiver that does not read slows
// down its own sender and nobody else, since no more than Settings.Window bytes
// are under way.
//
// A stream's life, in messages on the wire: the open, repeated with the same
// token until something comes back; the answers, the last of which carries the
// end mark. A short exchange is two messages. Whoever has nothing to say for a
// third of Settings.OwnerTimeout says that it is alive, and silence of the
// whole OwnerTimeout is the end. Letting go on purpose (Close) and dying are
// told apart: the handler's context ends with ErrReset or with ErrLost.
//
// What was sent may have been delivered although the answer is ErrLost or
// ErrNoReplica: to ask again must be safe for whoever asks. The bus itself
// starts a handler at most once for one Ask.
//
// # Presence
//
// Every replica tells the others every sixth of OwnerTimeout that it lives,
// and which of them it has heard and when. From that follow Peers, HeardAgo,
// and the lease: Confirmed says whether the others may still believe that this
// replica is alive, so that it may act for what it owns. Who takes over from a
// silent replica waits until HeardAgo exceeds OwnerTimeout by Margin, by
// which time that replica, if it lives, has noticed that nobody hears it.
//
// # Trust
//
// Whatever arrives is bounded and checked before it is used. But whoever may
// publish on the subjects <namespace>.v1.> can act for a replica: that is what
// route secrets, TLS, accounts and permissions are for.
//
// All methods are safe for concurrent use. Send and End of one Stream take
// turns; Recv is for one goroutine at a time.
package bus
