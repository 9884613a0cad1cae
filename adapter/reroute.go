package adapter

import (
	"errors"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// When a request goes another way than the one that was begun.

// leaveLocal reports whether the request goes another way after what a legacy
// round has said.
func (r *routeRound) leaveLocal(local Round, ev Event, err error) bool {
	unfit := err == nil && ev.Outcome != nil && ev.Outcome.unfit || err != nil && refusedLegacy(err)
	away := err != nil && (unreached(err) || absent(err) && (idle(err) || r.repeats(local)))
	if r.told || !unfit && !away || r.req.RequestState != nil && !r.fresh {
		return false
	}
	r.mu.Lock()
	up := r.up
	r.mu.Unlock()
	switch {
	case away && r.group.only != nil:
		up.failed(r.engine.settings.DownTTL)
		return false
	case away:
		up.failed(r.engine.settings.DownTTL)
		r.past = append(r.past, up)
		r.ran = r.ran || !idle(err)
	case !r.suspect(up, legacy.EraLegacy, ev, err):
		return false
	}
	if r.req.Method == mcp.MethodListen {
		local.Close() // of one caller's listeners both might be too many
	}
	if r.owner == nil && r.count() != nil { // before the other leaves: Shutdown must not miss it
		if r.req.Method == mcp.MethodListen { // it is closed
			r.mu.Lock()
			r.local = nil
			r.mu.Unlock()
		}
		return false
	}
	r.mu.Lock()
	r.local = nil
	gone := r.gone
	r.mu.Unlock()
	if r.req.Method != mcp.MethodListen {
		local.Close()
	}
	if !gone {
		r.set()
	}
	return true
}

// repeats reports whether the request may run twice.
func (r *routeRound) repeats(local Round) bool {
	l, ok := local.(*callRound)
	if !ok {
		return r.engine.runsAgain(r.req.Method)
	}
	l.call.mu.Lock()
	defer l.call.mu.Unlock()
	return l.call.repeats
}

// maxRefits bounds how often a round has an era found out again: a server that
// says now this and now that is not to be asked for ever.
const maxRefits = 2

// suspect has an endpoint's era found out again because of an answer that does
// not fit. It reports false where that was done already.
func (r *routeRound) suspect(up *upstream, was legacy.Era, ev Event, err error) bool {
	if r.refits++; up.fixed || r.unfit != nil || r.refits > maxRefits {
		return false
	}
	up.forget()
	r.unfit, r.first, r.saved, r.oops, r.was = up, up, ev, err, was
	return true
}

// lost decides what follows from a server that was sent nothing, or has refused.
// nil: it goes on elsewhere.
func (r *routeRound) lost(err error) error {
	if r.ctx.Err() != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.gone {
			return ErrGone
		}
		return stopping()
	}
	if r.rerun(err) {
		r.set()
		return nil
	}
	return asRefusal(err, true)
}

// rerun lets a request run anew on another endpoint, whose own has gone with its
// request state, where that is harmless.
func (r *routeRound) rerun(err error) bool {
	harmless := r.engine.runsAgain(r.req.Method)
	var refusal *Refusal
	if r.state == nil || r.fresh || r.told || r.aboutTask() || !harmless || !errors.Is(err, legacy.ErrUnreachable) && !(errors.As(err, &refusal) && refusal.Reason == ReasonCallLost) {
		return false
	}
	if up := r.group.named(r.state.Endpoint); up != nil && errors.Is(err, legacy.ErrUnreachable) {
		r.past = append(r.past, up)
	}
	r.fresh = true
	r.engine.metrics.replayed()
	return true
}

// runsAgain reports whether a request of a method may run twice.
func (e *Engine) runsAgain(method string) bool {
	return mcp.MethodTraits(method).Harmless && e.settings.Replay != ReplayNever || e.settings.Replay == ReplayAlways
}

// mayRunAgain is replayable for a call whose session is gone: a tool's
// annotations were looked at when it parked.
func (c *call) mayRunAgain() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.safe || c.engine.runsAgain(c.method)
}
