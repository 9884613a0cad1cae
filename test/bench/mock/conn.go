package mock

import (
	"bytes"
	"net"
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
	asked     uint64 // the question of the last stream
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
	if c.asked != 0 && c.server.open.take(c.asked, nil) != nil {
		c.server.stats.Left.Add(1)
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
		c.status("400 Bad Request") // no stream breaks here, so none is kept
	default:
		c.streaming.Store(true)
		c.out = append(c.out, streamHead...)
		c.out = wire.AppendChunk(c.out, []byte("id: 0\ndata: \n\n"))
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
