package adapter

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// resume lets a round join the call that its request state names, here or at
// the replica that has it.
func (e *Engine) resume(up *upstream, req *Request, caps *mcp.Capabilities) (Round, error) {
	t, err := e.openState(up, req, caps)
	if err != nil {
		e.leave()
		return nil, err
	}
	for c := e.calls.get(t.Call); c != nil; c = e.calls.get(t.Call) {
		if !e.confirmed() {
			return e.forward(up, req, caps, t), nil // which waits until it is known whose the call is
		}
		r := e.newRound(req)
		err := c.join(t.Round, req, r)
		if errors.Is(err, errAway) {
			continue // it has left just now
		}
		if err != nil {
			e.leave()
			return nil, err
		}
		return r, nil
	}
	rec, left := e.calls.claim(t.Call)
	own := t.Owner == e.settings.Replica
	switch {
	case rec != nil, e.settings.Bus == nil && !own: // released here, or held by this replica before its restart
		r := e.newRound(req)
		if err := e.reclaim(up, req, caps, t, rec, r); err != nil {
			e.leave()
			return nil, err
		}
		return r, nil
	case own && !left && (e.settings.Bus == nil || !byHandle(req.Method)):
		e.leave()
		return nil, notHeld()
	}
	r := e.forward(up, req, caps, t)
	r.climb.away, r.climb.lost = own && left, own && !left
	return r, nil
}

// reclaim goes on with a call whose stream was let go here, of which rec is
// what is left, or nil.
func (e *Engine) reclaim(up *upstream, req *Request, caps *mcp.Capabilities, t *state.Token, rec *record, r *callRound) error {
	var left *heirloom
	if rec != nil {
		left = rec.left
	}
	c, err := e.inherit(up, req, caps, t, left)
	if err != nil && rec != nil && e.calls.keepRecord(t.Call, rec) {
		return err // the same retry may come again
	}
	if rec != nil {
		if err == nil {
			c.keepVigil(rec)
		}
		rec.unexpect()
	}
	if err == nil {
		err = c.join(t.Round, req, r)
	}
	if rec != nil {
		rec.session.Return(false)
	}
	return err
}

func notHeld() error {
	return &Refusal{
		Reason: ReasonCallLost, MayHaveRun: true,
		Detail: "the call is no longer held: the proxy was restarted, or the call ended and its outcome is no longer kept",
	}
}

// openState opens a round's request state. The state came through the client:
// nothing of it is believed before it was opened, and it must be this
// principal's, for this request and this upstream (spec 2026-07-28,
// basic/patterns/mrtr, "Server Requirements").
func (e *Engine) openState(up *upstream, req *Request, caps *mcp.Capabilities) (*state.Token, error) {
	t, err := e.ring.Open(req.RequestState, e.settings.MaxState)
	switch {
	case errors.Is(err, state.ErrUnknownKey):
		e.unknownKey()
		return nil, refuse(ReasonStateUnknown, "the request state was sealed with a key that this replica does not have")
	case err != nil:
		return nil, refuse(ReasonStateInvalid, "the request state is damaged, or not ours; start the call again without it")
	}
	if req.Carried {
		if err := req.restore(&t); err != nil {
			return nil, err
		}
	}
	if err := e.checkState(&t, up.Name, req, caps); err != nil {
		return nil, err
	}
	return &t, nil
}

// checkState holds a request state against the request that it came with.
func (e *Engine) checkState(t *state.Token, upstream string, req *Request, caps *mcp.Capabilities) error {
	key := e.key(req, caps)
	switch {
	case (t.Born != 0) != byHandle(req.Method):
		return refuse(ReasonStateInvalid, "the request state is damaged, or not ours; start the call again without it")
	case t.Upstream != upstream:
		return refuse(ReasonStateForeign, "the request state belongs to another server")
	case t.Principal != bearer(&key):
		return refuse(ReasonStateForeign, "the request state belongs to another caller")
	case t.Born != 0 && !handleOf(t, req):
		return refuse(ReasonStateForeign, "the token belongs to another request")
	case t.Born == 0 && t.Request != requestDigest(req):
		return refuse(ReasonStateForeign, "the request state belongs to a request with other params; repeat the original request")
	case time.Now().Unix() > t.Expires:
		expired := refuse(ReasonStateExpired, "the request state has expired (calls.park_ttl); start the call again without it")
		expired.MayHaveRun = true // up to its question
		return expired
	}
	return nil
}

// join lets a round take its place at the call.
func (c *call) join(round uint32, req *Request, r *callRound) error {
	again, err := c.seat(round, req, r)
	if again {
		c.engine.log.Debug().Str("upstream", c.up.Name).Hex("call", c.id[:]).Msg("retry came again, and has the outcome of the first")
	}
	return err
}

