package state

import (
	"encoding/binary"
	"math"
)

// Token is what a client carries from one round of a call to the next, sealed.
type Token struct {
	Owner     string   // the replica that holds the call
	Call      [16]byte // the call's id
	Round     uint32   // counts up with each answer that the client got
	Upstream  string   // name of the upstream
	Principal [16]byte // keyed digest of who called
	Request   [16]byte // digest of method and params
	Expires   int64    // Unix time in seconds
}

// The plain form, in order: Call, Principal, Request; Round, Expires (zigzag)
// and the lengths of Owner and Upstream as shortest varints; Owner, Upstream.
// A token has exactly one plain form. The two strings stand side by side so
// that they are read with one allocation.

func (t *Token) appendPlain(dst []byte) []byte {
	dst = append(dst, t.Call[:]...)
	dst = append(dst, t.Principal[:]...)
	dst = append(dst, t.Request[:]...)
	dst = binary.AppendUvarint(dst, uint64(t.Round))
	dst = binary.AppendVarint(dst, t.Expires)
	dst = binary.AppendUvarint(dst, uint64(len(t.Owner)))
	dst = binary.AppendUvarint(dst, uint64(len(t.Upstream)))
	dst = append(dst, t.Owner...)
	return append(dst, t.Upstream...)
}

// readPlain reads what appendPlain wrote, and nothing else: longer varints than
// needed, missing and trailing bytes are refused.
func (t *Token) readPlain(b []byte) bool {
	for _, field := range []*[16]byte{&t.Call, &t.Principal, &t.Request} {
		if len(b) < len(field) {
			return false
		}
		b = b[copy(field[:], b):]
	}
	round, b, ok := cutUvarint(b)
	if !ok || round > math.MaxUint32 {
		return false
	}
	zigzag, b, ok := cutUvarint(b)
	if !ok {
		return false
	}
	owner, b, ok := cutUvarint(b)
	if !ok {
		return false
	}
	upstream, b, ok := cutUvarint(b)
	if !ok || owner > uint64(len(b)) || upstream != uint64(len(b))-owner {
		return false
	}
	names := string(b)
	t.Round = uint32(round)
	t.Expires = int64(zigzag>>1) ^ -int64(zigzag&1)
	t.Owner, t.Upstream = names[:owner], names[owner:]
	return true
}

func cutUvarint(b []byte) (v uint64, rest []byte, ok bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 || (n > 1 && b[n-1] == 0) {
		return 0, nil, false
	}
	return v, b[n:], true
}
