package legacy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// contentKind is what a response's body holds.
type contentKind uint8

const (
	contentOther contentKind = iota
	contentJSON
	contentSSE
)

// response is the head of an HTTP/1.1 response and how far its body was read.
type response struct {
	status       int
	kind         contentKind
	contentType  string // only for a status that is passed on
	session      string // Mcp-Session-Id, if wantSession
	wantSession  bool   // set before the head is read
	authenticate []string

	keep    bool // the connection may be used again after the body
	chunked bool
	length  int64 // bytes of the body still to come; -1: until the connection ends
	chunk   int64 // bytes of the current chunk still to come
	inChunk bool
	done    bool
}

var errNoHead = errors.New("connection closed before a response")

// readHead reads a response's status line and header, skipping 1xx answers.
// On ErrDeadline it can be called again. errNoHead: not one byte came.
func (c *conn) readHead() error {
	for {
		end := headEnd(c.unread())
		for end < 0 {
			if err := c.fill(); err != nil {
				if err == io.EOF {
					if c.r == c.w {
						return errNoHead
					}
					return io.ErrUnexpectedEOF
				}
				return err
			}
			end = headEnd(c.unread())
		}
		err := c.resp.parse(c.buf[c.r : c.r+end])
		c.r += end
		if err != nil {
			return err
		}
		if c.resp.status >= 200 {
			return nil
		}
		if c.resp.status == 101 {
			return fmt.Errorf("%w: HTTP 101 that nobody asked for", ErrMalformed)
		}
	}
}

func (c *conn) unread() []byte {
	if c.buf == nil {
		return nil
	}
	return c.buf[c.r:c.w]
}

// headEnd returns the length of the head with its empty line, or -1.
func headEnd(b []byte) int {
	at := 0
	for {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return -1
		}
		at += i + 1
		switch {
		case at < len(b) && b[at] == '\n':
			return at + 1
		case at+1 < len(b) && b[at] == '\r' && b[at+1] == '\n':
			return at + 2
		}
	}
}

// parse reads a head. RFC 9112, sections 4, 5 and 6.3: what frames the body is
// read strictly, because a doubt there would let one response leak into the next.
//
// Hot: once per response.
func (r *response) parse(head []byte) error {
	*r = response{length: -1, wantSession: r.wantSession}
	line, rest := cutLine(head)
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return fmt.Errorf("%w: no HTTP/1.x status line", ErrMalformed)
	}
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return fmt.Errorf("%w: no HTTP status", ErrMalformed)
		}
		r.status = r.status*10 + int(c-'0')
	}
	if r.status < 100 {
		return fmt.Errorf("%w: no HTTP status", ErrMalformed)
	}
	old := line[7] != '1'
	r.keep = !old
	var lengths, codings int
	closes := false
	for {
		line, rest = cutLine(rest)
		if len(line) == 0 {
			break
		}
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || line[0] == ' ' || line[0] == '\t' {
			return fmt.Errorf("%w: header line without a name", ErrMalformed)
		}
		if line[colon-1] == ' ' || line[colon-1] == '\t' {
			return fmt.Errorf("%w: white space before a header's colon", ErrMalformed)
		}
		name, value := line[:colon], bytes.Trim(line[colon+1:], " \t")
		switch len(name) {
		case len("Connection"):
			if equalFold(name, "connection") {
				closes = closes || hasToken(value, "close")
				r.keep = r.keep || hasToken(value, "keep-alive")
			}
		case len("Content-Type"):
			if equalFold(name, "content-type") {
				r.kind = kindOf(value)
				if r.status >= 300 {
					r.contentType = string(value)
				}
			}
		case len("Content-Length"): // and Mcp-Session-Id
			switch {
			case equalFold(name, "content-length"):
				n, err := strconv.ParseUint(string(value), 10, 62)
				if err != nil || lengths > 0 && int64(n) != r.length {
					return fmt.Errorf("%w: Content-Length", ErrMalformed)
				}
				lengths++
				r.length = int64(n)
			case r.wantSession && equalFold(name, "mcp-session-id"):
				r.session = string(value)
			}
		case len("WWW-Authenticate"):
			if equalFold(name, "www-authenticate") && len(r.authenticate) < 8 {
				r.authenticate = append(r.authenticate, string(value))
			}
		case len("Transfer-Encoding"):
			if equalFold(name, "transfer-encoding") {
				if !equalFold(value, "chunked") {
					return fmt.Errorf("%w: Transfer-Encoding other than chunked", ErrMalformed)
				}
				codings++
			}
		}
	}
	switch {
	case codings > 1:
		return fmt.Errorf("%w: Transfer-Encoding twice", ErrMalformed)
	case codings == 1 && old:
		return fmt.Errorf("%w: Transfer-Encoding in HTTP/1.0", ErrMalformed)
	case r.status < 200 || r.status == 204 || r.status == 304: // whatever the header says
		r.length = 0
	case codings == 1:
		closes = closes || lengths > 0
		r.chunked, r.length = true, 0
	}
	if r.length == 0 && !r.chunked {
		r.done = true
	}
	if closes || r.length < 0 {
		r.keep = false
	}
	return nil
}

