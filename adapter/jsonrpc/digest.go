package jsonrpc

import (
	"bytes"
	"encoding/binary"
	"hash"
	"slices"
	"sync"
	"unicode/utf8"
)

// Digest writes a JSON value to h in a form that does not depend on white
// space, the order of members or the escapes in strings, so that equal values
// give equal digests. Numbers count by their text: 1 and 1.0 differ. When raw is
// an object, members of it whose name skip wants left out do not count; skip
// may be nil.
//
// The form is unambiguous: each value begins with its type, strings and numbers
// tell their length, arrays and objects have an end. What is no valid UTF-8
// counts as it stands, and a lone surrogate as something of its own, so that
// they differ from U+FFFD.
func Digest(h hash.Hash, raw []byte, skip func(name []byte) bool) {
	c := canons.Get().(*canon)
	c.text, c.members = c.text[:0], c.members[:0]
	c.value(raw, 0, skip)
	h.Write(c.text)
	if cap(c.text) > maxCanon {
		c.text = nil
	}
	if cap(c.members) > maxKept {
		c.members = nil
	}
	canons.Put(c)
}

// maxCanon bounds the buffers that stay in the pool.
const maxCanon = 256 << 10

var canons = sync.Pool{New: func() any { return new(canon) }}

// canon makes the form that Digest hashes.
type canon struct {
	text    []byte
	members []member // of the objects that are not complete, outermost first
}

// member is a name and its value in canon.text.
type member struct{ start, value, end int }

// Types in the form. What ends an object or array begins no value.
const (
	tagLiteral = 'l'
	tagNumber  = 'n'
	tagString  = 's'
	tagArray   = '['
	tagObject  = '{'
	tagEnd     = '.'
)

// value appends the value at i, which may have space before it, and returns its
// end. It recurses: Validate has bounded the depth. It goes on whatever it meets,
// so that a text which is not valid does no harm.
func (c *canon) value(raw []byte, i int, skip func(name []byte) bool) int {
	if i = skipSpace(raw, i); i >= len(raw) {
		return i
	}
	switch raw[i] {
	case '{':
		return c.object(raw, i, skip)
	case '[':
		c.text = append(c.text, tagArray)
		i = skipSpace(raw, i+1)
		for i < len(raw) && raw[i] != ']' {
			i = skipSpace(raw, c.value(raw, i, nil))
			if i < len(raw) && raw[i] == ',' {
				i++
			}
		}
		c.text = append(c.text, tagEnd)
		return i + 1
	case '"':
		end, escaped := skipString(raw, i+1)
		c.string(raw[i+1:max(end-1, i+1)], escaped)
		return end
	case 't', 'f', 'n':
		c.text = append(c.text, tagLiteral, raw[i])
		return skipValue(raw, i)
	}
	end := skipValue(raw, i)
	c.text = append(c.text, tagNumber)
	c.text = binary.AppendUvarint(c.text, uint64(end-i))
	c.text = append(c.text, raw[i:end]...)
	return max(end, i+1)
}

// object appends an object, its members in the order of their names.
func (c *canon) object(raw []byte, i int, skip func(name []byte) bool) int {
	c.text = append(c.text, tagObject)
	first := len(c.members)
	sorted := true
	i = skipSpace(raw, i+1)
	for i < len(raw) && raw[i] == '"' {
		end, escaped := skipString(raw, i+1)
		name := raw[i+1 : max(end-1, i+1)]
		i = skipSpace(raw, end) + 1 // after the colon
		if skip != nil && skip(unescaped(name, escaped)) {
			i = skipValue(raw, skipSpace(raw, i))
		} else {
			m := member{start: len(c.text)}
			c.string(name, escaped)
			m.value = len(c.text)
			i = c.value(raw, i, nil)
			m.end = len(c.text)
			if len(c.members) > first {
				sorted = sorted && c.compare(c.members[len(c.members)-1], m) <= 0
			}
			c.members = append(c.members, m)
		}
		if i = skipSpace(raw, i); i < len(raw) && raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	if members := c.members[first:]; !sorted {
		start, end := members[0].start, len(c.text)
		slices.SortFunc(members, c.compare)
		for _, m := range members {
			c.text = append(c.text, c.text[m.start:m.end]...)
		}
		c.text = c.text[:start+copy(c.text[start:], c.text[end:])]
	}
	c.members = c.members[:first]
	c.text = append(c.text, tagEnd)
	return i + 1
}

// compare orders members by length and text of their names.
func (c *canon) compare(a, b member) int {
	return bytes.Compare(c.text[a.start:a.value], c.text[b.start:b.value])
}

// string appends a string, given without its quotes. The byte 0xff, which valid
// UTF-8 does not have, escapes itself and lone surrogates.
func (c *canon) string(b []byte, escaped bool) {
	c.text = append(c.text, tagString, 0, 0, 0, 0)
	start := len(c.text)
	for escaped {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			break
		}
		c.bytes(b[:i])
		r, n := unescape(b[i:])
		if isSurrogate(r) {
			c.text = append(c.text, 0xff, 1, byte(r>>8), byte(r))
		} else {
			c.text = utf8.AppendRune(c.text, r)
		}
		b = b[i+max(n, 1):]
	}
	c.bytes(b)
	binary.BigEndian.PutUint32(c.text[start-4:], uint32(len(c.text)-start))
}

func (c *canon) bytes(b []byte) {
	for {
		i := bytes.IndexByte(b, 0xff)
		if i < 0 {
			c.text = append(c.text, b...)
			return
		}
		c.text = append(c.text, b[:i]...)
		c.text = append(c.text, 0xff, 0)
		b = b[i+1:]
	}
}
