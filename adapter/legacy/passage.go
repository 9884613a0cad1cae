package legacy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Passage is one request to a modern server, passed on as its client has sent
// it, and the answer, which comes on the request's own connection: spec
// 2026-07-28, basic/transports/streamable-http. There is no session. One
// goroutine calls Next until the response or an error, then Finish; Wake and
// Abort may be called from any other until Finish.
type Passage struct {
	server *Server
	id     []byte // raw JSON-RPC id of the request; the caller's

	phase phase
	over  bool // the response was read
	sse   sseDecoder
	rest  []byte // read, but not yet decoded; aliases the connection's buffer
	body  []byte // a JSON body that did not fit the connection's buffer

	woken   atomic.Bool
	mu      sync.Mutex // guards what follows against Wake and Abort
	conn    *conn
	aborted bool
}

// Arrival is what a modern server says next: a notification, or the response,
// after which nothing follows. It is valid until the next Next or Finish.
type Arrival struct {
	jsonrpc.Message
	Text   []byte // the whole message as it came
	Status int    // of the HTTP response
}

// Request is a JSON-RPC request as it goes to a modern server.
type Request struct {
	ID      []byte  // raw
	Text    []byte  // the whole message
	Headers []Field // those that mirror the body, without MCP-Protocol-Version
	Creds   Credentials
}

// TryPass sends a request on an idle connection; nil says that there is none.
// It may leave the sending to Next, which returns ErrUnsent where that fails.
//
// Hot: once per request.
func (s *Server) TryPass(r *Request) *Passage {
	c := s.endpoint.idleConn()
	if c == nil {
		return nil
	}
	c.sendByRead(s.appendPassage(r), s.settings.WriteTimeout)
	return &Passage{server: s, id: r.ID, phase: phaseHead, conn: c}
}

