package adapter

import (
	"bytes"
	"context"
	"io"
	"slices"
	"sync"
	"time"
)

// lan is the bus of several engines in one process. Its clock stands still
// until a test moves it, so that a lease ends when the test says so: who is
// plugged in is heard all the time, and who is not, never again until then.
type lan struct {
	mu       sync.Mutex
	clock    time.Duration
	patience time.Duration
	changed  chan struct{} // closed, and made anew, whenever something happens
	ports    []*port
	talks    map[*talk]struct{}
	asked    map[Kind]int
	serving  sync.WaitGroup
}

// lanPatience is the bus's owner_timeout: by the lan's clock for leases and
// silence, by the engines' own for how long a round looks for its call.
const lanPatience = time.Second

// lanWindow is how many messages may be under way on one stream.
const lanWindow = 4

func newLan() *lan {
	return &lan{patience: lanPatience, changed: make(chan struct{}), talks: make(map[*talk]struct{}), asked: make(map[Kind]int)}
}

// port is one replica's place on the lan, and its Bus.
type port struct {
	lan    *lan
	id     string
	engine *Engine

	// Guarded by lan.mu.
	cut       bool          // not plugged in
	left      bool          // it has said goodbye
	since     time.Duration // when it was cut off
	listening time.Duration // since when it hears the others
	muted     bool          // what it says reaches nobody
	revoked   bool          // it holds no lease, although it is plugged in
	alone     bool          // its lease needs nobody's word: it was started without the others
	lapses    uint64        // how often the lease had run out before it was confirmed again
}

// join adds a replica. Its engine is set before anybody asks it.
func (l *lan) join(id string) *port {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &port{lan: l, id: id, listening: l.clock}
	l.ports = append(l.ports, p)
	return p
}

// change changes something, and lets everybody look again.
func (l *lan) change(do func()) {
	l.mu.Lock()
	do()
	for t := range l.talks {
		t.look()
	}
	close(l.changed)
	l.changed = make(chan struct{})
	engines := make([]*Engine, 0, len(l.ports))
	for _, p := range l.ports {
		if p.engine != nil {
			engines = append(engines, p.engine)
		}
	}
	l.mu.Unlock()
	for _, e := range engines {
		e.PeersChanged()
	}
}

// advance moves the clock.
func (l *lan) advance(d time.Duration) { l.change(func() { l.clock += d }) }

// unplug cuts a replica off.
func (p *port) unplug() {
	p.lan.change(func() {
		if !p.cut {
			p.cut, p.since = true, p.lan.clock
		}
	})
}

func (p *port) plug() {
	p.lan.change(func() {
		if p.cut && !p.alone && p.lan.clock-p.since >= p.lan.patience {
			p.lapses++
		}
		p.cut, p.listening = false, p.lan.clock
	})
}

// goodbye is what a replica says that stops.
func (p *port) goodbye() { p.lan.change(func() { p.left = true }) }

// revoke takes the lease away from a replica that is plugged in, as if nobody
// had confirmed it for some time; or gives it back.
func (p *port) revoke(yes bool) {
	p.lan.change(func() {
		if p.revoked && !yes {
			p.lapses++
		}
		p.revoked = yes
	})
}

func (l *lan) port(id string) *port {
	for _, p := range l.ports {
		if p.id == id {
			return p
		}
	}
	return nil
}

// last is when a replica was last heard of. lan.mu is held.
func (p *port) last() time.Duration {
	if p.cut || p.left {
		return p.since
	}
	return p.lan.clock
}

// heard is when this replica last heard of another. lan.mu is held.
func (p *port) heard(q *port) time.Duration {
	if p.cut {
		return min(q.last(), p.since)
	}
	return max(q.last(), p.listening)
}

// Live implements Bus.
func (p *port) Live() []string { return p.others(func(*port) bool { return true }) }

// Staying implements Bus.
func (p *port) Staying() []string {
	return p.others(func(q *port) bool { return q.engine != nil && !q.engine.leaving.Load() })
}

// Serving implements Bus.
func (p *port) Serving() []string {
	return p.others(func(q *port) bool { return q.engine != nil && !q.engine.deserted.Load() })
}

// Announce implements Bus: the others know all the time.
func (p *port) Announce() {}

