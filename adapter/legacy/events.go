package legacy

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// events is the channel of the HTTP+SSE transport: messages come on an event
// stream, whose first event says where those to the server are posted. Spec
// 2024-11-05, basic/transports, "HTTP with SSE".
type events struct {
	session *Session
	stream  *stream
	ended   context.Context // ends with the stream
}

// errNoEndpoint: what answers does not speak HTTP+SSE.
var errNoEndpoint = errors.New("event stream does not begin with an endpoint")

// openEvents opens the session's event stream.
func (s *Session) openEvents(ctx context.Context, creds Credentials) error {
	st := &stream{session: s}
	stop := context.AfterFunc(ctx, st.interrupt)
	target, err := st.endpoint(ctx, creds)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		st.sse.free()
		st.dropConn()
		if ctx.Err() != nil {
			err = fmt.Errorf("%w in time: %w", errNoEndpoint, ctx.Err())
		}
		return err
	}
	s.target = target
	ended, end := context.WithCancel(context.Background())
	e := &events{session: s, stream: st, ended: ended}
	s.attach(e, func() error {
		defer end()
		return e.read()
	})
	s.setHeads()
	return nil
}

// endpoint opens the stream and returns what its first event says.
func (s *stream) endpoint(ctx context.Context, creds Credentials) (target string, err error) {
	if err := s.reopen(ctx, creds); err != nil {
		return "", err
	}
	data, err := s.event()
	switch {
	case err != nil:
		return "", asBroken(err)
	case string(s.name) != "endpoint":
		return "", fmt.Errorf("%w: %w", ErrMalformed, errNoEndpoint)
	}
	return s.session.server.endpoint.sameOrigin(string(data))
}

// maxTarget bounds what a server may make every request begin with.
const maxTarget = 4 << 10

// sameOrigin returns the request target of a URI that an endpoint's server has
// named. Another origin is refused: it would be sent what is meant for this one.
func (e *endpoint) sameOrigin(uri string) (string, error) {
	base, err := url.Parse(e.settings.URL)
	if err != nil {
		return "", err
	}
	u, err := base.Parse(strings.TrimSpace(uri))
	if err != nil || len(uri) > maxTarget {
		return "", fmt.Errorf("%w: its endpoint is no URI", ErrMalformed)
	}
	if u.Scheme != base.Scheme || !strings.EqualFold(u.Hostname(), base.Hostname()) || portOf(u) != portOf(base) || u.User != nil {
		return "", fmt.Errorf("%w: its endpoint is of another origin, %s://%s", ErrMalformed, u.Scheme, u.Host)
	}
	return u.RequestURI(), nil
}

// portOf is a URL's port, or the one that its scheme implies.
func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// read routes what comes on the stream, until that ends. Where it has ended
// nobody can go on: the transport has no event ids.
func (e *events) read() error {
	st := e.stream
	defer st.dropConn()
	defer st.sse.free()
	for {
		data, err := st.event()
		if err != nil {
			return asBroken(err)
		}
		if name := string(st.name); name == "" || name == "message" {
			e.session.take(data)
		}
	}
}

// try implements channel: a POST has an answer, which must be waited for.
func (e *events) try([]byte) bool { return false }

// post implements channel. Some servers answer the POST of a request only when
// they have answered the request itself, however long that takes.
func (e *events) post(ctx context.Context, creds Credentials, text []byte, x *Exchange) (taken bool, err error) {
	p, err := e.session.startPost(ctx, creds, text)
	if err != nil {
		return false, err
	}
	if x == nil {
		err := judge(p.WaitLong(ctx))
		e.endIf(err)
		return err == nil, err
	}
	e.session.server.background(func() {
		stop := context.AfterFunc(e.ended, p.Abort)
		defer stop()
		if err := judge(p.waitFor(x)); err != nil {
			x.mar(err)   // before it is told what all other calls are, which may have run
			e.endIf(err) // before whoever sends the message again looks for a session
			x.Wake()
		}
	})
	return false, nil
}

// judge says what the answer to a POST means for the session.
func judge(err error) error {
	var status *StatusError
	if errors.As(err, &status) && (status.Status == 404 || status.Status == 410) {
		return fmt.Errorf("%w: posting to it was answered with HTTP %d", ErrSessionGone, status.Status)
	}
	return err
}

// endIf ends a session that is gone. Its stream stands perhaps, but nothing can
// be said any more.
func (e *events) endIf(err error) {
	if errors.Is(err, ErrSessionGone) {
		e.session.forget()
		e.stream.interrupt()
	}
}

// close implements channel.
func (e *events) close(context.Context) { e.stream.interrupt() }
