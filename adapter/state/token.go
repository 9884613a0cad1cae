package state

import (
	"slices"
	"strings"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Token is what a client carries from one round of a call to the next, sealed.
//
// The fields up to Expires say whose call it is. The others are what a replica
// needs to go on with the call when the owner is gone; zero values mean that
// there is nothing of the kind, and cost a byte or less each.
type Token struct {
	Owner     string   // the replica that holds the call
	Call      [16]byte // the call's id
	Round     uint32   // counts up with each answer that the client got
	Upstream  string   // name of the upstream
	Principal [16]byte // keyed digest of who called
	Request   [16]byte // digest of method and params
	Expires   int64    // Unix time in seconds

	Ran        uint32     // seconds that the call had run when it parked: calls.max_duration goes on from there
	Position   Position   // where the call stands upstream; zero: it cannot be found again
	Task       string     // raw JSON string: the server's name for the task that the call runs as (2025-11-25), or ""
	Asked      [3]uint32  // how many input requests without a hinted key there were, by Kind: the ordinals of their keys
	Inputs     []Question // open input requests, in order
	Transcript []Answer   // consumed input responses, oldest first
	Cut        bool       // the transcript was too large, and stays with the owner only
	// Endpoint is a short digest of the address that it belongs to, where the
	// upstream has several; else "".
	Endpoint string
	// Foreign says that it stands for a modern server's own request state: Inner,
	// the raw JSON value, or nil where the server gave none.
	Foreign bool
	Inner   []byte

	Released bool // the stream was let go on purpose (calls.release_after): the retry takes over

	// Born is when a call became one that outlives its client's connections, in
	// Unix milliseconds. Nonzero: the token is that call's handle, the same for all
	// of its life, and no request state.
	Born int64
	// Away, of a handle, is for how many seconds the client of the call may be
	// away that follows it; zero: none does.
	Away uint32
	// Caps, of a handle, is what the client declared that began the call, as
	// mcp.Capabilities.Bits has it: whoever asks after the call may declare less.
	Caps byte

	// The original request, for a client that does not send it again; else none.
	Method string
	Params []byte // raw JSON object, or nil
}

// Position is where a call stands upstream: what it takes to go on with its
// stream on the same session.
type Position struct {
	Session string // Mcp-Session-Id, or "" where the server gives none
	Version string // the negotiated revision, one of the four legacy ones, or ""
	Event   string // the last event id seen on the call's stream, or "": no take-over is possible
	Request string // the request id sent upstream, without its quotes, such as 1f2e3d4c-17
}

// Limits of what a token may carry. Owner, Upstream and the token as a whole are
// bounded by the length of text that Open is told to accept.
const (
	MaxInputs     = 1024    // input requests in Inputs
	MaxTranscript = 1024    // input responses in Transcript
	MaxSession    = 4 << 10 // bytes of Position.Session
	MaxEvent      = 4 << 10 // bytes of Position.Event
	MaxRequest    = 128     // bytes of Position.Request
	MaxTask       = 1 << 10 // bytes of Task
	MaxKey        = 256     // bytes of a Question's or Answer's Key
	MaxID         = 1 << 10 // bytes of a Question's ID
	MaxObject     = 1 << 20 // bytes of a Question's Params, an Answer's Value or Params
	MaxMethod     = 64      // bytes of Method
)

// Valid reports whether Open takes the token once it is sealed: whether all that
// servers and clients had a say in is within the limits and of a known kind. A
// token that is not valid is so without Position, Inputs and Transcript.
func (t *Token) Valid() bool {
	return t.Position.valid() && (t.Task == "" || isString(t.Task)) && t.carries() &&
		len(t.Inputs) <= MaxInputs && len(t.Transcript) <= MaxTranscript &&
		!slices.ContainsFunc(t.Inputs, Question.invalid) &&
		!slices.ContainsFunc(t.Transcript, Answer.invalid)
}

// carries reports whether there is a whole request, or none.
func (t *Token) carries() bool {
	if t.Params == nil {
		return t.Method == ""
	}
	return isObject(t.Params) && t.Method != "" && len(t.Method) <= MaxMethod
}

// valid: session and event go out as HTTP headers, the request id between the
// quotes of a JSON string. None of them may break out.
func (p *Position) valid() bool {
	return len(p.Session) <= MaxSession && !strings.ContainsAny(p.Session, "\x00\r\n") &&
		len(p.Event) <= MaxEvent && !strings.ContainsAny(p.Event, "\x00\r\n") &&
		len(p.Request) <= MaxRequest && !strings.ContainsFunc(p.Request, notInID) &&
		revisionOf(p.Version) < len(revisions)
}

func notInID(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }

// revisions stand in the plain form as their index. New ones go to the end.
var revisions = [...]string{
	"", mcp.Version20241105, mcp.Version20250326, mcp.Version20250618, mcp.Version20251125,
}

// revisionOf returns len(revisions) for an unknown revision.
func revisionOf(version string) int {
	for i, known := range revisions {
		if version == known {
			return i
		}
	}
	return len(revisions)
}

// isString looks at the quotes only: what is between them was read as JSON
// before it was sealed.
func isString(raw string) bool {
	n := len(raw)
	return n >= len(`""`) && n <= MaxTask && raw[0] == '"' && raw[n-1] == '"'
}
