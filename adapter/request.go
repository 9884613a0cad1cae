package adapter

import (
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Request is one round of a client's operation, as a dialect decoded it. The
// byte slices alias the HTTP request's memory: they are valid until the
// Round's Close, and the engine copies what it keeps longer.
type Request struct {
	Upstream string // name of the upstream that the request's path belongs to
	Method   string // a method that mcp.MethodTraits knows
	ID       []byte // raw JSON-RPC id
	Name     []byte // tool or prompt name, or resource URI; nil for other methods
	Params   []byte // raw params object as the client sent it, _meta included
	Args     []byte // raw arguments of tools/call, or nil
	NullArgs bool   // params has arguments, but null: the same as none

	Meta           []byte // raw _meta object
	ClientInfo     []byte // raw, or nil
	Capabilities   []byte // raw client capabilities
	LogLevel       mcp.Level
	ProgressToken  []byte // raw JSON string or integer, or nil
	InputResponses []byte // raw object, or nil
	RequestState   []byte // the text between the quotes, or nil

	// Wrapped says that each of InputResponses is {"result": …} or {"error": …}:
	// an error is the answer that the server gets for its question.
	Wrapped bool
	// Carried says that the client does not send the original request again. The
	// request state carries Method and what belongs to the request in Params; with
	// a RequestState, the engine fills these, Name and Args from there, and
	// InputResponses are all that the call has had so far, not the new ones alone.
	Carried bool
	// Bare says that the request does not have the form of the modern revision: a
	// modern server cannot be sent it.
	Bare bool
	// PassOnly, where it is not nil, says that the request is for a modern server
	// alone: what it asks for is switched off here, which this says.
	PassOnly error
	// Hold is how long the round may last before its client is told to come back,
	// where the method may be answered so; zero: the engine's MaxHold.
	Hold time.Duration
	// Stays says that the client of a call which has had a request state may lose
	// its connection: the call is not cancelled then, but waits for the same
	// request state until that expires.
	Stays bool
	// Lasting, where it is not zero, is how long the call lasts once it has been
	// let go with a handle: after LastingAfter, or as soon as the server says that
	// it takes its time (lasting.go). It counts for tools/call only.
	Lasting, LastingAfter time.Duration
	// Away, with Lasting, is how long the client of a call may be away. The round
	// does not end with the handle then: the client is told that first, and in
	// further events all that the call has to say (follow.go). It counts for all
	// methods that may be answered with input_required.
	Away time.Duration
	// Original is the raw id of the request that a round is about, where its client
	// follows the call that this began.
	Original []byte

	Credentials Credentials
	// PrincipalHeader is the value of the header that a trusted proxy in front
	// sets (principal.header), or empty.
	PrincipalHeader string

	// Headers compares the request's Mcp-Param-* headers with its arguments
	// once the tool's rules are known. It may be nil.
	Headers ParamChecker

	part     bool   // the listener is part of one that is on the books: fanRound
	endpoint string // at which the session is kept; set on the way to the replica that keeps it
	ticket   ticket // of a first round that was sent on to another replica
	once     bool   // such a round may not run twice: it begins when its asker lets it
}

// Credentials are what an upstream judges a client by: they go upstream with
// the HTTP request that brought them, and nowhere else. They never appear in
// logs, errors or metrics.
type Credentials struct {
	Authorization string
	Forward       []Field // forward_headers of the upstream that the client sent
}

// Field is one HTTP header field.
type Field struct{ Name, Value string }

// ParamChecker holds a request's Mcp-Param-* headers against rules.
type ParamChecker interface {
	// CheckParams returns an error that says which header is missing, differs
	// from the argument, or cannot be decoded. Spec 2026-07-28,
	// basic/transports/streamable-http, "Server Behavior for Custom Headers".
	CheckParams(rules []mcp.ParamRule, args []byte) error
	// Fields returns those headers, for the replica that has the rules.
	Fields() []Field
}

// Event is what a round tells its client next: a notification, or the outcome,
// after which nothing follows. The slices are valid until the next call of
// Next.
type Event struct {
	Notification []byte   // a complete JSON-RPC notification
	Outcome      *Outcome // the end of the round
	// Standing is how a lasting call stands that the client watches or follows, for
	// the dialect to put into words: an Outcome with a Standing, of no method. One
	// who follows is told the handle, as State, or a question at a time.
	Standing *Outcome
}

// Outcome is how a round ended. Exactly one of Result, Error, Inputs or State
// says how; Inputs always comes with State. With a Standing it tells how a
// lasting call stands, and the others are what there is to that: State is there
// in the outcome that names its handle first, Failure stands for Error, and
// Inputs are without State.
type Outcome struct {
	Method     string
	Standing   *Standing
	Result     []byte // raw result object of the legacy server
	Error      []byte // raw error object of the legacy server, codes already mapped
	Inputs     []Input
	State      []byte // request state: base64url text
	ServerInfo []byte // raw serverInfo of the legacy server, or nil
	Cache      Cache  // hints for cacheable results
	// Raw says that Result or Error is a modern server's, which passes as it is;
	// Status is that of its HTTP response.
	Raw    bool
	Status int
	// Subscription is the raw id that a result of subscriptions/listen carries
	// in _meta, or nil.
	Subscription []byte

	unfit bool // Error does not fit a legacy server
}

// Input is one input request as the client sees it.
type Input struct {
	Key    string
	Method string
	Params []byte // raw object, made fit for a modern client
}

// Cache is the caching hint of an upstream's results (spec, server/utilities/caching).
type Cache struct {
	TTLMillis int64
	Scope     string // "private" or "public"
}
