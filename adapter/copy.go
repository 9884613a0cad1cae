package adapter

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// The outcome of a lasting call was promised for as long as its handle is good.
// So another replica keeps a copy: a call that is done and has nothing but its
// outcome. It is as good as the original, since neither changes any more, and
// counts as any kept outcome. Where one of the two replicas dies or stops, the
// other one makes a new copy.

// copyOutcome gives a copy of a finished call to another replica, in the
// background. mu is held.
func (c *call) copyOutcome() {
	e := c.engine
	if e.settings.Bus == nil || c.lasting == nil || c.elsewhere || c.lasting.following != nil && c.lasting.following.round != nil || len(e.settings.Bus.Live()) == 0 {
		return
	}
	message := c.appendCopy()
	e.wg.Add(1)
	go func() {
		defer e.wg.Done()
		e.giveCopy(e.ctx, c, message, nil)
	}()
}

// appendCopy writes what another replica is to keep. mu is held.
func (c *call) appendCopy() []byte {
	f := newFields(formCopy, 0)
	f.bytes('c', c.id[:])
	f.text('u', PeersName(c.up.Name, c.up.id))
	f.number('s', c.since)
	f.bytes('o', appendEvent(&Event{Standing: c.look("")}))
	if c.lasting.following != nil {
		for _, p := range c.lasting.following.backlog.all() {
			if p.note != nil {
				f.bytes('n', p.note)
			}
			f.number('l', uint64(p.lost))
		}
	}
	return f
}

// giveCopy gives a copy to the replica that is to go on with the call's rounds
// when this one cannot, or to the next one that takes it, and notes which did.
func (e *Engine) giveCopy(ctx context.Context, c *call, message []byte, among []string) {
	for times := 0; times < maxCopyTimes && ctx.Err() == nil; times++ {
		heirs := among
		if heirs == nil {
			heirs = e.settings.Bus.Staying()
		}
		heirs = slices.DeleteFunc(slices.Clone(heirs), func(r string) bool { return r == e.settings.Replica })
		for len(heirs) > 0 {
			heir := highest(c.id, heirs)
			asking, cancel := context.WithTimeout(ctx, e.settings.Bus.Patience())
			_, kept, err := e.askForm(asking, heir, KindKeep, message)
			cancel()
			if len(kept) > 0 {
				c.mu.Lock()
				c.heir = heir
				c.mu.Unlock()
				if !slices.Contains(e.settings.Bus.Live(), heir) { // it has died since
					e.recopy.Store(true)
				}
				return
			}
			if errors.Is(err, ErrTooLarge) {
				return
			}
			heirs = slices.DeleteFunc(heirs, func(r string) bool { return r == heir })
		}
		if !wait.Pause(ctx, e.settings.Bus.Patience()/4) {
			return
		}
	}
}

// copyAnew has the outcomes copied again whose other copy was at a replica that is
// gone, and those that found nobody. It is called once a second, by one goroutine,
// with the replicas that lived when it was last, and returns those that do.
func (e *Engine) copyAnew(before []string) []string {
	if e.settings.Bus == nil {
		return nil
	}
	live := slices.Sorted(slices.Values(e.settings.Bus.Live()))
	if slices.Equal(live, before) && !e.recopy.Load() || e.draining.Load() || !e.copying.TryLock() {
		return before
	}
	e.recopy.Store(false)
	e.housekeeping.Add(1)
	go func() {
		defer e.housekeeping.Done()
		defer e.copying.Unlock()
		e.copyTo(e.ctx, live, nil)
	}()
	return live
}

// copyTo copies the kept outcomes of lasting calls, of which none of some replicas has
// a copy, to one of among.
func (e *Engine) copyTo(ctx context.Context, except, among []string) {
	for _, c := range e.calls.finished() {
		c.mu.Lock()
		var message []byte
		if l := c.lasting; l != nil && !c.forgotten && !c.elsewhere && time.Now().Before(l.until) && !slices.Contains(except, c.heir) &&
			(among != nil || l.following == nil || l.following.round == nil) {
			message = c.appendCopy()
		}
		c.mu.Unlock()
		if message != nil {
			e.giveCopy(ctx, c, message, among)
		}
	}
}

