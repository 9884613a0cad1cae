package state

import (
	"bytes"
	"encoding/binary"
	"math"
)

// The plain form of a token, in order:
//
//   - Call, Principal, Request;
//   - one byte: the revision's index, and a bit each for Cut, Released, Endpoint,
//     Foreign, and whether there is a Task;
//   - with Born or Params: the byte has no revision but flagMore, and another one
//     follows that has it, and a bit for each;
//   - with Endpoint: its length and text; with Foreign: the length of Inner and
//     Inner;
//   - with Born: varints Born and Away, and the byte Caps;
//   - varints: Round, Expires (zigzag), Ran, Asked, the lengths of Owner,
//     Upstream and the rest of Position, how many inputs and answers there are,
//     and how long the JSON objects are together;
//   - the texts that the lengths are of; Task, if any, after its length; Method, if any, after its
//     length, and the length of Params;
//   - each input: kind and Hinted in one byte, Digest, then Key and ID, each
//     after its length, and the length of Params;
//   - each answer: the same without ID, with Failed and Brought in the first byte, and with the
//     length of Value or, where it is brought, Sum;
//   - the JSON objects: Params, Params of the inputs, Value of the answers.
//
// A token has exactly one plain form: varints are the shortest, and nothing is
// missing or left over. The objects come last, so that what is before them is
// read with one allocation for all strings, and they with another.
const (
	flagRevision = 1<<3 - 1
	flagCut      = 1 << 3
	flagReleased = 1 << 4
	flagTask     = 1 << 5
	flagEndpoint = 1 << 6
	flagForeign  = 1 << 7

	flagMore   = flagRevision // in place of the revision: more flags follow, and it is among them
	flagBorn   = 1 << 3
	flagParams = 1 << 4
	moreKnown  = flagRevision | flagBorn | flagParams

	// In the first byte of an answer, beside its kind.
	flagFailed  = 1 << 7
	flagBrought = 1 << 6

	// minEntry is the length of an answer whose texts are empty; inputs are longer.
	minEntry = 1 + 16 + 1 + 1
)

