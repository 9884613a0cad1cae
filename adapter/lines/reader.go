package lines

import (
	"bufio"
	"bytes"
	"io"
	"sync"
)

// Reader cuts a stream into lines.
type Reader struct {
	stream io.Reader
	waiter Waiter        // stream, or nil
	from   *bufio.Reader // nil while nothing has come from a Waiter: a process that is silent has no buffer
	max    int
	long   []byte // a line that did not fit the reader's buffer
}

// Waiter is a stream that can be waited for without a buffer.
type Waiter interface {
	io.Reader
	Await() error // until there is something to read, or its end
}

// readers are each a *bufio.Reader that holds most lines whole.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, bufferSize) }}

const bufferSize = 16 << 10

// NewReader makes a Reader of lines of at most limit bytes, their ends not
// counted.
func NewReader(stream io.Reader, limit int) *Reader {
	r := &Reader{stream: stream, max: limit}
	r.waiter, _ = stream.(Waiter)
	return r
}

// fill makes from a reader of what has come, and waits for that.
func (r *Reader) fill() error {
	if r.from != nil && (r.waiter == nil || r.from.Buffered() > 0) {
		return nil
	}
	r.free()
	if r.waiter != nil {
		if err := r.waiter.Await(); err != nil {
			return err
		}
	}
	r.from = readers.Get().(*bufio.Reader)
	r.from.Reset(r.stream)
	return nil
}

// free gives the buffer back.
func (r *Reader) free() {
	if r.from != nil {
		r.from.Reset(nil)
		readers.Put(r.from)
		r.from = nil
	}
}

// Next returns the next line without its end, valid until the next call, or a
// *TooLong. What stands before the end of the stream is a line too; what stands
// before another error comes with that.
//
// Hot: once per message.
func (r *Reader) Next() ([]byte, error) {
	r.long = nil // a large one does not stay in memory
	if err := r.fill(); err != nil {
		return nil, err
	}
	piece, err := r.from.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return r.rest(piece)
	}
	if err != nil && len(piece) == 0 {
		r.free()
		return nil, err
	}
	return r.bounded(piece, err)
}

// rest reads on in a line that is longer than the buffer.
func (r *Reader) rest(piece []byte) ([]byte, error) {
	r.long = append(r.long, piece...)
	for {
		piece, err := r.from.ReadSlice('\n')
		r.long = append(r.long, piece...)
		switch {
		case err != bufio.ErrBufferFull:
			return r.bounded(r.long, err)
		case len(r.long) > r.max+len("\r\n"):
			over := tooLong(r.long, nil)
			r.long = nil
			return nil, r.skip(over)
		}
	}
}

// skip reads to the end of a line that is too long.
func (r *Reader) skip(over *TooLong) error {
	for {
		piece, err := r.from.ReadSlice('\n')
		over.add(piece)
		if err != bufio.ErrBufferFull {
			over.close(cause(err))
			return over
		}
	}
}

// bounded is a whole line, or what has come of it before err.
func (r *Reader) bounded(line []byte, err error) ([]byte, error) {
	if line = trimEnd(line); len(line) > r.max {
		r.long = nil
		return nil, tooLong(line, cause(err))
	}
	return line, cause(err)
}

// cause is an error that is more than the stream's end.
func cause(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

func trimEnd(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'})
}
