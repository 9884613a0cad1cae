package lines

import (
	"bytes"
	"fmt"
)

// TooLong is a line over the limit. It was read to its end and dropped, so that
// the next line can be read.
type TooLong struct {
	Head, Tail []byte // what it begins and ends with
	Size       int
	Cause      error // what has ended the stream in it, if that was not its end
}

func (l *TooLong) Error() string { return fmt.Sprintf("line of %d bytes is over the limit", l.Size) }

// ends is how much of a long line is kept at each end: what names a message
// stands at one of them.
const ends = 512

func tooLong(line []byte, cause error) *TooLong {
	return &TooLong{
		Head:  bytes.Clone(line[:min(len(line), ends)]),
		Tail:  bytes.Clone(line[max(0, len(line)-ends):]),
		Size:  len(line),
		Cause: cause,
	}
}

// add adds a piece of the line.
func (l *TooLong) add(piece []byte) {
	l.Size += len(piece)
	l.Tail = append(l.Tail, piece...)
	l.Tail = append([]byte(nil), l.Tail[max(0, len(l.Tail)-ends):]...)
}

// close takes the line's end off it.
func (l *TooLong) close(cause error) {
	tail := trimEnd(l.Tail)
	l.Size -= len(l.Tail) - len(tail)
	l.Tail, l.Cause = tail, cause
}
