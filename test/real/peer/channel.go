package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
)

// channel is what the transports have in common that have one stream for all of
// a session: one reader, which hands everything to the request in flight.
type channel struct {
	post  func(ctx context.Context, text []byte) error
	ended chan struct{} // closed when the stream has ended
	err   error         // how it ended; set before ended is closed

	mu      sync.Mutex // guards what follows; held while a message is handed on
	current *flight
	push    func(context.Context, message) error // nil before listen, and after leave
	early   []message                            // what came before listen
	left    bool
	broken  error // the first failure of push
}

// flight is the request in flight.
type flight struct {
	id   int64
	each func(message) (bool, error)
	done chan error // has room for one
}

func newChannel(post func(context.Context, []byte) error) *channel {
	return &channel{post: post, ended: make(chan struct{})}
}

// take hands a message on. ctx is the reader's.
func (c *channel) take(ctx context.Context, m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.current
	switch {
	case m.isResponse() && (f == nil || string(m.ID) != strconv.FormatInt(f.id, 10)):
		return // to a request that was given up
	case f != nil:
		if more, err := f.each(m); !more || err != nil {
			c.current = nil
			f.done <- err
		}
	case c.push != nil:
		c.broken = errors.Join(c.broken, c.push(ctx, m))
	case !c.left && len(c.early) < maxUpdates:
		c.early = append(c.early, m)
	}
}

// end says that nothing more comes.
func (c *channel) end(err error) {
	c.err = err
	close(c.ended)
}

func (c *channel) request(ctx context.Context, id int64, body any, each func(message) (bool, error)) error {
	f := &flight{id: id, each: each, done: make(chan error, 1)}
	c.mu.Lock()
	c.current = f
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.current == f {
			c.current = nil
		}
	}()
	if err := c.tell(ctx, body); err != nil {
		return err
	}
	select {
	case err := <-f.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.ended:
	}
	select {
	case err := <-f.done: // came just before the end
		return err
	default:
		return fmt.Errorf("%w: %w", ErrEnded, c.err)
	}
}

func (c *channel) tell(ctx context.Context, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return c.post(ctx, text)
}

func (c *channel) listen(ctx context.Context, push func(context.Context, message) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.push = push
	for _, m := range c.early {
		c.broken = errors.Join(c.broken, push(ctx, m))
	}
	c.early = nil
	return nil
}

// leave ends push, and says what broke what came beside requests.
func (c *channel) leave() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.push, c.left = nil, true
	return c.broken
}
