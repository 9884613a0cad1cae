package legacy

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Sink learns what a server sends for one exchange.
type Sink interface {
	// Receive takes a message: the response, which is the last one, a
	// notification, or an input request. borrowed says that the message's bytes
	// stay valid until the exchange's next Step or its Finish; else only until
	// Receive returns. It must not block, and not call the exchange's driver
	// methods.
	Receive(m *jsonrpc.Message, borrowed bool)
	// Fail says that no response will come, and why.
	Fail(err error)
}

// Owner is a Sink whose request may be another replica's by now. Run asks it
// before it opens a broken stream again, which at some servers takes the stream
// away from whoever has it.
type Owner interface {
	Sink
	// Reopen waits until the stream may be opened. False: it never may, and Abort
	// or Release have been called.
	Reopen(ctx context.Context) bool
}

// Exchange is one request in flight. Session.Prepare makes it, Send sends it;
// then Step, in the caller's own time, or Run, in a goroutine of its own, reads
// until the response; Finish comes last and exactly once.
type Exchange struct {
	stream
	sink     Sink
	id       uint64
	eligible bool // it may be asked something, and holds a place on its session for it
	askable  bool // its method may be; what arrives on its own stream is its own, declared or not
	level    mcp.Level
	creds    Credentials

	message   []byte // the JSON text to send, until the server has accepted it, or the end with keep
	keep      bool   // the request may be sent again although the server had accepted it
	phase     phase
	woken     atomic.Bool
	vacated   atomic.Bool
	settled   atomic.Bool     // the server has nothing more to ask for it
	cancelled atomic.Bool     // the server was told that nobody waits for it
	current   jsonrpc.Message // the message that is being delivered
	asked     bool            // a question was delivered since Run began
	named     string          // the session id of an answer to initialize
	body      []byte          // a JSON body that did not fit the connection's buffer
	ended     bool            // the sink has had its last word; guarded by session.mu
	resumed   *resumption     // of an exchange that Resume made; else nil
	spoilt    error           // why the session's channel will bring no response; guarded by session.mu

	continues bool   // another request may go on with it, in its place on the session
	follows   bool   // it goes on with another request: Next made it
	also      string // another id under which messages for it come, without quotes, or ""; guarded by session.mu
}

type phase uint8

const (
	phaseUnsent phase = iota
	phaseHead
	phaseJSON
	phaseSSE
)

// Session returns the session that the exchange runs on.
func (x *Exchange) Session() *Session { return x.session }

// AppendID appends the request id, a JSON string.
func (x *Exchange) AppendID(dst []byte) []byte {
	if id := x.foreign(); id != "" {
		return jsonrpc.AppendQuote(dst, id)
	}
	return x.session.server.AppendID(dst, x.id)
}

// SetMessage hands over the JSON-RPC request to send. The exchange owns text,
// which should come from Text, from here on.
func (x *Exchange) SetMessage(text []byte) { x.message = text }

// KeepMessage keeps the request's text until Finish: running it twice is
// harmless.
func (x *Exchange) KeepMessage() { x.keep = true }

// TakeMessage returns the request's text, if the server has not accepted it or
// KeepMessage was called: after ErrSessionGone or ErrUnreachable it may be sent
// again elsewhere. The caller owns it.
func (x *Exchange) TakeMessage() []byte {
	m := x.message
	x.message = nil
	return m
}

// HasMessage reports whether TakeMessage would return the request's text.
func (x *Exchange) HasMessage() bool { return x.message != nil }

// Accepted reports whether the server has taken the request to answer it.
func (x *Exchange) Accepted() bool { return x.phase > phaseHead }

// Text returns an empty buffer to build a message in.
func Text() []byte { return getText(0) }

// FreeText gives a buffer of Text back.
func FreeText(b []byte) { putText(b) }

