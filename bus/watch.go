package bus

import "sync"

// watch is somebody who wants to know when the set of live peers changes.
type watch struct {
	changed chan struct{} // room for one: changes in between are one
	quit    chan struct{}
	once    sync.Once
	done    chan struct{} // closed when the goroutine has ended
}

// Watch has f called after the set of live peers changed, in one goroutine;
// changes while it runs are one. stop returns when f runs no more, and must
// not be called from f.
func (b *Bus) Watch(f func()) (stop func()) {
	w := &watch{changed: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	if !b.begin() {
		return func() {}
	}
	p := b.peers
	p.mu.Lock()
	p.watches[w] = struct{}{}
	p.mu.Unlock()
	go func() {
		defer b.running.Done()
		defer close(w.done)
		for {
			select {
			case <-w.quit:
				return
			case <-b.base.Done():
				return
			case <-w.changed:
				f()
			}
		}
	}()
	return func() {
		w.once.Do(func() { close(w.quit) })
		p.mu.Lock()
		delete(p.watches, w)
		p.mu.Unlock()
		<-w.done
	}
}

// changed tells all watches.
func (p *peers) changed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.watches {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}
