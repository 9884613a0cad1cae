package adapter

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// routeRound is a round whose endpoint is of the modern era, or is yet to be
// found. It finds one, asks it for its era where that is not known, and then
// passes the request through (passage.go), or lets a legacy round serve it.
//
// A request is given to a second endpoint, or to the same one in the other way,
// only where the first has provably done nothing of it, or where running twice
// is harmless.
type routeRound struct {
	engine *Engine
	group  *group
	req    *Request // valid until Close
	caps   *mcp.Capabilities
	key    legacy.Key
	creds  legacy.Credentials
	began  time.Time
	ctx    context.Context // ends with Gone or Close
	cancel context.CancelFunc

	state *state.Token // of a modern server's request state that is sealed in one of ours; else nil
	fresh bool         // the request goes out without request state and answers: it runs again
	at    *upstream    // the only endpoint that it is for, or nil
	// handles are the ids by which a listener's client knows a modern server's tasks,
	// raw, by those that the server knows.
	handles map[string][]byte
	owner   *callRound // that had the request before, and counts as the round; else nil

	past   []*upstream // endpoints that could not serve it
	first  *upstream   // the endpoint to begin with, or nil
	unfit  *upstream   // whose answer did not fit its era,
	was    legacy.Era  // which was this
	saved  Event       // that answer: the client is told it if the era proves right
	oops   error       // likewise
	refits int         // how often that was so
	told   bool        // the client was told something
	again  bool        // a harmless request was sent once more
	ran    bool        // an endpoint that it has left may have run it
	heard  time.Time   // last sign of life, for calls.timeout
	counts counting

	mu      sync.Mutex
	gone    bool
	ending  bool // a listener that is to end, or a round that lasted beyond the grace period
	closed  bool
	seeking bool            // seek runs
	up      *upstream       // what seek has found, or nil
	era     legacy.Era      // and what that has just said of itself
	passage *legacy.Passage // to it, where it is modern
	err     error           // why it has found none
	local   Round           // where a legacy server serves it
	wake    chan struct{}   // has room for one
}

// beginRoute begins a round whose endpoint is not known to be a single legacy
// one.
func (e *Engine) beginRoute(g *group, req *Request, caps *mcp.Capabilities) (Round, error) {
	r := e.newRoute(g, req, caps)
	if req.RequestState != nil {
		up, err := r.readState()
		if err == nil && up == nil && byFollower(req.Method) { // no modern server knows the method
			err = refuse(ReasonStateInvalid, "")
		}
		if err != nil {
			r.cancel()
			e.metrics.round(ServedRefused, time.Time{})
			if byHandle(req.Method) {
				err = aboutHandle(req.Method, err)
			}
			return nil, err
		}
		if up != nil {
			r.cancel()
			return e.beginLegacy(up, req, caps, false)
		}
	}
	if req.Method == mcp.MethodListen && g.only == nil {
		if tasks, err := r.sortTasks(); err != nil || tasks != nil && len(tasks.endpoints) > 0 {
			r.cancel()
			if err != nil {
				return nil, err
			}
			return e.beginFan(r, tasks)
		}
	}
	if err := r.count(); err != nil {
		r.cancel()
		return nil, err
	}
	r.set()
	return r, nil
}

func (e *Engine) newRoute(g *group, req *Request, caps *mcp.Capabilities) *routeRound {
	r := &routeRound{
		engine: e, group: g, req: req, caps: caps, key: e.key(req, caps), creds: credentials(req),
		began: time.Now(), wake: make(chan struct{}, 1),
	}
	r.heard = r.began
	r.ctx, r.cancel = context.WithCancel(e.ctx)
	return r
}

// set sends the request on its way: at once where that needs no waiting.
func (r *routeRound) set() {
	order := r.order()
	request := r.request()
	if len(order) > 0 && order[0] != r.unfit && order[0].known() == legacy.EraModern && !r.req.Bare {
		if p := order[0].Server.TryPass(request); p != nil {
			legacy.FreeText(request.Text)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.up, r.passage, r.err = order[0], p, nil
			if r.gone {
				p.Abort()
			}
			return
		}
	}
	r.mu.Lock()
	r.seeking, r.up, r.passage, r.err = true, nil, nil, nil
	r.mu.Unlock()
	r.engine.wg.Add(1)
	go func() {
		defer r.engine.wg.Done()
		up, era, p, err := r.seek(order, request)
		legacy.FreeText(request.Text)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seeking, r.up, r.era, r.passage, r.err = false, up, era, p, err
		switch {
		case p == nil:
		case r.closed:
			r.passage = nil
			p.Finish()
		case r.gone:
			p.Abort()
		}
		r.rouse()
	}()
}