// seat is join. again says that the round is a copy of one that the call knows.
func (c *call) seat(round uint32, req *Request, r *callRound) (again bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.call = c
	if !c.engine.confirmed() {
		return false, busDown()
	}
	if c.elsewhere || round > c.round && c.engine.settings.Bus != nil {
		if !c.elsewhere { // another replica has gone on with it meanwhile
			c.surrender()
		}
		return false, errAway
	}
	switch {
	case byHandle(req.Method) && c.lasting == nil:
		return false, notHeld()
	case byHandle(req.Method):
		return false, c.attend(req, r)
	case c.lasting != nil && req.Lasting > 0 && round >= c.lasting.round:
		r.outcome = c.begunLasting()
		return true, nil
	}
	if err := checkParams(req, c.rules); err != nil {
		return false, err
	}
	switch {
	case c.phase == done && c.forgotten:
		return false, notKept()
	case round == c.round && c.phase == parked:
		return false, c.carryOn(req, r)
	case round == c.round: // sent twice: the same outcome, once there is one
		c.strandings = 0 // its client has not given up, either
	case round+1 == c.round && c.phase == parked:
		r.outcome = c.question()
	case round+1 == c.round && c.unanswered: // the client may have heard nothing of the question
	default:
		return false, refuse(ReasonStateStale, "the request state is of a round that is over; use the newest one")
	}
	c.rounds = append(c.rounds, r)
	if c.phase == done {
		c.engine.calls.told(c)
	}
	return true, nil
}

// carryOn unparks the call with the answers of a retry. mu is held.
func (c *call) carryOn(req *Request, r *callRound) error {
	e := c.engine
	if c.asking >= e.settings.MaxRounds {
		c.terminate(&Refusal{Reason: ReasonTooManyRounds, Detail: "the call took more rounds than calls.max_rounds", MayHaveRun: true}, "too many rounds")
		return c.err
	}
	e.calls.unpark(c)
	now := time.Now()
	c.begun, c.heard = c.begun.Add(now.Sub(c.parkedAt)), now // the time that the client took does not count
	c.strandings = 0
	c.creds = credentials(req)
	c.level = req.LogLevel
	if c.x != nil {
		c.x.SetLevel(c.level)
	}
	if !c.lastAt.IsZero() && c.lastAt.Before(r.lastAt) { // its client has waited since then, request by request
		r.lastAt = c.lastAt
	}
	c.rounds = append(c.rounds, r)
	if c.estate != nil {
		return c.recover(req, r)
	}
	if c.resend {
		c.sendAnew(req)
		return nil
	}
	answers := c.answers(req.responses())
	held := c.driver == byNobody // the request waits for the answers to earlier questions
	if held {
		c.enter(starting)
	} else {
		c.enter(running)
	}
	c.arm()
	c.watchTask()
	c.parkAt = now
	if len(answers) == 0 && len(c.inputs) > 0 {
		return nil // nothing new: the missing ones are asked again
	}
	c.parkAt = now.Add(e.settings.Gather)
	// The round's own goroutine delivers, at its first Next.
	r.delivery = &delivery{x: c.x, session: c.x.Session(), answers: answers, creds: c.creds, launch: held && len(c.inputs) == 0}
	return nil
}

// answer is an input response on its way to the server.
type answer struct {
	in       *input
	text     []byte
	response // what the client sent, where text is yet to be made
}

// content returns what the answer says, in memory of its own.
func (a *answer) content() response {
	r := a.response
	switch {
	case r.value != nil:
	case r.failed:
		r.value = bytes.Clone(jsonrpc.Get(a.text, "error"))
	default:
		r.value = bytes.Clone(jsonrpc.Get(a.text, "result"))
	}
	return r
}

// answers takes the open inputs that a retry answers in full off the call.
// Unknown keys are ignored; an answer that does not fit is asked for again:
// spec 2026-07-28, basic/patterns/mrtr, "Error Handling".
func (c *call) answers(brought responses) []answer {
	var found []answer
	c.inputs = slices.DeleteFunc(c.inputs, func(in *input) bool {
		r, ok := brought.of(in.Key)
		if !ok || !c.fits(in, r) {
			return false
		}
		c.record(in, r)
		if text := c.answerText(in, r); text != nil {
			found = append(found, answer{in: in, text: text, response: response{failed: r.failed}})
		}
		return true
	})
	return found
}

// delivery is what a retry brought for the server: answers, in order, and then
// the request itself where it was held back for them.
type delivery struct {
	x       *legacy.Exchange // whose questions they answer
	session *legacy.Session
	answers []answer
	creds   legacy.Credentials
	launch  bool
}

