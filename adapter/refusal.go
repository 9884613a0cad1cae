package adapter

import (
	"errors"
	"fmt"
	"time"
)

// Reason names why Holdfast itself, not the server, ends a request. It reaches
// the client as data.reason of the JSON-RPC error; the README lists them all.
type Reason string

// Reasons. The proxy maps each to an HTTP status and a JSON-RPC code.
const (
	ReasonInvalidParams     Reason = "invalid_params"
	ReasonMethodNotFound    Reason = "method_not_found"
	ReasonHeaderMismatch    Reason = "header_mismatch"
	ReasonMissingCapability Reason = "missing_capability"
	ReasonDialect           Reason = "dialect" // unknown, or switched off

	ReasonStateInvalid   Reason = "state_invalid"   // tampered with, cut, or not ours
	ReasonStateUnknown   Reason = "state_key"       // sealed with a key that this replica lacks
	ReasonStateForeign   Reason = "state_foreign"   // another principal, request or upstream
	ReasonStateStale     Reason = "state_stale"     // a round that is over, and whose outcome is no longer kept
	ReasonStateExpired   Reason = "state_expired"   // past its expiry
	ReasonCallLost       Reason = "call_lost"       // the replica that held the call is gone, or the call is
	ReasonCallTimeout    Reason = "call_timeout"    // the server was silent for calls.timeout
	ReasonCallDuration   Reason = "call_duration"   // the call lasted longer than calls.max_duration
	ReasonTooManyRounds  Reason = "too_many_rounds" // calls.max_rounds
	ReasonSlowClient     Reason = "slow_client"     // stream.buffer is full
	ReasonOverload       Reason = "overload"        // a limit of this replica; retry later
	ReasonQuota          Reason = "quota"           // a limit of this principal; retry later
	ReasonBusDown        Reason = "bus_down"        // the replica that holds the call is not reached
	ReasonShutdown       Reason = "shutdown"        // this replica is stopping
	ReasonUpstreamDown   Reason = "upstream_down"   // no connection, or no session
	ReasonUpstreamLost   Reason = "upstream_lost"   // connection or stream broke before the response
	ReasonUpstreamStatus Reason = "upstream_status" // an HTTP status that no legacy server should send here
	ReasonUpstreamReply  Reason = "upstream_reply"  // not a legal JSON-RPC answer, or larger than upstream.max_message
	ReasonInternal       Reason = "internal"
)

// Refusal is an error that ends a request with an answer of our own.
type Refusal struct {
	Reason Reason
	Detail string // for the client: what was wrong and what to do; never a secret
	// MayHaveRun says that the server may have executed the request.
	MayHaveRun bool
	RetryAfter time.Duration // when it is worth trying again; zero says nothing
	Required   []byte        // raw capabilities, with ReasonMissingCapability
	Err        error         // for the log only
}

func (r *Refusal) Error() string {
	if r.Err != nil {
		return fmt.Sprintf("%s: %s: %v", r.Reason, r.Detail, r.Err)
	}
	return fmt.Sprintf("%s: %s", r.Reason, r.Detail)
}

func (r *Refusal) Unwrap() error { return r.Err }

// mayHaveRun is a refusal of a request that was sent before.
func mayHaveRun(err error) error {
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		return err
	}
	said := *refusal
	said.MayHaveRun = true
	return &said
}

func refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// Unauthorized is an upstream's 401 or 403, which reaches the client with its
// WWW-Authenticate (spec, basic/authorization).
type Unauthorized struct {
	Status       int
	Authenticate []string // WWW-Authenticate values, in order
	Body         []byte   // bounded, or nil
	ContentType  string
}

func (u *Unauthorized) Error() string { return fmt.Sprintf("upstream answered %d", u.Status) }

var (
	// ErrDeadline is what Round.Next returns when nothing happened in time.
	ErrDeadline = errors.New("nothing happened in time")
	// ErrGone is what Round.Next returns once the client is gone.
	ErrGone = errors.New("client is gone")
	// ErrEnded is what Round.Next returns when there is nothing more to tell, and
	// no answer either: the client of a lasting call goes on with it in another
	// round, or has cancelled it.
	ErrEnded = errors.New("the round has ended without an answer")
)
