package bus

import "fmt"

// Tell sends one message to a replica that nobody answers, and that may be
// lost. Messages of one replica to another arrive in order. It must fit a
// chunk, else the error is ErrTooLarge.
func (b *Bus) Tell(replica string, kind byte, msg []byte) error {
	switch {
	case !replicaForm.MatchString(replica):
		return fmt.Errorf("tell %q: %w", replica, ErrNoReplica)
	case len(msg) > b.chunk():
		return ErrTooLarge
	}
	f := frame{typ: typeTell, kind: kind, from: b.id}
	buf := buffers.get()
	defer buffers.put(buf)
	*buf = append(f.appendHeader(*buf), msg...)
	if err := b.publish(b.subject(replica)+".s", "", *buf); err != nil {
		return fmt.Errorf("tell %s: %w", replica, err)
	}
	return nil
}

// HandleTell sets what takes the messages of a kind that peers tell. f must not
// block: it runs in the goroutine that takes everything for this replica. msg
// is f's to keep.
func (b *Bus) HandleTell(kind byte, f func(from string, msg []byte)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tellers[kind] = f
}

func (b *Bus) told(f *frame) {
	b.mu.Lock()
	tell := b.tellers[f.kind]
	b.mu.Unlock()
	if tell != nil {
		tell(string(f.from), f.payload)
	}
}
