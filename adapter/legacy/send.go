package legacy

import (
	"fmt"
	"syscall"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/socket"
)

// send writes a whole request, within timeout or at least half of it. An error
// means that the server may have it all, unless nothing was written.
func (c *conn) send(request []byte, timeout time.Duration) (written bool, err error) {
	// Set anew only when half of it is gone: each time costs a timer.
	if c.writeUntil.Sub(c.lentAt) < timeout/2 {
		c.writeUntil = c.lentAt.Add(timeout)
		if err := c.nc.SetWriteDeadline(c.writeUntil); err != nil {
			return false, err
		}
	}
	n, err := c.nc.Write(request)
	return n > 0, err
}

// sendByRead has the next read send a request, which comes from texts, and
// wait for its answer at once: trying first, as a read does, would cost a system
// call that finds nothing. That read fails with ErrUnsent where not one byte
// went out.
func (c *conn) sendByRead(request *[]byte, timeout time.Duration) {
	c.unsent, c.begun, c.unsentErr, c.patience = request, false, nil, timeout
}

// trySend is a read's first attempt where there is a request to send. The
// runtime has armed the wait by then, so that no answer can be missed. What had
// come before is seen together with the answer.
//
// Hot: once per request.
func (c *conn) trySend(fd uintptr) (done bool) {
	request := *c.unsent
	n, err := socket.Write(fd, request)
	if n == len(request) {
		c.dropUnsent()
		return false
	}
	if n > 0 {
		c.begun = true
		*c.unsent = append(request[:0], request[n:]...)
	}
	c.unsentErr = err
	return true
}

// sendRest sends what trySend has not, or all of it where there is no trySend.
func (c *conn) sendRest() error {
	err := c.unsentErr
	if err == nil || err == syscall.EAGAIN {
		var written bool
		written, err = c.send(*c.unsent, c.patience)
		c.begun = c.begun || written
	}
	c.dropUnsent()
	switch {
	case err == nil:
		return nil
	case c.begun:
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return fmt.Errorf("%w: %w", ErrUnsent, err)
}

func (c *conn) dropUnsent() {
	if c.unsent != nil {
		freeSpace(c.unsent)
		c.unsent = nil
	}
}
