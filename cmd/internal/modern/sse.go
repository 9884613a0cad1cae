package modern

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Event is one event of an SSE stream, or a comment between events.
type Event struct {
	Comment bool
	Name    string // the event field; "" means "message"
	Data    []byte // the data lines joined; of a comment, its text
}

// eventReader takes an SSE stream apart. See the HTML standard, "Server-sent
// events", "Interpreting an event stream"; id and retry are ignored, because
// this revision has no resumable streams.
type eventReader struct {
	lines *bufio.Reader
	first bool // nothing has been read yet
	cr    bool // the last line ended with CR: an LF that follows belongs to it
}

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{lines: bufio.NewReader(r), first: true}
}

// next returns the next event that has data, or a comment. At the end of the
// stream it returns io.EOF; an event without its empty line is dropped, as the
// standard says.
func (r *eventReader) next() (Event, error) {
	var event Event
	var data []byte
	lines := 0      // data lines so far
	inside := false // some field of this event was read
	for {
		line, err := r.line(MaxMessage - len(data))
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if len(data) == 0 {
				event, lines, inside = Event{}, 0, false
				continue // no data, no event: a priming event is no message
			}
			event.Data = data
			return event, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "":
			// A comment inside an event is legal and rare; it is not shown.
			if !inside {
				return Event{Comment: true, Data: value}, nil
			}
		case "event":
			event.Name, inside = string(value), true
		case "data":
			if lines++; lines > 1 {
				data = append(data, '\n')
			}
			data, inside = append(data, value...), true
		default:
			inside = true
		}
	}
}

// line reads a line of at most limit bytes without its end: CR, LF or both.
func (r *eventReader) line(limit int) ([]byte, error) {
	var line []byte
	for {
		b, err := r.lines.ReadByte()
		if err != nil {
			return nil, err
		}
		if r.first {
			r.first = false
			if b == 0xEF {
				if err := r.skipMark(); err != nil {
					return nil, err
				}
				continue
			}
		}
		if b == '\n' && r.cr {
			r.cr = false
			continue
		}
		r.cr = b == '\r'
		if b == '\n' || b == '\r' {
			return line, nil
		}
		if line = append(line, b); len(line) > limit {
			return nil, ErrTooLarge
		}
	}
}

// skipMark drops the rest of a byte order mark, whose first byte was read.
func (r *eventReader) skipMark() error {
	rest, err := r.lines.Peek(2)
	if err != nil {
		return err
	}
	if !bytes.Equal(rest, []byte{0xBB, 0xBF}) {
		return errors.New("event stream begins with bytes that are no text")
	}
	_, err = r.lines.Discard(2)
	return err
}
