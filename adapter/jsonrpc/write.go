package jsonrpc

import "strconv"

// AppendRequest appends a request, or, when id is nil, a notification. A nil
// params is left out.
func AppendRequest(dst, id []byte, method string, params []byte) []byte {
	dst = appendStart(dst, id)
	dst = append(dst, `,"method":`...)
	dst = AppendQuote(dst, method)
	if params != nil {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	return append(dst, '}')
}

// AppendResult appends the response with a raw result.
func AppendResult(dst, id, result []byte) []byte {
	dst = appendStart(dst, id)
	dst = append(dst, `,"result":`...)
	dst = append(dst, result...)
	return append(dst, '}')
}

// AppendError appends the error response. It has no id when id is nil: that of
// the request could not be read (spec 2026-07-28, basic/index, "Error
// Responses").
func AppendError(dst, id []byte, e *Error) []byte {
	dst = appendStart(dst, id)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = AppendQuote(dst, e.Message)
	if e.Data != nil {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, "}}"...)
}

func appendStart(dst, id []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if id != nil {
		dst = append(dst, `,"id":`...)
		dst = append(dst, id...)
	}
	return dst
}
