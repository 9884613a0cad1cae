package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Bounds of one message.
const (
	maxHead = 16 << 10
	maxBody = 12 << 20
)

// Errors of a message that a [Reader] does not take.
var (
	ErrMalformed = errors.New("malformed HTTP message")
	ErrTooLarge  = errors.New("HTTP message too large")
)

// Head is the first line and the headers of one message. Its slices are valid
// until the next call of [Reader.Head] or [Reader.Chunk].
type Head struct {
	Start     []byte // the request line or the status line
	Length    int    // of Content-Length; -1 when there is none
	Chunked   bool
	Close     bool
	SSE       bool // Content-Type: text/event-stream
	Session   []byte
	LastEvent []byte // Last-Event-ID
}

// Reader reads HTTP/1.1 messages from a connection.
type Reader struct {
	src  io.Reader
	buf  []byte
	r, w int // buf[r:w] is read but not yet used
}

// NewReader returns a reader of src with a buffer of size bytes to begin with.
func NewReader(src io.Reader, size int) *Reader {
	return &Reader{src: src, buf: make([]byte, size)}
}

// fill reads once more. The bytes before r stay where they are, so that
// slices into them remain valid while a message is being read.
func (r *Reader) fill() error {
	if r.w == len(r.buf) {
		if len(r.buf) >= maxHead+2*maxBody {
			return ErrTooLarge
		}
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	n, err := r.src.Read(r.buf[r.w:])
	r.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// rewind moves what is unread to the front of the buffer.
func (r *Reader) rewind() {
	if r.r == 0 {
		return
	}
	copy(r.buf, r.buf[r.r:r.w])
	r.w -= r.r
	r.r = 0
}

// line returns the next line without its end.
func (r *Reader) line() ([]byte, error) {
	for searched := 0; ; {
		if i := bytes.IndexByte(r.buf[r.r+searched:r.w], '\n'); i >= 0 {
			line := r.buf[r.r : r.r+searched+i]
			r.r += searched + i + 1
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
		searched = r.w - r.r
		if searched > maxHead {
			return nil, ErrTooLarge
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// Head reads the head of the next message. It returns io.EOF when the
// connection ends before one begins.
func (r *Reader) Head() (Head, error) {
	r.rewind()
	h := Head{Length: -1}
	start, err := r.line()
	if err != nil {
		if errors.Is(err, io.EOF) && r.w > r.r {
			err = io.ErrUnexpectedEOF
		}
		return h, err
	}
	h.Start = start
	for size := 0; ; {
		line, err := r.line()
		if err != nil {
			return h, fmt.Errorf("read head: %w", eof(err))
		}
		if len(line) == 0 {
			return h, nil
		}
		if size += len(line); size > maxHead {
			return h, ErrTooLarge
		}
		if err := h.add(line); err != nil {
			return h, err
		}
	}
}

// add takes one header line.
func (h *Head) add(line []byte) error {
	colon := bytes.IndexByte(line, ':')
	if colon < 0 {
		return fmt.Errorf("%w: header line %q", ErrMalformed, line)
	}
	name, value := line[:colon], bytes.TrimSpace(line[colon+1:])
	switch {
	case is(name, "content-length"):
		n, ok := number(value, 10)
		if !ok {
			return fmt.Errorf("%w: length %q", ErrMalformed, value)
		}
		h.Length = n
	case is(name, "transfer-encoding"):
		h.Chunked = is(value, "chunked")
	case is(name, "connection"):
		h.Close = is(value, "close")
	case is(name, "content-type"):
		h.SSE = len(value) >= len(eventStream) && is(value[:len(eventStream)], eventStream)
	case is(name, "mcp-session-id"):
		h.Session = value
	case is(name, "last-event-id"):
		h.LastEvent = value
	}
	return nil
}

const eventStream = "text/event-stream"

// is reports whether text equals a lower-case ASCII word in any case.
func is(text []byte, word string) bool {
	return len(text) == len(word) && (string(text) == word || bytes.EqualFold(text, []byte(word)))
}

// Body reads the rest of the message that head began. A chunked body is put
// together in place.
func (r *Reader) Body(head Head) ([]byte, error) {
	if head.Chunked {
		return r.chunks()
	}
	if head.Length <= 0 {
		return nil, nil
	}
	if head.Length > maxBody {
		return nil, ErrTooLarge
	}
	if err := r.need(head.Length); err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	body := r.buf[r.r : r.r+head.Length]
	r.r += head.Length
	return body, nil
}

// need reads until n unread bytes are there.
func (r *Reader) need(n int) error {
	for r.w-r.r < n {
		if err := r.fill(); err != nil {
			return eof(err)
		}
	}
	return nil
}

func (r *Reader) chunks() ([]byte, error) {
	begin, end := r.r, r.r
	for {
		n, err := r.chunkSize()
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return r.buf[begin:end], nil
		}
		if end-begin+n > maxBody {
			return nil, ErrTooLarge
		}
		if err := r.need(n + 2); err != nil {
			return nil, fmt.Errorf("read chunk: %w", err)
		}
		copy(r.buf[end:], r.buf[r.r:r.r+n])
		end += n
		r.r += n + 2
	}
}

// Chunk reads the next chunk of a chunked body and returns io.EOF after the
// last one. The chunk before is overwritten.
func (r *Reader) Chunk() ([]byte, error) {
	r.rewind()
	n, err := r.chunkSize()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	if n > maxBody {
		return nil, ErrTooLarge
	}
	if err := r.need(n + 2); err != nil {
		return nil, fmt.Errorf("read chunk: %w", err)
	}
	chunk := r.buf[r.r : r.r+n]
	r.r += n + 2
	return chunk, nil
}

// chunkSize reads the line before a chunk and, after the last, the empty line
// that ends the body (no peer of the benchmark sends trailers).
func (r *Reader) chunkSize() (int, error) {
	line, err := r.line()
	if err != nil {
		return 0, fmt.Errorf("read chunk: %w", eof(err))
	}
	n, ok := number(line, 16)
	if !ok {
		return 0, fmt.Errorf("%w: chunk size %q", ErrMalformed, line)
	}
	if n == 0 {
		if line, err = r.line(); err != nil {
			return 0, fmt.Errorf("read end of chunks: %w", eof(err))
		}
		if len(line) != 0 {
			return 0, fmt.Errorf("%w: trailer %q", ErrMalformed, line)
		}
	}
	return n, nil
}

// eof makes an end in mid-message an error of its own, since io.EOF from a
// [Reader] means that the message is complete.
func eof(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// number reads an unsigned number below 2^31.
func number(text []byte, base int) (int, bool) {
	n := 0
	for _, c := range text {
		var d int
		switch {
		case '0' <= c && c <= '9':
			d = int(c - '0')
		case 'a' <= c && c <= 'f':
			d = int(c-'a') + 10
		case 'A' <= c && c <= 'F':
			d = int(c-'A') + 10
		default:
			return 0, false
		}
		if n = n*base + d; d >= base || n > 1<<31-1 {
			return 0, false
		}
	}
	return n, len(text) > 0
}