// Send writes the request. Without dial it uses an idle connection only, and
// returns ErrDeadline when there is none; the request then goes out with the
// Step or Run that follows, and the sink hears ErrUnsent where it did not. On
// an error nothing else happens: the caller may Send again after ErrUnreachable
// or ErrDeadline, since the server has seen nothing.
//
// Hot: once per call.
func (x *Exchange) Send(ctx context.Context, dial bool) error {
	if c := x.session.channel; c != nil {
		return x.post(ctx, c, dial)
	}
	e := x.session.server.endpoint
	for {
		c := e.idleConn()
		if c == nil {
			if !dial {
				return ErrDeadline
			}
			var err error
			if c, err = e.dial(ctx); err != nil {
				return err
			}
		}
		request := x.session.appendPost(x.creds, x.message)
		timeout := x.session.server.settings.WriteTimeout
		if !dial {
			c.sendByRead(request, timeout)
			x.phase = phaseHead
			return x.setConn(c)
		}
		written, err := c.send(*request, timeout)
		freeSpace(request)
		if err != nil {
			c.close()
			c.free()
			if !written && c.reused {
				continue // the server had closed it: not one byte went out
			}
			if !written {
				return fmt.Errorf("%w: %w", ErrUnreachable, err)
			}
			return fmt.Errorf("%w: %w", ErrBroken, err)
		}
		x.phase = phaseHead
		return x.setConn(c)
	}
}

// Step reads on until something was given to the sink, and returns nil; or
// until the deadline passes or Wake is called, and returns ErrDeadline. It
// returns ErrNeedsRun when the stream has to be resumed, which only Run does.
//
// Hot: once or twice per call.
func (x *Exchange) Step(until time.Time) error {
	if x.woke != nil {
		return x.stepOn(until)
	}
	if x.conn == nil || x.headDue {
		return ErrNeedsRun
	}
	x.conn.setDeadlineNear(until)
	err := ErrDeadline
	if !x.woken.Swap(false) { // after the deadline was set: a Wake now changes it
		err = x.read(true)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrDeadline):
		// What was set is no longer known: Wake may have changed it.
		x.conn.deadline = time.Time{}.Add(1)
		return ErrDeadline
	case x.aborted():
		return ErrDeadline
	case x.resumable(err):
		x.dropConn()
		return ErrNeedsRun
	}
	x.fail(err)
	return nil
}

// Wake makes a Step in flight return soon.
func (x *Exchange) Wake() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.woken.Store(true)
	if x.conn != nil {
		_ = x.conn.nc.SetReadDeadline(time.Unix(1, 0))
	}
	x.rouse()
}

// Run reads until the exchange ends, resuming its stream where that is
// possible. It returns true once the sink has had its last word, after Abort,
// or when ctx ends in a pause. It returns false when it has delivered a
// question and has nothing more to read: the caller goes on with Run in a new
// goroutine, whose stack has not grown yet, because the answer may take long
// and thousands may wait.
func (x *Exchange) Run(ctx context.Context) (over bool) {
	if x.woke != nil {
		x.runOn(ctx)
		return true
	}
	if x.conn != nil {
		x.conn.deadline = time.Time{}.Add(1)
		x.conn.setDeadline(time.Time{})
	}
	x.asked = false
	for !x.Ended() {
		err := x.advance(ctx)
		if err == errDry {
			if x.asked {
				return false
			}
			// Read here, not where the bytes are needed: what a waiting goroutine
			// holds is mostly its stack.
			err = x.conn.await()
		}
		switch {
		case err == nil:
		case ctx.Err() != nil || x.aborted():
			return true
		case x.resumable(err):
			x.dropConn()
		default:
			x.fail(err)
		}
	}
	return true
}

// Abort makes Run, or a Step in flight, return soon. The sink hears nothing of
// it.
func (x *Exchange) Abort() { x.interrupt() }

func (x *Exchange) aborted() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.interrupted
}

func (x *Exchange) advance(ctx context.Context) error {
	if c := x.conn; c != nil && !x.headDue {
		c.dry = true
		err := x.read(false)
		c.dry = false
		return err
	}
	if !x.headDue {
		if x.unopened() && x.lastID == nil {
			return fmt.Errorf("%w: no event id is known", ErrNotResumable)
		}
		if o, shared := x.sink.(Owner); shared && !o.Reopen(ctx) {
			return errInterrupted
		}
		if err := x.ask(ctx, x.creds); err != nil {
			return err
		}
	}
	if err := x.accept(); err != nil {
		return err
	}
	x.phase = phaseSSE
	if x.resumed != nil {
		x.resumed.stands = true
	}
	return nil
}

