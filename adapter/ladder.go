package adapter

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// Served is how a round was served, for metrics.
type Served uint8

const (
	ServedLocal     Served = iota // the call is this replica's
	ServedForwarded               // another replica's
	ServedTakenOver               // it was another's, and goes on here
	ServedReplayed                // it was lost, and was run again
	ServedRefused                 // its request state was of no use
	servedKinds
)

// String is the word that metrics use.
func (s Served) String() string {
	return [...]string{"local", "forwarded", "taken_over", "replayed", "refused"}[s]
}

// The failover ladder of a round whose call is another replica's: ask the
// owner, as long as it may live; then the replica that is to go on with the
// call, which all replicas agree on, so that two that the same retry reached
// do not both take it over. That one takes over or replays (takeover.go), or
// says that the call is lost.

// climb is where a round stands on the ladder.
type climb struct {
	engine *Engine
	owner  string
	call   [16]byte
	began  time.Time
	asked  string    // the replica that is being asked, or was last
	again  time.Time // not before
	missed time.Time // when the owner was last found not to answer; zero: never
	away   bool      // the owner itself has let go of the call
	lost   bool      // this replica has lost it, and a copy of its outcome is looked for
	holder string    // who is said to have it, until that one is asked; or ""
}

// patienceTimes is how long, in multiples of the bus's patience, a round looks
// for somebody who has its call.
const patienceTimes = 6

func (c *climb) begin(e *Engine, t *state.Token) {
	c.engine, c.owner, c.call, c.began = e, t.Owner, t.Call, time.Now()
}

// ownerLease says how long ago a replica was heard of, how long its lease still
// lasts, and whether it is over.
func (e *Engine) ownerLease(owner string) (ago, wait time.Duration, gone bool) {
	ago, left := e.settings.Bus.Heard(owner)
	// Longer than the lease, by what messages may be apart.
	if lease := e.settings.Bus.Patience() * 4 / 3; !left && ago <= lease {
		return ago, lease - ago, false
	}
	return ago, 0, true
}

// taker is the replica that goes on with a call whose owner is gone: the one
// with the highest hash (rendezvous hashing). Replicas that know the same
// peers name the same one.
func (e *Engine) taker(call [16]byte) string {
	candidates := e.settings.Bus.Staying()
	if !e.leaving.Load() || len(candidates) == 0 {
		candidates = append(candidates, e.settings.Replica)
	}
	return highest(call, candidates)
}

// highest is the replica with the highest hash for a call, or "".
func highest(call [16]byte, candidates []string) string {
	best, most := "", uint64(0)
	for _, id := range candidates {
		h := fnv.New64a()
		_, _ = h.Write(call[:])
		_, _ = h.Write([]byte(id))
		if sum := h.Sum64(); best == "" || sum > most || sum == most && id > best {
			best, most = id, sum
		}
	}
	return best
}

// failed notes how asking has ended.
func (c *climb) failed(err error) {
	pause := time.Duration(0)
	var to away
	if c.asked == c.owner {
		c.missed = time.Now()
	}
	switch {
	case errors.As(err, &to):
		switch {
		case to.to != "" && to.to != c.asked:
			c.holder = to.to
		case c.asked == c.owner:
			c.away = true
		default:
			pause = climbPause // it does not think yet that the owner is gone
		}
	case errors.Is(err, errWire):
		pause = time.Second
	case errors.Is(err, ErrNobody):
	default:
		pause = climbPause
	}
	c.again = time.Now().Add(pause)
}

// climbPause is how long a round waits before it asks again.
const climbPause = 50 * time.Millisecond

// climbOn takes the next step. nil means that somebody is being asked, or that the
// call goes on here; ErrDeadline, that until has passed.
func (r *forwardRound) climbOn(until time.Time) error {
	c, e := &r.climb, r.engine
	for {
		if err := r.pause(c.again, until); err != nil {
			return err
		}
		if !e.settings.Bus.Confirmed() && time.Since(c.began) > e.settings.Bus.Patience() {
			return busDown() // an outage, not a moment
		}
		if time.Since(c.began) > patienceTimes*e.settings.Bus.Patience() {
			return &Refusal{Reason: ReasonBusDown, MayHaveRun: true, RetryAfter: time.Second,
				Detail: "the replica that holds the call was not reached in time; send the request again"}
		}
		if e.calls.get(c.call) != nil && !e.confirmed() {
			c.again = time.Now().Add(climbPause) // it is this replica's, unless another has gone on with it
			continue
		}
		target, takeOver := c.owner, false
		ago, wait, gone := e.ownerLease(c.owner)
		switch {
		case e.calls.get(c.call) != nil:
			target = e.settings.Replica
		case c.holder != "":
			target, c.holder = c.holder, ""
		case c.lost:
			holder, err := e.holderOf(r.ctx, c.call)
			if err != nil {
				return err
			}
			target = holder
		case c.away || gone:
			target, takeOver = e.taker(c.call), true
		case !c.missed.IsZero() && ago >= time.Since(c.missed):
			// It did not answer, and was not heard of since. Nobody takes over before
			// its lease is over.
			c.again = time.Now().Add(min(max(wait, climbPause), 4*climbPause))
			continue
		}
		if target == e.settings.Replica {
			return r.goOnHere()
		}
		c.asked = target
		switch err := r.ask(target, appendRound(r.req, takeOver)); {
		case err == nil:
			return nil
		case errors.Is(err, ErrGone), r.ctx.Err() != nil:
			return r.over()
		default:
			c.failed(err)
		}
	}
}

