package jsonrpc

import (
	"encoding/binary"
	"math/bits"
)

// Cursor walks the members of an object, or the elements of an array, inside a
// text that Validate accepted. The zero Cursor has nothing to walk.
//
//	for c := jsonrpc.Object(raw); c.Next(); {
//		switch string(c.Name()) {
//		…
type Cursor struct {
	data               []byte
	at                 int // where Next goes on
	nameStart, nameEnd int // without the quotes
	start, end         int // of the value
	escaped            bool
	object             bool
	begun              bool
}

// Object returns a Cursor over the members of an object. Next returns false at
// once when raw, after optional space, is no object.
func Object(raw []byte) Cursor {
	i := skipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return Cursor{}
	}
	return Cursor{data: raw, at: i + 1, object: true}
}

// Array returns a Cursor over the elements of an array. Next returns false at
// once when raw, after optional space, is no array.
func Array(raw []byte) Cursor {
	i := skipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '[' {
		return Cursor{}
	}
	return Cursor{data: raw, at: i + 1}
}

// Next goes on to the next member or element. It returns false when there is
// none; Name and Value then return nil.
//
// Hot: once per member that anybody looks for.
func (c *Cursor) Next() bool {
	data := c.data
	i := skipSpace(data, c.at)
	if c.begun {
		if i >= len(data) || data[i] != ',' {
			return c.stop()
		}
		i = skipSpace(data, i+1)
	}
	c.begun = true
	if c.object {
		if i >= len(data) || data[i] != '"' {
			return c.stop()
		}
		c.nameStart = i + 1
		i, c.escaped = skipString(data, i+1)
		c.nameEnd = i - 1
		if i = skipSpace(data, i); i >= len(data) || data[i] != ':' {
			return c.stop()
		}
		i = skipSpace(data, i+1)
	}
	end := skipValue(data, i)
	if end == i { // the end of an empty array
		return c.stop()
	}
	c.start, c.end, c.at = i, end, end
	return true
}

func (c *Cursor) stop() bool {
	*c = Cursor{}
	return false
}

// Name returns the member's name, unescaped. It aliases the source unless the
// name has escapes; what is no valid UTF-8 in a server's text stays as it is
// there. It is nil in an array.
func (c *Cursor) Name() []byte {
	if !c.object {
		return nil
	}
	return unescaped(c.data[c.nameStart:c.nameEnd], c.escaped)
}

// RawName returns the member's name as it stands in the source, with its
// quotes; nil in an array.
func (c *Cursor) RawName() []byte {
	if !c.object {
		return nil
	}
	return c.data[c.nameStart-1 : c.nameEnd+1]
}

// Value returns the value as it stands in the source, without the space around
// it. It aliases the source.
func (c *Cursor) Value() []byte { return c.data[c.start:c.end:c.end] }

// Get returns the raw value of a member; nil when it is absent, or object is no
// object.
func Get(object []byte, name string) []byte {
	for c := Object(object); c.Next(); {
		if string(c.Name()) == name {
			return c.Value()
		}
	}
	return nil
}

// AppendMembers appends the members of an object, separated by commas, without
// the braces. Names and values stay as they are; members whose unescaped name
// skip wants left out are. A nil skip leaves out nothing. The caller can tell
// from dst's length whether anything was appended.
func AppendMembers(dst []byte, object []byte, skip func(name []byte) bool) []byte {
	first := len(dst)
	for c := Object(object); c.Next(); {
		if skip != nil && skip(c.Name()) {
			continue
		}
		if len(dst) > first {
			dst = append(dst, ',')
		}
		dst = append(dst, c.RawName()...)
		dst = append(dst, ':')
		dst = append(dst, c.Value()...)
	}
	return dst
}

// IsObject reports whether raw, after optional space, is an object.
func IsObject(raw []byte) bool { return begins(raw, '{') }

// IsArray reports whether raw, after optional space, is an array.
func IsArray(raw []byte) bool { return begins(raw, '[') }

func begins(raw []byte, c byte) bool {
	i := skipSpace(raw, 0)
	return i < len(raw) && raw[i] == c
}

// IsString reports whether raw, a value without space around it, is a string.
func IsString(raw []byte) bool {
	return len(raw) >= 2 && raw[0] == '"' && raw[len(raw)-1] == '"'
}

// IsNull reports whether raw, a value without space around it, is null.
func IsNull(raw []byte) bool { return string(raw) == "null" }

// skipString returns the index after the string whose first byte after the
// quote is at i, and whether it has escapes. A string without an end ends with
// the text.
func skipString(data []byte, i int) (end int, escaped bool) {
	for {
		for i+8 <= len(data) {
			m := quoteOrEscape(binary.LittleEndian.Uint64(data[i:]))
			if m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		for i < len(data) && data[i] != '"' && data[i] != '\\' {
			i++
		}
		switch {
		case i >= len(data):
			return len(data), escaped
		case data[i] == '"':
			return i + 1, escaped
		}
		escaped = true
		i += 2
	}
}

// skipValue returns the end of the value at i. It counts brackets instead of
// matching them: the text is valid.
func skipValue(data []byte, i int) int {
	if i >= len(data) {
		return i
	}
	switch data[i] {
	case '"':
		end, _ := skipString(data, i+1)
		return end
	case '{', '[':
		depth := 0
		for i < len(data) {
			c := data[i]
			i++
			if c == '"' {
				i, _ = skipString(data, i)
			} else if class[c]&isBracket != 0 {
				if c == '{' || c == '[' {
					depth++
				} else if depth--; depth == 0 {
					return i
				}
			}
		}
		return i
	}
	for i < len(data) && class[data[i]]&isEnd == 0 {
		i++
	}
	return i
}
