package adapter

import (
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Rounds that are about a lasting call do not join it: they look, bring answers,
// cancel or watch, and the call goes on by itself.

// methodWatch is a round that hears of each change of a lasting call. Clients
// have no such method: it is part of their subscriptions.
const methodWatch = "tasks/watch"

// byHandle reports whether a round is about a lasting call, without joining it.
func byHandle(method string) bool {
	return method == methodWatch || method == mcp.MethodTaskResult || mcp.MethodTraits(method).Task || byFollower(method)
}

// attend serves a round that is about a lasting call. mu is held.
func (c *call) attend(req *Request, r *callRound) error {
	if (c.lasting.following != nil) != byFollower(req.Method) {
		return notHeld()
	}
	c.goOnUnasked() // where it could not be known whose the call was
	switch req.Method {
	case mcp.MethodResume, mcp.MethodStatus, mcp.MethodAnswer, mcp.MethodCancel:
		return c.attendFollower(req, r)
	case mcp.MethodTaskGet:
		if c.estate != nil && (len(c.inputs) == 0 || len(c.over) > 0) { // it came from another replica just now
			c.goOnAlone(req)
		}
		r.outcome = c.look(req.Method)
	case mcp.MethodTaskUpdate:
		if err := c.update(req); err != nil {
			return err
		}
		r.outcome = acknowledged(req.Method)
		r.outcome.Standing = c.standing()
	case mcp.MethodTaskCancel:
		c.cancelLasting(req)
		r.outcome = acknowledged(req.Method)
		r.outcome.Standing = c.standing()
	case methodWatch, mcp.MethodTaskResult:
		if c.unattended() {
			c.goOnAlone(req)
		}
		r.watching, r.awaits = true, req.Method == mcp.MethodTaskResult
		c.lasting.watchers = append(c.lasting.watchers, r)
	}
	return nil
}

// cancelLasting ends the call because its client wants it to. mu is held.
func (c *call) cancelLasting(req *Request) {
	if c.phase == done {
		return
	}
	c.creds = credentials(req)
	c.lasting.cancelled = true
	c.engine.metrics.cancelled()
	what := "task"
	if c.lasting.following != nil {
		what = "request"
	}
	c.terminate(&Refusal{Reason: ReasonCallLost, Detail: "the " + what + " was cancelled", MayHaveRun: true}, "the client has cancelled the "+what)
}

// update gives the call answers. Those that do not fit are asked again under
// another key: spec, extension tasks, "Task Update Requests". mu is held.
func (c *call) update(req *Request) error {
	e := c.engine
	if c.phase == done || !c.brings(req.InputResponses) {
		return nil
	}
	switch {
	case c.phase != parked:
		return &Refusal{Reason: ReasonOverload, Detail: "the call is on its way to another replica; send the request again", RetryAfter: time.Second}
	case c.asking >= e.settings.MaxRounds:
		c.terminate(&Refusal{Reason: ReasonTooManyRounds, Detail: "the call took more rounds than calls.max_rounds", MayHaveRun: true}, "too many rounds")
		return nil
	}
	c.creds = credentials(req)
	asked := append([]*input(nil), c.inputs...)
	switch {
	case c.estate != nil:
		c.unparkAlone()
		again := c.lasting.again(req)
		if err := c.recover(again, c.attendant(again)); err != nil {
			return err
		}
	case c.resend:
		c.sendAnewAlone(req)
	default:
		c.deliverUpdate(req)
	}
	for _, in := range asked { // answered, and yet open
		if jsonrpc.Get(req.InputResponses, in.Key) != nil {
			c.rekey(in)
		}
	}
	c.wake()
	return nil
}

// brings reports whether responses have something for an open question. mu is
// held.
func (c *call) brings(responses []byte) bool {
	for _, in := range c.inputs {
		if jsonrpc.Get(responses, in.Key) != nil {
			return true
		}
	}
	return false
}

// deliverUpdate gives the server what fits. The call runs again once nothing is
// open. mu is held.
func (c *call) deliverUpdate(req *Request) {
	answers := c.answers(req.responses())
	if len(c.inputs) > 0 && len(answers) == 0 {
		return
	}
	held := c.driver == byNobody // the request waits for the answers to earlier questions
	open := len(c.inputs) > 0
	if !open {
		c.goOnAnswered(held)
	}
	if len(answers) > 0 || held && !open {
		c.goDeliver(&delivery{x: c.x, session: c.x.Session(), answers: answers, creds: c.creds, launch: held && !open}, nil)
	}
}

// goOnAnswered goes on with a parked call for which nothing is open any more, and
// whose request is held back or sent. mu is held.
func (c *call) goOnAnswered(held bool) {
	c.unparkAlone()
	if held {
		c.enter(starting)
	} else {
		c.enter(running)
	}
	c.arm()
	c.watchTask()
}

// unparkAlone takes the call off the parked ones, without a round. mu is held.
func (c *call) unparkAlone() {
	c.engine.calls.unpark(c)
	now := time.Now()
	c.begun, c.heard = c.begun.Add(now.Sub(c.parkedAt)), now
	c.strandings = 0
}

// rekey gives a question that is asked again a key that no question of the call
// had. mu is held.
func (c *call) rekey(in *input) {
	if c.lasting == nil {
		return
	}
	for _, open := range c.inputs {
		if open == in {
			again := *in // whoever looks has the other
			if in.hinted {
				again.Key = c.uniqueKey(in.Key)
			} else {
				again.Key = c.ordinalKey(in.Method)
			}
			c.replaceInput(in, &again)
			return
		}
	}
}

func (c *call) replaceInput(old, with *input) {
	for i, in := range c.inputs {
		if in == old {
			c.inputs[i] = with
		}
	}
}

// goOnAlone goes on with a parked call whose stream is gone, without waiting for
// answers. mu is held.
func (c *call) goOnAlone(req *Request) {
	if c.phase != parked {
		return
	}
	if e := c.estate; e.position.Event == "" && e.own == nil && c.task == nil && c.lasting.original == nil { // nothing leads further
		c.estate = nil
		c.lost(e.err)
		return
	}
	c.goOnAs(credentials(req))
}

// goOnAs is goOnAlone with credentials, where the call can go on. mu is held.
func (c *call) goOnAs(creds legacy.Credentials) {
	c.creds = creds
	c.unparkAlone()
	again := c.lasting.again(nil)
	_ = c.recover(again, c.attendant(again)) // it never fails
}

// attendant stands for a round where nobody waits for the call. mu is held.
func (c *call) attendant(req *Request) *callRound {
	return &callRound{call: c, req: req, gone: true}
}

// reviveAlone goes on with a stranded call for which no round waits. mu is held.
func (c *call) reviveAlone() {
	if c.lasting != nil && len(c.rounds) == 0 && c.stranded() {
		c.attendant(c.lasting.again(nil)).revive()
	}
}

// parkAlone parks a lasting call that was asked something while no round waits
// for it. mu is held.
func (c *call) parkAlone() {
	if c.lasting != nil && len(c.rounds) == 0 && len(c.inputs) > 0 && c.phase == running && !c.moving {
		c.park(nil)
	}
}
