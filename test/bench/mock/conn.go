package mock

import (
	"bytes"
	"net"
	"strconv"
	"sync/atomic"

	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// conn is one connection of a client, which serves one request after the other.
type conn struct {
	server *Server
	nc     net.Conn
	in     *wire.Reader
	out    []byte // written only by serve's goroutine

	// streaming is set while the response to the last request goes on. Until it
	// is unset, this goroutine only reads, to see the client leave.
	streaming atomic.Bool
	asked     uint64 // the question of the last stream, if it has one
}

func newConn(s *Server, nc net.Conn) *conn {
	return &conn{server: s, nc: nc, in: wire.NewReader(nc, 2048)}
}

// serve answers requests until the client leaves or sends what is no request.
func (c *conn) serve() {
	for {
		head, err := c.in.Head()
		if err != nil {
			break
		}
		if c.streaming.Load() {
			break // pipelined behind a stream: nothing that the peers here do
		}
		body, err := c.in.Body(head)
		if err != nil {
			break
		}
		c.out = c.out[:0]
		c.handle(head, body)
		if err := c.flush(); err != nil || head.Close {
			break
		}
	}
	if c.asked != 0 {
		if c.server.open.leave(c.asked, c) {
			c.server.stats.Left.Add(1)
		}
		c.endStream()
	}
}

// beginStream begins the stream of a call that asks.
func (c *conn) beginStream() {
	c.streaming.Store(true)
	c.server.stats.Streams.Add(1)
}

// endStream ends it, if it goes on.
func (c *conn) endStream() {
	if c.streaming.Swap(false) {
		c.server.stats.Streams.Add(-1)
	}
}

// flush writes what is in out.
func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.nc.Write(c.out)
	c.out = c.out[:0]
	return err
}

// handle puts the answer to one request into out.
func (c *conn) handle(head wire.Head, body []byte) {
	method, rest, _ := bytes.Cut(head.Start, []byte(" "))
	path, _, _ := bytes.Cut(rest, []byte(" "))
	switch string(method) {
	case "POST":
		c.post(head, body)
	case "GET":
		c.get(head, path)
	case "DELETE":
		if _, known := c.server.sessions.LoadAndDelete(string(head.Session)); !known {
			c.status("404 Not Found")
			return
		}
		c.status("200 OK")
	default:
		c.status("405 Method Not Allowed")
	}
}

// get opens the session's own stream, which stays silent and ends with the
// connection.
func (c *conn) get(head wire.Head, path []byte) {
	switch {
	case string(path) == "/stats":
		c.json(c.server.stats.AppendJSON(nil))
	case string(path) == "/ask":
		c.server.holding.ask(&c.server.open)
		c.status("200 OK")
	case c.server.NoStream:
		c.status("405 Method Not Allowed")
	case !c.known(head.Session):
		c.status("404 Not Found")
	case len(head.LastEvent) > 0:
		c.resume(head)
	default:
		c.asked = 0
		c.streaming.Store(true)
		c.out = append(c.out, streamHead...)
		c.out = wire.AppendChunk(c.out, []byte("id: 0\ndata: \n\n"))
	}
}

// resume goes on with the stream of a call behind the event that the client has
// had last. Spec 2025-11-25, basic/transports, "Resumability and Redelivery".
func (c *conn) resume(head wire.Head) {
	stream, event, _ := bytes.Cut(head.LastEvent, []byte("-"))
	id, _ := strconv.ParseUint(string(stream), 10, 64) // zero is none
	q := c.server.open.find(id)
	if c.server.Keep == 0 || q == nil || q.tool != ask || q.session != string(head.Session) {
		c.status("400 Bad Request")
		return
	}
	c.out = append(c.out, streamHead...)
	if string(event) == "0" {
		c.out = wire.AppendChunk(c.out, appendAsking(nil, id))
	}
	// What comes next is written by whoever has it, and so this before.
	if c.flush() != nil {
		return // as the next read will say
	}
	c.asked = id
	c.beginStream()
	ended, known := c.server.open.attach(id, c)
	switch {
	case !known: // the result went out on the stream that was open just now
		c.nc.Close()
	case ended != nil:
		c.server.stats.Resumed.Add(1)
		ended.end(ended.result)
	default:
		c.server.stats.Resumed.Add(1)
	}
}

func (c *conn) known(session []byte) bool {
	_, ok := c.server.sessions.Load(string(session))
	return ok
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache, no-transform\r\n" +
	"Transfer-Encoding: chunked\r\n\r\n"

// json puts a plain JSON answer into out; extra are further header lines.
func (c *conn) json(body []byte, extra ...string) {
	c.out = append(c.out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"...)
	for _, line := range extra {
		c.out = append(c.out, line...)
	}
	c.out = wire.AppendLength(c.out, len(body))
	c.out = append(c.out, body...)
}

func (c *conn) status(status string) {
	c.out = append(c.out, "HTTP/1.1 "...)
	c.out = append(c.out, status...)
	c.out = append(c.out, "\r\n"...)
	c.out = wire.AppendLength(c.out, 0)
}