// Pass sends a request, and connects where that is needed. ErrUnreachable: the
// server has seen nothing.
func (s *Server) Pass(ctx context.Context, r *Request) (*Passage, error) {
	for {
		c, err := s.endpoint.conn(ctx)
		if err != nil {
			return nil, err
		}
		request := s.appendPassage(r)
		written, err := c.send(*request, s.settings.WriteTimeout)
		freeSpace(request)
		if err == nil {
			return &Passage{server: s, id: r.ID, phase: phaseHead, conn: c}, nil
		}
		c.close()
		c.free()
		switch {
		case written:
			return nil, fmt.Errorf("%w: %w", ErrBroken, err)
		case !c.reused:
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
	}
}

func (s *Server) appendPassage(r *Request) *[]byte {
	space := texts.Get().(*[]byte)
	dst := s.endpoint.appendHead((*space)[:0], "POST", "")
	dst = append(dst, "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		mcp.HeaderProtocolVersion+": "+mcp.Modern+"\r\n"...)
	for _, f := range r.Headers {
		dst = appendField(dst, f.Name, f.Value)
	}
	dst = s.endpoint.appendCredentials(dst, r.Creds)
	dst = appendLength(dst, len(r.Text))
	*space = append(dst, r.Text...)
	return space
}

// Next returns what the server says next, at the latest at until: ErrDeadline
// says that it was nothing, and after it Next can be called again. A StatusError
// is an HTTP answer without a JSON-RPC message, or a 401 or 403.
//
// Hot: once or twice per request.
func (p *Passage) Next(until time.Time) (Arrival, error) {
	c := p.conn
	if c == nil {
		return Arrival{}, ErrBroken
	}
	c.setDeadlineNear(until)
	err := ErrDeadline
	var a Arrival
	if !p.woken.Swap(false) { // after the deadline was set: a Wake now changes it
		a, err = p.read()
	}
	switch {
	case err == nil:
		return a, nil
	case errors.Is(err, ErrDeadline):
		// What was set is no longer known: Wake may have changed it.
		c.deadline = time.Time{}.Add(1)
		return Arrival{}, ErrDeadline
	}
	return Arrival{}, asBroken(err)
}

func (p *Passage) read() (Arrival, error) {
	if p.phase == phaseHead {
		if err := p.conn.readHead(); err != nil {
			return Arrival{}, err
		}
		r := &p.conn.resp
		switch {
		case r.status == 401 || r.status == 403 || r.kind == contentOther || r.kind == contentSSE && r.status != 200:
			return Arrival{}, p.conn.statusError()
		case r.kind == contentSSE:
			p.phase = phaseSSE
			p.sse = newDecoder(p.server.settings)
		default:
			p.phase = phaseJSON
		}
	}
	if p.phase == phaseJSON {
		return p.readJSON()
	}
	text, err := p.event()
	if err != nil {
		return Arrival{}, err
	}
	return p.parse(text)
}

// readJSON reads a body that is the response. Errors of JSON-RPC come with many
// a status: basic/transports/streamable-http, "Protocol Version Header" and
// "Server Validation".
func (p *Passage) readJSON() (Arrival, error) {
	r := p.conn.resp
	text, owned, err := p.conn.readAll(p.server.settings.MaxMessage)
	if err != nil {
		return Arrival{}, err
	}
	if owned {
		p.body = text
	}
	a, err := p.parse(text)
	switch {
	case r.status != 200 && (err != nil || a.Error == nil):
		return Arrival{}, &StatusError{Status: r.status, ContentType: r.contentType, Body: bytes.Clone(text[:min(len(text), maxErrorBody)])}
	case err == nil && !a.IsResponse():
		err = fmt.Errorf("%w: the JSON body is no response", ErrMalformed)
	}
	return a, err
}

// event returns the data of the next event that has any. The end of the stream
// before the response is an error.
func (p *Passage) event() ([]byte, error) {
	for {
		if len(p.rest) == 0 {
			p.sse.release()
			piece, err := p.conn.next()
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return nil, err
			}
			p.rest = piece
		}
		ev, rest, ok, err := p.sse.Next(p.rest)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		if p.rest = rest; ok && len(ev.Data) > 0 {
			return ev.Data, nil
		}
	}
}

// parse reads a message. Servers of this revision send neither requests nor
// arrays: basic/transports/streamable-http, "Receiving Messages".
func (p *Passage) parse(text []byte) (Arrival, error) {
	m, single, err := jsonrpc.ParseServerOne(text, p.server.settings.MaxDepth)
	switch {
	case err != nil:
		return Arrival{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	case !single:
		return Arrival{}, fmt.Errorf("%w: an array of messages", ErrMalformed)
	case m.IsRequest():
		return Arrival{}, fmt.Errorf("%w: a request of the server", ErrMalformed)
	case m.IsResponse():
		if !sameID(m.ID, p.id) && !(m.ID == nil && m.Error != nil) {
			return Arrival{}, fmt.Errorf("%w: a response to another request", ErrMalformed)
		}
		p.over = true
	}
	return Arrival{Message: m, Text: text, Status: p.conn.resp.status}, nil
}

// sameID compares raw ids: a server may spell a string in another way.
func sameID(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, ok := jsonrpc.Unquote(a)
	if !ok {
		return false
	}
	y, ok := jsonrpc.Unquote(b)
	return ok && x == y
}

// Streams reports whether the answer is an event stream.
func (p *Passage) Streams() bool { return p.phase == phaseSSE }

// Wake makes a Next in flight, or the next one, return soon.
func (p *Passage) Wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.woken.Store(true)
	if p.conn != nil {
		_ = p.conn.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// Abort closes the connection, which tells the server that nobody waits any
// more: basic/patterns/cancellation.
func (p *Passage) Abort() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.aborted = true
	if p.conn != nil {
		p.conn.close()
	}
}

// Finish ends the passage: what it lent is no longer valid. Where the response
// was read, the connection goes back to its pool, and else it is closed.
func (p *Passage) Finish() {
	p.mu.Lock()
	c, aborted := p.conn, p.aborted
	p.conn = nil
	p.mu.Unlock()
	p.sse.free()
	p.rest = nil
	if p.body != nil {
		putText(p.body)
		p.body = nil
	}
	switch {
	case c == nil:
	case p.over && !aborted:
		p.server.endpoint.release(c)
	default:
		c.close()
		c.free()
	}
}
