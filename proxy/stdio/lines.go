package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// errLong is what lines.next says of a line above the limit. The next line can
// be read all the same.
var errLong = errors.New("the line is longer than the limit")

// lines reads one line after another (basic/transports/stdio: messages are
// delimited by newlines).
type lines struct {
	r    *bufio.Reader
	max  int
	long []byte // room for a line that is longer than r's buffer
}

// readBuffer is larger than most messages.
const readBuffer = 16 << 10

func newLines(r io.Reader, max int) *lines {
	return &lines{r: bufio.NewReaderSize(r, readBuffer), max: max}
}

// next returns the next line that is not blank, without its end. The slice is
// valid until the next call. What stands behind the last newline is a line too.
func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.line()
		if err != nil && (err != io.EOF || len(line) == 0) {
			return nil, err
		}
		if line = bytes.Trim(line, " \t\r\n"); len(line) > 0 {
			return line, nil
		}
	}
}

// line returns a line with its end. At the end of the input it may return a line
// together with io.EOF.
func (l *lines) line() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if err == nil || !errors.Is(err, bufio.ErrBufferFull) {
		return l.bounded(line, err)
	}
	l.long = append(l.long[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.r.ReadSlice('\n')
		if len(l.long) <= l.max+2 { // of more nothing is kept
			l.long = append(l.long, line...)
		}
	}
	line = l.long
	if cap(l.long) > maxKept {
		l.long = nil
	}
	return l.bounded(line, err)
}

func (l *lines) bounded(line []byte, err error) ([]byte, error) {
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(bytes.TrimRight(line, "\r\n")) > l.max {
		return nil, errLong
	}
	return line, err
}

// maxKept bounds the memory that is kept from one message to the next.
const maxKept = 64 << 10
