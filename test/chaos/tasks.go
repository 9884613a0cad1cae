package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Task is how a task stands.
type Task struct {
	ID       string           `json:"taskId"`
	Status   string           `json:"status"`
	Requests map[string]asked `json:"inputRequests"`
	Result   *toolResult      `json:"result"`
	Error    *Failure         `json:"error"`
}

func (t *Task) String() string {
	text := "task " + t.ID[len(t.ID)-8:] + " is " + t.Status
	switch {
	case t.Error != nil:
		text += ": " + t.Error.Error()
	case t.Result != nil:
		text += ": " + t.Result.text()
	case len(t.Requests) > 0:
		text += fmt.Sprintf(": %v", askedIn(t.Requests))
	}
	return text
}

// pollPause is how often clients ask for their tasks.
const pollPause = 150 * time.Millisecond

// landed is how soon an answer has reached the call, wherever that is.
const landed = 3 * time.Second

// copied is how soon another replica has the copy of an outcome.
const copied = time.Second

// pursuer is a caller whose call has become a task.
type pursuer struct {
	*caller
	id       string
	answered map[string]time.Time // when each key was last answered
	steps    int                  // how often there was something to answer
	polls    int
}

// pursue drives a call to its end that has become a task.
func (c *caller) pursue(ctx context.Context, begun *Task) Ended {
	p := &pursuer{caller: c, id: begun.ID, answered: map[string]time.Time{}}
	end := c.begun()
	end.State, end.Task = true, true
	if c.plan.Listen {
		stop := p.listen(ctx)
		defer stop()
	}
	if c.plan.Pry {
		c.pry(ctx, func(other *caller) *Request { return other.aboutTask("tasks/get", p.id, nil) })
	}
	for give := time.Now().Add(taskTTL); ; {
		end.Rounds = c.rounds + p.polls
		if c.plan.Cancel == p.steps {
			return p.cancel(ctx, end)
		}
		reply := p.get(ctx)
		task := reply.Task
		switch {
		case task == nil: // an error, or nobody there
			end.failed(reply)
			return end
		case task.Status == "completed":
			if end.finished(c, task.Result.text()); end.End == Done {
				p.again(ctx, task)
			}
			return end
		case task.Status == "failed" && task.Error != nil:
			end.failed(&Reply{Err: task.Error})
			p.again(ctx, task)
			return end
		case time.Now().After(give), ctx.Err() != nil:
			end.End, end.Detail = Lost, "its time is over, and still "+task.String()
			return end
		case task.Status == "input_required":
			if c.plan.Break >= 0 && !c.plan.Back { // it never comes back
				end.End = Disconnected
				return end
			}
			if failed := p.update(ctx, askedIn(task.Requests)); failed != nil {
				end.failed(failed)
				return end
			}
		case task.Status != "working":
			end.End, end.Detail = Lost, task.String()
			return end
		}
		if !sleep(ctx, pollPause) {
			end.End = Disconnected
			return end
		}
	}
}

// aboutTask is a request about a task.
func (c *caller) aboutTask(method, id string, more map[string]any) *Request {
	params := map[string]any{"taskId": id}
	maps.Copy(params, more)
	return c.about(method, id, params)
}

// insist sends a request until there is an answer.
func (p *pursuer) insist(ctx context.Context, method string, more map[string]any) (reply *Reply) {
	pause := firstPause
	for try := range maxTries {
		began := time.Now()
		reply = p.client.Send(ctx, p.aboutTask(method, p.id, more))
		p.trace("%s %v, try %d, after %v: %s", method, more, try, time.Since(began).Round(time.Millisecond), reply)
		if reply.final() {
			break
		}
		p.load.tally.retried(reply)
		if !sleep(ctx, pause) {
			break
		}
		pause = min(2*pause, lastPause)
	}
	return reply
}

// get asks for the task.
func (p *pursuer) get(ctx context.Context) *Reply {
	p.polls++
	reply := p.insist(ctx, "tasks/get", nil)
	if reply.Task != nil && reply.Task.ID != p.id {
		p.breaks("tasks/get has another task: %s", reply.Task)
	}
	return reply
}

