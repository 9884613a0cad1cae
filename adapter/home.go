package adapter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// homeRound is a first round, or a listener, of a server whose sessions cannot
// be used by other replicas: a process, or an event stream that carries all of a
// session. It is sent whole to the replica that keeps the session of its key,
// which owns the call from then on; where that is this one, it goes on here.
//
// A first request has no round number that would make it safe to send again.
// It is, as long as the replica has not seen it; afterwards only where running
// twice is harmless.
type homeRound struct {
	hop
	up   *upstream
	req  *Request // valid until Close
	caps *mcp.Capabilities
	key  legacy.Key

	began  time.Time
	asked  string    // the replica that is being asked, or was last
	named  string    // who is said to keep the session, until that one is asked; or ""
	past   []string  // replicas that do not take it any more
	hops   int       // answers that named another
	again  time.Time // not before
	served Served
	id     [16]byte // the call's, once it has parked

	listed bool // among the engine's listeners

	local  Round // where it goes on here, or nil; guarded by mu
	ending bool  // a listener that is to end; guarded by mu
}

// through reports whether a request may have to be sent to another replica.
//
// Hot: once per request.
func (up *upstream) through(e *Engine) bool {
	return e.settings.Bus != nil && !up.Server.Lends() && len(e.settings.Bus.Live()) > 0
}

// beginThrough starts a round where the session of its key is kept.
func (e *Engine) beginThrough(up *upstream, req *Request, caps *mcp.Capabilities) (Round, error) {
	r := &homeRound{up: up, req: req, caps: caps, key: e.key(req, caps), began: time.Now(), served: ServedForwarded}
	if req.Method == mcp.MethodListen {
		if err := e.admit(r, caller(&r.key)); err != nil {
			return nil, err
		}
		r.listed = true
	} else if err := e.arrive(); err != nil {
		return nil, err
	}
	r.begin(e)
	return r, nil
}

// Next implements Round.
func (r *homeRound) Next(until time.Time) (Event, error) {
	for {
		r.mu.Lock()
		gone, stream, local := r.gone, r.stream, r.local
		r.mu.Unlock()
		var ev Event
		var err error
		switch {
		case gone:
			return Event{}, ErrGone
		case local != nil:
			return local.Next(until)
		case stream == nil:
			err = r.find(until)
		default:
			ev, err = r.read(stream, until)
		}
		if err != nil || ev.Notification != nil || ev.Outcome != nil || ev.Standing != nil {
			return ev, err
		}
	}
}

// find looks for the replica that keeps the session, and asks it. nil means that
// somebody is being asked, that the round goes on here, or that it is to look
// again.
func (r *homeRound) find(until time.Time) error {
	e := r.engine
	if err := r.pause(r.again, until); err != nil {
		return err
	}
	if r.isEnding() {
		return stopping()
	}
	if time.Since(r.began) > patienceTimes*e.settings.Bus.Patience() {
		return &Refusal{Reason: ReasonBusDown, RetryAfter: time.Second,
			Detail: "the replica that keeps the session was not reached in time; send the request again"}
	}
	keeper := r.named
	if r.named = ""; keeper == "" {
		keeper = r.up.Server.Keeper(r.ctx, &r.key, r.past)
	}
	if r.ctx.Err() != nil {
		return r.over()
	}
	if keeper == "" || keeper == e.settings.Replica {
		return r.goOnHere()
	}
	r.asked = keeper
	switch err := r.ask(keeper, appendFirst(r.req)); {
	case err == nil:
		return nil
	case errors.Is(err, ErrGone), r.ctx.Err() != nil:
		return r.over()
	}
	r.again = time.Now().Add(climbPause)
	return nil
}

// goOnHere lets this replica serve the round.
func (r *homeRound) goOnHere() error {
	if r.listed { // else it would count twice
		r.engine.dismiss(r, caller(&r.key))
		r.listed = false
	}
	local, err := r.engine.beginHere(r.up, r.req, r.caps)
	if err != nil {
		return err
	}
	r.served = ServedLocal
	r.mu.Lock()
	r.local = local
	gone := r.gone
	r.mu.Unlock()
	if gone {
		local.Gone()
	}
	return nil
}

// read returns what the other replica says next. An empty event without an
// error says that it has said nothing yet, or is to be asked no more.
func (r *homeRound) read(stream Stream, until time.Time) (Event, error) {
	soon := time.Now().Add(letPoll)
	if soon.After(until) {
		soon = until
	}
	if r.isEnding() { // what the other says to that comes from the round's own replica
		r.drop()
		return Event{Outcome: &Outcome{Method: mcp.MethodListen, Result: []byte("{}"), Subscription: r.req.ID}}, nil
	}
	message, err := stream.Recv(soon)
	if errors.Is(err, ErrDeadline) {
		if soon.Before(until) {
			return Event{}, nil
		}
		return Event{}, ErrDeadline
	}
	if err == nil {
		var ev Event
		if ev, err = r.open(message); err == nil || !errors.Is(err, errAway) && !errors.Is(err, errWire) {
			r.heard = true
			r.learn(&ev)
			return ev, err
		}
	}
	if r.ctx.Err() != nil {
		return Event{}, r.over()
	}
	if errors.Is(err, ErrTooLarge) {
		r.drop()
		return Event{}, tooLargeToSend()
	}
	if errors.Is(err, errWire) {
		r.misunderstood(r.asked)
	}
	r.drop()
	return Event{}, r.failed(err)
}

