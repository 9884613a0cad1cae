package adapter

import (
	"bytes"
	"errors"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// forwardRound is a round whose call lives on another replica. It asks the
// owner, and passes on what that one tells. When the owner is gone it climbs
// down the failover ladder (ladder.go), which may end with the call going on
// here.
//
// What goes to the other replica and comes back is safe to send again: the round
// number of the request state makes the answer the same.
type forwardRound struct {
	hop
	up    *upstream
	req   *Request // valid until Close
	caps  *mcp.Capabilities
	token state.Token

	climb climb
	local *callRound // where the call goes on here, or nil; guarded by mu

	arrived bool // a replica that has the call has had the request, whose answers do not come a second time
	served  Served
	began   time.Time
}

// forward starts a round at another replica.
func (e *Engine) forward(up *upstream, req *Request, caps *mcp.Capabilities, t *state.Token) *forwardRound {
	r := &forwardRound{up: up, req: req, caps: caps, token: *t, served: ServedForwarded, began: time.Now()}
	r.begin(e)
	r.climb.begin(e, t)
	return r
}

// Next implements Round.
func (r *forwardRound) Next(until time.Time) (Event, error) {
	r.confirm()
	for {
		r.mu.Lock()
		gone, stream, local := r.gone, r.stream, r.local
		r.mu.Unlock()
		switch {
		case gone:
			return Event{}, ErrGone
		case local != nil:
			ev, err := local.Next(until)
			if !errors.Is(err, errAway) {
				return ev, err
			}
			r.unhand(local)
			r.climb.failed(err)
		case stream == nil && r.engine.letLong():
			if r.arrived {
				return r.letGo()
			}
			return Event{}, stopping() // the client sends it again, and all that it brought
		case stream == nil:
			if err := r.climbOn(until); err != nil {
				if _, refused := err.(*Refusal); refused {
					r.served = ServedRefused
				}
				return Event{}, err
			}
		default:
			ev, err := r.read(stream, until)
			if err == nil && ev.Notification == nil && ev.Outcome == nil && ev.Standing == nil {
				continue // not answered: what is next on the ladder
			}
			return ev, err
		}
	}
}

// read returns what the other replica says next. An empty event without an
// error says that it has said nothing yet, or is of no more use.
//
// When this replica is about to stop, the client is told to come back; but only
// once the retry has arrived, since its answers do not come a second time, and
// what the owner has to say has been passed on.
func (r *forwardRound) read(stream Stream, until time.Time) (Event, error) {
	now := time.Now()
	soon := now.Add(letPoll)
	r.arrived = r.arrived || r.heard || stream.Taken()
	if r.heard && r.engine.letting.Load() {
		soon = now
	}
	if soon.After(until) {
		soon = until
	}
	message, err := stream.Recv(soon)
	if errors.Is(err, ErrDeadline) {
		switch {
		case r.arrived && r.engine.letting.Load():
			return r.letGo()
		case r.ctx.Err() != nil:
			return Event{}, r.over()
		case soon.Before(until):
			return Event{}, nil
		}
		return Event{}, ErrDeadline
	}
	if err == nil {
		var ev Event
		if ev, err = r.open(message); err == nil || !errors.Is(err, errAway) && !errors.Is(err, errWire) {
			r.heard = true
			switch {
			case errors.Is(err, ErrEnded):
				r.say(stream, true)
			case err == nil && r.req.Method == mcp.MethodResume:
				r.give()
			}
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
		r.misunderstood(r.climb.asked)
	}
	r.drop()
	r.climb.failed(err)
	return Event{}, nil
}

// letPoll is how often a round looks whether its replica is about to stop.
const letPoll = time.Second

// letGo tells the client to come back with the request state that it came with,
// because this replica stops: another one brings it to its call, which knows the
// round already. What is about a lasting call has no request state, and is sent
// again: it may come twice.
func (r *forwardRound) letGo() (Event, error) {
	r.drop()
	if r.req.Method == mcp.MethodResume { // it comes back by itself
		return Event{}, ErrEnded
	}
	if byHandle(r.req.Method) {
		return Event{}, stopping()
	}
	return Event{Outcome: &Outcome{Method: r.req.Method, State: bytes.Clone(r.req.RequestState)}}, nil
}

// Contexts keep sealed messages of one kind from passing for another.
var (
	contextRound = []byte("round")
	contextEvent = []byte("event")
)

// goOn lets the call go on here. It reports false when the client has gone.
func (r *forwardRound) goOn(local *callRound) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.local = local
	return !r.gone
}

// unhand: the call that went on here goes on elsewhere.
func (r *forwardRound) unhand(local *callRound) {
	r.mu.Lock()
	r.local = nil
	r.mu.Unlock()
	c := local.call
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(local)
	local.gone = true
}

// Gone implements Round. The other replica is told: closing a stream before
// its end says that nobody waits for it.
func (r *forwardRound) Gone() {
	r.mu.Lock()
	r.gone = true
	stream, local := r.stream, r.local
	r.mu.Unlock()
	r.cancel()
	switch {
	case stream == nil:
	case r.engine.cutsOff(): // it is this replica that closes the connection, at its end
		stream.Abandon()
	default:
		stream.Close()
	}
	if local != nil {
		local.Gone()
	}
}

// Close implements Round.
func (r *forwardRound) Close() {
	r.leave()
	r.mu.Lock()
	local := r.local
	r.mu.Unlock()
	if local != nil {
		local.Close() // which leaves
		return
	}
	r.engine.metrics.round(r.served, r.began)
	r.engine.leave()
}

// Served implements Round.
func (r *forwardRound) Served() Served {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.local != nil {
		return r.local.Served()
	}
	return r.served
}

// CallID implements Round.
func (r *forwardRound) CallID() [16]byte { return r.token.Call }
