package wire

import "bytes"

// Data returns the data of the last event in a piece of an SSE stream that
// holds whole events, or nil when none has any. The benchmark's peers write
// each message as one data line.
func Data(events []byte) []byte {
	var data []byte
	for len(events) > 0 {
		line := events
		if i := bytes.IndexByte(events, '\n'); i >= 0 {
			line, events = events[:i], events[i+1:]
		} else {
			events = nil
		}
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if rest = bytes.TrimSpace(rest); len(rest) > 0 {
				data = rest
			}
		}
	}
	return data
}

// Whole reports whether a piece of an SSE stream ends where an event does.
func Whole(events []byte) bool {
	return bytes.HasSuffix(events, []byte("\n\n")) || bytes.HasSuffix(events, []byte("\r\n\r\n"))
}