func (t *Token) appendPlain(dst []byte) []byte {
	dst = append(dst, t.Call[:]...)
	dst = append(dst, t.Principal[:]...)
	dst = append(dst, t.Request[:]...)
	revision := byte(revisionOf(t.Position.Version))
	var flags byte
	if t.Cut {
		flags |= flagCut
	}
	if t.Released {
		flags |= flagReleased
	}
	if t.Task != "" {
		flags |= flagTask
	}
	if t.Endpoint != "" {
		flags |= flagEndpoint
	}
	if t.Foreign {
		flags |= flagForeign
	}
	var more byte
	if t.Born != 0 {
		more |= flagBorn
	}
	if t.Params != nil {
		more |= flagParams
	}
	if more != 0 {
		dst = append(dst, flags|flagMore)
		flags = revision | more
	} else {
		flags |= revision
	}
	dst = append(dst, flags)
	if t.Endpoint != "" {
		dst = binary.AppendUvarint(dst, uint64(len(t.Endpoint)))
		dst = append(dst, t.Endpoint...)
	}
	if t.Foreign {
		dst = binary.AppendUvarint(dst, uint64(len(t.Inner)))
		dst = append(dst, t.Inner...)
	}
	if t.Born != 0 {
		dst = binary.AppendUvarint(dst, uint64(t.Born))
		dst = append(binary.AppendUvarint(dst, uint64(t.Away)), t.Caps)
	}
	dst = binary.AppendUvarint(dst, uint64(t.Round))
	dst = binary.AppendVarint(dst, t.Expires)
	dst = binary.AppendUvarint(dst, uint64(t.Ran))
	for _, n := range t.Asked {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	texts := [...]string{t.Owner, t.Upstream, t.Position.Session, t.Position.Event, t.Position.Request}
	for _, s := range texts {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
	}
	dst = binary.AppendUvarint(dst, uint64(len(t.Inputs)))
	dst = binary.AppendUvarint(dst, uint64(len(t.Transcript)))
	objects := len(t.Params)
	for i := range t.Inputs {
		objects += len(t.Inputs[i].Params)
	}
	for i := range t.Transcript {
		objects += len(t.Transcript[i].sealed())
	}
	dst = binary.AppendUvarint(dst, uint64(objects))
	for _, s := range texts {
		dst = append(dst, s...)
	}
	if t.Task != "" {
		dst = binary.AppendUvarint(dst, uint64(len(t.Task)))
		dst = append(dst, t.Task...)
	}
	if t.Params != nil {
		dst = binary.AppendUvarint(dst, uint64(len(t.Method)))
		dst = append(dst, t.Method...)
		dst = binary.AppendUvarint(dst, uint64(len(t.Params)))
	}
	for i := range t.Inputs {
		q := &t.Inputs[i]
		dst = appendEntry(dst, q.Method, q.Hinted, &q.Digest, q.Key)
		dst = binary.AppendUvarint(dst, uint64(len(q.ID)))
		dst = append(dst, q.ID...)
		dst = binary.AppendUvarint(dst, uint64(len(q.Params)))
	}
	for i := range t.Transcript {
		a, head := &t.Transcript[i], len(dst)
		dst = appendEntry(dst, a.Method, a.Hinted, &a.Digest, a.Key)
		if a.Failed {
			dst[head] |= flagFailed
		}
		if a.Brought {
			dst[head] |= flagBrought
			dst = append(dst, a.Sum[:]...)
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(len(a.Value)))
	}
	dst = append(dst, t.Params...)
	for i := range t.Inputs {
		dst = append(dst, t.Inputs[i].Params...)
	}
	for i := range t.Transcript {
		dst = append(dst, t.Transcript[i].sealed()...)
	}
	return dst
}

// sealed is the value, where a token carries it.
func (a *Answer) sealed() []byte {
	if a.Brought {
		return nil
	}
	return a.Value
}

func appendEntry(dst []byte, k Kind, hinted bool, digest *[16]byte, key string) []byte {
	head := byte(min(k, kinds)) << 1 // an unknown kind must not turn into a known one
	if hinted {
		head |= 1
	}
	dst = append(append(dst, head), digest[:]...)
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	return append(dst, key...)
}

// readPlain reads what appendPlain wrote of a valid token, and nothing else. It
// keeps nothing of b. Whatever b holds, it allocates no more than a few times
// its length. When it reports false, t is of no use.
func (t *Token) readPlain(b []byte) bool {
	r := reader{b: b}
	r.digest(&t.Call)
	r.digest(&t.Principal)
	r.digest(&t.Request)
	flags := r.byte()
	revision, more := flags&flagRevision, byte(0)
	if revision == flagMore {
		more = r.byte()
		if revision = more & flagRevision; more&^flagRevision == 0 || more&^moreKnown != 0 {
			return false
		}
	}
	t.Endpoint, t.Foreign, t.Inner = "", flags&flagForeign != 0, nil
	if flags&flagEndpoint != 0 {
		if t.Endpoint = string(r.take(r.uvarint())); t.Endpoint == "" {
			r.fail()
		}
	}
	if t.Foreign {
		if inner := r.take(r.uvarint()); len(inner) > 0 {
			t.Inner = bytes.Clone(inner)
		}
	}
	t.Born, t.Away, t.Caps = 0, 0, 0
	if more&flagBorn != 0 {
		born := r.uvarint()
		if born == 0 || born > math.MaxInt64 {
			return false
		}
		away := r.uvarint()
		if away > math.MaxUint32 {
			return false
		}
		t.Born, t.Away, t.Caps = int64(born), uint32(away), r.byte()
	}
	var n [14]uint64
	r.uvarints(n[:])
	round, zigzag, ran, asked, texts, inputs, answers, size := n[0], n[1], n[2], n[3:6], n[6:11], n[11], n[12], n[13]
	if r.bad || int(revision) >= len(revisions) ||
		max(round, ran, asked[Elicitation], asked[Sampling], asked[Roots]) > math.MaxUint32 ||
		inputs > MaxInputs || answers > MaxTranscript || size > uint64(len(r.b)) {
		return false
	}
	rest := uint64(len(r.b)) - size
	if (inputs+answers)*minEntry > rest {
		return false
	}
	t.Round, t.Ran = uint32(round), uint32(ran)
	t.Inputs, t.Transcript = nil, nil
	t.Expires = int64(zigzag>>1) ^ -int64(zigzag&1)
	for i := range t.Asked {
		t.Asked[i] = uint32(asked[i])
	}
	t.Position.Version = revisions[revision]
	t.Cut, t.Released = flags&flagCut != 0, flags&flagReleased != 0

	if size > 0 {
		r.objects = bytes.Clone(r.b[rest:])
	}
	r.b = r.b[:rest]
	r.text = string(r.b)
	t.Owner, t.Upstream = r.string(texts[0]), r.string(texts[1])
	t.Position.Session, t.Position.Event, t.Position.Request = r.string(texts[2]), r.string(texts[3]), r.string(texts[4])
	if t.Task = ""; flags&flagTask != 0 {
		if t.Task = r.string(r.uvarint()); t.Task == "" {
			return false
		}
	}
	if t.Method, t.Params = "", nil; more&flagParams != 0 {
		t.Method = r.string(r.uvarint())
		if t.Params = r.object(r.uvarint()); t.Params == nil {
			return false
		}
	}
	if inputs > 0 {
		t.readInputs(&r, int(inputs))
	}
	if answers > 0 {
		t.readTranscript(&r, int(answers))
	}
	return !r.bad && len(r.b) == 0 && len(r.objects) == 0 && t.Valid()
}

func (t *Token) readInputs(r *reader, n int) {
	t.Inputs = make([]Question, n)
	for i := range t.Inputs {
		q := &t.Inputs[i]
		q.Method, q.Hinted = kindOf(r.byte())
		r.digest(&q.Digest)
		q.Key = r.string(r.uvarint())
		q.ID = r.string(r.uvarint())
		q.Params = r.object(r.uvarint())
	}
}

func (t *Token) readTranscript(r *reader, n int) {
	t.Transcript = make([]Answer, n)
	for i := range t.Transcript {
		a := &t.Transcript[i]
		head := r.byte()
		a.Failed, a.Brought = head&flagFailed != 0, head&flagBrought != 0
		a.Method, a.Hinted = kindOf(head &^ (flagFailed | flagBrought))
		r.digest(&a.Digest)
		a.Key = r.string(r.uvarint())
		if a.Brought {
			r.digest(&a.Sum)
			continue
		}
		a.Value = r.object(r.uvarint())
	}
}

// reader reads a plain form from the front. After the first thing that is not
// as it should be, bad is set and all it gives is zero.
type reader struct {
	b       []byte
	text    string // ends with a copy of b: strings are cut from it
	objects []byte // a copy of those not read yet
	bad     bool
}

func (r *reader) fail() { r.b, r.bad = nil, true }

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) digest(d *[16]byte) {
	if len(r.b) < len(d) {
		r.fail()
		return
	}
	r.b = r.b[copy(d[:], r.b):]
}

