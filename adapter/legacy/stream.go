package legacy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// stream is one SSE stream of a session: the answer to a POST, or the standing
// GET stream. It outlives its connection where the server gives its events
// ids: spec 2025-11-25, basic/transports, "Resumability and Redelivery".
type stream struct {
	session *Session

	mu          sync.Mutex // guards conn against interrupt, and lastID and before against Position: their one writer reads without
	conn        *conn
	lastID      []byte // last event id, or nil
	before      []byte // the one before the last event that had data, or empty
	interrupted bool
	headDue     bool          // reopen has asked for the stream, whose head has not been read; the driver's own
	pausing     chan struct{} // closed by interrupt while reopen waits; else nil
	woke        chan struct{} // has room for one: what a driver waits for that has no stream of its own; else nil

	sse     sseDecoder
	name    []byte        // of the event that was returned last, and valid as long
	rest    []byte        // read, but not yet decoded; aliases the connection's buffer
	retry   time.Duration // the server's retry field; zero: none was sent
	resumes int           // attempts since the last event
	opened  time.Time     // when reopen last opened it

	delivering atomic.Bool // the last event id is of an event that is being delivered
}

// begin makes the decoder ready for a new body.
func (s *stream) begin() {
	s.sse.free()
	s.sse = newDecoder(s.session.server.settings)
	s.rest = nil
}

// event returns the data of the next event that has any, valid until the next
// call. io.ErrUnexpectedEOF is the end of the body: only a response ends an
// exchange, and a chunked body cut between chunks looks like a clean end.
//
// Hot: once per event.
func (s *stream) event() ([]byte, error) {
	s.delivering.Store(false)
	for {
		if len(s.rest) == 0 {
			s.sse.release()
			piece, err := s.conn.next()
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return nil, err
			}
			s.rest = piece
		}
		ev, rest, ok, err := s.sse.Next(s.rest)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		s.rest = rest
		if !ok {
			continue
		}
		s.resumes = 0
		s.delivering.Store(len(ev.Data) > 0)
		if len(ev.Data) > 0 && s.lastID != nil {
			s.setBefore()
		}
		if ev.HasID {
			s.setLastID(ev.ID)
		}
		if ev.Retry >= 0 {
			s.retry = ev.Retry
		}
		if len(ev.Data) > 0 {
			s.name = ev.Name
			return ev.Data, nil
		}
	}
}

func (s *stream) setBefore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = append(s.before[:0], s.lastID...)
}

// setLastID: an empty id takes the one before back, and there is nothing to go
// on from.
func (s *stream) setLastID(id []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastID = append(s.lastID[:0], id...); len(id) == 0 {
		s.lastID = nil
	}
}

// setConn takes a connection, unless the stream was interrupted meanwhile.
func (s *stream) setConn(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.interrupted {
		c.close()
		c.free()
		return errInterrupted
	}
	s.conn = c
	return nil
}

// takeConn leaves the stream without a connection.
func (s *stream) takeConn() *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.conn
	s.conn = nil
	return c
}

func (s *stream) dropConn() {
	s.rest, s.headDue = nil, false
	if c := s.takeConn(); c != nil {
		c.close()
		c.free()
	}
}

// interrupt ends a read in flight, and the ones to come.
func (s *stream) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupted = true
	if s.conn != nil {
		s.conn.close()
	}
	s.rouse()
	if s.pausing != nil {
		close(s.pausing)
		s.pausing = nil
	}
}

func (s *stream) rouse() {
	if s.woke == nil {
		return
	}
	select {
	case s.woke <- struct{}{}:
	default:
	}
}

// sleep waits, unless ctx ends or the stream is interrupted.
func (s *stream) sleep(ctx context.Context, wait time.Duration) error {
	woken := make(chan struct{})
	s.mu.Lock()
	if s.interrupted {
		s.mu.Unlock()
		return errInterrupted
	}
	s.pausing = woken
	s.mu.Unlock()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-woken:
		return errInterrupted
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	s.pausing = nil
	s.mu.Unlock()
	return nil
}

// pause returns how long to wait before the next attempt to open the stream.
// The server's retry field wins: spec 2025-11-25, basic/transports, "Sending
// Messages to the Server", 6.
func (s *stream) pause() time.Duration {
	set := s.session.server.settings
	wait := set.RetryMin << min(s.resumes, 16)
	if s.resumes == 0 && time.Since(s.opened) > set.RetryMin {
		// A new stream, or the first attempt to go on with one. A server that sends
		// an event and closes, again and again, does not get it.
		wait = 0
	}
	return max(min(wait, set.RetryMax), min(s.retry, maxRetry))
}

// maxRetry bounds what a server's retry field can make a call wait.
const maxRetry = time.Minute

// reopen opens the stream by GET, after the pause that is due. With a last
// event id the server goes on where it was.
func (s *stream) reopen(ctx context.Context, creds Credentials) error {
	if err := s.ask(ctx, creds); err != nil {
		return err
	}
	return s.accept()
}

// ask sends the GET of reopen.
func (s *stream) ask(ctx context.Context, creds Credentials) error {
	wait := s.pause()
	s.resumes++
	if wait > 0 {
		if err := s.sleep(ctx, wait); err != nil {
			return err
		}
	}
	c, err := s.session.get(ctx, creds, s.lastID)
	if err != nil {
		return err
	}
	if err := s.setConn(c); err != nil {
		return err
	}
	s.headDue = true
	return nil
}

// accept reads the answer to ask. After ErrDeadline it can be called again.
func (s *stream) accept() error {
	if err := s.conn.readHead(); err != nil {
		if !errors.Is(err, ErrDeadline) {
			s.dropConn()
		}
		return err
	}
	s.headDue = false
	r := &s.conn.resp
	if r.status == 200 && r.kind == contentSSE {
		s.opened = time.Now()
		s.begin()
		return nil
	}
	if r.status == 404 && s.session.id != "" {
		s.dropConn()
		s.session.markGone()
		return ErrSessionGone
	}
	err := s.conn.statusError()
	s.dropConn()
	return err
}

// transient reports whether an error of a stream or a connection may pass:
// what the server said stands, what the network did does not.
func transient(err error) bool {
	var status *StatusError
	if errors.As(err, &status) {
		return status.Status == 409 || status.Status == 429 || status.Status >= 500
	}
	var netErr net.Error
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, errNoHead) ||
		errors.Is(err, ErrUnreachable) || errors.As(err, &netErr) || isReset(err)
}
