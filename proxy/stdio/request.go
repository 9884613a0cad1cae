package stdio

import (
	"bytes"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/dialect"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/proxy/downstream"
)

// request is one request of the client, from its line to its response.
type request struct {
	s       *Server
	id      []byte // raw
	msg     jsonrpc.Message
	req     adapter.Request
	dialect dialect.Dialect // nil until it is known
	started time.Time
	told    bool // of something, by a notification

	mu        sync.Mutex
	round     downstream.Round // nil before it begins and once it is closed
	cancelled bool
}

// cancel ends the request without a response: basic/transports/stdio,
// "Cancellation".
func (r *request) cancel() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancelled = true
	if r.round != nil {
		r.round.Gone()
	}
}

func (r *request) isCancelled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cancelled
}

// run serves the request to its end.
func (r *request) run() {
	s := r.s
	defer func() {
		if p := recover(); p != nil {
			s.log.Error().Any("panic", p).Bytes("stack", debug.Stack()).Msg("request handler panicked")
			r.refuse(downstream.Refuse(adapter.ReasonInternal, "Internal error"))
		}
		r.close()
		s.leave(r)
		if e := s.log.Debug(); e != nil {
			e.Str("method", r.msg.Method).Bool("cancelled", r.isCancelled()).Dur("took", time.Since(r.started)).Msg("request")
		}
	}()
	if err := r.begin(); err != nil {
		r.refuse(err)
		return
	}
	r.follow()
}

// begin decodes the request and hands it to the engine.
func (r *request) begin() error {
	s := r.s
	defer s.beginning.Done()
	var err error
	if r.dialect, err = s.settings.Dialects.Decode(&r.msg, nil, nil, &r.req); err != nil {
		return err
	}
	r.req.Upstream = s.settings.Upstream
	r.req.PrincipalHeader = s.settings.Principal
	round, err := s.engine.Begin(&r.req)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.round = round
	if r.cancelled {
		round.Gone()
	}
	return nil
}

const (
	// firstWait is how long a call is stepped by its own request, before the
	// engine's clocks for calls that last are set.
	firstWait = 50 * time.Millisecond
	// nextWait only bounds a wait that ends by an event: nothing has to be sent
	// while there is nothing to say.
	nextWait = time.Minute
)

// follow tells the client what the round says, until its end.
func (r *request) follow() {
	until := r.started.Add(firstWait)
	for {
		event, err := r.round.Next(until)
		switch {
		case errors.Is(err, adapter.ErrDeadline):
		case errors.Is(err, adapter.ErrGone):
			return
		case err != nil:
			r.refuse(err)
			return
		case event.Outcome != nil:
			downstream.Explain(event.Outcome)
			r.end(func(dst []byte) []byte { return r.dialect.AppendOutcome(dst, r.id, event.Outcome) })
			return
		case event.Standing != nil:
			downstream.Explain(event.Standing)
			if d, ok := r.dialect.(dialect.Watching); ok {
				r.send(func(dst []byte) []byte { return d.AppendStanding(dst, nil, event.Standing) })
			}
		default:
			r.told = true
			r.send(func(dst []byte) []byte { return append(dst, event.Notification...) })
		}
		until = time.Now().Add(nextWait)
	}
}

// refuse ends the request with an error.
func (r *request) refuse(err error) {
	reply := downstream.ReplyTo(err)
	reply.Log(&r.s.log, r.msg.Method)
	r.end(func(dst []byte) []byte { return jsonrpc.AppendError(dst, r.id, &reply.Err) })
}

// end sends the response. Its id is free for another request before the client
// can have read it.
func (r *request) end(response func(dst []byte) []byte) {
	r.s.free(r)
	r.send(response)
	// Basic/patterns/cancellation: a subscription that the server tears down ends
	// with this as well. It comes after the response, which says that all is well
	// (basic/patterns/subscriptions, "Graceful Closure"), because what comes for a
	// request that was cancelled is ignored.
	if r.msg.Method == mcp.MethodListen && r.told {
		r.send(func(dst []byte) []byte {
			params := append(append([]byte(`{"requestId":`), r.id...), '}')
			return jsonrpc.AppendRequest(dst, nil, mcp.NotifyCancelled, params)
		})
	}
}

// send sends a message of the request, unless it is cancelled.
func (r *request) send(appendTo func(dst []byte) []byte) {
	err := r.s.out.send(func(dst []byte) []byte {
		if r.isCancelled() {
			return dst
		}
		return appendTo(dst)
	})
	if err != nil {
		r.s.broken(err)
	}
}

// close ends the use of the round, and of the request's memory.
func (r *request) close() {
	r.mu.Lock()
	round := r.round
	r.round = nil
	r.mu.Unlock()
	if round != nil {
		round.Close()
	}
}

// keyOf is what tells an id apart: the same text can be written with escapes and
// without.
func keyOf(id []byte) string {
	if !jsonrpc.IsString(id) || bytes.IndexByte(id, '\\') < 0 {
		return string(id)
	}
	text, _ := jsonrpc.Unquote(id)
	return string(jsonrpc.AppendQuote(nil, text))
}
