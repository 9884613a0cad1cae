package adapter

// queue holds the notifications that a client has not been told yet.
type queue struct {
	waiting [][]byte
	bytes   int
}

// put appends a notification. It reports false, and forgets all, where the
// client lags behind by more than the settings allow. One notification alone is
// never too large: its size was bounded when it was read.
func (q *queue) put(n []byte, s *Settings) bool {
	if len(q.waiting) >= s.Buffer || len(q.waiting) > 0 && q.bytes+len(n) > s.BufferBytes {
		*q = queue{}
		return false
	}
	q.waiting = append(q.waiting, n)
	q.bytes += len(n)
	return true
}

// take returns the oldest notification, or nil.
func (q *queue) take() []byte {
	if len(q.waiting) == 0 {
		return nil
	}
	n := q.waiting[0]
	q.waiting[0], q.waiting = nil, q.waiting[1:]
	q.bytes -= len(n)
	return n
}
