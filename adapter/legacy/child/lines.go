package child

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// LongLine is a line over the limit. It was read to its end and dropped, so that
// the next line can be read.
type LongLine struct {
	Head, Tail []byte // what it begins and ends with
	Size       int
}

func (l *LongLine) Error() string { return fmt.Sprintf("line of %d bytes is over the limit", l.Size) }

// lineEnds is how much of a long line is kept at each end: what names a message
// stands at one of them.
const lineEnds = 512

// lines cuts a stream into lines.
type lines struct {
	from *bufio.Reader
	max  int
	long []byte // a line that did not fit the reader's buffer
}

// outputBuffer and stderrBuffer hold most lines whole of the one and the other.
const (
	outputBuffer = 16 << 10
	stderrBuffer = 1 << 10
)

func newLines(r io.Reader, buffer, limit int) lines {
	return lines{from: bufio.NewReaderSize(r, buffer), max: limit}
}

// next returns the next line without its end, valid until the next call, or a
// *LongLine. What stands before the end of the stream is a line too.
//
// Hot: once per message.
func (l *lines) next() ([]byte, error) {
	l.long = nil // a large one does not stay in memory
	piece, err := l.from.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return l.rest(piece)
	}
	if err != nil && len(piece) == 0 {
		return nil, err
	}
	if piece = trimEnd(piece); len(piece) > l.max {
		return nil, longLine(piece)
	}
	return piece, nil
}

// rest reads on in a line that is longer than the buffer.
func (l *lines) rest(piece []byte) ([]byte, error) {
	l.long = append(l.long, piece...)
	for {
		piece, err := l.from.ReadSlice('\n')
		l.long = append(l.long, piece...)
		switch {
		case len(l.long) > l.max+len("\r\n"):
			over := longLine(l.long)
			l.long = nil
			if err != bufio.ErrBufferFull {
				return nil, over
			}
			return nil, l.skip(over)
		case err == bufio.ErrBufferFull:
		default:
			if line := trimEnd(l.long); len(line) <= l.max {
				return line, nil
			}
			return nil, longLine(l.long)
		}
	}
}

// skip reads to the end of a line that is too long.
func (l *lines) skip(over *LongLine) error {
	for {
		piece, err := l.from.ReadSlice('\n')
		over.Size += len(piece)
		over.Tail = append(over.Tail, piece...)
		over.Tail = append([]byte(nil), over.Tail[max(0, len(over.Tail)-lineEnds):]...)
		if err != bufio.ErrBufferFull {
			over.Tail = trimEnd(over.Tail)
			return over
		}
	}
}

func longLine(line []byte) *LongLine {
	line = trimEnd(line)
	return &LongLine{
		Head: bytes.Clone(line[:min(len(line), lineEnds)]),
		Tail: bytes.Clone(line[max(0, len(line)-lineEnds):]),
		Size: len(line),
	}
}

func trimEnd(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'})
}
