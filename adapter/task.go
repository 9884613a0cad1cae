package adapter

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// A tool that demands it runs as a task of the legacy revision (spec 2025-11-25,
// basic/utilities/tasks), behind the client's back. tools/call makes the task;
// tasks/result waits for its end, carries its questions and brings its result,
// and is the call's exchange from then on: it parks, is let go and is taken over
// as any other. Beside it tasks/get asks from time to time whether the task
// still lives. A task outlives its streams: where one is lost, tasks/result asks
// anew and nothing runs twice.

// task is the task that a call runs as. It is guarded by call.mu.
type task struct {
	id       []byte         // raw JSON string
	status   mcp.TaskStatus // as far as it is known
	message  string         // the server's own words of its status, bounded
	interval time.Duration  // between two questions for its status
	due      bool           // the exchange that asks for the result is yet to be sent
	early    []byte         // an error that may be one of a server whose tasks/result does not wait, or nil
	token    string         // the id under which progress comes, without quotes
	times    int            // how often the result was asked for without a sign of life since
	halt     context.CancelFunc
}

const (
	// Bounds of what a server's pollInterval can make us do.
	minPoll = 100 * time.Millisecond
	maxPoll = 30 * time.Second
	// usualPoll is for servers that name none.
	usualPoll = 2 * time.Second
	// maxTaskID bounds what is kept of a server's name for a task.
	maxTaskID = 1 << 10
	// maxTaskMessage bounds what is kept of its words.
	maxTaskMessage = 1 << 10
	// taskGrace is how long a server may take to name a task that is to be
	// cancelled.
	taskGrace = 2 * time.Second
)

// runsAsTask reports whether the call is to run as a task of the server's: where
// the tool demands it, or may do so and the client takes a handle for an answer.
func (c *call) runsAsTask(support mcp.TaskSupport) bool {
	return support == mcp.TaskRequired || support == mcp.TaskOptional && c.lasts
}

// asTask makes the text of a call that runs as a task. It gets an id of its own:
// its present one, under which progress comes, is that of tasks/result. mu is
// held.
func (c *call) asTask(text []byte) []byte {
	c.callID = c.up.Server.NextID()
	const head = `{"jsonrpc":"2.0","id":`
	own := c.up.Server.AppendID(nil, c.msgID)
	out := append(legacy.Text(), head...)
	out = c.up.Server.AppendID(out, c.callID)
	out = append(out, text[len(head)+len(own):len(text)-len("}}")]...)
	legacy.FreeText(text)
	// No ttl: nobody knows how long people take to answer.
	return append(out, `,"task":{}}}`...)
}

// beginTask reads a CreateTaskResult; false if the result is none, and so the
// call's own. mu is held.
func (c *call) beginTask(result []byte) bool {
	named := jsonrpc.Get(result, "task")
	id := jsonrpc.Get(named, "taskId")
	if !jsonrpc.IsString(id) || len(id) > maxTaskID {
		return false
	}
	c.task = &task{id: bytes.Clone(id), interval: usualPoll, token: c.idText(c.msgID)}
	c.task.read(named)
	c.heard = time.Now()
	c.askForResult(c.msgID)
	c.lastBefore()
	return true
}

// read takes what the server says of the task.
func (t *task) read(raw []byte) {
	if text, ok := jsonrpc.Unquote(jsonrpc.Get(raw, "status")); ok {
		t.status = mcp.ParseTaskStatus(text)
	}
	if text, ok := jsonrpc.Unquote(jsonrpc.Get(raw, "statusMessage")); ok && len(text) <= maxTaskMessage {
		t.message = text
	}
	if ms, err := strconv.ParseFloat(string(jsonrpc.Get(raw, "pollInterval")), 64); err == nil && ms >= 0 {
		t.interval = time.Duration(min(ms, float64(maxPoll/time.Millisecond))) * time.Millisecond
	}
	t.interval = max(t.interval, minPoll)
}

// isOf reports whether a message is about the task.
func (t *task) isOf(params []byte) bool {
	if t == nil {
		return false
	}
	id, ok := jsonrpc.Unquote(jsonrpc.Get(params, "taskId"))
	own, _ := jsonrpc.Unquote(t.id)
	return ok && id == own
}

// params are those of tasks/get, tasks/result and tasks/cancel.
func (t *task) params() []byte {
	return append(append([]byte(`{"taskId":`), t.id...), '}')
}

// askForResult prepares tasks/result in the place of the exchange that has
// ended; whose driver sends it. mu is held.
func (c *call) askForResult(id uint64) {
	c.x, c.task.due = c.resultRequest(c.x.Next(id, c.task.token)), true
}

