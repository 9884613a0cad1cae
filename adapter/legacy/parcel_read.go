package legacy

import (
	"encoding/binary"
	"fmt"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// readParcel reads what append wrote.
func readParcel(text []byte) (parcel, error) {
	if len(text) < 2 || text[0] != parcelVersion {
		return parcel{}, fmt.Errorf("%w: another version", errParcel)
	}
	p := parcel{kind: kind(text[1])}
	r := parcelReader{parcel: &p}
	for text = text[2:]; len(text) > 0; {
		tag := text[0]
		n, size := binary.Uvarint(text[1:])
		if size <= 0 || n > uint64(len(text)-1-size) {
			return parcel{}, fmt.Errorf("%w: it is cut", errParcel)
		}
		value := text[1+size:][:n:n]
		text = text[1+size+int(n):]
		if !r.take(tag, value) {
			return parcel{}, fmt.Errorf("%w: field %q", errParcel, tag)
		}
	}
	if err := r.finish(); err != nil {
		return parcel{}, err
	}
	return p, nil
}

// parcelReader gathers the parts of a parcel that take several fields.
type parcelReader struct {
	*parcel
	principal, extra, caps, clientInfo []byte
	ephemeral, shared                  bool
	status                             StatusError
	answer                             *jsonrpc.Error
	code                               uint64
	text                               string
}

// take reads one field. It reports false where no replica writes such.
func (r *parcelReader) take(tag byte, v []byte) bool {
	p := r.parcel
	switch tag {
	case 'P':
		r.principal = v
		return len(v) == len(Key{}.Principal)
	case 'X':
		r.extra = v
		return len(v) <= maxKeyPart
	case 'C':
		r.caps = v
		return len(v) <= maxKeyPart
	case 'I':
		r.clientInfo = v
		return len(v) <= maxKeyPart && jsonrpc.Validate(v, jsonrpc.Strict, maxKeyDepth) == nil && jsonrpc.IsObject(v)
	case 'Y':
		r.ephemeral = true
	case 'H':
		r.shared = true
	case 'a':
		name, value, ok := cutHeader(v)
		p.creds = append(p.creds, Field{name, value})
		return ok && len(p.creds) <= maxFields
	case 'g':
		return takeID(&p.gone, v)
	case 's':
		return takeID(&p.id, v)
	case 'v':
		p.version = string(v)
		return mcp.LegacyVersion(p.version)
	case 'i':
		p.info = v
		return len(v) <= maxInfo
	case 'e':
		p.event = v
		return len(v) <= maxKeyPart
	case 'h':
		return takeID(&p.holder, v)
	case 'l':
		n, ok := readNumber(v)
		p.level = mcp.Level(n)
		return ok && n <= uint64(mcp.LevelEmergency)
	case 'n', 'E', 'x', 'S':
		n, ok := readNumber(v)
		switch tag {
		case 'n':
			p.number = n
		case 'E':
			p.eligible = n
		case 'x':
			r.code = n
		default:
			r.status.Status = int(n)
		}
		return ok && n <= 1<<31
	case 'L', 'F', 'w', 'W':
		n, ok := readNumber(v)
		switch tag {
		case 'L':
			p.life = n
		case 'F':
			p.freed = n
		case 'w':
			p.age = n
		default:
			p.used = n
		}
		return ok
	case 'p':
		p.pushes = true
	case 'f':
		p.flag = true
	case 'c':
		p.closing = true
	case 'r':
		return takeID(&p.request, v)
	case 'u':
		p.uri = string(v)
	case 'm':
		p.raw = v
	case 'o':
		m, single, err := jsonrpc.ParseServerOne(v, maxKeyDepth)
		if err != nil || !single || !m.IsRequest() {
			return false
		}
		p.orphans = append(p.orphans, Orphan{ID: m.ID, Method: m.Method, Params: m.Params})
		return len(p.orphans) <= maxWaiting
	case 'A':
		r.status.Authenticate = append(r.status.Authenticate, string(v))
		return len(r.status.Authenticate) <= maxFields
	case 'T':
		r.status.ContentType = string(v)
	case 'B':
		r.status.Body = append([]byte(nil), v...)
		return len(v) <= maxErrorBody
	case 'J':
		m, single, err := jsonrpc.ParseServerOne(append([]byte(nil), v...), maxKeyDepth)
		if err != nil || !single || m.Error == nil {
			return false
		}
		answer, ok := jsonrpc.ParseError(m.Error)
		r.answer = answer
		return ok
	case 't':
		r.text = string(v[:min(len(v), 1024)])
	}
	return true
}

// maxKeyDepth bounds the nesting of JSON that peers send.
const maxKeyDepth = 1000

// finish puts the parts together.
func (r *parcelReader) finish() error {
	if r.caps != nil {
		key := &Key{Extra: r.extra, ClientInfo: r.clientInfo, Ephemeral: r.ephemeral, Shared: r.shared}
		copy(key.Principal[:], r.principal)
		if r.principal == nil || jsonrpc.Validate(r.caps, jsonrpc.Strict, maxKeyDepth) != nil {
			return fmt.Errorf("%w: a key without its parts", errParcel)
		}
		caps, err := mcp.ParseCapabilities(r.caps)
		if err != nil || caps.Raw != string(r.caps) {
			return fmt.Errorf("%w: capabilities that are not canonical", errParcel)
		}
		key.Caps = caps
		r.key = key
	}
	switch {
	case r.status.Status != 0:
		status := r.status
		r.err = &status
	case r.answer != nil:
		r.err = r.answer
	case r.code != 0 && r.code <= uint64(len(sentErrors)):
		r.err = fmt.Errorf("%w, says another replica: %s", sentErrors[r.code-1], r.text)
	case r.text != "":
		r.err = fmt.Errorf("%w: another replica could not open a session: %s", ErrUnreachable, r.text)
	}
	switch r.kind {
	case askLend, askPlace, askHave, askYours:
		if r.key == nil {
			return fmt.Errorf("%w: a question without a key", errParcel)
		}
	}
	switch r.kind {
	case askYours, sayHave:
		if r.id == "" && r.info == nil {
			return fmt.Errorf("%w: a session without an id", errParcel)
		}
	case sayRefused:
		if r.err == nil {
			return fmt.Errorf("%w: a refusal without a reason", errParcel)
		}
	}
	return nil
}

// takeID reads an id: no control characters, which could begin a header field
// of their own.
func takeID(to *string, v []byte) bool {
	for _, c := range v {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	*to = string(v)
	return len(v) <= maxID
}

func readNumber(v []byte) (uint64, bool) {
	n, size := binary.Uvarint(v)
	return n, size > 0 && size == len(v)
}

func cutHeader(v []byte) (name, value string, ok bool) {
	for i, c := range v {
		if c == 0 {
			return string(v[:i]), string(v[i+1:]), i > 0
		}
		if c <= ' ' || c == ':' || c >= 0x7f {
			return "", "", false
		}
	}
	return "", "", false
}