// order is the endpoints to try.
func (r *routeRound) order() []*upstream {
	if r.state != nil && !r.fresh {
		if up := r.group.named(r.state.Endpoint); up != nil && !slices.Contains(r.past, up) {
			return []*upstream{up}
		}
		return nil
	}
	order := r.group.order(&r.key)
	if r.at != nil {
		order = []*upstream{r.at}
	}
	if len(r.past) > 0 {
		order = slices.DeleteFunc(slices.Clone(order), func(up *upstream) bool { return slices.Contains(r.past, up) })
	}
	if i := slices.Index(order, r.first); i > 0 {
		order = append([]*upstream{r.first}, slices.Delete(slices.Clone(order), i, i+1)...)
	}
	return order
}

// seek finds an endpoint that can be reached. A modern one has been sent the
// request by then; a nil passage says that it is legacy. A request of a proposal
// is for a legacy one alone, one of what is switched off here for a modern one.
func (r *routeRound) seek(order []*upstream, request *legacy.Request) (*upstream, legacy.Era, *legacy.Passage, error) {
	var last error = refuse(ReasonUpstreamDown, "no endpoint of the server is left to try")
	for _, up := range order {
		era, err := up.find(r.ctx, r.creds)
		var p *legacy.Passage
		if err == nil && era == legacy.EraModern && r.req.Bare {
			last = refuse(ReasonDialect, "the server speaks %s itself by now, and takes requests of that form alone", mcp.Modern)
			continue
		}
		if err == nil && era == legacy.EraLegacy && r.req.PassOnly != nil {
			last = r.req.PassOnly
			continue
		}
		if err == nil && era == legacy.EraModern && up != r.unfit {
			p, err = up.Server.Pass(r.ctx, request)
		}
		if err == nil {
			up.reached()
			return up, era, p, nil
		}
		if r.ctx.Err() != nil {
			return nil, legacy.EraUnknown, nil, err
		}
		if !errors.Is(err, legacy.ErrUnreachable) {
			return up, legacy.EraUnknown, nil, err
		}
		up.failed(r.engine.settings.DownTTL)
		r.engine.log.Debug().Err(err).Str("upstream", up.Name).Str("endpoint", up.id).Msg("endpoint cannot be reached")
		last = err
	}
	return nil, legacy.EraUnknown, nil, last
}

// Next implements Round.
func (r *routeRound) Next(until time.Time) (Event, error) {
	for {
		r.mu.Lock()
		gone, ending, seeking, up, era, passage, err, local := r.gone, r.ending, r.seeking, r.up, r.era, r.passage, r.err, r.local
		r.mu.Unlock()
		var ev Event
		switch {
		case gone:
			return Event{}, ErrGone
		case local != nil:
			if ev, err = local.Next(until); !r.leaveLocal(local, ev, err) {
				return r.tell(ev, err)
			}
			continue
		case ending:
			return r.farewell()
		case seeking:
			if _, woken := wait.For(r.wake, until); !woken {
				return Event{}, ErrDeadline
			}
			continue
		case err != nil:
			if err = r.lost(err); err != nil {
				return r.tell(Event{}, err)
			}
			continue
		case up == r.unfit && up != nil:
			if era == r.was || era == legacy.EraUnknown {
				return r.tell(r.saved, r.oops) // for all it says, it is what it was: that is its answer
			}
			r.unfit, r.saved, r.oops = nil, Event{}, nil
			if era == legacy.EraModern {
				r.set()
				continue
			}
		}
		if passage != nil {
			ev, err = r.read(up, passage, until)
		} else {
			err = r.goOnLegacy(up)
		}
		if err != nil || ev.Notification != nil || ev.Outcome != nil {
			return r.tell(ev, err)
		}
	}
}

// tell is what the client is told. Once a call that runs again has an outcome,
// the one that was parked is over.
func (r *routeRound) tell(ev Event, err error) (Event, error) {
	r.told = r.told || err == nil
	if r.ran && idle(err) {
		err = mayHaveRun(err)
	}
	if r.fresh && r.owner != nil && err == nil && ev.Outcome != nil {
		r.owner.call.end(&Refusal{Reason: ReasonCallLost, Detail: "the call has run again on another endpoint", MayHaveRun: true}, "the call runs elsewhere")
	}
	return ev, err
}

