package proxy

import "github.com/holdfast-mcp/holdfast/proxy/downstream"

// A message of a stream is one event without an id: streams of this revision
// cannot be resumed, and clients that see an id would try.
func beginEvent(dst []byte) []byte { return append(dst, "event: message\ndata: "...) }

// endEvent ends the event that began at start. The line breaks that white
// space in JSON may have would end its data.
func endEvent(dst []byte, start int) []byte {
	downstream.OneLine(dst[start+len("event: message\n"):])
	return append(dst, '\n', '\n')
}
