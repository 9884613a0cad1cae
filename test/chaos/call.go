package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// What clients bear before they give up.
const (
	maxRounds   = 10 // answers of input_required in one call
	maxTokens   = 40 // resume tokens of one call
	maxTries    = 12 // of one request
	maxAttempts = 10 // of a call whose first round was lost
	firstPause  = 80 * time.Millisecond
	lastPause   = 900 * time.Millisecond
)

// End is how a call ended for its client.
type End string

const (
	Done         End = "done"
	Disconnected End = "client itself disconnected"
	Lost         End = "lost with a handle"
	FirstLost    End = "first round lost"
	Told         End = "error in the first round"
	Cancelled    End = "cancelled by its client"
)

// Ends are all of them.
var Ends = []End{Done, Cancelled, Disconnected, FirstLost, Told, Lost}

// Ended is the end of one attempt.
type Ended struct {
	End     End
	Dialect Dialect
	Tool    Tool
	Key     string
	State   bool // the client held a handle
	Task    bool // and that was a task's id

	Reason string // data.reason, where there was an error of Holdfast's own
	MayRun bool   // data.mayHaveRun
	Cut    bool   // the connection ended in the middle of the response
	Detail string
	Rounds int
}

// errLeft is the reason why a client breaks its connection.
var errLeft = errors.New("the client breaks its connection")

// caller is a client at one attempt of a call.
type caller struct {
	load   *Load
	client *Client
	plan   *Plan
	script Script
	rounds int            // that were answered with input_required
	state  string         // the newest request state
	given  map[string]any // all responses so far, see bring
}

func (c *caller) trace(format string, v ...any) {
	c.load.server.Ledger.Trace(c.script.Key, "client: "+format, v...)
}

func (c *caller) breaks(format string, v ...any) {
	c.load.server.Ledger.Break("%s (%s, %s): %s", c.script.Key, c.plan.Dialect, c.plan.Tool, fmt.Sprintf(format, v...))
}

// begun is an end yet to come.
func (c *caller) begun() Ended {
	return Ended{Dialect: c.plan.Dialect, Tool: c.plan.Tool, Key: c.script.Key}
}

// failed notes that the call has ended with an error, or without any answer.
func (e *Ended) failed(r *Reply) {
	e.Detail, e.Cut = r.String(), r.Begun && r.Err == nil
	if r.Err != nil {
		e.Reason, e.MayRun = r.Err.Data.Reason, r.Err.mayHaveRun()
	}
	switch {
	case e.State:
		e.End = Lost
	case r.Err != nil:
		e.End = Told
	default:
		e.End = FirstLost
	}
}

// finished notes that the call has ended with a result, which must be its own.
func (e *Ended) finished(c *caller, text string) {
	e.End = Done
	if want := Finding(c.script.Key, answersOf(&c.script)); text != want {
		e.End, e.State, e.Detail = Lost, true, fmt.Sprintf("the result is %.200q", text)
	}
}

// attempt drives the call to its end, once.
func (c *caller) attempt(ctx context.Context) Ended {
	if c.plan.Dialect == Following {
		return c.follow(ctx)
	}
	end := c.begun()
	var responses map[string]any
	var last func() // sends the request before this one again
	for step := 0; ; {
		reply, left := c.round(ctx, step, responses)
		if last != nil && c.plan.Twice[step-1] == TooLate {
			c.load.tally.fault(SentTwice)
			last()
		}
		end.State, end.Rounds = c.state != "", c.rounds
		switch {
		case left && reply == nil:
			end.End = Disconnected
			return end
		case reply.Err != nil || reply.Broken != nil:
			if end.failed(reply); left {
				end.End = Disconnected
			}
			return end
		case reply.Task != nil:
			return c.pursue(ctx, reply.Task)
		case reply.State == "":
			if end.finished(c, reply.Result); left {
				end.End = Disconnected
			}
			return end
		}
		state := c.state
		c.state = reply.State
		most := maxRounds
		if c.plan.Dialect == ResumeToken {
			most = maxTokens
		}
		if c.rounds++; c.rounds > most {
			end.End, end.State, end.Detail = Lost, true, "the client gave up after so many rounds"
			return end
		}
		if c.plan.Pry && c.rounds == 1 {
			c.pry(ctx, func(other *caller) *Request { return other.request(c.state, other.bring(nil)) })
		}
		if last = nil; len(reply.Asked) == 0 { // let go of: come back
			if c.plan.Dialect == ResumeToken && step < maxSteps-1 {
				step++
			}
			if !sleep(ctx, firstPause) {
				end.End = Disconnected
				return end
			}
			responses = c.bring(nil)
			continue
		}
		if state != "" {
			old := responses
			last = func() { c.client.Send(ctx, c.request(state, old)) }
		}
		if step < maxSteps-1 {
			step++
		}
		if !sleep(ctx, c.plan.Think[step-1]) {
			end.End = Disconnected
			return end
		}
		responses = c.bring(c.answers(reply.Asked))
		if last != nil && c.plan.Twice[step-1] != TooLate {
			last = nil
		}
	}
}

func answersOf(s *Script) (n int) {
	for _, step := range s.Steps {
		n += len(step.Asks)
	}
	return n
}

