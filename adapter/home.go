package adapter

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// homeRound is a first round, or a listener, of a server whose sessions cannot
// be used by other replicas: a process, or an event stream that carries all of a
// session. It is sent whole to the replica that keeps the session of its key,
// which owns the call from then on; where that is this one, it goes on here.
//
// A first request has no round number that would make it safe to send again, and
// silence does not tell whether it has run. Where running twice is harmful, the
// replica that keeps the session therefore says that it can begin, and begins when
// it is told to: until then the request may be sent elsewhere, afterwards not.
type homeRound struct {
	hop
	up   *upstream
	req  *Request // valid until Close
	caps *mcp.Capabilities
	key  legacy.Key

	began   time.Time
	sought  time.Time // since when nobody has had it
	asked   string    // the replica that is being asked, or was last
	named   string    // who is said to keep the session, until that one is asked; or ""
	past    []string  // replicas that do not take it any more
	hops    int       // answers that named another
	again   time.Time // not before
	served  Served
	begun   bool     // the request may have run
	repeats bool     // it may run again: a keeper has said that its tool is harmless
	id      [16]byte // the call's, once it has parked

	letAgain time.Time // when the other replica is asked again to let go of it

	found    chan kept // while the keeper is being asked for; else nil
	listed   bool      // among the engine's listeners
	followed bool      // the client has the handle of its call

	local  Round // where it goes on here, or nil; guarded by mu
	ending bool  // a listener that is to end; guarded by mu
}

// through reports whether a request may have to be sent to another replica.
//
// Hot: once per request.
func (up *upstream) through(e *Engine) bool {
	return e.settings.Bus != nil && up.Server.MayKeep() && len(e.settings.Bus.Live()) > 0
}

// beginThrough starts a round where the session of its key is kept.
func (e *Engine) beginThrough(up *upstream, req *Request, caps *mcp.Capabilities, arrived bool) (Round, error) {
	r := &homeRound{up: up, req: req, caps: caps, key: e.key(req, caps), began: time.Now(), served: ServedForwarded}
	r.sought = r.began
	if req.Method == mcp.MethodListen {
		if err := e.admit(r, caller(&r.key)); err != nil {
			return nil, err
		}
		r.listed = true
	} else if arrived {
		e.rounds.Add(1)
	} else if err := e.arrive(); err != nil {
		return nil, err
	}
	r.begin(e)
	return r, nil
}

// Next implements Round.
func (r *homeRound) Next(until time.Time) (Event, error) {
	r.confirm()
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
	if e.letLong() || e.cutting.Load() {
		return r.stopped(stopping())
	}
	if r.found == nil && time.Since(r.sought) > patienceTimes*e.settings.Bus.Patience() {
		return r.stopped(&Refusal{Reason: ReasonBusDown, RetryAfter: time.Second,
			Detail: "the replica that keeps the session was not reached in time; send the request again"})
	}
	keeper := r.named
	if r.named = ""; keeper == "" {
		var err error
		keeper, err = r.keeper(until)
		switch {
		case errors.Is(err, ErrDeadline):
			return err
		case err != nil && r.ctx.Err() == nil:
			return asRefusal(err, false)
		}
	}
	if r.ctx.Err() != nil {
		return r.stopped(r.over())
	}
	if keeper == "" || keeper == e.settings.Replica {
		return r.goOnHere()
	}
	if r.asked = keeper; r.req.ticket == (ticket{}) && mcp.MethodTraits(r.req.Method).Eligible {
		r.req.ticket = ticket(newCallID())
	}
	r.req.endpoint = r.up.id
	again := r.repeats || r.req.Method == mcp.MethodListen || e.runsAgain(r.req.Method)
	r.req.once = !again
	switch err := r.ask(keeper, appendFirst(r.req)); {
	case err == nil:
		r.begun = r.begun || again
		return nil
	case errors.Is(err, ErrTooLarge):
		return &Refusal{Reason: ReasonInvalidParams, Detail: "the request is larger than what replicas send each other"}
	case errors.Is(err, ErrGone), r.ctx.Err() != nil:
		return r.stopped(r.over())
	}
	r.again = time.Now().Add(climbPause)
	return nil
}

// keeper asks who keeps the session. Where it may have to be opened first, that
// goes on when until comes, which is an ErrDeadline.
func (r *homeRound) keeper(until time.Time) (string, error) {
	if r.found == nil && r.up.Server.Settled() {
		return r.up.Server.Keeper(r.ctx, &r.key, credentials(r.req), r.past)
	}
	if r.found == nil {
		found := make(chan kept, 1)
		r.found = found
		go func() { // Close waits for it
			replica, err := r.up.Server.Keeper(r.ctx, &r.key, credentials(r.req), r.past)
			found <- kept{replica, err}
		}()
	}
	answer, came := wait.For(r.found, until)
	if !came {
		return "", ErrDeadline
	}
	r.found = nil
	return answer.replica, answer.err
}

// kept is the answer of Server.Keeper.
type kept struct {
	replica string
	err     error
}

