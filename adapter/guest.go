package adapter

import "time"

// A first round that was sent on to the replica that keeps its session
// (home.go) has no request state with which its client could come back, should
// the replica stop that the client is connected to. Only the replica that owns
// the call can give it one. It serves the round as a guest, by a ticket under
// which it may be told to let go of it.

// ticket names such a round; zero: none.
type ticket [16]byte

// guests are the rounds that are served here for other replicas, by their
// tickets. Guarded by Engine.mu.
type guests map[ticket]*callRound

// host notes a guest until the function that it returns is called.
func (e *Engine) host(t ticket, r servedRound) (leave func()) {
	guest, ok := r.(*callRound)
	if !ok || t == (ticket{}) {
		return func() {}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.guests[t] = guest
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.guests[t] == guest {
			delete(e.guests, t)
		}
	}
}

// dismissGuest lets go of a guest, where its method is one that may be: its
// client is told to come back with a request state.
func (e *Engine) dismissGuest(rest []byte) error {
	var t ticket
	if !readFields(rest, func(f item) {
		if f.tag == 'T' && len(f.value) == len(t) {
			t = ticket(f.value)
		}
	}) {
		return errWire
	}
	e.mu.Lock()
	r := e.guests[t]
	e.mu.Unlock()
	if r == nil {
		return nil // it has ended
	}
	c := r.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.hold.IsZero() || r.hold.After(time.Now()) {
		r.hold = time.Now()
	}
	if c.inline == r && c.x != nil {
		c.x.Wake()
	}
	r.rouse()
	return nil
}

// askToLetGo tells the replica that has the call to let go of the round. It may
// be lost: it is said again until the round has ended.
func (r *homeRound) askToLetGo() {
	now := time.Now()
	if !r.engine.letting.Load() || now.Before(r.letAgain) {
		return
	}
	r.letAgain = now.Add(letPoll)
	f := newFields(formDismiss, 2+len(r.req.ticket))
	f.bytes('T', r.req.ticket[:])
	r.engine.settings.Bus.Tell(r.asked, KindNote, r.engine.ring.SealMessage(nil, f, contextRound))
}