// learn takes the call's id from the request state that its client is given.
func (r *homeRound) learn(ev *Event) {
	if ev.Outcome == nil || ev.Outcome.State == nil {
		return
	}
	if t, err := r.engine.ring.Open(ev.Outcome.State, len(ev.Outcome.State)); err == nil {
		r.mu.Lock()
		r.id = t.Call
		r.mu.Unlock()
	}
}

// failed decides what follows from how asking has ended. nil: to look again.
func (r *homeRound) failed(err error) error {
	r.again = time.Now().Add(climbPause)
	var to away
	switch {
	case errors.As(err, &to):
		if to.to == "" { // it takes nothing new any more
			r.past = append(r.past, r.asked)
			r.again = time.Time{}
		} else if r.hops++; r.hops%4 != 0 && to.to != r.asked && !slices.Contains(r.past, to.to) {
			r.named, r.again = to.to, time.Time{}
		}
		return nil
	case errors.Is(err, errWire):
		r.past = append(r.past, r.asked)
		return nil
	case errors.Is(err, ErrNobody):
		return nil
	case !r.heard && (r.req.Method == mcp.MethodListen || r.engine.repeats(r.req.Method)):
		return nil
	}
	return &Refusal{Reason: ReasonCallLost, MayHaveRun: r.req.Method != mcp.MethodListen, RetryAfter: time.Second,
		Detail: "the replica that keeps the session was lost before the server's answer"}
}

// repeats reports whether a request may be sent again, whose tool nobody here
// knows.
func (e *Engine) repeats(method string) bool {
	switch e.settings.Replay {
	case ReplayAlways:
		return true
	case ReplayNever:
		return false
	}
	return mcp.MethodTraits(method).Harmless
}

// finish ends a listener: spec 2026-07-28, basic/patterns/subscriptions,
// "Graceful Closure". The round looks within letPoll.
func (r *homeRound) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = true
}

func (r *homeRound) isEnding() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ending
}

// Gone implements Round. The other replica is told: closing a stream before its
// end says that nobody waits for it.
func (r *homeRound) Gone() {
	r.mu.Lock()
	r.gone = true
	stream, local := r.stream, r.local
	r.mu.Unlock()
	r.cancel()
	if stream != nil {
		stream.Close()
	}
	if local != nil {
		local.Gone()
	}
}

// Close implements Round.
func (r *homeRound) Close() {
	r.leave()
	e := r.engine
	r.mu.Lock()
	local := r.local
	r.mu.Unlock()
	switch {
	case r.listed:
		e.dismiss(r, caller(&r.key))
		return
	case local != nil:
		local.Close() // which leaves
		return
	case r.req.Method == mcp.MethodListen: // it was not let in here
		return
	}
	e.metrics.round(r.served, r.began)
	e.leave()
}

// Served implements Round.
func (r *homeRound) Served() Served { return r.served }

// CallID implements Round.
func (r *homeRound) CallID() [16]byte {
	r.mu.Lock()
	local, id := r.local, r.id
	r.mu.Unlock()
	if local != nil {
		return local.CallID()
	}
	return id
}

// servedRound is a round whose client is at another replica.
type servedRound interface {
	Round
	// letDown ends it when the stream to its client has ended before its outcome.
	letDown(ctx context.Context)
}

// beginFirst begins a first round, or a listener, that another replica has sent
// because the session of its key is kept here.
func (e *Engine) beginFirst(ctx context.Context, req *Request) (servedRound, error) {
	up := e.upstreams[req.Upstream]
	if up == nil {
		return nil, refuse(ReasonInternal, "the replica that keeps the session has no upstream of this name")
	}
	caps, err := e.caps.get(req.Capabilities)
	if err != nil {
		return nil, &Refusal{Reason: ReasonInvalidParams, Detail: err.Error()}
	}
	if e.draining.Load() {
		return nil, errAway
	}
	key := e.key(req, caps)
	if keeper := up.Server.Keeper(ctx, &key, nil); keeper != "" && keeper != e.settings.Replica {
		return nil, away{keeper}
	}
	if req.Method == mcp.MethodListen {
		l, err := e.beginListen(up, req, caps)
		if err != nil {
			return nil, err
		}
		return l, nil
	}
	if err := e.arrive(); err != nil {
		return nil, err
	}
	e.remote.Add(1)
	r := e.newRound(req)
	r.remote = true
	if err := e.start(up, req, caps, r); err != nil {
		e.remote.Add(-1)
		e.leave()
		return nil, err
	}
	return r, nil
}
