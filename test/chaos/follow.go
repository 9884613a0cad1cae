package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// follower is a client of the dialect resumable: it follows its call on a stream,
// answers by messages of their own, and resumes the stream wherever it breaks.
type follower struct {
	*caller
	id       int64  // of the original request
	progress string // its progress token
	posting  sync.WaitGroup

	mu      sync.Mutex
	token   string
	asked   map[string]bool // ids of questions that are being answered, or were
	renew   func()          // ends the stream, so that it is resumed
	numbers []int           // of progress, as it came
	steps   int             // how often there was something to answer
	streams int
	doubled bool // two streams were open at once
}

// What a follower bears before it gives up.
const (
	maxStreams = 60
	followTime = 60 * time.Second
)

// follow drives a call to its end.
func (c *caller) follow(ctx context.Context) (end Ended) {
	f := &follower{caller: c, asked: map[string]bool{}}
	end = c.begun()
	ctx, leave := context.WithCancel(ctx)
	defer f.posting.Wait()
	defer leave()
	pause := firstPause
	for began := time.Now(); f.streams < maxStreams && time.Since(began) < followTime; f.streams++ {
		heard := len(f.numbers)
		reply, left := f.stream(ctx)
		f.mu.Lock()
		token, steps := f.token, f.steps
		if len(f.numbers) > heard {
			pause = firstPause
		}
		f.mu.Unlock()
		f.trace("stream %d: %s", f.streams, reply)
		end.State, end.Rounds = token != "", f.streams+1
		switch {
		case left && (!c.plan.Back || token == ""):
			end.End = Disconnected
			return end
		case reply.Err != nil && (reply.final() || token == ""), reply.Broken != nil && token == "":
			end.failed(reply)
			return end
		case reply.Err == nil && reply.Broken == nil:
			end.finished(c, reply.Result)
			f.judge(&end)
			return end
		case c.plan.Cancel >= 0 && steps > c.plan.Cancel: // the stream has ended with the call, or before
			return f.cancel(ctx, end)
		}
		c.load.tally.retried(reply)
		if c.plan.Pry && f.streams == 0 {
			c.pry(ctx, func(other *caller) *Request { return f.resumption(other) })
		}
		if f.streams%3 == 1 {
			f.look(ctx)
		}
		if !sleep(ctx, pause) {
			end.End = Disconnected
			return end
		}
		pause = min(2*pause, lastPause)
	}
	end.End, end.Detail = Lost, "the client gave up, when its status was "+f.look(ctx)
	return end
}

// stream sends the request, or resumes it, and answers what is asked. left says
// that the client broke the connection.
func (f *follower) stream(ctx context.Context) (reply *Reply, left bool) {
	var q *Request
	if f.streams == 0 {
		q = f.request("", nil)
		f.id, f.progress = q.ID, q.Token
	} else {
		q = f.resumption(f.caller)
	}
	open, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	q.Token = f.progress
	q.Hear = func(m *rpc) error { return f.hear(ctx, leave, m) }
	f.mu.Lock()
	f.renew = func() { leave(nil) }
	f.mu.Unlock()
	var newer *Reply
	var others sync.WaitGroup
	switch n := f.streams % maxSteps; {
	case f.plan.Break == f.streams:
		timer := time.AfterFunc(f.plan.After, func() { leave(errLeft) })
		defer timer.Stop()
	case f.streams > 0 && f.plan.Twice[n] == AtOnce: // the newest has what there is to tell
		f.load.tally.fault(SentTwice)
		f.doubled = true
		twin := *q
		others.Go(func() { newer = f.client.Send(open, &twin) })
	}
	reply = f.client.Send(open, q)
	if others.Wait(); newer != nil {
		f.trace("the other of two: %s", newer)
		if rank(newer) > rank(reply) {
			reply = newer
		}
	}
	if left = reply.Broken != nil && errors.Is(context.Cause(open), errLeft); left {
		f.load.tally.fault(ClientBreaks)
	}
	return reply, left
}

// resumption asks for what comes after what was told.
func (f *follower) resumption(by *caller) *Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := by.about("requests/resume", "", map[string]any{"resumeToken": f.token})
	q.ID = f.id
	return q
}

// aboutIt is a message about the request.
func (f *follower) aboutIt(method string) *Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.about(method, "", map[string]any{"requestId": f.id, "resumeToken": f.token})
}

