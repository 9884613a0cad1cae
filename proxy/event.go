package proxy

import "bytes"

// A message of a stream is one event without an id: streams of this revision
// cannot be resumed, and clients that see an id would try.
func beginEvent(dst []byte) []byte { return append(dst, "event: message\ndata: "...) }

// endEvent ends the event that began at start. The line breaks that white
// space in JSON may have would end its data.
func endEvent(dst []byte, start int) []byte {
	data := dst[start+len("event: message\n"):]
	for _, brk := range []byte{'\n', '\r'} {
		for rest := data; ; {
			i := bytes.IndexByte(rest, brk)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
	return append(dst, '\n', '\n')
}