// stopped adds to the end of a round that was given up here that another replica
// may have run the request.
func (r *homeRound) stopped(err error) error {
	var refusal *Refusal
	if !errors.As(err, &refusal) || !r.begun || r.req.Method == mcp.MethodListen {
		return err
	}
	said := *refusal
	said.MayHaveRun = true
	return &said
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
	soon := time.Now().Add(cutPoll)
	if soon.After(until) {
		soon = until
	}
	if r.isEnding() { // what the other says to that comes from the round's own replica
		r.drop()
		return Event{Outcome: &Outcome{Method: mcp.MethodListen, Result: []byte("{}"), Subscription: r.req.ID}}, nil
	}
	if r.req.ticket != (ticket{}) {
		r.askToLetGo()
	}
	message, err := stream.Recv(soon)
	if errors.Is(err, ErrDeadline) && r.ctx.Err() == nil {
		if r.engine.cutting.Load() { // the other replica is told that nobody waits
			if r.followed {
				return Event{}, ErrEnded
			}
			return Event{}, &Refusal{Reason: ReasonShutdown, MayHaveRun: r.begun, RetryAfter: time.Second,
				Detail: "this replica is stopping, and the call has not ended in time"}
		}
		if soon.Before(until) {
			return Event{}, nil
		}
		return Event{}, ErrDeadline
	}
	if err == nil && len(message) == 0 {
		err = errRefused
	}
	if err == nil {
		var ev Event
		var can ready
		if ev, err = r.open(message); errors.As(err, &can) {
			r.letBegin(stream, can)
			return Event{}, nil
		}
		if err == nil || !errors.Is(err, errAway) && !errors.Is(err, errWire) {
			r.heard = true
			r.learn(&ev)
			switch {
			case errors.Is(err, ErrEnded):
				r.say(stream, true)
			case err == nil && r.req.Away > 0:
				r.give()
			}
			return ev, err
		}
	}
	if r.ctx.Err() != nil {
		return Event{}, r.stopped(r.over())
	}
	if errors.Is(err, ErrTooLarge) {
		r.drop()
		return Event{}, tooLargeToSend()
	}
	if errors.Is(err, errWire) || errors.Is(err, errRefused) {
		r.misunderstood(r.asked)
	}
	r.drop()
	if r.followed { // the client comes back to the call, wherever it is
		return Event{}, ErrEnded
	}
	return Event{}, r.failed(err)
}

// letBegin lets the other replica begin. What comes of the message is not known
// before its answer.
func (r *homeRound) letBegin(stream Stream, can ready) {
	r.repeats = can.harmless && r.engine.settings.Replay != ReplayNever
	r.heard, r.begun = !r.repeats, true
	_ = stream.Send(r.ctx, r.engine.ring.SealMessage(nil, newFields(formGo, 0), contextRound)) // Recv says what has ended it
}

// ready: the other replica can begin a first round, and waits.
type ready struct {
	harmless bool // as far as it knows, the round is a call of a tool that may run twice
}

func (ready) Error() string { return "another replica waits for the word to begin" }

// errRefused: the other replica does not understand what it was sent, and has
// done nothing.
var errRefused = errors.New("another replica does not understand the request")

// cutPoll is how often a round looks whether its replica can wait no longer: the
// answer must be out within the farewell.
const cutPoll = 250 * time.Millisecond

// learn takes the call's id from the request state that its client is given.
func (r *homeRound) learn(ev *Event) {
	o := ev.Outcome
	if ev.Standing != nil {
		o = ev.Standing
	}
	if o == nil || o.State == nil {
		return
	}
	r.followed = r.followed || ev.Standing != nil
	if t, err := r.engine.ring.Open(o.State, len(o.State)); err == nil {
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
	case errors.As(err, &to): // it has not begun
		r.begun = r.begun && r.repeats
		if to.to == "" { // it takes nothing new any more
			r.past = append(r.past, r.asked)
			r.again = time.Time{}
		} else if r.hops++; r.hops%4 != 0 && to.to != r.asked && !slices.Contains(r.past, to.to) {
			r.named, r.again = to.to, time.Time{}
		}
		return nil
	case errors.Is(err, errRefused): // before it was looked at
		r.past = append(r.past, r.asked)
		return nil
	case !r.heard: // it has not begun, or that is harmless
		switch {
		case errors.Is(err, errWire):
			r.past = append(r.past, r.asked)
		case errors.Is(err, ErrLost): // it had it
			r.sought = time.Now()
		}
		return nil
	}
	return &Refusal{Reason: ReasonCallLost, MayHaveRun: r.req.Method != mcp.MethodListen, RetryAfter: time.Second,
		Detail: "the replica that keeps the session was lost before the server's answer"}
}

// finish ends a listener: spec 2026-07-28, basic/patterns/subscriptions,
// "Graceful Closure". The round looks within cutPoll.
func (r *homeRound) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = true
}

func (r *homeRound) within() bool { return r.req.part }

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
	if r.found != nil {
		r.cancel()
		<-r.found
	}
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
	began := time.Time{}
	if r.req.RequestState != nil {
		began = r.began
	}
	e.metrics.round(r.served, began)
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