// deliver posts on the round's goroutine where that needs no waiting to speak
// of, and else in the background. mu is held, and free meanwhile.
func (r *callRound) deliver() {
	c, d := r.call, r.delivery
	r.delivery = nil
	if c.phase == done {
		return
	}
	if len(d.answers) != 1 || d.launch || d.session.LevelShort() {
		c.goDeliver(d, nil)
		return
	}
	c.posting++
	c.mu.Unlock()
	err := legacy.ErrUnsent
	p := d.session.TryPost(d.creds, d.answers[0].text)
	if p != nil {
		err = p.Wait(time.Now().Add(quickPost))
	}
	c.mu.Lock()
	if c.posting--; len(c.rounds) > 1 {
		c.wake()
	}
	switch {
	case errors.Is(err, legacy.ErrUnsent):
		c.goDeliver(d, nil)
		return
	case errors.Is(err, legacy.ErrDeadline): // not taken yet
		c.goDeliver(d, p)
		return
	case err != nil:
		c.undelivered(d.x, d.answers, err)
	}
	legacy.FreeText(d.answers[0].text)
}

// quickPost is how long a round waits for the server to take an answer before
// it looks for what else there is.
const quickPost = 10 * time.Millisecond

// goDeliver delivers in the background. pending is the first answer's posting,
// where that was sent already. mu is held.
func (c *call) goDeliver(d *delivery, pending *legacy.Posting) {
	ctx, cancel := context.WithCancel(c.engine.ctx)
	if others := c.stop; c.posting > 0 && others != nil { // further answers are on their way
		c.stop = func() { cancel(); others() }
	} else {
		c.stop = cancel
	}
	if c.phase == done { // nobody is served by it any more
		cancel()
	}
	c.posting++
	c.engine.wg.Add(1)
	go func() {
		defer c.engine.wg.Done()
		defer cancel()
		defer c.posted()
		if pending == nil {
			c.raiseLevel(ctx, d.session, d.creds)
		}
		if c.deliverAll(ctx, d, pending) && d.launch {
			c.sendHeld(ctx)
		}
	}()
}

// posted ends a delivery of answers.
func (c *call) posted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.posting--
	c.wake()
}

// deliverAll posts answers one after the other. It reports whether the server
// has taken them; what becomes of the call else is seen to.
func (c *call) deliverAll(ctx context.Context, d *delivery, pending *legacy.Posting) bool {
	for i, a := range d.answers {
		err := legacy.ErrUnsent
		if pending != nil && i == 0 {
			err = pending.WaitLong(ctx)
		}
		if errors.Is(err, legacy.ErrUnsent) {
			if err = c.assured(ctx); err == nil {
				err = c.post(ctx, d.session, d.creds, a.text)
			}
		}
		if err != nil {
			c.mu.Lock()
			c.undelivered(d.x, d.answers[i:], err)
			c.mu.Unlock()
			for _, rest := range d.answers[i:] {
				legacy.FreeText(rest.text)
			}
			return false
		}
		legacy.FreeText(a.text)
	}
	return true
}

// raiseLevel tells the server first where this round wants more log messages
// than those before. A server that refuses a log level, or does not answer,
// serves the call all the same.
func (c *call) raiseLevel(ctx context.Context, s *legacy.Session, creds legacy.Credentials) {
	if !s.LevelShort() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, levelTime)
	defer cancel()
	if err := s.RaiseLevel(ctx, creds); err != nil {
		c.engine.log.Debug().Err(err).Str("upstream", c.up.Name).Msg("log level not set")
	}
}

// levelTime bounds how long a request or an answer waits for a log level to be
// set.
const levelTime = 2 * time.Second

// undelivered: the server did not take an answer. Where it has not seen it the
// call waits on, for the same retry; else the call is lost. mu is held.
func (c *call) undelivered(x *legacy.Exchange, answers []answer, err error) {
	if c.phase == done || c.estate != nil || c.x != x && c.task == nil { // the stream has broken, and the answers go another way
		return
	}
	reason := asRefusal(err, true)
	var status *legacy.StatusError
	var refusal *Refusal // the lease did not come back
	unseen := errors.Is(err, legacy.ErrUnreachable) || errors.As(err, &status) && status.Unauthorized() || errors.As(err, &refusal)
	again := c.phase == parked // with other questions, before this answer was refused
	if !unseen && (c.strandAnswers(answers, err, reason) || c.leaveAnswers(answers, err, reason)) {
		return
	}
	if !unseen || !again && c.engine.calls.park(c) != nil {
		c.terminate(reason, "an answer could not be delivered")
		return
	}
	for _, a := range answers {
		c.inputs = append(c.inputs, a.in)
		c.transcript = without(c.transcript, a.in.Key)
		c.rekey(a.in)
	}
	if c.lasting != nil {
		defer c.wake()
	}
	if again {
		return // its client is asked for the rest when it comes back
	}
	c.enter(parked) // the same round: its state stays good
	c.arm()
	for _, r := range c.rounds {
		r.err = reason
	}
	c.wake()
}

// sendHeld sends a request that waited for answers to earlier questions.
func (c *call) sendHeld(ctx context.Context) {
	c.mu.Lock()
	x := c.x
	if c.phase == done || c.driver != byNobody {
		c.mu.Unlock()
		return
	}
	c.driver = byGoroutine
	c.mu.Unlock()
	c.fail(c.sendPrepared(ctx, x))
}
