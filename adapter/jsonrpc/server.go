package jsonrpc

import (
	"errors"
	"fmt"
)

// ErrInvalid means that a text is JSON, but no JSON-RPC message.
var ErrInvalid = errors.New("no valid JSON-RPC message")

// ParseServer reads what a server sends: one message, or an array of them
// (revision 2025-03-26, basic/index, "Batching"), leniently. At most maxDepth
// arrays and objects may be open at once, the outermost included. It calls
// yield for each message in order, and returns yield's error at once.
//
// Nothing is yielded of a text that is no valid JSON. In an array, an element
// that is no message does not keep the others from being yielded; the error
// then says which it was. An error wraps ErrSyntax, ErrDuplicate, ErrDepth or
// ErrInvalid; it is not an *Error, because it is nothing to tell a client.
//
// Where members that stand for nothing are null, they count as absent, because
// some servers write all members of their message type: params, the id of a
// notification, and one of result and error.
//
// Hot: once per message of a server.
func ParseServer(data []byte, maxDepth int, yield func(Message) error) error {
	start := skipSpace(data, 0)
	if start < len(data) && data[start] == '[' {
		return parseBatch(data, maxDepth, yield)
	}
	m, err := parseServer(data, maxDepth)
	if err != nil {
		return err
	}
	return yield(m)
}

// ParseServerOne is ParseServer for the common case of one message. single is
// false where the text is an array, which it does not read.
//
// Hot: once per message of a server.
func ParseServerOne(data []byte, maxDepth int) (m Message, single bool, err error) {
	if start := skipSpace(data, 0); start < len(data) && data[start] == '[' {
		return Message{}, false, nil
	}
	m, err = parseServer(data, maxDepth)
	return m, true, err
}

func parseServer(data []byte, maxDepth int) (Message, error) {
	s := newScanner(data, Lenient, maxDepth)
	defer s.free()
	var e envelope
	start := skipSpace(data, 0)
	if start < len(data) && data[start] == '{' {
		if end := s.envelope(start, &e); end < 0 || !s.end(end) {
			return Message{}, s.fault()
		}
		return e.server()
	}
	if end := s.value(start); end < 0 || !s.end(end) {
		return Message{}, s.fault()
	}
	return Message{}, fmt.Errorf("%w: no object", ErrInvalid)
}

func parseBatch(data []byte, maxDepth int, yield func(Message) error) error {
	if err := Validate(data, Lenient, maxDepth); err != nil {
		return err
	}
	var first error
	n := 0
	for c := Array(data); c.Next(); n++ {
		m, err := parseServer(c.Value(), maxDepth)
		if err != nil {
			if first == nil {
				first = fmt.Errorf("message %d of the array: %w", n, err)
			}
			continue
		}
		if err := yield(m); err != nil {
			return err
		}
	}
	if n == 0 {
		return fmt.Errorf("%w: empty array", ErrInvalid)
	}
	return first
}

// server makes a message of what a server sent.
func (e *envelope) server() (Message, error) {
	var m Message
	if !isVersion(e.version) {
		return m, fmt.Errorf(`%w: jsonrpc is not "2.0"`, ErrInvalid)
	}
	if e.id != nil && !IsNull(e.id) {
		if !isID(e.id) {
			return m, fmt.Errorf("%w: the id is neither a string nor an integer", ErrInvalid)
		}
		m.ID = e.id
	}
	if IsNull(e.error) {
		e.error = nil
	}
	if IsNull(e.result) && (e.error != nil || e.method != nil) {
		e.result = nil
	}
	switch {
	case e.method != nil:
		if e.result != nil || e.error != nil {
			return Message{}, fmt.Errorf("%w: a method and an outcome", ErrInvalid)
		}
		if IsString(e.method) {
			m.Method = methodName(textOf(e.method))
		}
		if m.Method == "" {
			return Message{}, fmt.Errorf("%w: the method is no string, or empty", ErrInvalid)
		}
		if e.params != nil && !IsNull(e.params) {
			if !IsObject(e.params) {
				return Message{}, fmt.Errorf("%w: params is no object", ErrInvalid)
			}
			m.Params = e.params
		}
	case e.result != nil && e.error != nil:
		return Message{}, fmt.Errorf("%w: a result and an error", ErrInvalid)
	case e.error != nil:
		if !IsObject(e.error) {
			return Message{}, fmt.Errorf("%w: error is no object", ErrInvalid)
		}
		m.Error = e.error
	case e.result != nil:
		if m.ID == nil {
			return Message{}, fmt.Errorf("%w: a result without an id", ErrInvalid)
		}
		m.Result = e.result
	default:
		return Message{}, fmt.Errorf("%w: neither a method nor an outcome", ErrInvalid)
	}
	return m, nil
}
