package adapter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// A running call whose stream is gone, or whose answer may or may not have
// reached the server, is lost like any other and goes down the same ladder from
// take-over on (takeover.go). So does one whose take-over or replay has met a
// server that is away. The round that waits for it has at hand what that needs.

const (
	// maxStrandings is how often a call goes on like that for one retry at one
	// replica: a server that breaks at this very call is not to be asked for ever.
	maxStrandings = 6
	// breath is the pause before the second time, doubled each time: all of them
	// last some three seconds.
	breath = 100 * time.Millisecond
)

// stranded reports whether the call waits for a round to go on with it. mu is
// held.
func (c *call) stranded() bool {
	return c.estate != nil && (c.phase == starting || c.phase == running)
}

// strand leaves a call whose stream has broken, or that a replay could not
// send, to the round that waits for it, where the call may run again. It reports
// whether it did. mu is held.
func (c *call) strand(err, reason error) bool {
	replays := c.fallback != nil && absent(err)
	if !replays && !errors.Is(err, legacy.ErrBroken) || !c.strandable() || !replays && (c.x == nil || !c.mayReplay(c.x.Session())) {
		return false
	}
	c.inputs = nil // it asks them again
	left := &estate{err: reason}
	if c.fallback != nil {
		left.own = c.fallback.own
	}
	c.leaveTo(left)
	return true
}

// await parks a running call at the same round whose stream has broken while no
// round waited for it, because its client's replica has fallen silent: the same
// retry, wherever it comes, lets the call run again. It reports whether it did.
// mu is held.
func (c *call) await(err, reason error) bool {
	if !errors.Is(err, legacy.ErrBroken) || c.phase != running || c.round == 0 || c.lasting != nil || c.estate != nil || len(c.rounds) > 0 ||
		c.x == nil || !c.mayReplay(c.x.Session()) || c.engine.calls.park(c) != nil {
		return false
	}
	c.enter(parked)
	left := &estate{err: reason}
	if c.fallback != nil {
		left.own = c.fallback.own
	}
	c.estate, c.fallback, c.inputs = left, nil, nil
	c.transcript, c.known = append(c.transcript, c.known...), nil
	c.transcriptBytes = sizeOf(c.transcript)
	c.parkedAt = time.Now()
	c.arm()
	return true
}

// strandAnswers is strand for answers that the server may have or not: asked on
// the same stream, opened anew, it says what it makes of them. mu is held.
func (c *call) strandAnswers(answers []answer, err, reason error) bool {
	if !errors.Is(err, legacy.ErrBroken) || c.phase != running || !c.strandable() {
		return false
	}
	left, ended := c.breakOff(answers, reason)
	if left == nil {
		return ended
	}
	if left.position.Event == "" && c.task == nil {
		c.inputs = nil // it asks them again
	}
	c.leaveTo(left)
	return true
}

// leaveAnswers is strandAnswers for a call that has parked with other questions
// meanwhile: its next round goes on with it.
func (c *call) leaveAnswers(answers []answer, err, reason error) bool {
	if !errors.Is(err, legacy.ErrBroken) || c.phase != parked {
		return false
	}
	left, ended := c.breakOff(answers, reason)
	if left == nil {
		return ended
	}
	c.estate, c.x = left, nil
	return true
}

// breakOff lets go of the call's stream, where the call can go on without it.
// answers are those that the server may have or not. ended says that the stream
// has come to its end by itself: its last word waits for mu. mu is held.
func (c *call) breakOff(answers []answer, reason error) (left *estate, ended bool) {
	left = &estate{position: state.Position(c.x.Position()), err: reason}
	for _, a := range answers {
		left.undelivered = append(left.undelivered, answer{in: a.in, response: a.content()})
	}
	replays := left.position.Event == "" && c.task == nil
	if replays && !c.mayReplay(c.x.Session()) {
		return nil, false
	}
	if !c.x.Release() {
		return nil, true
	}
	if replays {
		c.x.Cancel("the call runs again")
	}
	return left, false
}

// again strands a call once more that could not go on because the server is
// away. answered are the answers that it was to be given.
func (c *call) again(left *estate, answered []answer, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !absent(err) || !c.strandable() {
		return false
	}
	c.moving, left.undelivered = false, answered
	c.leaveTo(left)
	return true
}

// absent reports whether an error says that the server is away for now.
func absent(err error) bool {
	return errors.Is(err, legacy.ErrUnreachable) || errors.Is(err, legacy.ErrBroken)
}

// strandable reports whether a round waits that can go on with the call. mu is
// held.
func (c *call) strandable() bool {
	return (c.phase == running || c.phase == starting && c.fallback != nil) && c.estate == nil && c.strandings < maxStrandings &&
		(c.lasting != nil || c.round > 0 && len(c.rounds) > 0)
}

func (c *call) leaveTo(left *estate) {
	c.strandings++
	c.estate, c.fallback = left, nil
	c.reviveAlone()
	c.wake()
}

// revive goes on with a stranded call. mu is held.
func (r *callRound) revive() {
	c := r.call
	if c.inline != nil {
		c.detach() // its exchange has ended, which is finished there
	}
	if c.phase == starting {
		c.enter(running)
	}
	left := c.estate
	c.estate, c.x = nil, nil
	c.transcript, c.known = append(c.transcript, c.known...), nil // what a replay had no use for yet
	left.inputs, left.transcript = slices.Clone(c.inputs), c.transcript
	left.asked, left.names, left.cut = c.asked, c.names, c.cut
	for _, a := range left.undelivered {
		left.inputs = append(left.inputs, a.in)
		left.transcript = without(left.transcript, a.in.Key)
	}
	c.setOut(left, left.undelivered, r.req, r)
}

// setOut begins to go on with a running call whose stream is gone. mu is held.
func (c *call) setOut(left *estate, answered []answer, req *Request, r *callRound) {
	c.driver, c.moving = byGoroutine, true
	c.transcript = req.responses().complete(c.transcript)
	c.msgID = c.up.Server.NextID()
	text := c.appendRequest(legacy.Text(), req)
	ctx, cancel := context.WithCancel(c.engine.ctx)
	c.stop = cancel
	c.arm()
	c.engine.wg.Add(1)
	go func() {
		defer c.engine.wg.Done()
		defer cancel()
		c.goOn(ctx, left, answered, text, r)
	}()
}

// catchBreath waits before a call goes on that has been stranded before.
func (c *call) catchBreath(ctx context.Context) {
	c.mu.Lock()
	times := c.strandings
	c.mu.Unlock()
	if times > 1 {
		wait.Pause(ctx, breath<<(times-2))
	}
}

// post gives the server an answer. While the server cannot be reached, it is
// tried again for some seconds.
func (c *call) post(ctx context.Context, s *legacy.Session, creds legacy.Credentials, text []byte) error {
	for times := range maxStrandings {
		err := s.Post(ctx, creds, text)
		if !errors.Is(err, legacy.ErrUnreachable) || times == maxStrandings-1 || !wait.Pause(ctx, breath<<times) {
			return err
		}
		if err := c.assured(ctx); err != nil {
			return err
		}
	}
	return nil
}

// without is a transcript without one answer.
func without(transcript []state.Answer, key string) []state.Answer {
	return slices.DeleteFunc(slices.Clone(transcript), func(a state.Answer) bool { return a.Key == key })
}
