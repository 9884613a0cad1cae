package child

import (
	"sync"
	"syscall"
	"time"
)

// group is the process group that a process leads. Its number outlives the
// leader as long as somebody is in it; after that the system may give it to
// others, who must not be signalled. So a group that was once found empty is over,
// and what it is signalled by is, where the kernel has that, no number.
type group struct {
	kill func(syscall.Signal) error // to all that are in it

	mu   sync.Mutex
	over bool
}

// signal signals the whole group, with 0 to look only. It reports whether
// somebody is in it.
func (g *group) signal(sig syscall.Signal) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = g.over || g.kill(sig) != nil
	return !g.over
}

// end ends what a leader that has ended has left behind in its group, at once
// when hurry is closed.
func (g *group) end(grace time.Duration, hurry <-chan struct{}) {
	if !g.signal(syscall.SIGTERM) || g.empties(grace, hurry) {
		return
	}
	g.signal(syscall.SIGKILL)
	// Where nobody reaps what has lost its parent, it stays in the group: there is
	// a bound.
	g.empties(reaping, nil)
}

// reaping is how long what was killed may be there.
const reaping = time.Second

// empties waits until nobody is left in the group. Nothing tells of the end of
// another's children, so that it looks again and again.
func (g *group) empties(patience time.Duration, hurry <-chan struct{}) bool {
	end := time.NewTimer(patience)
	defer end.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for g.signal(0) {
		select {
		case <-tick.C:
		case <-end.C:
			return false
		case <-hurry:
			return false
		}
	}
	return true
}

// byNumber signals a group by its number. Systems that give numbers in turn do not
// come back to one between two looks at its group; what stops this process for
// longer leaves a chance that they do.
func byNumber(number int) func(syscall.Signal) error {
	return func(sig syscall.Signal) error { return syscall.Kill(-number, sig) }
}
