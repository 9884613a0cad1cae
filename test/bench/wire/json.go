package wire

import "bytes"

// Members walks the members of a JSON object in a text that is known to be
// JSON, because the benchmark's own peers wrote it.
type Members struct {
	text []byte
	at   int

	Name  []byte // without quotes, escapes as they are
	Value []byte // raw
}

// Object returns a walk over the members of object.
func Object(object []byte) Members {
	at := space(object, 0)
	if at >= len(object) || object[at] != '{' {
		return Members{}
	}
	return Members{text: object, at: at + 1}
}

// Next goes to the next member and reports whether there is one.
func (m *Members) Next() bool {
	at := space(m.text, m.at)
	if at < len(m.text) && m.text[at] == ',' {
		at = space(m.text, at+1)
	}
	if at >= len(m.text) || m.text[at] != '"' {
		return false
	}
	end := skip(m.text, at)
	if end-1 <= at {
		return false
	}
	m.Name = m.text[at+1 : end-1]
	at = space(m.text, end)
	if at >= len(m.text) || m.text[at] != ':' {
		return false
	}
	at = space(m.text, at+1)
	end = skip(m.text, at)
	m.Value = m.text[at:end]
	m.at = end
	return end > at
}

// Get returns the raw value at a path of names, or nil.
func Get(object []byte, path ...string) []byte {
	value := object
walk:
	for _, name := range path {
		for m := Object(value); m.Next(); {
			if string(m.Name) == name {
				value = m.Value
				continue walk
			}
		}
		return nil
	}
	return value
}

// Text returns the inside of a raw JSON string, escapes as they are, or nil.
func Text(raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return nil
	}
	return raw[1 : len(raw)-1]
}

func space(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r') {
		at++
	}
	return at
}

// skip returns the end of the value that begins at at.
func skip(text []byte, at int) int {
	for depth := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			at = quote(text, at)
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return at
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return at
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return min(at+1, len(text))
		}
	}
	return len(text)
}

// quote returns the place of the quote that ends the string beginning at at.
func quote(text []byte, at int) int {
	for at++; at < len(text); {
		end := bytes.IndexByte(text[at:], '"')
		if end < 0 {
			break
		}
		escape := bytes.IndexByte(text[at:at+end], '\\')
		if escape < 0 {
			return at + end
		}
		at += escape + 2
	}
	return len(text)
}