// hear takes what comes on a stream before the answer. leave ends the stream, ctx
// the call.
func (f *follower) hear(ctx context.Context, leave context.CancelCauseFunc, m *rpc) error {
	var params struct {
		RequestID   int64  `json:"requestId"`
		ResumeToken string `json:"resumeToken"`
		MaxWait     int    `json:"maxWait"`
		Progress    int    `json:"progress"`
	}
	if err := json.Unmarshal(m.Params, &params); err != nil {
		return fmt.Errorf("%s with params %s: %w", m.Method, m.Params, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch m.Method {
	case "notifications/requests/resumePolicy":
		if params.RequestID != f.id || params.ResumeToken == "" || params.MaxWait == 0 {
			f.breaks("resumePolicy of request %d for %d", params.RequestID, f.id)
		}
		f.token = params.ResumeToken
	case "notifications/progress":
		f.numbers = append(f.numbers, params.Progress)
	case "notifications/message":
	default:
		key, _, _ := strings.Cut(strings.Trim(string(m.ID), `"`), "~")
		if f.asked[string(m.ID)] || key == "" {
			return nil
		}
		f.asked[string(m.ID)] = true
		f.steps++
		if f.plan.Cancel >= 0 && f.steps > f.plan.Cancel {
			leave(nil)
			return nil
		}
		step := (f.steps - 1) % maxSteps
		f.posting.Go(func() { f.answer(ctx, m, step) })
	}
	return nil
}

// answer responds to a question, on a connection of its own.
func (f *follower) answer(ctx context.Context, m *rpc, step int) {
	if !sleep(ctx, f.plan.Think[step]) {
		return
	}
	asked := Asked{string(m.ID), Kind(m.Method), string(m.Params)}
	q := &Request{Dialect: f.plan.Dialect, Path: f.plan.Path, Body: map[string]any{"id": m.ID, "result": f.answers([]Asked{asked})[asked.Key]}}
	pause := firstPause
	for try := range maxTries {
		reply := f.client.Send(ctx, q)
		f.trace("answers %s %s, try %d: %s", m.Method, m.Params, try, reply)
		if reply.final() {
			if reply.Err != nil {
				f.refused(m, reply)
			}
			if f.plan.Twice[step] == TooLate {
				f.load.tally.fault(SentTwice)
				f.client.Send(ctx, q)
			}
			return
		}
		f.load.tally.retried(reply)
		if !sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, lastPause)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.asked, string(m.ID)) // it is asked again
}

// refused: an answer came to nothing, because the replica that had asked is gone
// or was cut off. The question comes again to who resumes.
func (f *follower) refused(m *rpc, reply *Reply) {
	if !slices.Contains([]string{"state_stale", "call_lost", "upstream_lost"}, reply.Err.Data.Reason) {
		f.breaks("the answer to %s was refused: %s", m.Params, reply)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.asked, string(m.ID))
	f.renew()
}

// look asks how the request stands.
func (f *follower) look(ctx context.Context) (status string) {
	reply := f.client.Send(ctx, f.aboutIt("requests/getStatus"))
	f.trace("status: %s", reply)
	if reply.Err == nil && reply.Broken == nil && !slices.Contains([]string{"working", "input_required", "completed", "failed", "cancelled"}, reply.Status) {
		f.breaks("its status is %s", reply)
	}
	return reply.Status
}

// cancel ends the request. Whatever has become of it, it does not go on.
func (f *follower) cancel(ctx context.Context, end Ended) Ended {
	for range maxTries {
		q := f.aboutIt("notifications/cancelled")
		q.ID = 0
		reply := f.client.Send(ctx, q)
		f.trace("cancels: %s", reply)
		if reply.final() || !sleep(ctx, firstPause) {
			break
		}
	}
	end.End = Cancelled
	for give := time.Now().Add(cancelWithin); time.Now().Before(give); {
		if status := f.look(ctx); status != "" && status != "working" && status != "input_required" || !sleep(ctx, pollPause) {
			return end
		}
	}
	f.breaks("was cancelled, and goes on")
	return end
}

// judge holds the progress that was told against what the server reported: none
// of it twice or late where its replica lived, and none missing where no connection
// broke.
func (f *follower) judge(end *Ended) {
	runs := f.load.server.Ledger.Runs(end.Key)
	if end.End != Done || f.progress == "" || !f.script.Progress || len(runs) != 1 || runs[0].resumed > 0 || f.doubled {
		return
	}
	f.load.tally.inOrder()
	for i, n := range f.numbers {
		if i > 0 && n <= f.numbers[i-1] || n > len(f.script.Steps) || f.streams == 0 && n != i+1 {
			f.breaks("was told progress %v on %d streams", f.numbers, f.streams+1)
			return
		}
	}
	if f.streams == 0 && len(f.numbers) != len(f.script.Steps) {
		f.breaks("was told progress %v of %d steps, on one stream", f.numbers, len(f.script.Steps))
	}
}
