package adapter

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// ServeStream serves what another replica asks on a stream, until the answer is
// complete or ctx ends. first is what the stream began with, valid until it
// returns. ctx's cause is ErrClosed where the other side let go, because its
// client closed the connection, and something else where it fell silent.
func (e *Engine) ServeStream(ctx context.Context, from string, kind Kind, s Stream, first []byte) {
	plain, err := e.ring.OpenMessage(nil, first, contextRound)
	if err != nil {
		if errors.Is(err, state.ErrUnknownKey) {
			e.unknownKey()
		}
		e.noisy.Warn().Err(err).Str("peer", from).Msg("message of another replica cannot be opened")
		_ = s.End(ctx, nil)
		return
	}
	form, rest, err := readForm(plain)
	switch {
	case err == nil && kind == KindRound && (form == formRound || form == formRound2 || form == formFirst || form == formFirst2 || form == formOnce):
		e.serveRound(ctx, from, s, form, rest)
	case err == nil && kind == KindSeek && form == formSeek:
		e.serveSeek(ctx, s, rest)
	case err == nil && kind == KindKeep && form == formKeep:
		e.serveKeep(ctx, s, rest)
	case err == nil && kind == KindKeep && form == formCopy:
		e.serveCopy(ctx, from, s, rest)
	case err == nil && kind == KindSession && form == formSession:
		e.serveSession(ctx, from, s, plain)
	case err == nil && kind == KindNote && form == formSession: // too large to be told
		e.Hear(from, kind, first)
		_ = s.End(ctx, nil)
	default:
		e.noisy.Warn().Str("peer", from).Msg("message of another replica is not understood: it is of another version")
		_ = s.End(ctx, nil)
	}
}

func (e *Engine) seal(message []byte) []byte {
	return e.ring.SealMessage(nil, message, contextEvent)
}

// serveSeek says which of some calls are here.
func (e *Engine) serveSeek(ctx context.Context, s Stream, rest []byte) {
	found := newFields(formFound, 0)
	var id [16]byte
	var since uint64 // when id became this replica's; zero: it is not
	var contested [][16]byte
	tell := func() {
		if since != 0 {
			found.bytes('c', id[:])
		}
		since = 0
	}
	readFields(rest, func(f item) {
		switch {
		case f.tag == 'c' && len(f.value) == len(id):
			tell()
			id = [16]byte(f.value)
			since = e.calls.had(id)
		case f.tag == 's' && f.number() >= since: // the other had it later
			since = 0
		case f.tag == 's':
			contested = append(contested, id)
		}
	})
	tell()
	_ = s.End(ctx, e.seal(found))
	if len(contested) > 0 && wait.Pause(e.ctx, 2*leasePoll) { // until the other has given them up
		e.renewStreams(contested)
	}
}

// renewStreams has the streams of calls opened anew that another replica took for
// its own: it may have opened them last.
func (e *Engine) renewStreams(ids [][16]byte) {
	for _, id := range ids {
		c := e.calls.get(id)
		if c == nil {
			continue
		}
		c.mu.Lock()
		if c.x != nil && c.driver == byGoroutine && (c.phase == running || c.phase == parked) {
			c.x.Renew()
		}
		c.mu.Unlock()
	}
}

// serveRound drives a round whose client is at another replica.
func (e *Engine) serveRound(ctx context.Context, from string, s Stream, form byte, rest []byte) {
	first := form != formRound && form != formRound2
	req, takeOver, err := readRound(rest, first, e.settings.ParamHeaders)
	if err != nil {
		e.noisy.Warn().Err(err).Str("peer", from).Msg("round of another replica refused")
		_ = s.End(ctx, nil)
		return
	}
	req.once = form == formOnce
	if req.Method == methodWatch {
		e.watches.Add(1)
		defer e.watches.Add(-1)
	}
	var r servedRound
	if first {
		r, err = e.beginFirst(ctx, s, req)
	} else {
		r, err = e.beginServed(ctx, req, takeOver)
	}
	if err != nil {
		e.endServed(ctx, s, err)
		return
	}
	defer r.Close()
	defer e.host(req.ticket, r)()
	var heard chan struct{} // closed when the other side has said all
	if follower, ok := r.(*callRound); ok && follower.follows {
		heard = make(chan struct{})
		e.wg.Add(1)
		go func() { // ends with the stream, and that with serveRound
			defer e.wg.Done()
			defer close(heard)
			follower.hear(ctx, s)
		}()
	} else {
		stop := context.AfterFunc(ctx, func() { r.letDown(ctx) })
		defer stop()
	}
	for {
		ev, err := r.Next(time.Now().Add(time.Hour))
		switch {
		case errors.Is(err, ErrDeadline):
		case err != nil:
			if e.endServed(ctx, s, err); heard != nil && errors.Is(err, ErrEnded) {
				wait.For(heard, time.Now().Add(handTime))
			}
			return
		case ev.Outcome != nil:
			_ = s.End(ctx, e.seal(appendEvent(&ev))) // the stream's end is known to ctx
			return
		default:
			if s.Send(ctx, e.seal(appendEvent(&ev))) != nil {
				r.letDown(ctx)
				return
			}
		}
	}
}

