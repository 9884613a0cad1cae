package proxy

import (
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/proxy/downstream"
)

const (
	// watchTick is how often connections are looked at; a client that is gone
	// must be noticed within a second.
	watchTick = 250 * time.Millisecond
	// watchAfter is how long a request waits before its connection is looked
	// at, so that quick calls pay nothing.
	watchAfter = 50 * time.Millisecond
)

// watcher notices clients that close their connection while a request of
// theirs waits or streams. Nobody reads from such a connection, so the
// watcher asks the kernel, which tells without reading.
type watcher struct {
	quit chan struct{}
	done chan struct{}

	mu      sync.Mutex
	waiting map[int]*watch // by file descriptor
	closed  bool
	poll    poller
}

// watch is one registration.
type watch struct {
	fd    int
	round downstream.Round
	told  chan struct{} // closed when Gone has returned
}

func newWatcher() *watcher {
	w := &watcher{quit: make(chan struct{}), done: make(chan struct{}), waiting: map[int]*watch{}}
	go w.run(watchTick)
	return w
}

func (w *watcher) run(tick time.Duration) {
	defer close(w.done)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-ticker.C:
			w.look()
		}
	}
}

// look polls all connections at once. The lock is held over the poll, so that
// no descriptor is touched after stop, and released before any Gone.
func (w *watcher) look() {
	var gone []*watch
	w.mu.Lock()
	w.poll.start()
	for fd := range w.waiting {
		w.poll.add(fd)
	}
	w.poll.hungUp(func(fd int) {
		gone = append(gone, w.waiting[fd])
		delete(w.waiting, fd)
	})
	w.mu.Unlock()
	tell(gone)
}

func tell(gone []*watch) {
	for _, x := range gone {
		x.round.Gone()
		close(x.told)
	}
}

// add watches a connection until stop. It returns nil where there is nothing
// to watch. After close it calls Gone at once.
func (w *watcher) add(fd int, round downstream.Round) *watch {
	if fd < 0 {
		return nil
	}
	x := &watch{fd: fd, round: round, told: make(chan struct{})}
	w.mu.Lock()
	closed := w.closed
	if !closed {
		w.waiting[fd] = x
	}
	w.mu.Unlock()
	if closed {
		tell([]*watch{x})
	}
	return x
}

// stop ends a watch. After it returns, neither the descriptor is touched nor
// Gone called.
func (w *watcher) stop(x *watch) {
	if x == nil {
		return
	}
	w.mu.Lock()
	waiting := w.waiting[x.fd] == x
	if waiting {
		delete(w.waiting, x.fd)
	}
	w.mu.Unlock()
	if !waiting {
		<-x.told
	}
}

// close says Gone to all that wait, and to all that come; then the goroutine
// has ended.
func (w *watcher) close() {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		<-w.done
		return
	}
	w.closed = true
	gone := make([]*watch, 0, len(w.waiting))
	for _, x := range w.waiting {
		gone = append(gone, x)
	}
	clear(w.waiting)
	w.mu.Unlock()
	tell(gone)
	close(w.quit)
	<-w.done
}

// hungUp looks at one connection now, on its own goroutine.
func hungUp(fd int) bool {
	if fd < 0 {
		return false
	}
	var p poller
	p.start()
	p.add(fd)
	gone := false
	p.hungUp(func(int) { gone = true })
	return gone
}
