package adapter

import (
	"container/heap"
	"sync"
)

// stock is what all backlogs of a replica hold together. There is no more of it
// than the settings allow: of who has the most, the oldest give way, and where they
// were the client is told how many, as in a backlog by itself. Of a caller the
// backlog comes first that has had something waiting for longest.
//
// Backlogs in the stock are guarded by its mu, because another call may have one give
// way. It is the innermost of all locks.
type stock struct {
	most int64

	mu      sync.Mutex
	bytes   int64
	shelfOf map[principal]*shelf // of the backlogs with notifications
	shelves shelves
}

func (s *stock) init(most int64) {
	s.most, s.shelfOf = most, make(map[principal]*shelf)
}

// held is how many bytes wait in all.
func (s *stock) held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// admit counts a backlog from now on, which nobody else knows, or which has left.
func (s *stock) admit(b *backlog, who principal) {
	if b.stock == nil {
		b.stock, b.who = s, who
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.counted = true
	s.count(b, b.bytes)
}

// count notes that a backlog, as it is now, has grown by so many bytes. mu is held.
func (s *stock) count(b *backlog, bytes int) {
	if b.notes == 0 && b.shelved == nil {
		return
	}
	s.bytes += int64(bytes)
	shelf := s.shelfOf[b.who]
	if shelf == nil {
		shelf = newShelf(b.who)
		s.shelfOf[b.who] = shelf
		heap.Push(&s.shelves, shelf)
	}
	shelf.bytes += int64(bytes)
	switch {
	case b.notes > 0 && b.shelved == nil:
		b.shelved = shelf.items.PushBack(b)
	case b.notes == 0 && b.shelved != nil:
		shelf.items.Remove(b.shelved)
		b.shelved = nil
	}
	if shelf.items.Len() > 0 {
		heap.Fix(&s.shelves, shelf.at)
		return
	}
	heap.Remove(&s.shelves, shelf.at)
	delete(s.shelfOf, b.who)
}

// trim lets notifications give way until there is room for those of one backlog,
// which it spares where that is the only one that a client who is here waits for.
// mu is held.
func (s *stock) trim(b *backlog, here bool) {
	for s.bytes > s.most {
		at := s.shelves[0].items.Front()
		if here && b.notes == 1 && at.Value == b {
			if at = at.Next(); at == nil {
				return
			}
		}
		at.Value.(*backlog).giveWay()
	}
}

// stockUp counts what a call that came from another replica is yet to tell. mu is
// held, or nobody else knows the call.
func (r *registry) stockUp(c *call) {
	if c.lasting == nil || c.lasting.following == nil {
		return
	}
	b := &c.lasting.following.backlog
	r.stock.admit(b, caller(&c.key))
	b.fit(&r.settings)
}