// round sends one request until there is an answer. left says that the client
// broke its connection; without a reply, that it did not come back.
func (c *caller) round(ctx context.Context, step int, responses map[string]any) (reply *Reply, left bool) {
	pause := firstPause
	for try := range maxTries {
		began := time.Now()
		switch {
		case try == 0 && c.plan.Break == step:
			reply, left = c.breakOff(ctx, responses)
			if left && (!c.plan.Back || c.state == "") {
				return nil, true
			}
		case try == 0 && c.state != "" && c.plan.Twice[step%maxSteps] == AtOnce:
			reply = c.twice(ctx, responses)
		default:
			reply = c.client.Send(ctx, c.request(c.state, responses))
		}
		c.trace("step %d, try %d, after %v: %s", step, try, time.Since(began).Round(time.Millisecond), reply)
		if reply.final() {
			return reply, left
		}
		c.load.tally.retried(reply)
		if c.state == "" || !sleep(ctx, pause) {
			return reply, left
		}
		pause = min(2*pause, lastPause)
	}
	return reply, left
}

// pry has another caller come with the call's handle: it must be told nothing.
func (c *caller) pry(ctx context.Context, request func(other *caller) *Request) {
	other := *c
	other.client = c.load.clients[(c.plan.Caller+1)%len(c.load.clients)]
	reply := other.client.Send(ctx, request(&other))
	c.trace("another caller has the handle: %s", reply)
	switch {
	case reply.Err != nil && reply.Err.Data.Reason == "state_foreign":
		c.load.tally.pried(c.plan.Dialect)
	case reply.final():
		c.breaks("another caller came with the handle, and was told: %s", reply)
	}
}

// breakOff sends a request and closes the connection soon.
func (c *caller) breakOff(ctx context.Context, responses map[string]any) (*Reply, bool) {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	timer := time.AfterFunc(c.plan.After, func() { leave(errLeft) })
	reply := c.client.Send(ctx, c.request(c.state, responses))
	if timer.Stop() || reply.Broken == nil {
		return reply, false
	}
	c.load.tally.fault(ClientBreaks)
	return reply, true
}

// twice sends a request on two connections at the same time. Both must say the
// same.
func (c *caller) twice(ctx context.Context, responses map[string]any) *Reply {
	c.load.tally.fault(SentTwice)
	var replies [2]*Reply
	var both sync.WaitGroup
	for i := range replies {
		both.Go(func() { replies[i] = c.client.Send(ctx, c.request(c.state, responses)) })
	}
	both.Wait()
	a, b := replies[0], replies[1]
	if rank(a) < rank(b) {
		a, b = b, a
	}
	c.trace("sent twice, the other reply is %s", b)
	// A client that is let go of is asked nothing, and told to come back.
	if b.final() && !b.letGo() && a.String() != b.String() && !c.toldLost(b) {
		c.breaks("a request that was sent twice got two outcomes: %s; %s", a, b)
	}
	return a
}

// toldLost reports whether a reply says that the call is lost with its owner or
// its stream, where nobody can go on with it. The other reply may be the owner's,
// which it gave before it was cut off, or say in other words that it is lost.
func (c *caller) toldLost(r *Reply) bool {
	return c.plan.Tool == Unsafe && r.Err != nil && (r.Err.Data.Reason == "call_lost" || r.Err.Data.Reason == "upstream_lost")
}

// letGo reports whether the client is to come back although nothing is asked.
func (r *Reply) letGo() bool { return r.State != "" && len(r.Asked) == 0 }

// rank orders replies by how far they bring the client.
func rank(r *Reply) int {
	switch {
	case r.Broken != nil:
		return 0
	case r.Err != nil && !r.final():
		return 1
	case r.Err != nil:
		return 2
	case r.letGo():
		return 3
	case r.State != "":
		return 4
	case r.Task != nil:
		return 5
	}
	return 6
}

// answers are those of a person who answers exactly what was asked.
func (c *caller) answers(asked []Asked) map[string]any {
	responses := map[string]any{}
	for _, a := range asked {
		var params struct {
			Message  string
			Messages []struct{ Content struct{ Text string } }
		}
		if err := json.Unmarshal([]byte(a.Params), &params); err != nil && a.Params != "" {
			c.breaks("input request %s has params %s", a.Key, a.Params)
		}
		asks := params.Message
		if len(params.Messages) == 1 {
			asks = params.Messages[0].Content.Text
		}
		if a.Method != Roots && !strings.HasPrefix(asks, c.script.Key+"/") {
			c.breaks("was asked what is another call's: %s", a.Params)
		}
		switch a.Method {
		case Elicit:
			responses[a.Key] = map[string]any{"action": "accept", "content": map[string]any{"answer": asks}}
		case Sampling:
			responses[a.Key] = map[string]any{"role": "assistant", "model": "m", "content": map[string]any{"type": "text", "text": asks}}
		case Roots:
			responses[a.Key] = map[string]any{"roots": []any{map[string]any{"uri": "file:///" + c.script.Key}}}
		default:
			c.breaks("input request of method %q", a.Method)
		}
	}
	return responses
}

func sortAsked(list []Asked) {
	slices.SortFunc(list, func(a, b Asked) int { return cmp.Compare(a.Key, b.Key) })
}

// sleep waits; false when ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// keyOf is the key of an attempt at a call.
func keyOf(plan *Plan, attempt int) string {
	if attempt == 0 {
		return plan.Script.Key
	}
	return fmt.Sprintf("%s.%d", plan.Script.Key, attempt)
}