func (p *port) others(like func(*port) bool) []string {
	l := p.lan
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for _, q := range l.ports {
		if q != p && !q.left && l.clock-p.heard(q) <= l.patience && like(q) {
			ids = append(ids, q.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Heard implements Bus.
func (p *port) Heard(replica string) (time.Duration, bool) {
	l := p.lan
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.port(replica)
	switch {
	case q == p:
		return 0, false
	case q == nil:
		return l.clock - p.listening, false
	}
	return l.clock - p.heard(q), q.left
}

// Confirmed implements Bus.
func (p *port) Confirmed() bool {
	p.lan.mu.Lock()
	defer p.lan.mu.Unlock()
	return !p.revoked && (p.alone || !p.cut || p.lan.clock-p.since < p.lan.patience)
}

// Missing implements Bus.
func (p *port) Missing() bool {
	l := p.lan
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.ports, func(q *port) bool { return q != p && !q.left && l.clock-p.heard(q) > l.patience })
}

// Lapses implements Bus.
func (p *port) Lapses() uint64 {
	p.lan.mu.Lock()
	defer p.lan.mu.Unlock()
	return p.lapses
}

// Status implements Bus.
func (p *port) Status() (bool, string) {
	p.lan.mu.Lock()
	defer p.lan.mu.Unlock()
	if p.cut {
		return false, "unplugged"
	}
	return true, ""
}

// Patience implements Bus.
func (p *port) Patience() time.Duration {
	p.lan.mu.Lock()
	defer p.lan.mu.Unlock()
	return p.lan.patience
}

// Tell implements Bus.
func (p *port) Tell(replica string, kind Kind, message []byte) {
	l := p.lan
	l.mu.Lock()
	q := l.port(replica)
	reached := q != nil && q.engine != nil && !q.left && !q.cut && !p.cut
	l.mu.Unlock()
	if reached {
		q.engine.Hear(p.id, kind, bytes.Clone(message))
	}
}

// Ask implements Bus.
func (p *port) Ask(_ context.Context, replica string, kind Kind, first []byte) (Stream, error) {
	l := p.lan
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &talk{lan: l, from: p, to: l.port(replica), kind: kind, first: bytes.Clone(first), cutAt: l.clock}
	t.asker.talk, t.server.talk = t, t
	l.talks[t] = struct{}{}
	l.asked[kind]++
	t.look()
	return &t.asker, nil
}

// questions is how many streams of a kind were opened so far.
func (l *lan) questions(kind Kind) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked[kind]
}

// talk is one stream. Its fields are guarded by lan.mu.
type talk struct {
	lan      *lan
	from, to *port
	kind     Kind
	first    []byte
	opened   bool
	cutAt    time.Duration // when the two were last in touch
	cancel   context.CancelCauseFunc
	asker    end
	server   end
}

// end is one replica's side of a talk.
type end struct {
	*talk
	inbox [][]byte
	full  bool  // the last message of the other side is in the inbox, or was
	err   error // why it is over, or nil
	said  error // what the other side is told of it
}

func (e *end) other() *end {
	if e == &e.asker {
		return &e.server
	}
	return &e.asker
}

// look does what became possible or due. lan.mu is held.
func (t *talk) look() {
	l := t.lan
	if t.asker.err != nil && (!t.opened || t.server.err != nil) {
		delete(l.talks, t)
		return
	}
	there := t.to != nil && !t.to.left && t.to.engine != nil
	switch {
	case there && !t.from.cut && !t.to.cut:
		t.cutAt = l.clock
		switch {
		case !t.opened:
			t.open()
		case t.asker.err != nil && !t.asker.full: // it let go while they were not in touch
			t.server.over(t.asker.said)
		case t.server.err != nil:
			t.asker.over(t.server.said)
		}
	case t.opened && t.to.left, l.clock-t.cutAt > l.patience:
		t.lose()
	case !t.opened && t.to != nil && t.to.left:
		t.asker.err = ErrNobody
	}
}

// lose ends a talk whose sides do not hear each other any more.
func (t *talk) lose() {
	switch {
	case t.opened && t.to.muted: // nothing has shown that it has the stream
		t.asker.over(ErrNobody)
		t.server.over(ErrLost)
	case t.opened:
		t.asker.over(ErrLost)
		t.server.over(ErrLost)
	case t.from.cut:
		t.asker.over(ErrBusDown)
	default:
		t.asker.over(ErrNobody)
	}
}

func (e *end) over(err error) {
	if e.err != nil {
		return
	}
	e.err, e.said = err, err
	if e == &e.server && e.cancel != nil {
		e.cancel(err)
	}
}

func (t *talk) open() {
	t.opened = true
	ctx, cancel := context.WithCancelCause(context.Background())
	t.cancel = cancel
	t.lan.serving.Go(func() {
		t.to.engine.ServeStream(ctx, t.from.id, t.kind, &t.server, t.first)
		t.server.Close()
		cancel(nil)
	})
}

// Send implements Stream.
func (e *end) Send(ctx context.Context, message []byte) error { return e.send(ctx, message, false) }

// End implements Stream.
func (e *end) End(ctx context.Context, message []byte) error { return e.send(ctx, message, true) }

func (e *end) send(ctx context.Context, message []byte, last bool) error {
	l := e.lan
	for {
		l.mu.Lock()
		to, changed := e.other(), l.changed
		connected := !e.from.cut && !e.to.cut && (e == &e.asker || !e.to.muted)
		switch {
		case e.err != nil:
			err := e.err
			l.mu.Unlock()
			return err
		case connected && len(to.inbox) < lanWindow:
			to.inbox = append(to.inbox, bytes.Clone(message))
			to.full = last
			l.mu.Unlock()
			l.poke()
			return nil
		}
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *lan) poke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}

// Recv implements Stream.
func (e *end) Recv(until time.Time) ([]byte, error) {
	l := e.lan
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for {
		l.mu.Lock()
		changed := l.changed
		switch {
		case len(e.inbox) > 0:
			message := e.inbox[0]
			e.inbox = e.inbox[1:]
			l.mu.Unlock()
			l.poke()
			return message, nil
		case e.full:
			l.mu.Unlock()
			return nil, io.EOF
		case e.err != nil:
			err := e.err
			l.mu.Unlock()
			return nil, err
		}
		l.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			return nil, ErrDeadline
		}
	}
}

// Close implements Stream.
func (e *end) Close() { e.quit(ErrClosed) }

// Abandon implements Stream.
func (e *end) Abandon() { e.quit(ErrLost) }

// Taken implements Stream.
func (e *end) Taken() bool {
	e.lan.mu.Lock()
	defer e.lan.mu.Unlock()
	return e.opened
}

func (e *end) quit(said error) {
	l := e.lan
	l.mu.Lock()
	defer func() {
		l.mu.Unlock()
		l.poke()
	}()
	if e.err != nil {
		return
	}
	e.err, e.said = ErrClosed, said
	switch other := e.other(); {
	case e == &e.asker && !e.opened:
	case e == &e.asker && e.full: // the handler has said its last word
		other.err = ErrClosed
	case !e.from.cut && !e.to.cut:
		other.over(said)
	}
	e.look()
}
