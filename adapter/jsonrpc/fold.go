package jsonrpc

import (
	"unicode"
	"unicode/utf8"
)

// FoldsTo returns the one of known that name equals under simple case folding,
// as strings.EqualFold has it, without being equal to any of them. Servers on
// Go's encoding/json and some others take such a name for the known one, even
// where a rune outside ASCII folds to an ASCII letter ("param\u017f").
//
// Hot: once per member of an envelope or of _meta that is not known.
func FoldsTo(name []byte, known []string) (string, bool) {
	found := ""
	ok := false
	for _, k := range known {
		if string(name) == k {
			return "", false
		}
		if !ok && equalFold(name, k) {
			found, ok = k, true
		}
	}
	return found, ok
}

// equalFold is strings.EqualFold for a name that need not become a string.
func equalFold(a []byte, b string) bool {
	for len(a) > 0 && len(b) > 0 {
		if x, y := a[0], b[0]; x|y < utf8.RuneSelf {
			if x != y && (x|0x20 != y|0x20 || x|0x20 < 'a' || 'z' < x|0x20) {
				return false
			}
			a, b = a[1:], b[1:]
			continue
		}
		x, n := utf8.DecodeRune(a)
		y, m := utf8.DecodeRuneInString(b)
		if !sameFold(x, y) {
			return false
		}
		a, b = a[n:], b[m:]
	}
	return len(a) == 0 && len(b) == 0
}

func sameFold(x, y rune) bool {
	for r := unicode.SimpleFold(x); r != x; r = unicode.SimpleFold(r) {
		if r == y {
			return true
		}
	}
	return x == y
}