func cutLine(b []byte) (line, rest []byte) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return b, nil
	}
	line, rest = b[:i], b[i+1:]
	if i > 0 && line[i-1] == '\r' {
		line = line[:i-1]
	}
	return line, rest
}

func kindOf(contentType []byte) contentKind {
	if i := bytes.IndexByte(contentType, ';'); i >= 0 {
		contentType = bytes.TrimRight(contentType[:i], " \t")
	}
	switch {
	case equalFold(contentType, "application/json"):
		return contentJSON
	case equalFold(contentType, "text/event-stream"):
		return contentSSE
	}
	return contentOther
}

func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// hasToken reports whether a comma-separated list has a token.
func hasToken(list []byte, lower string) bool {
	for len(list) > 0 {
		token := list
		if i := bytes.IndexByte(list, ','); i >= 0 {
			token, list = list[:i], list[i+1:]
		} else {
			list = nil
		}
		if equalFold(bytes.Trim(token, " \t"), lower) {
			return true
		}
	}
	return false
}

// next returns the next piece of the body, valid until the next read of the
// connection. io.EOF ends a body that is complete; io.ErrUnexpectedEOF one
// that is not. On ErrDeadline it can be called again.
func (c *conn) next() ([]byte, error) {
	r := &c.resp
	for {
		switch {
		case r.done:
			return nil, io.EOF
		case r.chunked && r.chunk == 0:
			if err := c.nextChunk(); err != nil {
				return nil, err
			}
		case c.r == c.w:
			c.dropEmpty()
			if err := c.fill(); err != nil {
				if err == io.EOF && !r.chunked && r.length < 0 {
					r.done = true
					return nil, io.EOF
				}
				return nil, unexpected(err)
			}
		default:
			left := int64(c.w - c.r)
			switch {
			case r.chunked:
				left = min(left, r.chunk)
				r.chunk -= left
			case r.length >= 0:
				left = min(left, r.length)
				r.length -= left
				r.done = r.length == 0
			}
			piece := c.buf[c.r : c.r+int(left)]
			c.r += int(left)
			return piece, nil
		}
	}
}

// nextChunk reads the line that begins a chunk, and at the end the trailer.
// RFC 9112, section 7.1.
func (c *conn) nextChunk() error {
	r := &c.resp
	for {
		b := c.unread()
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			if len(b) > 1024 {
				return fmt.Errorf("%w: chunk line over 1024 bytes", ErrMalformed)
			}
			if err := c.fill(); err != nil {
				return unexpected(err)
			}
			continue
		}
		line, ok := bytes.CutSuffix(b[:i], []byte{'\r'})
		if !ok {
			return fmt.Errorf("%w: chunk line that ends with a bare LF", ErrMalformed)
		}
		if r.inChunk { // the CRLF behind a chunk's data
			if len(line) != 0 {
				return fmt.Errorf("%w: chunk longer than its size", ErrMalformed)
			}
			r.inChunk = false
			c.r += i + 1
			continue
		}
		size, err := chunkSize(line)
		if err != nil {
			return err
		}
		c.r += i + 1
		if size > 0 {
			r.chunk, r.inChunk = size, true
			return nil
		}
		return c.trailer()
	}
}