// goOnHere goes on with the call in the owner's place.
func (r *forwardRound) goOnHere() error {
	local := r.engine.newRound(r.req)
	local.climbs = true
	err := r.engine.succeed(r.ctx, r.up, r.req, r.caps, &r.token, local)
	if errors.Is(err, errAway) { // another replica has it
		r.climb.asked = r.engine.settings.Replica
		if r.climb.failed(err); r.climb.holder == "" {
			r.climb.again = time.Now().Add(climbPause)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if !r.goOn(local) {
		local.Gone()
	}
	return nil
}

// succeed lets a round join a call of this replica, or makes the call its own.
// errAway says that this is not, or not yet, this replica's to do.
func (e *Engine) succeed(ctx context.Context, up *upstream, req *Request, caps *mcp.Capabilities, t *state.Token, r *callRound) error {
	if c := e.calls.get(t.Call); c != nil {
		return c.join(t.Round, req, r)
	}
	if !e.confirmed() { // for a moment, or the round sees that it is an outage
		return errAway
	}
	if e.draining.Load() && e.peered() {
		return errAway
	}
	holder, denied, complete := e.seek(ctx, t.Call, t.Owner)
	switch {
	case holder != "":
		return away{holder}
	case !complete || ctx.Err() != nil:
		return errAway // silence is no answer: the round asks again
	}
	if t.Owner == e.settings.Replica { // whoever had the call after this one is gone
		denied = e.calls.gaveUp(t.Call)
	}
	if _, _, gone := e.ownerLease(t.Owner); !gone && !denied {
		return errAway
	}
	if rec, _ := e.calls.claim(t.Call); rec != nil { // it was left here meanwhile
		return e.reclaim(up, req, caps, t, rec, r)
	}
	c, err := e.inherit(up, req, caps, t, nil)
	if err != nil {
		return err
	}
	return c.join(t.Round, req, r)
}

func busDown() error {
	return &Refusal{Reason: ReasonBusDown, Detail: "this replica does not reach the others, one of which may hold the call; send the request again", MayHaveRun: true, RetryAfter: time.Second}
}

// seek asks all live replicas for a call: one that was taken over is not where
// its older request states say. It returns the one that has it, or "", and
// whether the owner itself said that it has it no more, and whether all have
// answered.
func (e *Engine) seek(ctx context.Context, call [16]byte, owner string) (holder string, denied, complete bool) {
	live := e.settings.Bus.Live()
	if len(live) == 0 {
		return "", false, true
	}
	complete = true
	ctx, cancel := context.WithTimeout(ctx, e.settings.Bus.Patience()/2)
	defer cancel()
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, replica := range live {
		asking.Add(1)
		go func() {
			defer asking.Done()
			held, answered := e.ask(ctx, replica, [][16]byte{call})
			has := len(held) > 0
			mu.Lock()
			defer mu.Unlock()
			if has {
				holder = replica
			}
			denied = denied || replica == owner && answered && !has
			complete = complete && answered
		}()
	}
	asking.Wait()
	return holder, denied, complete
}

// holderOf returns the replica that has a copy of the outcome of a call, which this
// one, its owner, has lost.
func (e *Engine) holderOf(ctx context.Context, call [16]byte) (string, error) {
	holder, _, complete := e.seek(ctx, call, e.settings.Replica)
	switch {
	case holder != "":
		return holder, nil
	case complete:
		return "", notHeld()
	}
	return "", busDown()
}

// ask asks one replica which of some calls it has.
func (e *Engine) ask(ctx context.Context, replica string, calls [][16]byte) (held [][16]byte, answered bool) {
	f := newFields(formSeek, 18*len(calls))
	for _, id := range calls {
		f.bytes('c', id[:])
	}
	return e.askFound(ctx, replica, KindSeek, f)
}