// runAgain lets a request run anew whose call has lost its server, where that is
// harmless: on another endpoint, or on the same one if it is modern by now.
// What was answered already is asked again.
func (r *routeRound) runAgain(c *call, err error) bool {
	var refusal *Refusal
	if !errors.As(err, &refusal) || !c.mayRunAgain() {
		return false
	}
	switch refusal.Reason {
	case ReasonUpstreamDown, ReasonUpstreamLost, ReasonUpstreamStatus, ReasonCallLost:
	default:
		return false
	}
	switch {
	case refusedLegacy(err):
		if c.up.forget(); c.up.fixed && c.up.known() == legacy.EraLegacy {
			r.past = append(r.past, c.up)
		}
	case r.group.only != nil: // it may come back
		return false
	default:
		r.past = append(r.past, c.up)
	}
	r.fresh = len(r.order()) > 0
	return r.fresh
}

func (r *routeRound) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// goOnLegacy lets a legacy round serve the request.
func (r *routeRound) goOnLegacy(up *upstream) error {
	if r.state != nil && !r.fresh {
		return r.lost(lostState())
	}
	if r.counts == asListener {
		r.uncount() // else it would count twice
	}
	defer r.uncount() // whatever serves it counts from here on
	req := r.req
	if r.fresh {
		plain := *req
		plain.RequestState, plain.InputResponses = nil, nil
		req = &plain
	}
	local, err := r.engine.beginLegacy(up, req, r.caps, r.counts == asRound || r.owner != nil)
	if err != nil {
		return err
	}
	if c, ok := local.(*callRound); ok {
		c.routed = true
	}
	r.mu.Lock()
	r.up, r.local = up, local
	gone := r.gone
	r.mu.Unlock()
	if gone {
		local.Gone()
	}
	return nil
}

// finish ends a listener: spec 2026-07-28, basic/patterns/subscriptions,
// "Graceful Closure". Any other round is ended by it at the end of the grace
// period.
func (r *routeRound) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = true
	if r.passage != nil {
		r.passage.Wake()
	}
	r.rouse()
}

func (r *routeRound) within() bool { return r.req.part }

// farewell is what the client of an ending round is told.
func (r *routeRound) farewell() (Event, error) {
	if r.req.Method == mcp.MethodListen && r.told {
		return Event{Outcome: &Outcome{Method: mcp.MethodListen, Result: []byte("{}"), Subscription: r.req.ID}}, nil
	}
	return Event{}, &Refusal{Reason: ReasonShutdown, Detail: "this replica is stopping", RetryAfter: time.Second, MayHaveRun: r.req.Method != mcp.MethodListen}
}

// Gone implements Round: closing the connection is what tells a modern server.
func (r *routeRound) Gone() {
	r.mu.Lock()
	r.gone = true
	if r.passage != nil {
		r.passage.Abort()
	}
	local := r.local
	r.rouse()
	r.mu.Unlock()
	r.cancel()
	if local != nil {
		local.Gone()
	}
}

// Close implements Round.
func (r *routeRound) Close() {
	r.cancel()
	r.mu.Lock()
	r.closed = true
	passage, local := r.passage, r.local
	r.passage = nil
	r.mu.Unlock()
	if passage != nil {
		passage.Finish()
	}
	if local != nil {
		local.Close()
	}
	if r.counts == asRound {
		served := ServedLocal
		if r.fresh {
			served = ServedReplayed
		}
		began := time.Time{}
		if r.req.RequestState != nil {
			began = r.began
		}
		r.engine.metrics.round(served, began)
	}
	r.uncount()
}

// Served implements Round.
func (r *routeRound) Served() Served {
	r.mu.Lock()
	local := r.local
	r.mu.Unlock()
	switch {
	case local != nil:
		return local.Served()
	case r.fresh:
		return ServedReplayed
	}
	return ServedLocal
}

// CallID implements Round: what is passed through does not park here.
func (r *routeRound) CallID() (id [16]byte) {
	r.mu.Lock()
	local := r.local
	r.mu.Unlock()
	if local != nil {
		return local.CallID()
	}
	return id
}
