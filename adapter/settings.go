package adapter

import "time"

// Settings are the engine's times and limits. Every field must be set; the
// configuration holds the defaults.
type Settings struct {
	Replica string // names this replica in request states

	Timeout     time.Duration // silence of a running call; progress resets it
	MaxDuration time.Duration // of a running call, parked time not counted
	Gather      time.Duration // how long an input request waits for its siblings
	ParkTTL     time.Duration // of a parked call
	OutcomeTTL  time.Duration // how long an outcome is kept for a retry that comes twice

	MaxOutcomeBytes       int64 // kept outcomes, overall
	MaxCalls              int   // rounds in progress
	MaxParked             int   // parked calls, overall
	MaxParkedPerPrincipal int
	MaxRounds             int // of one call
	MaxInputs             int // open input requests of one call
	MaxState              int // bytes of a request state's text
	Buffer                int // notifications that a slow client may lag behind,
	BufferBytes           int // and their bytes

	Anonymous Anonymous

	MaxListeners             int // overall
	MaxListenersPerPrincipal int
	MaxURIs                  int // of one listener
}

// Anonymous says which callers without credentials share sessions. It is
// hygiene, not security: nothing proves who they are.
type Anonymous uint8

const (
	AnonymousClientInfo Anonymous = iota // those with the same clientInfo
	AnonymousShared                      // all of them
	AnonymousCall                        // none: a session for each call
)
