package adapter

import (
	"context"
	"errors"
	"slices"
	"time"
)

// What the client of a followed call is known to have been told, and what is told
// again.

// followBy lets a round follow the call from now on, in the place of the one that
// did. mu is held.
func (c *call) followBy(r *callRound) {
	f := c.lasting.following
	c.handIn(f.before)
	if f.round != nil && len(f.round.unsure) > 0 {
		f.before, f.handAt = f.round, time.Now().Add(handTime)
	}
	if f.round != nil {
		f.round.rouse()
	}
	f.round, f.awayAt = r, time.Time{}
	r.follows = true
	if f.before == nil {
		c.tellAgain()
	}
	if c.unattended() { // it came from another replica just now
		c.goOnAlone(r.req)
	}
	c.arm()
}

// handTime is how long the newest round waits for the one before to say what it
// has told: it is about to, or hangs.
const handTime = 250 * time.Millisecond

// unfollow is the end of a round that follows. mu is held.
func (c *call) unfollow(r *callRound) {
	if r == nil || c.lasting == nil || c.lasting.following == nil {
		return
	}
	f := c.lasting.following
	if f.before == r {
		c.handIn(r)
	}
	if f.round != r {
		return
	}
	f.round = nil
	if f.secret() && c.phase != done { // the client has nothing to come back with
		c.engine.metrics.cancelled()
		c.terminate(&Refusal{Reason: ReasonCallLost, Detail: "the call was cancelled: its client closed its connection", MayHaveRun: true}, "the client closed its connection")
		return
	}
	c.handIn(f.before)
	c.giveBack(r)
	c.tellAgain()
	c.waitForClient()
	switch told := (r.outcome != nil || r.err != nil) && !r.hungUp; {
	case told: // it is kept for a client that asks twice
		c.engine.calls.prolong(c, time.Now().Add(c.engine.settings.OutcomeTTL))
	case c.phase == done:
		c.copyOutcome()
	}
	r.rouse()
}

// handIn is the end of waiting for what the round before has told. mu is held.
func (c *call) handIn(before *callRound) {
	if before == nil {
		return
	}
	f := c.lasting.following
	f.before = nil
	c.giveBack(before)
	c.tellAgain()
	if f.round != nil {
		f.round.rouse()
	}
}

// giveBack has told again what a round is not known to have told. mu is held.
func (c *call) giveBack(r *callRound) {
	f := c.lasting.following
	over := func(p pending) bool {
		return p.key != "" && !slices.Contains(f.asked, p.key) || f.held && p.isHandle()
	}
	f.backlog.giveBack(slices.DeleteFunc(r.unsure, over), &c.engine.settings, f.round != nil)
	r.unsure = nil
	c.dropUntold()
}

// tellAgain has open questions told again to whoever follows next. mu is held.
func (c *call) tellAgain() {
	f := c.lasting.following
	waiting := f.backlog.all()
	var again []pending
	for _, key := range f.asked {
		if !slices.ContainsFunc(waiting, func(p pending) bool { return p.key == key }) {
			again = append(again, pending{key: key})
		}
	}
	f.backlog.first(again...)
}

// dropUntold forgets what nobody comes back for: of a call that was cancelled, and of
// one whose outcome is not kept. mu is held.
func (c *call) dropUntold() {
	if l := c.lasting; c.phase == done && l != nil && l.following != nil && l.following.round == nil && (l.cancelled || !c.engine.calls.keeps(c)) {
		c.closeBacklog()
	}
}

// closeBacklog forgets what the client was yet to be told. mu is held.
func (c *call) closeBacklog() {
	if c.lasting != nil && c.lasting.following != nil {
		c.lasting.following.backlog.close()
	}
}

// hear notes what the replica of the round's client says that this was told, until
// the stream ends.
func (r *callRound) hear(ctx context.Context, s Stream) {
	e := r.call.engine
	var plain []byte
	for last := false; ; {
		message, err := s.Recv(time.Now().Add(time.Hour))
		if errors.Is(err, ErrDeadline) {
			continue
		}
		if err != nil {
			r.letDown(ctx)
			return
		}
		if plain, err = e.ring.OpenMessage(plain[:0], message, contextRound); err != nil {
			continue // it will be told again
		}
		if form, rest, err := readForm(plain); err == nil && form == formTold {
			readFields(rest, func(f item) {
				switch f.tag {
				case 'n':
					r.confirm(f.number())
				case 'e':
					last = true
				}
			})
		}
		if last {
			return
		}
	}
}

// toldAll notes that the client was told what the round was given, or nobody would
// ask for more. mu is held.
func (r *callRound) toldAll() {
	r.unsure = nil
	if c := r.call; c.lasting != nil && c.lasting.following != nil && c.lasting.following.before == r {
		c.handIn(r)
	}
}

// confirm notes how many events the client is known to have been told in all.
func (r *callRound) confirm(told uint64) {
	c := r.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if told <= r.sure {
		return
	}
	n := min(int(told-r.sure), len(r.unsure))
	r.sure, r.unsure = told, slices.Delete(r.unsure, 0, n)
	r.rouse()
}

// stir has the round look that follows. mu is held.
func (f *following) stir(c *call) {
	f.askAnew(c)
	if f.round != nil {
		f.round.rouse()
	}
}

// askAnew puts questions that are new into the backlog, so that they are told in
// their turn, and takes out those that are over. mu is held.
func (f *following) askAnew(c *call) {
	over := func(key string) bool {
		return c.phase == done || !slices.ContainsFunc(c.inputs, func(in *input) bool { return in.Key == key })
	}
	before := len(f.asked)
	if f.asked = slices.DeleteFunc(f.asked, over); len(f.asked) < before {
		f.backlog.withdraw(func(p pending) bool { return p.key != "" && over(p.key) })
	}
	if c.phase == done {
		return
	}
	for _, in := range c.inputs {
		if !slices.Contains(f.asked, in.Key) {
			f.asked = append(f.asked, in.Key)
			f.backlog.ask(in.Key)
		}
	}
}
