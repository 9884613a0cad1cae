package load

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// timeout bounds how long a client waits for anything.
const timeout = 20 * time.Second

// ErrAnswer is an answer that is not the one that the call should have got.
var ErrAnswer = errors.New("wrong answer")

// Conn is one keep-alive connection, opened when it is first used and again
// after an error.
type Conn struct {
	addr  string
	nc    net.Conn
	in    *wire.Reader
	head  wire.Head
	fresh time.Time // when the deadline was last moved
}

// NewConn returns a connection to addr.
func NewConn(addr string) *Conn { return &Conn{addr: addr} }

// Close closes the connection; the next request opens it again.
func (c *Conn) Close() {
	if c.nc != nil {
		c.nc.Close()
		c.nc = nil
	}
}

// fail closes the connection, whose state is unknown after err.
func (c *Conn) fail(doing string, err error) error {
	c.Close()
	return fmt.Errorf("%s: %w", doing, err)
}

// send writes one request and reads the head of its response.
func (c *Conn) send(request []byte) error {
	if c.nc == nil {
		nc, err := net.DialTimeout("tcp", c.addr, timeout)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		c.nc, c.in, c.fresh = nc, wire.NewReader(nc, 4096), time.Time{}
	}
	// Moving the deadline costs as much as a good part of a call's parsing, so
	// it is not done for each.
	if now := time.Now(); now.Sub(c.fresh) > time.Second {
		c.fresh = now
		if err := c.nc.SetDeadline(now.Add(timeout)); err != nil {
			return c.fail("set deadline", err)
		}
	}
	if _, err := c.nc.Write(request); err != nil {
		return c.fail("write request", err)
	}
	head, err := c.in.Head()
	if err != nil {
		return c.fail("read response", eof(err))
	}
	c.head = head
	return nil
}

// body reads the rest of the response.
func (c *Conn) body() ([]byte, error) {
	body, err := c.in.Body(c.head)
	if err != nil {
		return nil, c.fail("read response", eof(err))
	}
	if c.head.Close {
		c.Close()
	}
	return body, nil
}

// message sends a request and returns the one JSON-RPC message that answers
// it, or the last one where it comes as an event stream. It is valid until the
// next request.
func (c *Conn) message(request []byte) ([]byte, error) {
	if err := c.send(request); err != nil {
		return nil, err
	}
	status, sse := c.head.Status(), c.head.SSE
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	if status != 200 {
		return nil, fmt.Errorf("%w: status %d: %s", ErrAnswer, status, excerpt(body))
	}
	if sse {
		body = wire.Data(body)
	}
	return body, nil
}

// accepted sends what has no answer of its own.
func (c *Conn) accepted(request []byte) error {
	if err := c.send(request); err != nil {
		return err
	}
	status := c.head.Status()
	body, err := c.body()
	if err != nil {
		return err
	}
	if status != 202 {
		return fmt.Errorf("%w: status %d: %s", ErrAnswer, status, excerpt(body))
	}
	return nil
}

// streams returns an error unless the response is an event stream.
func (c *Conn) streams() error {
	if c.head.Status() != 200 || !c.head.SSE || !c.head.Chunked {
		return c.fail("call", fmt.Errorf("%w: no stream: %q", ErrAnswer, c.head.Start))
	}
	return nil
}

// event reads the next message of a response that is an event stream. A proxy
// may cut the stream anywhere: what is not yet a whole event is gathered in
// held, whose room is used again. It returns io.EOF at the stream's end.
func (c *Conn) event(held []byte) (data, room []byte, err error) {
	held = held[:0]
	for {
		chunk, err := c.in.Chunk()
		if errors.Is(err, io.EOF) {
			return nil, held, io.EOF
		}
		if err != nil {
			return nil, held, c.fail("read event", err)
		}
		held = append(held, chunk...)
		if !wire.Whole(held) {
			continue
		}
		if data := wire.Data(held); data != nil {
			return data, held, nil
		}
		held = held[:0]
	}
}

// eof makes the end of a connection an error: whoever reads waits for more.
func eof(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// excerpt is the beginning of a text that is quoted in an error.
func excerpt(text []byte) []byte { return append([]byte(nil), text[:min(len(text), 300)]...) }
