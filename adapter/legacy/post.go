package legacy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Posting is a notification or an answer on its way to the server.
type Posting struct {
	session *Session
	conn    *conn

	mu      sync.Mutex
	aborted bool
	over    bool // the connection may be another's by now
}

// StartPost sends a notification or an answer; Posting.Wait tells whether the
// server took it. ErrUnreachable: the server has seen nothing.
func (s *Session) StartPost(ctx context.Context, creds Credentials, text []byte) (*Posting, error) {
	if s.channel == nil {
		return s.startPost(ctx, creds, text)
	}
	if _, err := s.channel.post(ctx, creds, text, nil); err != nil {
		return nil, err
	}
	return &Posting{session: s, over: true}, nil
}

// startPost is StartPost by an HTTP request.
func (s *Session) startPost(ctx context.Context, creds Credentials, text []byte) (*Posting, error) {
	for {
		c, err := s.server.endpoint.conn(ctx)
		if err != nil {
			return nil, err
		}
		request := s.appendPost(creds, text)
		written, err := c.send(*request, s.server.settings.WriteTimeout)
		freeSpace(request)
		if err == nil {
			return &Posting{session: s, conn: c}, nil
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

// TryPost is StartPost on an idle connection; nil says that there is none. It
// may leave the sending to Wait, which returns ErrUnsent where that fails.
func (s *Session) TryPost(creds Credentials, text []byte) *Posting {
	if s.channel != nil {
		if !s.channel.try(text) {
			return nil
		}
		return &Posting{session: s, over: true}
	}
	c := s.server.endpoint.idleConn()
	if c == nil {
		return nil
	}
	c.sendByRead(s.appendPost(creds, text), s.server.settings.WriteTimeout)
	return &Posting{session: s, conn: c}
}

// appendPost builds a whole POST in a buffer of texts.
func (s *Session) appendPost(creds Credentials, text []byte) *[]byte {
	space := texts.Get().(*[]byte)
	request := append((*space)[:0], s.postHead...)
	request = s.server.endpoint.appendCredentials(request, creds)
	request = appendLength(request, len(text))
	*space = append(request, text...)
	return space
}

// Wait returns nil once the server has taken the message: spec 2025-11-25,
// basic/transports, "Sending Messages to the Server", 4. After ErrDeadline it
// can be called again; after anything else the Posting is over.
func (p *Posting) Wait(until time.Time) error {
	c, s := p.conn, p.session
	if c == nil { // the session's channel has taken it
		return nil
	}
	c.setDeadline(until)
	if err := c.readHead(); err != nil {
		if errors.Is(err, ErrDeadline) {
			return ErrDeadline
		}
		c.close()
		c.free()
		return asBroken(err)
	}
	switch status := c.resp.status; {
	case status >= 200 && status < 300:
		p.settle()
		return nil
	case status == 404 && s.id != "":
		p.settle()
		s.markGone()
		return ErrSessionGone
	}
	err := c.statusError()
	c.close()
	c.free()
	return err
}

// settle gives the connection back.
func (p *Posting) settle() {
	p.mu.Lock()
	p.over = true
	if p.aborted {
		p.conn.resp.keep = false
	}
	p.mu.Unlock()
	p.session.server.endpoint.settle(p.conn)
}

// Abort gives the posting up, unless it is over.
func (p *Posting) Abort() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.aborted = true
		p.conn.close()
	}
}

// waitFor is Wait for as long as the exchange lasts whose request was posted, and
// at least for Settings.PostTimeout more: a server may answer on its stream and
// never here. The Posting is over then.
func (p *Posting) waitFor(x *Exchange) error {
	timeout := p.session.server.settings.PostTimeout
	for ended := false; ; ended = x.Ended() {
		if err := p.Wait(time.Now().Add(timeout)); !errors.Is(err, ErrDeadline) {
			return err
		}
		if ended {
			p.giveUp()
			return nil
		}
	}
}

// giveUp ends a Posting that is waited for in vain.
func (p *Posting) giveUp() {
	p.conn.close()
	p.conn.free()
}

// Post sends a notification or an answer and waits until the server has taken
// it, at most for Settings.PostTimeout.
func (s *Session) Post(ctx context.Context, creds Credentials, text []byte) error {
	p, err := s.StartPost(ctx, creds, text)
	if err != nil {
		return err
	}
	return p.WaitLong(ctx)
}

// WaitLong is Wait for at most Settings.PostTimeout. The Posting is over then.
func (p *Posting) WaitLong(ctx context.Context) error {
	timeout := p.session.server.settings.PostTimeout
	stop := context.AfterFunc(ctx, p.Abort)
	defer stop()
	if err := p.Wait(time.Now().Add(timeout)); !errors.Is(err, ErrDeadline) {
		return err
	}
	p.giveUp()
	return fmt.Errorf("%w: no answer to a POST within %v", ErrBroken, timeout)
}
