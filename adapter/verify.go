package adapter

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// A lease that had run out is confirmed again: the replica was cut off, or
// frozen, and another may have gone on with its calls meanwhile. Before it does
// anything for them it asks the others, all calls at once, and gives up those
// that they have.

// confirmed reports whether the engine may act for calls that another replica
// could take over.
func (e *Engine) confirmed() bool {
	b := e.settings.Bus
	if b == nil {
		return true
	}
	if !b.Confirmed() {
		return false
	}
	if b.Lapses() == e.verified.Load() {
		return true
	}
	select {
	case e.doubt <- struct{}{}:
	default:
	}
	return false
}

// sure waits until the engine may act for calls that another replica could take
// over, for a while.
func (e *Engine) sure(ctx context.Context) error {
	if e.confirmed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patienceTimes*e.settings.Bus.Patience())
	defer cancel()
	look := time.NewTicker(leasePoll)
	defer look.Stop()
	for !e.confirmed() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return busDown()
		}
	}
	return nil
}

// guard verifies the engine's calls whenever its lease had run out, and with
// each replica that is met, until ctx ends.
func (e *Engine) guard() {
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-e.others.met:
			e.meet()
			continue
		case <-e.doubt:
		}
		b := e.settings.Bus
		lapses := b.Lapses()
		if lapses == e.verified.Load() || !b.Confirmed() {
			continue
		}
		if !e.awaitPeers() {
			return
		}
		if e.verify(b.Live()...) && b.Lapses() == lapses {
			e.verified.Store(lapses)
			e.log.Info().Msg("lease regained: the calls that are left are this replica's")
		}
	}
}

// acquaintance is which of the others a replica has met since it last heard of
// them anew.
type acquaintance struct {
	mu  sync.Mutex
	ids []string
	met chan struct{} // has room for one: others may live that are not among them
}

// look forgets who is not live, and has guard meet the others. It does not
// block.
func (a *acquaintance) look(live []string) {
	a.mu.Lock()
	a.ids = slices.DeleteFunc(a.ids, func(id string) bool { return !slices.Contains(live, id) })
	a.mu.Unlock()
	select {
	case a.met <- struct{}{}:
	default:
	}
}

// meet verifies the calls with the replicas that are heard anew. Each side of a
// split may have a lease and go on with calls of the other: a replica that was
// started alone, and several that confirm each other. Once they hear each other
// again, whoever had a call later keeps it.
func (e *Engine) meet() {
	if e.settings.Bus == nil || !e.confirmed() {
		return // before it is, all are asked
	}
	a := &e.others
	a.mu.Lock()
	strangers := slices.DeleteFunc(slices.Clone(e.settings.Bus.Live()), func(id string) bool { return slices.Contains(a.ids, id) })
	a.ids = append(a.ids, strangers...)
	a.mu.Unlock()
	if len(strangers) > 0 && !e.verify(strangers...) {
		a.mu.Lock()
		a.ids = slices.DeleteFunc(a.ids, func(id string) bool { return slices.Contains(strangers, id) })
		a.mu.Unlock()
	}
}

// awaitPeers waits until the others have been heard of again: whoever is back on
// the bus knows of nobody at first, and then of some, whose word is enough for the
// lease although another one may have the calls. Who was there before is waited for,
// not for ever: its host may have vanished. It reports false when ctx ends.
func (e *Engine) awaitPeers() bool {
	if len(e.calls.owned()) == 0 {
		return true
	}
	b := e.settings.Bus
	for began := time.Now(); ; {
		if !wait.Pause(e.ctx, b.Patience()/4) { // they speak more often
			return false
		}
		if !b.Missing() || time.Since(began) >= b.Patience() {
			return true
		}
	}
}

