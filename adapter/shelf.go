package adapter

import (
	"container/heap"
	"container/list"
)

// shelf is where the kept outcomes of one caller are, or the backlogs of one. Who has
// the most loses the oldest first when there are too many: one caller's results do not
// push out those that others were promised.
type shelf struct {
	caller principal
	items  list.List // oldest first
	bytes  int64
	at     int // in shelves
}

func newShelf(who principal) *shelf { return &shelf{caller: who} }

// shelves is a heap: who has the most is the first.
type shelves []*shelf

func (s shelves) Len() int           { return len(s) }
func (s shelves) Less(i, j int) bool { return s[i].bytes > s[j].bytes }
func (s *shelves) Push(x any) {
	added := x.(*shelf)
	added.at = len(*s)
	*s = append(*s, added)
}

// Swap implements heap.Interface.
func (s shelves) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].at, s[j].at = i, j
}

// Pop implements heap.Interface.
func (s *shelves) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return x
}

// shelve puts a kept call on its caller's shelf. mu is held.
func (r *registry) shelve(c *call) {
	who := caller(&c.key)
	s := r.shelfOf[who]
	if s == nil {
		s = newShelf(who)
		r.shelfOf[who] = s
		heap.Push(&r.shelves, s)
	}
	c.shelf, c.shelvedAt = s, s.items.PushBack(c)
	s.bytes += c.keptBytes
	heap.Fix(&r.shelves, s.at)
}

// unshelve undoes shelve. mu is held.
func (r *registry) unshelve(c *call) {
	s := c.shelf
	s.items.Remove(c.shelvedAt)
	c.shelf, c.shelvedAt = nil, nil
	if s.bytes -= c.keptBytes; s.items.Len() > 0 {
		heap.Fix(&r.shelves, s.at)
		return
	}
	heap.Remove(&r.shelves, s.at)
	delete(r.shelfOf, s.caller)
}