// update answers what is asked and was not answered before: all of it, or one after
// the other. What is still asked after some time is answered again: the first answer
// went to a replica that did not know yet that another has the call. It returns the
// answer of a request that was refused.
func (p *pursuer) update(ctx context.Context, open []Asked) (refused *Reply) {
	open = slices.DeleteFunc(open, func(a Asked) bool {
		at, before := p.answered[a.Key]
		if again := before && time.Since(at) > landed; again {
			p.load.tally.later("asked still, and answered again")
		}
		return before && time.Since(at) <= landed
	})
	if len(open) == 0 { // the answers are on their way
		return nil
	}
	step := min(p.steps, maxSteps-1)
	p.steps++
	if !sleep(ctx, p.plan.Think[step]) {
		return nil
	}
	for size := len(open); len(open) > 0; open = open[size:] {
		if p.plan.Apart {
			size = 1
		}
		brought := map[string]any{"inputResponses": p.answers(open[:size])}
		var others sync.WaitGroup
		if p.plan.Twice[step] == AtOnce {
			p.load.tally.fault(SentTwice)
			others.Go(func() { p.client.Send(ctx, p.aboutTask("tasks/update", p.id, brought)) })
		}
		reply := p.insist(ctx, "tasks/update", brought)
		if others.Wait(); reply.Result != acknowledged {
			return reply
		}
		if p.plan.Twice[step] == TooLate {
			p.load.tally.fault(SentTwice)
			p.client.Send(ctx, p.aboutTask("tasks/update", p.id, brought))
		}
		for _, a := range open[:size] {
			p.answered[a.Key] = time.Now()
		}
	}
	return nil
}

// cancel ends the task. Whatever has become of it, it does not go on.
func (p *pursuer) cancel(ctx context.Context, end Ended) Ended {
	reply := p.insist(ctx, "tasks/cancel", nil)
	if reply.Result != acknowledged {
		end.failed(reply)
		return end
	}
	end.End = Cancelled
	for give := time.Now().Add(cancelWithin); ; {
		reply := p.get(ctx)
		switch {
		case reply.Task == nil || slices.Contains([]string{"cancelled", "completed", "failed"}, reply.Task.Status):
			return end
		case time.Now().After(give):
			p.breaks("was cancelled, and is %s", reply.Task)
			return end
		}
		if !sleep(ctx, pollPause) {
			return end
		}
	}
}

// cancelWithin is how long a call may go on that was cancelled, where its replica
// dies at that moment.
const cancelWithin = 6 * time.Second

// again asks for a task that has ended, some time later. It must be what it was;
// only where both replicas were killed that had its result, or one before the other
// had the copy, it may have failed, or come to the same once more by the server's
// stream. So it may for replicas that have not met.
func (p *pursuer) again(ctx context.Context, before *Task) {
	told := time.Now()
	if p.plan.Later == 0 || !sleep(ctx, p.plan.Later) {
		return
	}
	reply := p.get(ctx)
	now := reply.Task
	switch {
	case ctx.Err() != nil:
	case now == nil:
		p.breaks("was told %s, and %v later %s", before, p.plan.Later, reply)
	case now.String() == before.String():
		p.load.tally.later("the same")
	case before.Status == "failed" && now.Status == "failed":
		p.load.tally.later("failed, told in other words")
	case p.load.tally.strangers.since(told):
		p.load.tally.later(before.Status + ", then " + now.Status + " at a replica that had not met all others")
	case p.load.tally.outlived(told):
		p.load.tally.later(now.Status + ", without the replicas that had the outcome")
	default:
		p.breaks("was told %s, and %v later %s", before, p.plan.Later, now)
	}
}

// listen hears of the task's changes beside asking for it. stop waits for the end
// of that.
func (p *pursuer) listen(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var listening sync.WaitGroup
	listening.Go(func() {
		q := p.about("subscriptions/listen", "", map[string]any{"notifications": map[string]any{"taskIds": []string{p.id}}})
		q.Hear = func(m *rpc) error {
			if m.Method != "notifications/tasks" {
				return nil
			}
			var task Task
			if err := json.Unmarshal(m.Params, &task); err != nil || task.ID != p.id {
				p.breaks("was told of another task: %s", m.Params)
				return nil
			}
			p.load.tally.heard()
			p.answers(askedIn(task.Requests)) // they must be its own
			return nil
		}
		p.client.Send(ctx, q) // ends with the replica, and is not begun again: the client asks for the task
	})
	return func() { cancel(); listening.Wait() }
}