// resultRequest gives an exchange tasks/result to send. mu is held.
func (c *call) resultRequest(x *legacy.Exchange) *legacy.Exchange {
	x.SetMessage(jsonrpc.AppendRequest(legacy.Text(), x.AppendID(nil), mcp.MethodTaskResult, c.task.params()))
	return x
}

// idText is a request id without its quotes.
func (c *call) idText(id uint64) string {
	text := c.up.Server.AppendID(nil, id)
	return string(text[1 : len(text)-1])
}

// dueTask returns the exchange that goes on with the call's task after x, or
// nil.
func (c *call) dueTask(x *legacy.Exchange) *legacy.Exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.task == nil || !c.task.due || c.x == x || c.x == nil {
		return nil
	}
	c.task.due = false
	return c.x
}

// pursue sends tasks/result. It owns x.
func (c *call) pursue(x *legacy.Exchange) {
	ctx, cancel := context.WithCancel(c.engine.ctx)
	defer cancel()
	c.mu.Lock()
	if c.stop = cancel; c.phase == done {
		cancel()
	}
	times := c.task.times
	c.mu.Unlock()
	if times > 0 {
		wait.Pause(ctx, breath<<min(times-1, maxStrandings))
	}
	if !c.ripen(ctx, x) {
		x.Finish()
		c.mu.Lock()
		if c.x == x && (c.phase == done || c.estate != nil) {
			c.x = nil
		}
		c.mu.Unlock()
		return
	}
	if err := c.sendPrepared(ctx, x); err != nil {
		c.mu.Lock()
		if c.phase != done && c.x == x && c.rejoin(err) {
			next := c.x
			c.task.due = false
			c.mu.Unlock()
			c.pursue(next) // at most maxStrandings deep
			return
		}
		c.mu.Unlock()
		c.fail(err)
		return
	}
	c.mu.Lock()
	c.watchTask()
	c.mu.Unlock()
}

// ripen waits, after an error of tasks/result, for the end of a task that still
// runs: a server that does not let tasks/result wait has to be asked later. It
// reports false where the error was the task's own end, or the call is over.
func (c *call) ripen(ctx context.Context, x *legacy.Exchange) bool {
	c.mu.Lock()
	t := c.task
	early := t.early
	t.early = nil
	c.mu.Unlock()
	if early == nil {
		return true
	}
	for first := true; ; first = false {
		status, err := c.getTask(ctx, x.Session(), t)
		c.mu.Lock()
		interval, over := t.interval, c.phase == done
		if !over && (err != nil || status == mcp.TaskUnknown || status.Ended() && first) {
			c.finish(Outcome{Error: early}, false)
			c.wake()
			over = true
		}
		c.mu.Unlock()
		switch {
		case over:
			return false
		case status.Ended():
			return true
		}
		if !wait.Pause(ctx, interval) {
			return false
		}
		if status == mcp.TaskInputRequired {
			return true // the questions come with tasks/result
		}
	}
}

// rejoin prepares to ask for the task's result anew after its stream was lost.
// mu is held.
func (c *call) rejoin(err error) bool {
	var status *legacy.StatusError
	passing := errors.Is(err, legacy.ErrBroken) || errors.Is(err, legacy.ErrUnreachable) || errors.Is(err, legacy.ErrUnsent) ||
		errors.As(err, &status) && status.Status >= 500
	if c.task == nil || !passing || c.task.times >= maxStrandings || c.estate != nil || c.phase != running && c.phase != parked {
		return false
	}
	c.task.times++
	c.askForResult(c.up.Server.NextID())
	return true
}

// doubtTask takes an error of tasks/result that may have come too early. mu is
// held.
func (c *call) doubtTask(raw []byte) bool {
	if c.task == nil || c.task.times >= maxStrandings || c.x == nil {
		return false
	}
	c.task.times++
	c.task.early = bytes.Clone(raw)
	c.askForResult(c.up.Server.NextID())
	return true
}

// getTask asks for the task's status.
func (c *call) getTask(ctx context.Context, s *legacy.Session, t *task) (mcp.TaskStatus, error) {
	c.mu.Lock()
	params, creds := t.params(), c.creds
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, maxPoll)
	defer cancel()
	result, err := s.Request(ctx, creds, mcp.MethodTaskGet, params)
	if err != nil {
		return mcp.TaskUnknown, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t.read(result)
	c.heard = time.Now()
	return t.status, nil
}