// maxCopyTimes is how often the others are asked to keep a copy.
const maxCopyTimes = 4

// serveCopy keeps a copy that another replica gives.
func (e *Engine) serveCopy(ctx context.Context, from string, s Stream, rest []byte) {
	kept := newFields(formFound, 0)
	c := e.readCopy(rest)
	if c != nil {
		c.heir = from
	}
	if c != nil && !e.draining.Load() && e.calls.keepCopy(c) {
		kept.bytes('c', c.id[:])
	}
	_ = s.End(ctx, e.seal(kept))
}

// readCopy makes a call of what appendCopy wrote, or nil.
func (e *Engine) readCopy(b []byte) *call {
	c := &call{engine: e, method: mcp.MethodToolsCall, phase: done, handed: true}
	var outcome []byte
	var untold []pending
	ok := readFields(b, func(f item) {
		switch f.tag {
		case 'c':
			if len(f.value) == len(c.id) {
				c.id = [16]byte(f.value)
			}
		case 'u':
			c.up = e.upstreams()[string(f.value)]
		case 's':
			c.since = f.number()
		case 'o':
			outcome = f.value
		case 'n':
			untold = append(untold, pending{note: bytes.Clone(f.value)})
		case 'l':
			untold = append(untold, pending{lost: int(min(f.number(), 1<<30))})
		}
	})
	ev, err := readEvent(outcome)
	if !ok || err != nil || ev.Standing == nil || ev.Standing.Standing == nil || c.up == nil || c.id == [16]byte{} {
		return nil
	}
	o := ev.Standing.clone()
	t, err := e.ring.Open(o.Standing.Handle, e.settings.MaxState)
	if err != nil || t.Call != c.id || t.Born == 0 || !o.Standing.Status.Ended() {
		return nil
	}
	c.key = legacy.Key{Principal: t.Principal}
	c.openHandle(o.Standing.Handle, &t)
	c.lasting.changed, c.lasting.cancelled = o.Standing.Changed, o.Standing.Status == mcp.TaskCancelled
	c.until, c.lasting.ttl, c.lasting.original = c.lasting.until, o.Standing.TTL, nil
	if f := c.lasting.following; f != nil {
		c.until = f.awayAt
		f.backlog.giveBack(untold, &e.settings, false)
	}
	switch {
	case o.Standing.Failure != nil || o.Standing.Status == mcp.TaskCancelled:
		c.err = o.Standing.Failure
	default:
		c.result = &Outcome{Method: c.method, Result: bytes.Clone(o.Result), Error: bytes.Clone(o.Error), ServerInfo: o.ServerInfo, Cache: c.up.Cache}
	}
	c.lasting.mark = c.mark()
	return c
}

// keepCopy keeps a copy, unless the call is here already. It reports false where
// there is no room.
func (r *registry) keepCopy(c *call) bool {
	size := c.size()
	r.mu.Lock()
	if r.named[c.id] != nil || r.released[c.id] != nil || size > r.settings.MaxOutcomeBytes {
		had := r.named[c.id] != nil
		r.mu.Unlock()
		return had
	}
	r.named[c.id] = c
	delete(r.away, c.id)
	r.stockUp(c)
	r.mu.Unlock()
	r.keep(c, size)
	if !r.keeps(c) { // others have less
		c.mu.Lock()
		c.forget()
		c.mu.Unlock()
		return false
	}
	return true
}

// size is about what a done call takes.
func (c *call) size() int64 {
	size := int64(callOverhead)
	if c.result != nil {
		size += int64(len(c.result.Result) + len(c.result.Error))
	}
	if l := c.lasting; l != nil {
		size += int64(len(l.handle))
		if l.following != nil {
			size += int64(l.following.backlog.size() + len(l.following.short))
		}
	}
	return size
}

// bequeathCopies gives the kept outcomes of lasting calls to replicas that stay.
func (e *Engine) bequeathCopies(ctx context.Context) {
	if staying := e.settings.Bus.Staying(); len(staying) > 0 {
		e.copyTo(ctx, staying, staying)
	}
}

// finished are the calls whose outcomes are kept.
func (r *registry) finished() []*call {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*call, 0, r.kept.Len())
	for e := r.kept.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*call))
	}
	return all
}