// take returns a part of b itself.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	part := r.b[:n]
	r.b = r.b[n:]
	return part
}

func kindOf(head byte) (k Kind, hinted bool) { return Kind(head >> 1), head&1 != 0 }

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n > 1 && r.b[n-1] == 0 { // cut short, too great, or longer than needed
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// uvarints reads as many as dst has room for; nearly all have one byte.
func (r *reader) uvarints(dst []uint64) {
	b := r.b
	for i := range dst {
		if len(b) > 0 && b[0] < 0x80 {
			dst[i], b = uint64(b[0]), b[1:]
			continue
		}
		r.b = b
		dst[i] = r.uvarint()
		b = r.b
	}
	r.b = b
}

func (r *reader) string(n uint64) string {
	if n > uint64(len(r.b)) {
		r.fail()
		return ""
	}
	at := len(r.text) - len(r.b)
	r.b = r.b[n:]
	return r.text[at : at+int(n)]
}

// object is nil where there is none.
func (r *reader) object(n uint64) []byte {
	if n > uint64(len(r.objects)) {
		r.fail()
		return nil
	}
	if n == 0 {
		return nil
	}
	// No room behind an object: who appends to one must not write into the next.
	o := r.objects[:n:n]
	r.objects = r.objects[n:]
	return o
}
