package jsonrpc

import (
	"errors"
	"fmt"
)

// Mode says how strictly a text is read.
type Mode uint8

const (
	// Strict is for what clients send: valid UTF-8, no lone surrogates, no
	// duplicate names.
	Strict Mode = iota
	// Lenient is for what servers send: invalid UTF-8 and lone surrogates pass,
	// as many real servers emit them; duplicate names are refused.
	Lenient
)

// Why a text is refused. The errors of this package wrap one of these with the
// byte offset.
var (
	ErrSyntax    = errors.New("invalid JSON")
	ErrDuplicate = errors.New("duplicate name in a JSON object")
	ErrUTF8      = errors.New("invalid UTF-8 or a lone surrogate in a JSON string")
	ErrDepth     = errors.New("JSON nested too deep")
)

// A fault is where and why a text was refused. It never holds a part of the
// text, which may be a secret.
type fault struct {
	err    error
	offset int
}

func (f *fault) Error() string { return fmt.Sprintf("%v at byte %d", f.err, f.offset) }
func (f *fault) Unwrap() error { return f.err }

// Validate reports whether data is exactly one JSON value with optional white
// space around it, in which at most maxDepth arrays and objects are open at
// once. It makes one pass, and allocates nothing for ordinary input.
//
// Two names are duplicates when they are equal after unescaping, with U+FFFD in
// place of what is no valid UTF-8.
//
// Hot: once per message.
func Validate(data []byte, mode Mode, maxDepth int) error {
	s := newScanner(data, mode, maxDepth)
	defer s.free()
	if end := s.value(0); end < 0 || !s.end(end) {
		return s.fault()
	}
	return nil
}