// trailer reads what follows the last chunk. A server that lingers before the
// final empty line only costs us its connection: the body is complete.
func (c *conn) trailer() error {
	r := &c.resp
	r.done = true
	b := c.unread()
	if len(b) >= 2 && b[0] == '\r' && b[1] == '\n' {
		c.r += 2
	} else {
		r.keep = false
	}
	return nil
}

func chunkSize(line []byte) (int64, error) {
	if i := bytes.IndexByte(line, ';'); i >= 0 { // an extension
		line = line[:i]
	}
	line = bytes.TrimRight(line, " \t")
	var size int64
	digits := 0
	for _, c := range line {
		var d byte
		switch {
		case '0' <= c && c <= '9':
			d = c - '0'
		case 'a' <= c && c <= 'f':
			d = c - 'a' + 10
		case 'A' <= c && c <= 'F':
			d = c - 'A' + 10
		default:
			return 0, fmt.Errorf("%w: chunk size", ErrMalformed)
		}
		if digits++; digits > 15 {
			return 0, fmt.Errorf("%w: chunk size", ErrMalformed)
		}
		size = size<<4 | int64(d)
	}
	if digits == 0 {
		return 0, fmt.Errorf("%w: chunk size", ErrMalformed)
	}
	return size, nil
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// bodyPatience is how long a JSON body that has begun may take to end.
const bodyPatience = 30 * time.Second

// readAll reads a whole body. A short one is returned in place, valid until
// the connection is read again; owned says that it is a copy from the pool.
func (c *conn) readAll(limit int) (body []byte, owned bool, err error) {
	r := &c.resp
	if r.length > int64(limit) {
		return nil, false, fmt.Errorf("%w: body of %d bytes, upstream.max_message is %d", ErrMalformed, r.length, limit)
	}
	if !r.chunked && r.length >= 0 && int64(c.w-c.r) >= r.length {
		if r.length == 0 {
			return nil, false, nil
		}
		body, err = c.next()
		return body, false, err
	}
	// The body has begun to come: the rest is not worth a state of its own.
	c.dry = false
	end := time.Now().Add(bodyPatience)
	c.setDeadline(end)
	body = getText(int(max(r.length, 0)))
	for {
		piece, err := c.next()
		if err == io.EOF {
			return body, true, nil
		}
		if err == nil && len(body)+len(piece) > limit {
			err = fmt.Errorf("%w: body over upstream.max_message (%d bytes)", ErrMalformed, limit)
		}
		if errors.Is(err, ErrDeadline) && time.Now().Before(end) { // an Exchange.Wake
			c.deadline = time.Time{}
			c.setDeadline(end)
			continue
		}
		if err != nil {
			putText(body)
			if errors.Is(err, ErrDeadline) {
				err = fmt.Errorf("%w: the body did not end within %v", ErrBroken, bodyPatience)
			}
			return nil, false, err
		}
		body = append(body, piece...)
	}
}

// statusError reads the start of an error answer's body: it may say why.
func (c *conn) statusError() *StatusError {
	e := &StatusError{Status: c.resp.status, Authenticate: c.resp.authenticate, ContentType: c.resp.contentType}
	c.dry = false
	c.setDeadline(time.Now().Add(time.Second))
	for len(e.Body) < maxErrorBody {
		piece, err := c.next()
		if err != nil {
			break
		}
		e.Body = append(e.Body, piece...)
	}
	e.Body = e.Body[:min(len(e.Body), maxErrorBody)]
	return e
}

// maxErrorBody bounds what is kept of the body of an HTTP error.
const maxErrorBody = 16 << 10
