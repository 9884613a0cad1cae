package jsonrpc

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Classes of bytes.
const (
	isSpace   = 1 << iota
	isDigit   // 0-9
	isStop    // in a string: quote, backslash or control character
	isWide    // begins or continues a rune outside ASCII
	isBracket // opens or closes an array or object
	isEnd     // ends a number or literal
)

var class = func() (t [256]uint8) {
	for c := range t {
		if c < ' ' {
			t[c] |= isStop
		}
		if c >= utf8.RuneSelf {
			t[c] |= isWide
		}
	}
	for _, c := range " \t\r\n" {
		t[c] |= isSpace | isEnd
	}
	for c := '0'; c <= '9'; c++ {
		t[c] |= isDigit
	}
	for _, c := range "[]{}" {
		t[c] |= isBracket
	}
	for _, c := range `,:]}"` {
		t[c] |= isEnd
	}
	t['"'] |= isStop
	t['\\'] |= isStop
	return t
}()

func skipSpace(data []byte, i int) int {
	for i < len(data) && class[data[i]]&isSpace != 0 {
		i++
	}
	return i
}

// textFlags say what a string is made of.
type textFlags uint8

const (
	textEscaped   textFlags = 1 << iota // has escapes
	textWide                            // has bytes outside ASCII
	textBadSyntax                       // has no end, a control character or a bad escape
	textBadUTF8                         // strict only

	textFaults = textBadSyntax | textBadUTF8
)

// Eight bytes at a time: which of them are special. In the results the lowest
// set bit is exact; higher ones may be carried over from it.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// quoteOrEscape marks quotes and backslashes.
func quoteOrEscape(x uint64) uint64 {
	q, b := x^'"'*ones, x^'\\'*ones
	return ((q-ones)&^q | (b-ones)&^b) & highs
}

// stop marks quotes, backslashes and control characters.
func stop(x uint64) uint64 {
	q, b := x^'"'*ones, x^'\\'*ones
	return ((q-ones)&^q | (b-ones)&^b | (x-' '*ones)&^x) & highs
}

// stopOrWide marks what stop does, and what is not ASCII.
func stopOrWide(x uint64) uint64 {
	return (((x ^ '"'*ones) - ones) | ((x ^ '\\'*ones) - ones) | (x - ' '*ones) | x) & highs
}

// scanString reads a string whose first byte after the quote is at i. It
// returns the index after the closing quote; with textFaults, that of the
// fault.
func scanString(data []byte, i int, strict bool) (int, textFlags) {
	var flags textFlags
	for {
		i = ascii(data, i)
		if i >= len(data) {
			return i, textBadSyntax
		}
		switch c := data[i]; {
		case c == '"':
			return i + 1, flags
		case c == '\\':
			flags |= textEscaped
			n, fault := scanEscape(data, i, strict)
			if fault != 0 {
				return i, fault
			}
			i += n
		case c < ' ':
			return i, textBadSyntax
		default:
			flags |= textWide
			end := unstopped(data, i)
			if strict && !utf8.Valid(data[i:end]) {
				return i, textBadUTF8
			}
			i = end
		}
	}
}

// ascii returns the index of the first byte from i on that is a stop or wide.
func ascii(data []byte, i int) int {
	for i+8 <= len(data) {
		if m := stopOrWide(binary.LittleEndian.Uint64(data[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(data) && class[data[i]]&(isStop|isWide) == 0 {
		i++
	}
	return i
}

// unstopped returns the index of the first byte from i on that is a stop.
func unstopped(data []byte, i int) int {
	for i+8 <= len(data) {
		if m := stop(binary.LittleEndian.Uint64(data[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(data) && class[data[i]]&isStop == 0 {
		i++
	}
	return i
}

// scanEscape returns the length of the escape, or of the surrogate pair, at i.
func scanEscape(data []byte, i int, strict bool) (int, textFlags) {
	if i+1 >= len(data) {
		return 0, textBadSyntax
	}
	switch data[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, 0
	case 'u':
		u, ok := hex4(data, i+2)
		switch {
		case !ok:
			return 0, textBadSyntax
		case !strict || !isSurrogate(u):
			return 6, 0
		case lowSurrogate(data, i+6, u) < 0:
			return 0, textBadUTF8
		}
		return 12, 0
	}
	return 0, textBadSyntax
}

// hex4 reads the four hexadecimal digits at i.
func hex4(data []byte, i int) (u rune, ok bool) {
	if i+4 > len(data) {
		return 0, false
	}
	for _, c := range data[i : i+4] {
		u <<= 4
		switch {
		case '0' <= c && c <= '9':
			u |= rune(c - '0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			u |= rune(c|0x20-'a') + 10
		default:
			return 0, false
		}
	}
	return u, true
}

func isSurrogate(u rune) bool { return u&0xf800 == 0xd800 }

// lowSurrogate returns the escaped low surrogate at i that completes high, or
// -1 where there is none, or high is none.
func lowSurrogate(data []byte, i int, high rune) rune {
	if high&0xfc00 != 0xd800 || i+6 > len(data) || data[i] != '\\' || data[i+1] != 'u' {
		return -1
	}
	if low, ok := hex4(data, i+2); ok && low&0xfc00 == 0xdc00 {
		return low
	}
	return -1
}

// scanNumber returns the end of the number at i, or -1 where there is none, and
// whether it has neither fraction nor exponent. RFC 8259, section 6.
func scanNumber(data []byte, i int) (end int, integer bool) {
	if i < len(data) && data[i] == '-' {
		i++
	}
	first := i
	if i = skipDigits(data, i); i == first || data[first] == '0' && i > first+1 {
		return -1, false
	}
	integer = true
	if i < len(data) && data[i] == '.' {
		integer = false
		first = i + 1
		if i = skipDigits(data, first); i == first {
			return -1, false
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		integer = false
		if i++; i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		first = i
		if i = skipDigits(data, first); i == first {
			return -1, false
		}
	}
	return i, integer
}

func skipDigits(data []byte, i int) int {
	for i < len(data) && class[data[i]]&isDigit != 0 {
		i++
	}
	return i
}

// scanLiteral returns the end of true, false or null at i, or -1.
func scanLiteral(data []byte, i int) int {
	rest := data[i:]
	switch {
	case len(rest) >= 4 && (string(rest[:4]) == "true" || string(rest[:4]) == "null"):
		return i + 4
	case len(rest) >= 5 && string(rest[:5]) == "false":
		return i + 5
	}
	return -1
}
