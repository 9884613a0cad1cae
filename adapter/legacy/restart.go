package legacy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// restarts counts the processes of a server that have ended by themselves, and
// says when the next may be started.
type restarts struct {
	settings *Command

	mu      sync.Mutex
	running int
	ends    int // one after the other, each soon after its start
	last    time.Time
	story   string // of the last
}

// keepsEnding is how many ends in a row mean trouble.
const keepsEnding = 3

// pause is how long after the last end the next process is started. One end may
// be an accident. mu is held.
func (r *restarts) pause() time.Duration {
	if r.ends < 2 {
		return 0
	}
	return min(r.settings.RestartMin<<min(r.ends-2, 16), r.settings.RestartMax)
}

// await waits until a process may be started. It returns at once, with the last
// one's story, where ctx ends before that.
func (r *restarts) await(ctx context.Context) error {
	r.mu.Lock()
	left := time.Until(r.last.Add(r.pause()))
	ends, story := r.ends, r.story
	r.mu.Unlock()
	if left <= 0 {
		return nil
	}
	if until, ok := ctx.Deadline(); !ok || time.Until(until) > left {
		if !wait.Pause(ctx, left) {
			return ctx.Err()
		}
		return nil
	}
	return fmt.Errorf("%w: %d processes in a row have ended, and the next is started in %v; of the last: %s",
		ErrUnreachable, ends, left.Round(time.Millisecond), story)
}

func (r *restarts) started() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running++
}

// ended counts the end of a process that has lived for some time. One that was
// ended on purpose says nothing.
func (r *restarts) ended(onPurpose bool, lived time.Duration, story string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	if onPurpose {
		return
	}
	if lived >= r.settings.RestartMax {
		r.ends = 0
	}
	r.ends++
	r.last, r.story = time.Now(), story
}

// served: a process has answered a call, so that the command is good.
func (r *restarts) served() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = 0
}

// reachable reports whether the command can be started, and does not keep ending.
func (r *restarts) reachable() error {
	r.mu.Lock()
	running, ends, story := r.running, r.ends, r.story
	r.mu.Unlock()
	if ends >= keepsEnding {
		return fmt.Errorf("%w: %d processes in a row have ended; of the last: %s", ErrUnreachable, ends, story)
	}
	if running > 0 {
		return nil
	}
	if _, err := r.settings.child().Find(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return nil
}
