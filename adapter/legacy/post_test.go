package legacy

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A posting that is over has given its connection back: giving the posting up
// then must not hurt whoever uses that now.
func TestAbortOfAPostingThatIsOver(t *testing.T) {
	p := newPool(t, nil)
	s := p.acquire("a", false)
	defer s.Return(false)
	posting, err := s.StartPost(t.Context(), nil, letterText(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := posting.Wait(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	c := p.endpoint.idleConn()
	if c != posting.conn {
		t.Fatal("the connection was not given back")
	}
	posting.Abort()
	if _, err := c.send([]byte("GET /mcp HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), time.Second); err != nil {
		t.Errorf("the connection was closed under its new user: %v", err)
	}
	if _, err := readBody(c); err != nil {
		t.Errorf("the connection was closed under its new user: %v", err)
	}
	c.close()
	c.free()
}

func TestPostIsGivenUp(t *testing.T) {
	p := newPool(t, nil)
	s := p.acquire("a", false)
	defer s.Return(false)
	arrived, _ := hold(p.raw, "notifications/1", func(x *rawserver.Exchange) bool {
		x.Drop()
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Post(ctx, nil, letterText(1)) }()
	<-arrived
	cancel()
	if err := <-ended; !errors.Is(err, ErrBroken) {
		t.Errorf("got %v, want ErrBroken: the server may have it", err)
	}
}

func TestPostIsAnswered(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		check  func(error) bool
	}{
		"accepted":     {202, func(err error) bool { return err == nil }},
		"ok":           {200, func(err error) bool { return err == nil }},
		"no content":   {204, func(err error) bool { return err == nil }},
		"gone":         {404, func(err error) bool { return errors.Is(err, ErrSessionGone) }},
		"unauthorized": {401, func(err error) bool { var e *StatusError; return errors.As(err, &e) && e.Unauthorized() }},
		"failed":       {500, func(err error) bool { var e *StatusError; return errors.As(err, &e) && e.Status == 500 }},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, nil)
			s := p.acquire("a", false)
			defer s.Return(false)
			p.raw.Once(rawserver.ForMethod("notifications/1"), func(x *rawserver.Exchange) { x.Reply(tt.status, "") })
			if err := s.Post(t.Context(), nil, letterText(1)); !tt.check(err) {
				t.Errorf("HTTP %d: %v", tt.status, err)
			}
			if gone := tt.status == http.StatusNotFound; s.gone != gone {
				t.Errorf("HTTP %d: the session is gone: %v", tt.status, s.gone)
			}
		})
	}
}