// Ended reports whether the sink has had its last word.
func (x *Exchange) Ended() bool {
	x.session.mu.Lock()
	defer x.session.mu.Unlock()
	return x.ended
}

// resumable: only a stream whose events have ids can go on, and only so often.
func (x *Exchange) resumable(err error) bool {
	if x.unopened() && !x.resumed.patient(x) {
		return false
	}
	return x.phase == phaseSSE && x.lastID != nil && x.resumes < x.session.server.settings.MaxResumes && transient(err)
}

// respond ends the exchange with its response.
func (x *Exchange) respond(m *jsonrpc.Message, borrowed bool) {
	if x.session.end(x) {
		x.settled.Store(!x.continues || x.follows || m.Error != nil) // else it has become a task
		if !x.continues {
			// Before the client hears of it: its next call finds this place free.
			x.vacate()
		}
		x.sink.Receive(m, borrowed)
	}
}

// vacate gives the place on the session back, once.
func (x *Exchange) vacate() {
	if !x.vacated.Swap(true) {
		x.session.release(x)
	}
}

// fail ends the exchange without a response. It reports whether it had not ended
// before.
func (x *Exchange) fail(err error) bool {
	var status *StatusError
	if x.unopened() {
		err = notResumed(err)
	} else if x.phase == phaseSSE && errors.As(err, &status) {
		// It answered the GET that was to go on with the stream. The request was
		// accepted long before: not even a 401 means that it has not run.
		err = fmt.Errorf("%w: going on with it was answered with HTTP %d", ErrBroken, status.Status)
	}
	if !x.session.end(x) {
		return false
	}
	x.dropConn()
	err = asBroken(err)
	// What it goes on with may run all the same.
	x.settled.Store(x.resumed == nil && !x.follows &&
		(errors.Is(err, ErrUnreachable) || errors.Is(err, ErrSessionGone) || errors.As(err, &status) && status.Status < 500))
	x.sink.Fail(err)
	return true
}

// asBroken names the errors of a connection.
func asBroken(err error) error {
	var status *StatusError
	switch {
	case errors.As(err, &status), errors.Is(err, ErrMalformed), errors.Is(err, ErrSessionGone),
		errors.Is(err, ErrUnreachable), errors.Is(err, ErrBroken), errors.Is(err, ErrClosed), errors.Is(err, ErrNotResumable):
		return err
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// Finish ends the driver's use of the exchange: what Receive lent is no longer
// valid, the connection goes back to its pool, and the session may take the
// next eligible call. An exchange without a response just ends: it is the
// caller's to Cancel it first.
func (x *Exchange) Finish() {
	complete := !x.session.end(x) // it had ended before
	if x.continues {
		x.session.mu.Lock()
		x.session.unalias(x)
		x.session.mu.Unlock()
	}
	if x.message != nil {
		putText(x.message)
		x.message = nil
	}
	if x.body != nil {
		putText(x.body)
		x.body = nil
	}
	x.sse.free()
	x.rest = nil
	if x.phase == phaseUnsent && !x.follows {
		x.settled.Store(true)
	}
	if c := x.takeConn(); c != nil {
		if complete && !x.aborted() && x.phase >= phaseJSON {
			x.session.server.endpoint.release(c)
		} else {
			c.close()
			c.free()
		}
	}
	x.vacate()
}

// Cancel tells the server that nobody waits for the exchange any more. Spec
// 2025-11-25, basic/utilities/cancellation. It does not wait.
func (x *Exchange) Cancel(reason string) {
	x.cancelled.Store(true)
	x.session.cancel(x.creds, x.AppendID(nil), reason)
}

func (s *Session) cancel(creds Credentials, id []byte, reason string) {
	s.enqueue(creds.Lasting(), appendCancelled(getText(128), id, reason)) // of the request that it is about, the trace has ended
}

// AppendCancelled appends what Exchange.Cancel tells the server, for a request that
// no exchange is in flight for, given as in Position.
func AppendCancelled(dst []byte, request, reason string) []byte {
	return appendCancelled(dst, jsonrpc.AppendQuote(nil, request), reason)
}

func appendCancelled(dst, id []byte, reason string) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":"`+mcp.NotifyCancelled+`","params":{"requestId":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"reason":`...)
	dst = jsonrpc.AppendQuote(dst, reason)
	return append(dst, `}}`...)
}
