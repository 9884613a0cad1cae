package bus

// memory remembers streams that ended recently, so that a late copy of an open
// does not run a handler again, and a peer that missed why a stream ended is
// told so again. It is bounded by time and number.
type memory struct {
	codes map[streamKey]code
	order []endedStream // oldest first
}

type endedStream struct {
	key streamKey
	at  int64
}

const maxEnded = 1 << 16

func (m *memory) add(k streamKey, c code, now int64) {
	if m.codes == nil {
		m.codes = map[streamKey]code{}
	}
	if len(m.order) >= maxEnded {
		delete(m.codes, m.order[0].key)
		m.order = m.order[1:]
	}
	m.codes[k] = c
	m.order = append(m.order, endedStream{k, now})
}

func (m *memory) code(k streamKey) (code, bool) {
	c, ok := m.codes[k]
	return c, ok
}

// expire forgets what ended before t.
func (m *memory) expire(t int64) {
	n := 0
	for n < len(m.order) && m.order[n].at < t {
		delete(m.codes, m.order[n].key)
		n++
	}
	m.order = m.order[n:]
	if len(m.order) == 0 {
		m.codes, m.order = nil, nil // maps do not shrink
	}
}

// register makes s known to dispatch; false if the bus is closing.
func (b *Bus) register(s *Stream) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing {
		return false
	}
	b.streams[s.key] = s
	b.asked[s.key.token] = s
	return true
}

// forget is the reverse. A stream that this replica opened and that ended in
// the ordinary way needs no memory: nobody will ask after it.
func (b *Bus) forget(s *Stream, c code) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.streams, s.key)
	if s.key.opened {
		delete(b.asked, s.key.token)
	}
	switch {
	case s.key.opened && c == codeFinished:
		return
	case c == 0:
		c = codeLost
	}
	b.ended.add(s.key, c, b.now())
}