func (e *Engine) endServed(ctx context.Context, s Stream, err error) {
	var to away
	switch {
	case errors.Is(err, ErrGone):
		return
	case errors.Is(err, ErrEnded):
		_ = s.End(ctx, e.seal(newFields(formEnded, 0)))
	case errors.As(err, &to):
		f := newFields(formAway, 0)
		f.text('h', to.to)
		_ = s.End(ctx, e.seal(f))
	default:
		_ = s.End(ctx, e.seal(appendEnd(err)))
	}
}

// beginServed is Begin for a round that another replica was sent.
func (e *Engine) beginServed(ctx context.Context, req *Request, takeOver bool) (servedRound, error) {
	g := e.groups[req.Upstream]
	if g == nil {
		return nil, refuse(ReasonStateForeign, "the replica that holds the call has no upstream of this name")
	}
	caps, err := e.caps.get(req.Capabilities)
	if err != nil {
		return nil, &Refusal{Reason: ReasonInvalidParams, Detail: err.Error()}
	}
	if err := e.enter(); err != nil {
		return nil, err
	}
	e.remote.Add(1)
	r := e.newRound(req)
	r.remote = true
	up := g.list()[0]
	t, err := e.openState(up, req, caps)
	if err == nil {
		if at := g.named(t.Endpoint); at != nil {
			up = at
		}
	}
	if err == nil {
		err = e.joinServed(ctx, up, req, caps, t, r, takeOver)
	}
	if err != nil {
		e.remote.Add(-1)
		e.leave()
		return nil, err
	}
	return r, nil
}

func (e *Engine) joinServed(ctx context.Context, up *upstream, req *Request, caps *mcp.Capabilities, t *state.Token, r *callRound, takeOver bool) error {
	if err := e.sure(ctx); err != nil {
		return err
	}
	if c := e.calls.get(t.Call); c != nil {
		if e.letting.Load() && !takeOver {
			c.mu.Lock()
			c.handOver()
			c.mu.Unlock()
		}
		if c = e.calls.get(t.Call); c != nil {
			if err := c.join(t.Round, req, r); !errors.Is(err, errAway) {
				return err
			}
		}
	}
	rec, left := e.calls.claim(t.Call)
	switch {
	case rec != nil && (takeOver || !e.letting.Load()):
		return e.reclaim(up, req, caps, t, rec, r)
	case rec != nil: // whoever is to go on takes over from the request state, and what is left beside it
		to := e.handOn(ctx, t.Call, rec)
		rec.unexpect()
		rec.session.Return(false)
		e.calls.left(t.Call)
		return away{to}
	case left && !takeOver:
		return errAway
	case left:
	case t.Owner == e.settings.Replica && e.draining.Load():
		return errAway // another may still be able to go on with it
	case t.Owner == e.settings.Replica && byHandle(req.Method):
		holder, err := e.holderOf(ctx, t.Call)
		if err != nil {
			return err
		}
		return away{holder}
	case t.Owner == e.settings.Replica:
		return notHeld()
	case !takeOver:
		return errAway
	}
	return e.succeed(ctx, up, req, caps, t, r)
}

// letDown ends a round whose stream has ended before its outcome. Only a client
// that has gone cancels the call, and one that was told no request state yet:
// its connection is gone with its replica, and it has nothing to come back with.
func (r *callRound) letDown(ctx context.Context) {
	if errors.Is(context.Cause(ctx), ErrClosed) || !r.call.handedOut() {
		r.Gone()
	} else {
		r.abandon()
	}
}

// handedOut reports whether a client may have a request state of the call.
func (c *call) handedOut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.round > 0 || c.lasting != nil
}

// abandon takes the round off its call without cancelling it: the replica that
// its client is at has fallen silent, and the client may come back elsewhere
// with the same request state.
func (r *callRound) abandon() {
	c := r.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.gone {
		return
	}
	r.gone, r.hungUp = true, true
	c.unfollow(r)
	if c.remove(r); len(c.rounds) == 0 && len(c.inputs) > 0 && c.phase == running && c.round > 0 {
		c.park(nil)
	}
	r.rouse()
}
