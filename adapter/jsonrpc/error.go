package jsonrpc

import (
	"errors"
	"fmt"
	"strconv"
)

// Error codes of JSON-RPC 2.0, section 5.1.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// Error is a JSON-RPC error object.
type Error struct {
	Code    int
	Message string
	Data    []byte // raw JSON, or nil

	cause error // what ParseRequest found, for errors.Is
}

func (e *Error) Error() string { return fmt.Sprintf("JSON-RPC error %d: %s", e.Code, e.Message) }
func (e *Error) Unwrap() error { return e.cause }

// faultError is the answer to a text that was refused.
func faultError(err error) *Error {
	if errors.Is(err, ErrSyntax) || errors.Is(err, ErrUTF8) {
		return &Error{Code: CodeParse, Message: "Parse error: " + err.Error(), cause: err}
	}
	return &Error{Code: CodeInvalidRequest, Message: "Invalid Request: " + err.Error(), cause: err}
}

func invalid(detail string) *Error {
	return &Error{Code: CodeInvalidRequest, Message: "Invalid Request: " + detail, cause: ErrInvalid}
}

// ParseError reads an error object. ok is false when raw is no object or its
// code is no integer. A message that is no string counts as empty. Data aliases
// raw.
func ParseError(raw []byte) (e *Error, ok bool) {
	e = &Error{}
	for c := Object(raw); c.Next(); {
		switch string(c.Name()) {
		case "code":
			code, err := strconv.Atoi(string(c.Value()))
			if err != nil {
				return nil, false
			}
			e.Code, ok = code, true
		case "message":
			e.Message, _ = Unquote(c.Value())
		case "data":
			e.Data = c.Value()
		}
	}
	if !ok {
		return nil, false
	}
	return e, true
}
