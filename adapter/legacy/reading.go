package legacy

import (
	"fmt"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

// read returns nil once a message was delivered.
func (x *Exchange) read(borrowed bool) error {
	if x.phase == phaseHead {
		if err := x.head(); err != nil {
			return err
		}
	}
	if x.phase == phaseJSON {
		return x.readJSON(borrowed)
	}
	data, err := x.event()
	if err != nil {
		return err
	}
	return x.deliver(data, borrowed)
}

// head reads the response's head and decides what its body is.
func (x *Exchange) head() error {
	if err := x.conn.readHead(); err != nil {
		return err
	}
	r := &x.conn.resp
	if r.wantSession {
		x.named, r.wantSession = r.session, false
	}
	switch {
	case r.status == 200 && r.kind == contentJSON:
		x.phase = phaseJSON
	case r.status == 200 && r.kind == contentSSE:
		x.phase = phaseSSE
		x.begin()
	case r.status == 404 && x.session.id != "":
		x.session.markGone()
		return ErrSessionGone
	default:
		return x.refused()
	}
	if x.message != nil && !x.keep {
		putText(x.message)
		x.message = nil
	}
	return nil
}

// refused: some servers put a JSON-RPC error for the request into a 4xx.
func (x *Exchange) refused() error {
	status := x.conn.statusError()
	if x.answeredBy(status) {
		x.conn.resp.keep = false
		return nil
	}
	return status
}

func (x *Exchange) answeredBy(status *StatusError) (ended bool) {
	if status.Unauthorized() || kindOf([]byte(status.ContentType)) != contentJSON {
		return false
	}
	err := jsonrpc.ParseServer(status.Body, x.session.server.settings.MaxDepth, func(m jsonrpc.Message) error {
		if m.Error != nil && x.session.server.isID(m.ID, x.id) {
			x.respond(&m, false)
			ended = true
		}
		return nil
	})
	return err == nil && ended
}

func (x *Exchange) readJSON(borrowed bool) error {
	body, owned, err := x.conn.readAll(x.session.server.settings.MaxMessage)
	if err != nil {
		return err
	}
	if owned {
		x.body = body
	}
	if err := x.deliver(body, borrowed); err != nil {
		return err
	}
	if !x.Ended() {
		return fmt.Errorf("%w: the JSON body has no response to the request", ErrMalformed)
	}
	return nil
}

// deliver routes the one message, or the array of them, in a text.
func (x *Exchange) deliver(text []byte, borrowed bool) error {
	m, single, err := jsonrpc.ParseServerOne(text, x.session.server.settings.MaxDepth)
	if single && err == nil {
		x.pass(m, borrowed)
	} else if !single {
		err = jsonrpc.ParseServer(text, x.session.server.settings.MaxDepth, func(m jsonrpc.Message) error {
			x.pass(m, borrowed)
			return nil
		})
	}
	x.current = jsonrpc.Message{}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// pass routes a message. It stands in the exchange, so as not to be allocated.
func (x *Exchange) pass(m jsonrpc.Message, borrowed bool) {
	x.current = m
	x.asked = x.asked || m.IsRequest()
	x.session.route(x, &x.current, borrowed)
}
