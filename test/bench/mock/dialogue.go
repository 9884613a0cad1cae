package mock

import (
	"fmt"
	"strconv"

	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// latest is the last legacy revision.
const latest = "2025-11-25"

const toolList = `{"tools":[` +
	`{"name":"echo","description":"Answers with its text","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}},` +
	`{"name":"ask","description":"Asks its client once and answers with both texts",` +
	`"inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}},` +
	`{"name":"large","description":"The same, with a lot of text behind it",` +
	`"inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}},` +
	`{"name":"meet","description":"The same, when as many as were expected have answered",` +
	`"inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}},` +
	`{"name":"later","description":"Asks when it is told to, and then does the same",` +
	`"inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}]}`

// post answers one JSON-RPC message.
func (c *conn) post(head wire.Head, body []byte) {
	var method, id, params, result []byte
	for m := wire.Object(body); m.Next(); {
		switch string(m.Name) {
		case "method":
			method = wire.Text(m.Value)
		case "id":
			id = m.Value
		case "params":
			params = m.Value
		case "result":
			result = m.Value
		}
	}
	if string(method) == "initialize" {
		c.initialize(id, params)
		return
	}
	if len(head.Session) == 0 {
		c.status("400 Bad Request")
		return
	}
	if !c.known(head.Session) {
		c.status("404 Not Found")
		return
	}
	switch {
	case method == nil && id == nil:
		c.status("400 Bad Request")
	case method == nil:
		c.answer(head, id, result)
	case id == nil:
		c.status("202 Accepted")
	default:
		c.request(head, string(method), id, params)
	}
}

func (c *conn) request(head wire.Head, method string, id, params []byte) {
	switch method {
	case "tools/call":
		text := wire.Get(params, "arguments", "text")
		switch string(wire.Text(wire.Get(params, "name"))) {
		case "echo":
			c.server.stats.Echoed.Add(1)
			c.json(appendTexts(make([]byte, 0, 256), id, wire.Text(text)))
		case "ask":
			c.ask(ask, head, id, text)
		case "large":
			c.ask(large, head, id, text)
		case "meet":
			c.ask(meet, head, id, text)
		case "later":
			c.ask(later, head, id, text)
		default:
			c.json(appendError(nil, id, -32602, "unknown tool"))
		}
	case "tools/list":
		c.json(appendResult(nil, id, []byte(toolList)))
	case "ping", "logging/setLevel":
		c.json(appendResult(nil, id, []byte("{}")))
	default:
		c.json(appendError(nil, id, -32601, "method not found"))
	}
}

// initialize opens a session in the client's revision, or in the latest where
// that is no legacy one. Spec 2025-11-25, basic/lifecycle, "Version Negotiation".
func (c *conn) initialize(id, params []byte) {
	if id == nil {
		c.status("400 Bad Request")
		return
	}
	session := fmt.Sprintf("mock-%d", c.server.session.Add(1))
	c.server.sessions.Store(session, struct{}{})
	c.server.stats.Sessions.Add(1)
	c.json(appendHello(nil, id, params), "Mcp-Session-Id: "+session+"\r\n")
}

// appendHello appends the answer to initialize.
func appendHello(dst, id, params []byte) []byte {
	version := string(wire.Text(wire.Get(params, "protocolVersion")))
	switch version {
	case "2025-03-26", "2025-06-18", latest:
	default:
		version = latest
	}
	result := `{"protocolVersion":"` + version + `","capabilities":{"tools":{}},"serverInfo":{"name":"mock","version":"1.0.0"}}`
	return appendResult(dst, id, []byte(result))
}

// ask opens the call's stream with an event that has only an id, as servers
// with an event store do, and the question, if it is not to come later.
func (c *conn) ask(t tool, head wire.Head, id, text []byte) {
	c.beginStream()
	q := &question{
		conn:    c,
		session: string(head.Session),
		call:    append([]byte(nil), id...),
		text:    append([]byte(nil), wire.Text(text)...),
		tool:    t,
	}
	c.asked = c.server.open.add(q)
	c.server.stats.Asked.Add(1)
	events := make([]byte, 0, 512)
	events = appendEventID(events, c.asked, 0)
	events = append(events, "data: \n\n"...)
	if t != later {
		events = appendAsking(events, c.asked)
	}
	c.out = append(c.out, streamHead...)
	c.out = wire.AppendChunk(c.out, events)
	if t == later {
		c.server.holding.join(c.asked, c.flush)
	}
}

// appendAsking appends the event that asks.
func appendAsking(dst []byte, id uint64) []byte {
	dst = appendEventID(dst, id, 1)
	dst = append(dst, "data: "...)
	return append(appendQuestion(dst, id), "\n\n"...)
}

// appendQuestion appends the request that asks.
func appendQuestion(dst []byte, id uint64) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = strconv.AppendUint(dst, id, 10)
	return append(dst, `,"method":"elicitation/create","params":{"message":"What is the answer?","requestedSchema":`+
		`{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}}}`...)
}

// answer takes the client's answer to a question and ends the stream that the
// question was asked on with the call's result.
func (c *conn) answer(head wire.Head, id, result []byte) {
	number, err := strconv.ParseUint(string(id), 10, 64)
	if err != nil {
		c.server.stats.Stray.Add(1)
		c.status("400 Bad Request")
		return
	}
	q := c.server.open.take(number, head.Session)
	if q == nil {
		c.server.stats.Stray.Add(1)
		c.status("202 Accepted") // as the SDKs do with an id that they do not know
		return
	}
	c.server.stats.Answered.Add(1)
	event := make([]byte, 0, 512)
	event = appendEventID(event, number, 2)
	event = append(event, "data: "...)
	accepted := string(wire.Text(wire.Get(result, "action"))) == "accept"
	if accepted {
		event = appendTexts(event, q.call, q.text, []byte("="), wire.Text(wire.Get(result, "content", "answer")))
	} else {
		event = appendError(event, q.call, -32603, "no answer")
	}
	behind := len(event) - len(endOfText)
	event = append(event, "\n\n"...)
	switch {
	case q.tool == large && accepted:
		// More than connections hold: its client may read it after this answer's own.
		c.server.wg.Go(func() { q.endLarge(event[:behind], wire.LargeText(), event[behind:]) })
	case q.tool == meet:
		c.server.met.join(c.server, func() { q.end(event) })
	case c.server.open.keep(number, q, event):
	default:
		q.end(event)
	}
	c.status("202 Accepted")
}

// appendEventID appends an event's id: the stream's and the event's number.
func appendEventID(dst []byte, stream uint64, event int) []byte {
	dst = append(dst, "id: "...)
	dst = strconv.AppendUint(dst, stream, 10)
	dst = append(dst, '-')
	dst = strconv.AppendInt(dst, int64(event), 10)
	return append(dst, '\n')
}

// appendTexts appends a tool's result whose text is made of the insides of
// JSON strings.
func appendTexts(dst, id []byte, texts ...[]byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"result":{"content":[{"type":"text","text":"`...)
	for _, text := range texts {
		dst = append(dst, text...)
	}
	return append(dst, endOfText...)
}

const endOfText = `"}]}}`

func appendResult(dst, id, result []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"result":`...)
	dst = append(dst, result...)
	return append(dst, '}')
}

func appendError(dst, id []byte, code int, message string) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":`...)
	dst = strconv.AppendQuote(dst, message)
	return append(dst, "}}"...)
}
