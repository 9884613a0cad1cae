package child

import (
	"context"
	"syscall"
	"time"
)

// signal signals the whole group. The process is its leader, and not reaped, or
// others are left in it: the id is no other group's.
func (p *Process) signal(sig syscall.Signal) {
	_ = syscall.Kill(-p.PID(), sig) // an error says that nobody is left
}

// left reports whether the group has a process.
func (p *Process) left() bool { return syscall.Kill(-p.PID(), 0) == nil }

// endGroup ends what the process has left behind in its group.
func (p *Process) endGroup(ctx context.Context) {
	if !p.left() {
		return
	}
	p.signal(syscall.SIGTERM)
	if p.awaitGroup(ctx, p.command.Grace) {
		return
	}
	p.signal(syscall.SIGKILL)
	// Where nobody reaps what has lost its parent, it stays in the group: there is
	// a bound.
	p.awaitGroup(context.WithoutCancel(ctx), reaping)
}

// reaping is how long what was killed may be there.
const reaping = time.Second

// awaitGroup waits until nobody is left in the group. Nothing tells of the end of
// another's children, so that it looks again and again.
func (p *Process) awaitGroup(ctx context.Context, patience time.Duration) bool {
	end := time.NewTimer(patience)
	defer end.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for p.left() {
		select {
		case <-tick.C:
		case <-end.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}
