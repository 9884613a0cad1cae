package bus

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A frame is one NATS message: a header, then the payload. The header says its
// own length, so that a later version can append to it; what this one does not
// know there is skipped. The layout up to the sender is the same in all
// versions, so that any version can be refused; so are the type of a heartbeat
// and the flag of the last one, so that its sender is known to live.
//
//	0  version
//	1  type
//	2  length of the header
//	3  flags
//	4  token (8)
//	12 seq (8): of a data frame its own, counted from 1; else the last one sent
//	20 acked (8): cost of the frames that the sender has consumed
//	28 window (4): cost of unacknowledged frames that the sender takes
//	32 kind of an open or a tell, code of a reset
//	33 length of the sender's id, then the id
const (
	version     = 1
	fixedHeader = 34
	// frameCost is what a frame counts in the window beside its payload, so
	// that empty messages are bounded too.
	frameCost = 64
	minWindow = 4 << 10
	// overhead is more than header, subject and reply take of max_payload.
	overhead = 512
)

type frameType byte

const (
	typeOpen frameType = iota + 1
	typeData
	typeAlive // "I have it", heartbeat and acknowledgement in one
	typeReset
	typeTell
	typeBeat
)

type flags byte

const (
	flagOpener flags = 1 << iota // sent by the side that opened the stream
	flagMore                     // the message goes on in the next frame
	flagEnd                      // nothing follows
	flagVoid                     // carries no message, not even an empty one
	flagAsk                      // of a beat: answer at once
	flagBye                      // of a beat: the last one
)

// code says why a stream was reset.
type code byte

const (
	codeClosed   code = iota + 1 // let go on purpose
	codeLost                     // silence or a gap
	codeUnknown                  // no such stream
	codeFinished                 // ended in the ordinary way a while ago
	codeRefused                  // payload says why
	codeLeft                     // the replica is leaving
	codeTooLarge                 // a message is larger than MaxMessage
)

type token [8]byte

// frame is a decoded frame; its slices are the message's.
type frame struct {
	version byte
	typ     frameType
	flags   flags
	token   token
	seq     uint64
	acked   uint64
	window  uint32
	kind    byte
	from    []byte
	payload []byte
}

var errVersion = errors.New("unknown version")

// appendHeader writes f without its payload. Hot: once per frame.
func (f *frame) appendHeader(b []byte) []byte {
	b = append(b, version, byte(f.typ), byte(fixedHeader+len(f.from)), byte(f.flags))
	b = append(b, f.token[:]...)
	b = binary.BigEndian.AppendUint64(b, f.seq)
	b = binary.BigEndian.AppendUint64(b, f.acked)
	b = binary.BigEndian.AppendUint32(b, f.window)
	b = append(b, f.kind, byte(len(f.from)))
	return append(b, f.from...)
}

// parseFrame checks and reads b. With errVersion the frame is known as far as
// its sender, and no further. Hot: once per frame.
func parseFrame(b []byte) (frame, error) {
	var f frame
	if len(b) < fixedHeader {
		return f, fmt.Errorf("frame of %d bytes", len(b))
	}
	head, id := int(b[2]), int(b[33])
	if head < fixedHeader+id || head > len(b) {
		return f, fmt.Errorf("frame header of %d bytes with an id of %d", head, id)
	}
	f.version, f.typ, f.flags = b[0], frameType(b[1]), flags(b[3])
	f.token = token(b[4:12])
	f.seq = binary.BigEndian.Uint64(b[12:])
	f.acked = binary.BigEndian.Uint64(b[20:])
	f.window = binary.BigEndian.Uint32(b[28:])
	f.kind = b[32]
	f.from = b[fixedHeader : fixedHeader+id]
	if !validID(f.from) {
		return frame{}, errors.New("frame without a valid sender")
	}
	f.payload = b[head:]
	if f.version != version {
		return f, errVersion
	}
	switch f.typ {
	case typeOpen, typeData, typeAlive:
		if f.window < minWindow {
			return f, fmt.Errorf("window of %d bytes", f.window)
		}
	}
	return f, nil
}

// validID is replicaForm without a copy of b.
func validID(b []byte) bool {
	if len(b) == 0 || len(b) > maxID {
		return false
	}
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
