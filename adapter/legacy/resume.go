package legacy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Position is where an exchange stands upstream: what another replica needs to
// go on with it.
type Position struct {
	Session string // Mcp-Session-Id, or ""
	Version string // negotiated revision
	Event   string // last event id of the exchange's stream; "": nobody can go on with it
	Request string // raw request id, without its quotes
}

// Position returns where the exchange stands. It may be called while the
// exchange is being driven.
func (x *Exchange) Position() Position {
	id := x.AppendID(nil)
	p := Position{Session: x.session.id, Version: x.session.info.Version, Request: string(id[1 : len(id)-1])}
	x.mu.Lock()
	defer x.mu.Unlock()
	p.Event = string(x.lastID)
	return p
}

// Settled reports whether the sink has had all that came before Position, when that
// is asked first, with a lock held that Receive takes.
func (x *Exchange) Settled() bool { return !x.delivering.Load() }

// Before returns the event id of Position before the last message, "" where none is
// known: from there that message comes again.
func (x *Exchange) Before() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return string(x.before)
}

// resumption is what only an exchange has that goes on with another's stream.
type resumption struct {
	began   time.Time
	foreign string // the id upstream, where another replica has made it; else ""
	stands  bool   // the stream; the driver's own
}

// foreign returns the id upstream that another replica has made, or "".
func (x *Exchange) foreign() string {
	if x.resumed == nil {
		return ""
	}
	return x.resumed.foreign
}

// unopened reports whether the stream that was to be resumed has not stood yet.
func (x *Exchange) unopened() bool { return x.resumed != nil && !x.resumed.stands }

// patient reports whether the stream may be asked for once more. The connection
// of a replica that has died may still be open at the server, which answers 409
// until it notices; but a client waits for what comes of it.
func (r *resumption) patient(x *Exchange) bool {
	return time.Since(r.began) < x.session.server.settings.RetryMax
}

// Resume registers a request that was sent before, by another replica or by an
// exchange that Release let go, on a session that Acquire or Adopt lent with the
// same eligible. Open, or else Run, opens its stream where the event id says;
// until then its sink may be told ErrSessionGone, ErrNotResumable,
// ErrUnreachable, or a StatusError that is Unauthorized, and the server has done
// nothing. Finish undoes it.
func (s *Session) Resume(request, event string, sink Sink, creds Credentials, eligible, askable bool, level mcp.Level) *Exchange {
	x := &Exchange{
		sink: sink, eligible: eligible, askable: askable, level: level, creds: creds,
		phase: phaseSSE, resumed: &resumption{began: time.Now()},
	}
	x.session = s
	x.setLastID([]byte(event))
	id := jsonrpc.AppendQuote(nil, request)
	n, own := s.server.parseID(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if own && s.calls[n] == nil {
		x.id = n
	} else {
		x.id, x.resumed.foreign = s.server.NextID(), request
		if s.foreign == nil {
			s.foreign = make(map[string]*Exchange)
		}
		s.foreign[request] = x
	}
	s.calls[x.id] = x
	s.levels[level]++
	s.creds = creds.Lasting()
	return x
}

// Open opens the stream of an exchange that Resume made, so that nothing that
// the server says to an answer posted afterwards can be missed. It returns what
// the sink would be told by Run; the caller goes on with Run or Finish. A server
// that sends no head before its first event is waited for only for
// Settings.StreamWait.
func (x *Exchange) Open(ctx context.Context) error {
	if !x.unopened() {
		return nil
	}
	stop := context.AfterFunc(ctx, x.interrupt)
	defer stop()
	for {
		err := x.open(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case x.aborted() || !x.resumable(err):
			return notResumed(err)
		}
	}
}

func (x *Exchange) open(ctx context.Context) error {
	if x.lastID == nil {
		return fmt.Errorf("%w: no event id is known", ErrNotResumable)
	}
	if !x.headDue {
		if err := x.ask(ctx, x.creds); err != nil {
			return err
		}
	}
	x.conn.setDeadline(time.Now().Add(x.session.server.settings.StreamWait))
	err := x.accept()
	if errors.Is(err, ErrDeadline) {
		return nil // Run reads the head
	}
	if err == nil {
		x.resumed.stands = true
	}
	return err
}

// notResumed names the error that a resumed stream did not come to stand for.
func notResumed(err error) error {
	var status *StatusError
	switch {
	case errors.As(err, &status) && status.Unauthorized(),
		errors.Is(err, ErrSessionGone), errors.Is(err, ErrUnreachable), errors.Is(err, ErrNotResumable):
		return err
	case errors.As(err, &status):
		// Not wrapped: it is no answer to the request.
		return fmt.Errorf("%w: HTTP %d", ErrNotResumable, status.Status)
	}
	return fmt.Errorf("%w: %w", ErrNotResumable, err)
}

// Release lets go of the stream on purpose: the exchange ends here and its place
// on the session is free, but the request lives on at the server, which is told
// nothing. The sink hears nothing more. It reports false when the exchange has
// ended already. It may be called while the exchange is being driven; the driver
// still calls Finish. Who wants to come back needs a Position with an event, and
// the session held.
func (x *Exchange) Release() bool {
	if !x.session.end(x) {
		return false
	}
	x.session.mu.Lock()
	x.session.let = true // what comes for it on the GET stream may be another replica's
	x.session.mu.Unlock()
	x.mu.Lock()
	if x.conn != nil {
		x.session.server.endpoint.partings.part(x.conn, time.Now())
	}
	x.mu.Unlock()
	x.interrupt()
	x.vacate()
	return true
}

// Renew has a stream opened anew from where it stands, if it can be: somebody else
// may have opened it meanwhile, and some servers say nothing on a connection then
// that is not the newest. It may be called while the exchange is being driven.
func (x *Exchange) Renew() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lastID != nil && x.conn != nil {
		x.conn.close() // which the driver takes for broken
	}
}

// Hold keeps a lent session from ending while somebody may still want to come
// back to it. Return, with false, undoes it.
func (s *Session) Hold() { s.entry.hold(s) }
