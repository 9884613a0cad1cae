// Package state seals what a call must remember between two rounds into an
// opaque string, the request state, and opens it again on any replica.
//
// All replicas share a [Ring] of keys. The first key seals and every key
// opens, so that keys can be changed one replica at a time: add the new key
// last everywhere, then move it to the front everywhere, then, when the last
// token of the old key has expired, take the old one out. [KeyFile] follows a
// file with the keys, so that none of this needs a restart.
//
// A [Token] says whose call it is, where the call stands upstream, what is open
// and what was answered, so that a replica that never saw the call can go on
// with it. The ring also seals messages that replicas send each other
// ([Ring.SealMessage]).
//
// What opens was sealed by a holder of a key and is unchanged. Whether it fits
// the request at hand (principal, digest, round, expiry) is for the caller to
// compare: this package has no clock and knows nothing of calls in flight.
//
// A Ring is safe for concurrent use. Every error about a token or a message
// matches one of [ErrTampered], [ErrUnknownKey], [ErrTooLong] and [ErrVersion],
// and no error text contains a key, a token or a message.
package state
