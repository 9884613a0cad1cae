package stdio

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/proxy/downstream"
)

// maxKept bounds the memory that is kept from one message to the next.
const maxKept = 64 << 10

// output writes whole messages, one at a time.
type output struct {
	w       io.WriteCloser
	timeout time.Duration

	mu    sync.Mutex // held while a message is written
	buf   []byte
	timer *time.Timer // closes w when a write lasts too long
	err   error       // of the first write that failed: there is none after it
}

func newOutput(w io.WriteCloser, timeout time.Duration) *output {
	o := &output{w: w, timeout: timeout}
	o.timer = time.AfterFunc(time.Hour, func() { _ = w.Close() }) // the write that waits says what is wrong
	o.timer.Stop()
	return o
}

// send writes the message that appendTo appends, unless that appends none. It
// returns an error when the client does not take it: then nothing can be sent
// any more.
func (o *output) send(appendTo func(dst []byte) []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	message := appendTo(o.buf[:0])
	if cap(message) <= maxKept {
		o.buf = message
	}
	if len(message) == 0 {
		return nil
	}
	downstream.OneLine(message)
	message = append(message, '\n')
	o.timer.Reset(o.timeout)
	_, err := o.w.Write(message)
	if !o.timer.Stop() {
		err = fmt.Errorf("not taken within %v", o.timeout)
	}
	if err != nil {
		o.err = fmt.Errorf("write to the client: %w", err)
	}
	return o.err
}

// close ends a write that waits, and all that come.
func (o *output) close() {
	_ = o.w.Close()
}
