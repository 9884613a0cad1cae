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
	MaxHold     time.Duration // of one round of a call that may be let go; zero: no bound
	// ReleaseAfter is when a parked call's stream is let go where the server can
	// go on with it; zero: never.
	ReleaseAfter time.Duration

	// DownTTL is how long an endpoint that could not be reached is passed over
	// where its upstream has others.
	DownTTL time.Duration

	MaxOutcomeBytes        int64 // kept outcomes, overall
	MaxCalls               int   // rounds in progress, but for those that watch lasting calls
	MaxParked              int   // parked calls, overall
	MaxParkedPerPrincipal  int
	MaxReleased            int // parked calls whose streams were let go
	MaxLasting             int // calls that outlive their clients' connections, overall
	MaxLastingPerPrincipal int
	MaxUndelivered         int   // notifications kept for the client of a lasting call that is away,
	MaxUndeliveredBytes    int   // and their bytes
	MaxUndeliveredOverall  int64 // bytes of those of all such calls
	MaxRounds              int   // of one call
	MaxInputs              int   // open input requests of one call
	MaxState               int   // bytes of a request state's text
	Buffer                 int   // notifications that a slow client may lag behind,
	BufferBytes            int   // and their bytes

	Scope     Scope
	Anonymous Anonymous

	// OwnKey says that the ring's key is this process's alone: what a request
	// state has for whoever goes on with a call is left out, unless ReleaseAfter
	// needs it.
	OwnKey bool
	// Bus leads to the other replicas; nil: there are none.
	Bus         Bus
	BusRequired bool // a replica that does not reach it is not ready
	// ParamHeaders makes a ParamChecker of header fields that another replica
	// has sent.
	ParamHeaders func([]Field) ParamChecker
	Replay       Replay

	// LastingOnly has a tool that demands to run as a task refused to a client that
	// takes no handle for an answer.
	LastingOnly bool
	// Extensions are what server/discover declares beside the server's own.
	Extensions []Extension

	MaxListeners             int // overall
	MaxListenersPerPrincipal int
	MaxURIs                  int // of one listener
}

// Extension is a member of the capability "extensions".
type Extension struct {
	Name  string
	Value []byte // raw object
}

// Scope says who shares a session.
type Scope uint8

const (
	ScopePrincipal Scope = iota // the calls of one principal
	ScopeShared                 // those of all principals
	ScopeCall                   // none: a session for each call
)

// Anonymous says which callers without credentials share sessions. It is
// hygiene, not security: nothing proves who they are.
type Anonymous uint8

const (
	AnonymousClientInfo Anonymous = iota // those with the same clientInfo
	AnonymousShared                      // all of them
	AnonymousCall                        // none: a session for each call
)

// Replay says which lost calls are run again on another session.
type Replay uint8

const (
	ReplaySafe   Replay = iota // those that are harmless by method or annotation
	ReplayAlways               // all
	ReplayNever                // none
)
