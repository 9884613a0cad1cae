package proxy

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/proxy/downstream"
)

// An exchange that streams is its response's body. fasthttp calls WriteTo on
// the connection's goroutine after the handler has returned, where each Write
// becomes a chunk and is flushed, and Close before it does anything else with
// the connection.

// comment is what a stream says while there is nothing to say.
var comment = []byte(": keep-alive\n\n")

var streamMedia = []byte("text/event-stream")

// stream makes the answer a stream. first is the notification that it begins
// with, or nil.
func (x *exchange) stream(first []byte) {
	x.register()
	x.first = first
	x.streamStatus()
	resp := &x.ctx.Response
	resp.ImmediateHeaderFlush = true
	resp.SetBodyStream(x, -1)
	x.s.metrics.streams.Inc()
	x.streaming = true // from here on Close ends the exchange
}

// streamStatus begins a stream's header; without a body, the stream is empty.
func (x *exchange) streamStatus() {
	x.status = fasthttp.StatusOK
	resp := &x.ctx.Response
	resp.SetStatusCode(fasthttp.StatusOK)
	resp.Header.SetContentTypeBytes(streamMedia)
	resp.Header.Set(fasthttp.HeaderCacheControl, "no-cache")
	resp.Header.Set("X-Accel-Buffering", "no")
}

// SupportsBodyWriteTo has fasthttp call WriteTo.
func (x *exchange) SupportsBodyWriteTo() bool { return true }

// Read is never called: the body is written by WriteTo.
func (x *exchange) Read([]byte) (int, error) {
	return 0, errors.New("a stream is written, not read")
}

// WriteTo writes the round's events until its outcome. An error closes the
// connection.
func (x *exchange) WriteTo(w io.Writer) (n int64, err error) {
	defer func() {
		if p := recover(); p != nil {
			x.s.log.Error().Any("panic", p).Bytes("stack", debug.Stack()).Msg("stream panicked")
			err = errors.New("stream panicked")
		}
	}()
	next := comment
	if x.first != nil {
		next = x.message(x.first)
	}
	for last := false; ; {
		if err := x.write(w, next); err != nil {
			return n, err
		}
		n += int64(len(next))
		if last {
			return n, nil
		}
		event, err := x.round.Next(time.Now().Add(x.s.settings.KeepAlive))
		switch {
		case errors.Is(err, adapter.ErrDeadline):
			next = comment
		case errors.Is(err, adapter.ErrGone):
			x.status = 0
			return n, fmt.Errorf("stream: %w", err)
		case errors.Is(err, adapter.ErrEnded), x.keeps && passing(err):
			return n, nil // the client comes back
		case err != nil:
			r := downstream.ReplyTo(err)
			x.note(&r)
			x.event, last = appendReply(x.event[:0], x.id, &r), true
			next = x.event
		case event.Outcome != nil:
			downstream.Explain(event.Outcome)
			x.event, last = endEvent(x.dialect.AppendOutcome(beginEvent(x.event[:0]), x.id, event.Outcome), 0), true
			next = x.event
		default:
			next = x.message(x.notification(event))
		}
	}
}

// passing reports whether an error says that the same may be well a little later:
// where the client of a stream can come back for its answer, it is none.
func passing(err error) bool {
	var refusal *adapter.Refusal
	return errors.As(err, &refusal) && refusal.RetryAfter > 0
}

// message makes an event of a notification.
//
// Hot: once per event.
func (x *exchange) message(notification []byte) []byte {
	x.event = endEvent(append(beginEvent(x.event[:0]), notification...), 0)
	return x.event
}

// write gives each write its own deadline: a client that reads nothing for
// that long is as good as gone.
func (x *exchange) write(w io.Writer, p []byte) error {
	if x.keeps && x.conn != nil && hungUp(x.conn.fd) { // what is written now would be lost
		x.status = 0
		return errors.New("stream: the client has closed its connection")
	}
	if err := x.ctx.Conn().SetWriteDeadline(time.Now().Add(x.s.settings.WriteTimeout)); err != nil {
		x.status = 0
		return fmt.Errorf("stream: %w", err)
	}
	if _, err := w.Write(p); err != nil {
		x.status = 0
		return fmt.Errorf("stream: %w", err)
	}
	return nil
}

// Close ends the stream's exchange.
func (x *exchange) Close() error {
	x.s.metrics.streams.Dec()
	x.finish()
	return nil
}