// verify gives up the calls that other replicas have. It reports false when not
// every one has answered.
func (e *Engine) verify(replicas ...string) bool {
	all := e.calls.owned()
	if len(all) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(e.ctx, e.settings.Bus.Patience())
	defer cancel()
	var mu sync.Mutex
	complete := true
	var asking sync.WaitGroup
	for _, replica := range replicas {
		asking.Add(1)
		go func() {
			defer asking.Done()
			for rest := all; len(rest) > 0; {
				n := min(len(rest), seekBatch)
				f := newFields(formSeek, 30*n)
				for i := range rest[:n] {
					f.bytes('c', rest[i].id[:])
					f.number('s', rest[i].since)
				}
				held, answered := e.askFound(ctx, replica, KindSeek, f)
				rest = rest[n:]
				for _, id := range held {
					e.yield(id)
				}
				if !answered {
					mu.Lock()
					complete = false
					mu.Unlock()
					return
				}
			}
		}()
	}
	asking.Wait()
	return complete
}

// seekBatch is how many calls are asked for at once.
const seekBatch = 4096

// yield gives up a call that another replica has.
func (e *Engine) yield(id [16]byte) {
	if c := e.calls.get(id); c != nil {
		e.log.Info().Str("upstream", c.up.Name).Hex("call", id[:]).Msg("call given up: another replica went on with it")
		c.mu.Lock()
		c.surrender()
		c.mu.Unlock()
		return
	}
	if rec, _ := e.calls.take(id); rec != nil {
		rec.session.Return(false)
		e.calls.left(id)
	}
}

// surrender ends what this replica has to do with a call, without a word to the
// server. mu is held.
func (c *call) surrender() {
	c.engine.calls.yield(c, c.phase == parked, c.lasting != nil && c.phase != done)
	c.phase = done // no other way leads to an end that the server does not hear of
	if c.stop != nil {
		c.stop()
	}
	if x := c.x; x != nil {
		c.x = nil
		if c.driver == byNobody {
			x.Finish()
		} else {
			x.Release()
		}
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.unwatchTask()
	c.unexpect()
	c.result, c.err = nil, errAway // whoever has the call says how it ended
	c.elsewhere = true
	c.restart, c.forgotten, c.estate = false, true, nil
	c.closeBacklog()
	c.inputs, c.withdrawn, c.transcript, c.names, c.early, c.creds, c.stat = nil, nil, nil, nil, responses{}, nil, nil
	c.wake()
}

// yield takes a call off the books that goes on elsewhere.
func (r *registry) yield(c *call, parked, lasting bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if parked {
		r.unparkLocked(c)
	}
	if lasting {
		r.relentLocked(c)
	}
	r.drop(c)
	delete(r.live, c)
	r.markAway(c.id)
	r.check()
}

// maxAway bounds how many calls are remembered to be elsewhere, twice. Beyond
// it, a retry that comes here again is told that its call is lost.
const maxAway = 1 << 17

// markAway must be called with mu held.
func (r *registry) markAway(id [16]byte) {
	if len(r.away) >= maxAway {
		r.away, r.awayBefore = make(map[[16]byte]struct{}), r.away
	}
	r.away[id] = struct{}{}
}

// isAway must be called with mu held.
func (r *registry) isAway(id [16]byte) bool {
	_, away := r.away[id]
	if !away {
		_, away = r.awayBefore[id]
	}
	return away
}

// owned is a call, and since when it has been this replica's, in Unix
// nanoseconds. Of several replicas that all have doubts, whoever had a call
// later keeps it: who takes over does so a lease after the owner's last word,
// which is longer than clocks may differ.
type owned struct {
	id    [16]byte
	since uint64
}

// owned are the calls that a request state can name.
func (r *registry) owned() []owned {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]owned, 0, len(r.named)+len(r.released))
	for id, c := range r.named {
		all = append(all, owned{id, c.since})
	}
	for id, rec := range r.released {
		all = append(all, owned{id, rec.since})
	}
	return all
}

// had returns since when a call is this replica's, or zero.
func (r *registry) had(id [16]byte) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.named[id]; c != nil {
		return c.since
	}
	if rec := r.released[id]; rec != nil {
		return rec.since
	}
	return 0
}

func sinceNow() uint64 { return uint64(time.Now().UnixNano()) }

// leasePoll is how often a round looks whether its replica has its lease again.
const leasePoll = 100 * time.Millisecond
