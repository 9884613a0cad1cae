package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// What clients bear before they give up.
const (
	maxRounds   = 10 // answers of input_required in one call
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
	Lost         End = "lost with a request state"
	FirstLost    End = "first round lost"
	Told         End = "error in the first round"
)

// Ended is the end of one attempt.
type Ended struct {
	End    End
	Tool   Tool
	Key    string
	State  bool   // the client held a request state
	Reason string // data.reason, where there was an error of Holdfast's own
	MayRun bool   // data.mayHaveRun
	Cut    bool   // the connection ended in the middle of the response
	Detail string
	Rounds int
}

// toldLost reports whether the client was told that the call is lost with its
// owner or its stream, and that it may have run.
func (e *Ended) toldLost() bool {
	return e.MayRun && (e.Reason == "call_lost" || e.Reason == "upstream_lost")
}

// errLeft is the reason why a client breaks its connection.
var errLeft = errors.New("the client breaks its connection")

// caller is a client at one attempt of a call.
type caller struct {
	load   *Load
	client *Client
	plan   *Plan
	script Script
	rounds int    // that were answered with input_required
	state  string // the newest request state
}

// attempt drives the call to its end, once.
func (c *caller) attempt(ctx context.Context) Ended {
	end := Ended{Tool: c.plan.Tool, Key: c.script.Key}
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
			end.Detail, end.Cut = reply.String(), reply.Begun && reply.Err == nil
			if reply.Err != nil {
				end.Reason = reply.Err.Data.Reason
				end.MayRun = reply.Err.Data.MayHaveRun != nil && *reply.Err.Data.MayHaveRun
			}
			switch {
			case left:
				end.End = Disconnected
			case end.State:
				end.End = Lost
			case reply.Err != nil:
				end.End = Told
			default:
				end.End = FirstLost
			}
			return end
		case reply.State == "":
			if end.End = Done; left {
				end.End = Disconnected
			}
			if want := Finding(c.script.Key, answersOf(&c.script)); reply.Result != want {
				end.Detail = reply.String()
				if end.End == Done {
					end.End = Lost
				}
			}
			return end
		}
		state := c.state
		c.state = reply.State
		if c.rounds++; c.rounds > maxRounds {
			end.End, end.State, end.Detail = Lost, true, "the client gave up after so many rounds"
			return end
		}
		if last = nil; len(reply.Asked) == 0 { // let go of: come back
			if !sleep(ctx, firstPause) {
				end.End = Disconnected
				return end
			}
			responses = nil
			continue
		}
		if state != "" {
			old := responses
			last = func() { c.client.Send(ctx, c.plan, &c.script, state, old) }
		}
		if step < maxSteps-1 {
			step++
		}
		if !sleep(ctx, c.plan.Think[step-1]) {
			end.End = Disconnected
			return end
		}
		responses = c.answers(reply.Asked)
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
			reply = c.client.Send(ctx, c.plan, &c.script, c.state, responses)
		}
		c.load.server.Ledger.Trace(c.script.Key, "client: step %d, try %d, after %v: %s", step, try, time.Since(began).Round(time.Millisecond), reply)
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

// breakOff sends a request and closes the connection soon.
func (c *caller) breakOff(ctx context.Context, responses map[string]any) (*Reply, bool) {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	timer := time.AfterFunc(c.plan.After, func() { leave(errLeft) })
	reply := c.client.Send(ctx, c.plan, &c.script, c.state, responses)
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
		both.Go(func() { replies[i] = c.client.Send(ctx, c.plan, &c.script, c.state, responses) })
	}
	both.Wait()
	a, b := replies[0], replies[1]
	if rank(a) < rank(b) {
		a, b = b, a
	}
	c.load.server.Ledger.Trace(c.script.Key, "client: sent twice, the other reply is %s", b)
	// A client that is let go of is asked nothing, and told to come back.
	if b.final() && !b.letGo() && a.String() != b.String() && !c.toldLost(b) {
		c.load.server.Ledger.Break("%s: a request that was sent twice got two outcomes: %s; %s", c.script.Key, a, b)
	}
	return a
}

// toldLost reports whether a reply says that the call is lost with its owner or
// its stream, where nobody can go on with it. The other reply may be the owner's,
// which it gave before it was cut off, or say in other words that it is lost.
func (c *caller) toldLost(r *Reply) bool {
	return !c.plan.Tool.Carried() && r.Err != nil && (r.Err.Data.Reason == "call_lost" || r.Err.Data.Reason == "upstream_lost")
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
	}
	return 5
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
			c.load.server.Ledger.Break("%s: input request %s has params %s", c.script.Key, a.Key, a.Params)
		}
		switch a.Method {
		case Elicit:
			responses[a.Key] = map[string]any{"action": "accept", "content": map[string]any{"answer": params.Message}}
		case Sampling:
			text := ""
			if len(params.Messages) == 1 {
				text = params.Messages[0].Content.Text
			}
			responses[a.Key] = map[string]any{"role": "assistant", "model": "m", "content": map[string]any{"type": "text", "text": text}}
		case Roots:
			responses[a.Key] = map[string]any{"roots": []any{map[string]any{"uri": "file:///" + c.script.Key}}}
		default:
			c.load.server.Ledger.Break("%s: input request of method %q", c.script.Key, a.Method)
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
