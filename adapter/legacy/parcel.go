package legacy

import (
	"encoding/binary"
	"errors"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// parcelVersion is the first byte of what replicas send each other about
// sessions. It changes when a reader of the one before would misunderstand.
const parcelVersion = 1

// kind says what a parcel is: its second byte.
type kind byte

const (
	// Questions.
	askLend    kind = 'L' // lend me the key's session
	askPlace   kind = 'P' // and a place on a session for an eligible call
	askHave    kind = 'H' // which session have you for the key?
	askYours   kind = 'Y' // this session is yours to hold
	askUsing   kind = 'U' // do you use the session?
	askWho     kind = 'W' // how many calls of yours could this be for?
	askOrphans kind = 'O' // give me the questions that wait for a call
	askTopic   kind = 'T' // does anyone of yours listen to the resource?
	askInfo    kind = 'I' // what did the server say of itself?
	askHeed    kind = 'K' // heed what I tell you, which is in raw, and say when you have

	// Answers.
	sayHave    kind = 'h' // a session, and what is known of it
	sayNone    kind = 'n' // none of it here
	sayNoIDs   kind = 'i' // the server gives out no ids: open your own
	sayRefused kind = 'r' // the error that opening came to
	sayTaken   kind = 't' // it is held here from now on, or known here
	sayLost    kind = 'x' // another session of the key is held here
	sayLater   kind = 'l' // not now
	sayUsing   kind = 'u'
	sayWho     kind = 'w'
	sayOrphans kind = 'o'
	sayYes     kind = 'y'
	sayUnknown kind = '?' // the question was not understood

	// What nobody answers.
	tellMessage kind = 'm' // a message for one of your calls
	tellNote    kind = 'N' // a notification for your listeners
	tellMissed  kind = 'M' // notifications may have been lost
	tellDrain   kind = 'D' // take no new calls on the session
	tellOrphans kind = 'Q' // so many questions wait here for a call
	tellFree    kind = 'F' // the place is free
	tellPlaced  kind = 'p' // an eligible call of mine is on the session
	tellLevel   kind = 'v' // the server was told this log level
	tellPushes  kind = 'g' // the server pushes questions on the GET stream
	tellHeld    kind = 'e' // I have the session's GET stream
	tellGone    kind = 'G' // the server does not know the session any more
	tellCreds   kind = 'c' // these credentials used the session last
)

// Errors of readParcel.
var (
	errParcel = errors.New("not what replicas say of sessions")
	errKind   = errors.New("an unknown kind of question")
)

// parcel is one question, answer or message between replicas. Which fields it
// has depends on its kind. What was read aliases the text.
type parcel struct {
	kind kind

	key      *Key // principal, extra, capabilities, clientInfo
	creds    Credentials
	gone     string // an id that the server no longer knows
	id       string // of the session
	version  string // that it speaks
	info     []byte // the raw initialize result, or nil
	event    []byte // last event id of the GET stream, or nil
	holder   string // who has the GET stream, or ""
	level    mcp.Level
	number   uint64 // sayHave: of questions that wait for a call
	eligible uint64 // calls that may be asked something
	life     uint64 // of the session at who says it: a number for each time that it was made known there
	freed    uint64 // places that were given back in this life
	age      uint64 // milliseconds since creds were used
	used     uint64 // and when that was, in Unix nanoseconds by the clock of who says it
	pushes   bool
	flag     bool // askWho: eligible calls only; askYours: busy; sayUsing: in use; sayWho: a call has ended a moment ago; sayNoIDs: for sessions of a channel; sayRefused: there is no room at the moment; sayYes: and subscribed; tellMessage: passed on already
	closing  bool // askYours: the holder ends; sayLater: so does who was asked; tellFree, sayUsing: the session is spent
	request  string
	uri      string
	raw      []byte // a JSON-RPC message
	orphans  []Orphan
	err      error
}

// Bounds of what a peer may say.
const (
	maxID      = 8 << 10 // bytes of a session id, an event id, a request id
	maxKeyPart = 256 << 10
	maxFields  = 256 // header fields
	maxWaiting = 10_000
)

func appendBytes[T string | []byte](dst []byte, tag byte, value T) []byte {
	if len(value) == 0 {
		return dst
	}
	dst = append(dst, tag)
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	return append(dst, value...)
}

func appendNumber(dst []byte, tag byte, n uint64) []byte {
	if n == 0 {
		return dst
	}
	var space [binary.MaxVarintLen64]byte
	return appendBytes(dst, tag, binary.AppendUvarint(space[:0], n))
}

func appendFlag(dst []byte, tag byte, on bool) []byte {
	if on {
		return appendNumber(dst, tag, 1)
	}
	return dst
}

// append appends the parcel: a version, the kind, and fields of a tag, a length
// and bytes. A reader skips tags that it does not know, so that a newer replica
// may add some.
func (p *parcel) append(dst []byte) []byte {
	dst = append(dst, parcelVersion, byte(p.kind))
	if p.key != nil {
		dst = appendBytes(dst, 'P', p.key.Principal[:])
		dst = appendBytes(dst, 'X', p.key.Extra)
		dst = appendBytes(dst, 'C', p.key.Caps.Raw)
		dst = appendBytes(dst, 'I', p.key.ClientInfo)
		dst = appendFlag(dst, 'Y', p.key.Ephemeral)
		dst = appendFlag(dst, 'H', p.key.Shared)
	}
	for _, f := range p.creds {
		dst = appendBytes(dst, 'a', f.Name+"\x00"+f.Value)
	}
	dst = appendBytes(dst, 'g', p.gone)
	dst = appendBytes(dst, 's', p.id)
	dst = appendBytes(dst, 'v', p.version)
	dst = appendBytes(dst, 'i', p.info)
	dst = appendBytes(dst, 'e', p.event)
	dst = appendBytes(dst, 'h', p.holder)
	dst = appendNumber(dst, 'l', uint64(p.level))
	dst = appendNumber(dst, 'n', p.number)
	dst = appendNumber(dst, 'E', p.eligible)
	dst = appendNumber(dst, 'L', p.life)
	dst = appendNumber(dst, 'F', p.freed)
	dst = appendNumber(dst, 'w', p.age)
	dst = appendNumber(dst, 'W', p.used)
	dst = appendFlag(dst, 'p', p.pushes)
	dst = appendFlag(dst, 'f', p.flag)
	dst = appendFlag(dst, 'c', p.closing)
	dst = appendBytes(dst, 'r', p.request)
	dst = appendBytes(dst, 'u', p.uri)
	dst = appendBytes(dst, 'm', p.raw)
	for _, o := range p.orphans {
		dst = appendBytes(dst, 'o', jsonrpc.AppendRequest(nil, o.ID, o.Method, o.Params))
	}
	return appendError(dst, p.err)
}

// appendError: what opening a session came to, as the caller of Acquire is told.
func appendError(dst []byte, err error) []byte {
	var status *StatusError
	var answer *jsonrpc.Error
	switch {
	case err == nil:
		return dst
	case errors.As(err, &status):
		dst = appendNumber(dst, 'S', uint64(status.Status))
		for _, a := range status.Authenticate {
			dst = appendBytes(dst, 'A', a)
		}
		dst = appendBytes(dst, 'T', status.ContentType)
		return appendBytes(dst, 'B', status.Body)
	case errors.As(err, &answer):
		return appendBytes(dst, 'J', jsonrpc.AppendError(nil, nil, answer))
	}
	for i, known := range sentErrors {
		if errors.Is(err, known) {
			dst = appendNumber(dst, 'x', uint64(i+1))
			break
		}
	}
	return appendBytes(dst, 't', err.Error())
}

// sentErrors are the errors that pass from replica to replica, by their number.
var sentErrors = []error{ErrUnreachable, ErrFull, ErrMalformed, ErrBroken, ErrClosed, ErrSessionGone}
