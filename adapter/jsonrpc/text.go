package jsonrpc

import (
	"bytes"
	"unicode/utf8"
)

// Unquote returns the text of a JSON string, with U+FFFD in place of what is no
// valid UTF-8 and of lone surrogates. ok is false when raw is no JSON string.
func Unquote(raw []byte) (text string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	end, flags := scanString(raw, 1, false)
	if flags&textFaults != 0 || end != len(raw) {
		return "", false
	}
	b := raw[1 : end-1]
	if flags == 0 || flags == textWide && utf8.Valid(b) {
		return string(b), true
	}
	b, ok = appendText(make([]byte, 0, len(b)), b)
	return string(b), ok
}

// textOf returns the text of a raw string, aliasing it where it can.
func textOf(raw []byte) []byte {
	b := raw[1 : len(raw)-1]
	return unescaped(b, bytes.IndexByte(b, '\\') >= 0)
}

// unescaped returns the text of a string without its quotes, aliasing it unless
// it has escapes.
func unescaped(b []byte, escaped bool) []byte {
	if escaped {
		b, _ = appendText(make([]byte, 0, len(b)), b)
	}
	return b
}

// appendText appends the text of a JSON string without its quotes, with U+FFFD
// in place of what is no valid UTF-8. ok is false when an escape is bad.
func appendText(dst, b []byte) (text []byte, ok bool) {
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			return appendValid(dst, b), true
		}
		dst = appendValid(dst, b[:i])
		r, n := unescape(b[i:])
		if n == 0 {
			return dst, false
		}
		dst = utf8.AppendRune(dst, r) // a lone surrogate becomes U+FFFD
		b = b[i+n:]
	}
}

func appendValid(dst, b []byte) []byte {
	if utf8.Valid(b) {
		return append(dst, b...)
	}
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		dst = utf8.AppendRune(dst, r)
		b = b[n:]
	}
	return dst
}

// unescape returns the rune that the escape at the beginning of b stands for,
// which may be a lone surrogate, and the escape's length; 0 when it is bad.
func unescape(b []byte) (rune, int) {
	if len(b) < 2 {
		return 0, 0
	}
	switch c := b[1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		u, ok := hex4(b, 2)
		if !ok {
			return 0, 0
		}
		if low := lowSurrogate(b, 6, u); low >= 0 {
			return (u-0xd800)<<10 | (low - 0xdc00) + 0x10000, 12
		}
		return u, 6
	}
	return 0, 0
}

// AppendQuote appends s as a JSON string. The result is always valid JSON and
// valid UTF-8: U+FFFD takes the place of what is not. Nothing is escaped that
// need not be.
func AppendQuote(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if class[c]&(isStop|isWide) == 0 {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			if c < ' ' {
				const hex = "0123456789abcdef"
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			} else {
				dst = utf8.AppendRune(dst, utf8.RuneError)
			}
		}
		i++
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