// watchTask asks for the task's status every now and then while the call runs:
// a task may be silent for longer than a server that is lost. mu is held.
func (c *call) watchTask() {
	if c.task == nil || c.task.halt != nil || c.phase != running || c.x == nil {
		return
	}
	ctx, halt := context.WithCancel(c.engine.ctx)
	t, s := c.task, c.x.Session()
	t.halt = halt
	c.engine.wg.Add(1)
	go func() {
		defer c.engine.wg.Done()
		for failures := 0; failures < maxStrandings; {
			c.mu.Lock()
			interval := t.interval
			c.mu.Unlock()
			if failures > 0 {
				interval = max(interval, breath<<(failures-1))
			}
			if !wait.Pause(ctx, interval) {
				return
			}
			status, err := c.getTask(ctx, s, t)
			switch {
			case err != nil: // somebody in front may be in no mood; the task lives on
				failures++
			case status.Ended():
				return // tasks/result says what has become of it
			default:
				failures = 0
			}
		}
	}()
}

// unwatchTask ends watchTask. mu is held.
func (c *call) unwatchTask() {
	if c.task != nil && c.task.halt != nil {
		c.task.halt()
		c.task.halt = nil
	}
}

// cancelTask tells the server that nobody waits for the task any more: "Task
// Cancellation". Of a request that runs as a task, notifications/cancelled says
// nothing (basic/utilities/cancellation). mu is held.
func (c *call) cancelTask(s *legacy.Session, id []byte) {
	if !s.CancelsTasks() {
		return
	}
	creds := c.creds
	if creds == nil { // of a call that is over
		creds = s.Housekeeping()
	}
	s.PostLater(creds, taskCancel(legacy.Text(), s.AppendNewID(nil), id))
}

// taskCancel appends tasks/cancel.
func taskCancel(dst, request, task []byte) []byte {
	return jsonrpc.AppendRequest(dst, request, mcp.MethodTaskCancel, append(append([]byte(`{"taskId":`), task...), '}'))
}

// abandonTask ends the exchange of a call whose task has no name yet: the answer
// that brings it is waited for, a little, so that it can be cancelled. mu is
// held.
func (c *call) abandonTask(x *legacy.Exchange, why string) {
	ctx, cancel := context.WithCancel(c.engine.ctx)
	c.stop = cancel // which follow calls once the exchange has ended
	c.engine.wg.Add(1)
	go func() {
		defer c.engine.wg.Done()
		defer cancel()
		wait.Pause(ctx, taskGrace)
		if !x.Ended() {
			x.Cancel(why)
		}
		x.Abort()
	}()
}

// nameless reports whether the server may have made a task without our knowing
// its name. mu is held.
func (c *call) nameless() bool { return c.callID != 0 && c.task == nil }

// mayBeTask reports whether the server's answer may be the name of a task. mu is
// held.
func (c *call) mayBeTask() bool {
	return c.task == nil && (c.callID != 0 || // or another replica has sent the call
		c.round > 0 && c.method == mcp.MethodToolsCall && c.driver == byGoroutine && c.x.Session().Info().TaskCalls)
}

// lateTask cancels the task of a call that has ended. mu is held.
func (c *call) lateTask(m *jsonrpc.Message) {
	id := jsonrpc.Get(jsonrpc.Get(m.Result, "task"), "taskId")
	if c.nameless() && c.x != nil && jsonrpc.IsString(id) {
		c.cancelTask(c.x.Session(), id)
	}
}

// taskKind is the kind of a task's id among those of questions (questionIDs).
const taskKind = 't'

// pack adds the task's id to what questionIDs has packed.
func (t *task) pack(packed []byte) []byte {
	if t == nil || len(t.id) > 255 {
		return packed
	}
	return append(append(packed, taskKind, byte(len(t.id))), t.id...)
}

// joins reports whether a task can be asked for its result where its stream
// cannot go on.
func (c *call) joins(at *state.Position) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.task != nil && at.Version != ""
}

// comeBack makes the exchange that goes on with a call on its session. mu is
// held.
func (c *call) comeBack(s *legacy.Session, at *state.Position, creds legacy.Credentials, level mcp.Level) *legacy.Exchange {
	if at.Event != "" {
		c.x = s.Resume(at.Request, at.Event, c, creds, c.eligible, c.askable, level)
		return c.x
	}
	c.x = c.resultRequest(s.Prepare(c.up.Server.NextID(), c, creds, c.eligible, c.askable, level))
	c.x.Continues(c.task.token)
	return c.x
}

// open opens the stream of comeBack's exchange. Where the server cannot go on
// with it, a task is asked for its result anew. The exchange that it returns is
// the caller's, also with an error.
func (c *call) open(ctx context.Context, x *legacy.Exchange, at *state.Position) (*legacy.Exchange, error) {
	if at.Event != "" {
		err := x.Open(ctx)
		if !errors.Is(err, legacy.ErrNotResumable) || !c.joins(at) {
			return x, err
		}
		c.mu.Lock()
		next := c.resultRequest(x.Next(c.up.Server.NextID(), c.task.token))
		c.x = next
		c.mu.Unlock()
		x.Finish()
		x = next
	}
	return x, x.Send(ctx, true)
}
