package wire

import "strconv"

// AppendLength appends the Content-Length header of a body of n bytes and the
// line that ends the head.
func AppendLength(dst []byte, n int) []byte {
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, "\r\n\r\n"...)
}

// AppendChunk appends data as one chunk.
func AppendChunk(dst, data []byte) []byte {
	dst = strconv.AppendInt(dst, int64(len(data)), 16)
	dst = append(dst, "\r\n"...)
	dst = append(dst, data...)
	return append(dst, "\r\n"...)
}

// LastChunk ends a chunked body.
const LastChunk = "0\r\n\r\n"

// Status returns the status of a response's first line, or 0.
func (h Head) Status() int {
	if len(h.Start) < 12 {
		return 0
	}
	n, ok := number(h.Start[9:12], 10)
	if !ok {
		return 0
	}
	return n
}
