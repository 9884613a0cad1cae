package child

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"sync"
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
	stream stream
	from   *bufio.Reader // nil while nothing has come: a process that is silent has no buffer
	max    int
	long   []byte // a line that did not fit the reader's buffer
}

// stream can be waited for without a buffer.
type stream interface {
	io.Reader
	await() error // until there is something to read, or its end
}

// readers are each a *bufio.Reader that holds most lines whole.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, bufferSize) }}

const bufferSize = 16 << 10

func newLines(s stream, limit int) lines { return lines{stream: s, max: limit} }

// fill makes from a reader of what has come, and waits for that.
func (l *lines) fill() error {
	if l.from != nil && l.from.Buffered() > 0 {
		return nil
	}
	l.free()
	if err := l.stream.await(); err != nil {
		return err
	}
	l.from = readers.Get().(*bufio.Reader)
	l.from.Reset(l.stream)
	return nil
}

// free gives the buffer back.
func (l *lines) free() {
	if l.from != nil {
		l.from.Reset(nil)
		readers.Put(l.from)
		l.from = nil
	}
}

// next returns the next line without its end, valid until the next call, or a
// *LongLine. What stands before the end of the stream is a line too.
//
// Hot: once per message.
func (l *lines) next() ([]byte, error) {
	l.long = nil // a large one does not stay in memory
	if err := l.fill(); err != nil {
		return nil, err
	}
	piece, err := l.from.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return l.rest(piece)
	}
	if err != nil && len(piece) == 0 {
		l.free()
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
