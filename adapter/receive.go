package adapter

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Receive takes a message of the server. It is part of legacy.Sink.
//
// Hot: once per upstream message.
func (c *call) Receive(m *jsonrpc.Message, borrowed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Method == mcp.NotifyElicitationCompleted && c.phase != done && (c.x == nil || c.moving) {
		c.noteOver(m)
		return
	}
	if c.phase == done || c.x == nil { // of an exchange that the call has left
		if m.IsRequest() {
			c.refuse(m.ID, "the call is over")
		}
		c.lateTask(m)
		return
	}
	if m.Method == mcp.NotifyTaskStatus || m.Method == mcp.NotifyElicitationCompleted {
		c.noted(m)
		c.goOnUnasked()
		return
	}
	c.fallback = nil
	if c.task != nil && !m.IsResponse() {
		c.task.times = 0
	}
	switch {
	case m.Result != nil && c.mayBeTask() && c.beginTask(m.Result):
	case m.Error != nil && c.doubtTask(m.Error):
	case m.Result != nil && !jsonrpc.IsObject(m.Result):
		c.lost(&Refusal{Reason: ReasonUpstreamReply, Detail: "the server's result is no object", MayHaveRun: true})
	case m.Result != nil:
		c.finish(Outcome{Result: m.Result}, borrowed)
	case m.Error != nil:
		c.finishError(m.Error, borrowed)
	case m.IsRequest() && isTaskMethod(m.Method):
		c.serveTask(m)
	case m.IsRequest():
		c.lastBefore()
		c.ask(m.ID, m.Method, m.Params)
		if len(c.rounds) == 0 && len(c.inputs) > 0 && c.phase == running && c.round > 0 && c.lasting == nil {
			c.park(nil) // its client's replica has died, and no round is there to do it
		}
	case m.Method == mcp.NotifyProgress:
		c.heard = time.Now()
		c.progress(m.Params)
	case m.Method == mcp.NotifyMessage:
		c.logged(m.Params)
	case m.Method == mcp.NotifyCancelled:
		c.withdraw(jsonrpc.Get(m.Params, "requestId"))
	}
	if c.lagging {
		c.shed()
	}
	c.parkAlone()
	c.goOnUnasked()
	if c.driver == byRound && !borrowed && c.x != nil {
		c.x.Wake() // it came from elsewhere: the round reads the exchange's own stream
	}
	c.wake()
}

// Fail ends the call without a response. It is part of legacy.Sink.
func (c *call) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == done || c.x == nil {
		return
	}
	if c.rejoin(err) {
		return
	}
	if errors.Is(err, legacy.ErrSessionGone) || errors.Is(err, legacy.ErrBroken) {
		c.up.forget() // it was started anew, and may be another
	}
	if c.task == nil && errors.Is(err, legacy.ErrUnsent) && c.phase == running && c.x.HasMessage() {
		c.restart = true // on a connection that is alive
		c.enter(starting)
		c.wake()
		return
	}
	// What has met no session has not run; what is harmless may run twice, which
	// is left to the rounds of a call that has had several, and to one that lasts
	// (strand). Neither where the server has asked something already.
	unmet := errors.Is(err, legacy.ErrSessionGone) && (c.round == 0 || c.resent)
	twice := errors.Is(err, legacy.ErrBroken) && c.repeats && c.round == 0 && c.lasting == nil
	if c.task == nil && !c.retried && c.phase == running && len(c.inputs) == 0 && (unmet || twice) && c.x.HasMessage() {
		if twice {
			c.x.Cancel("the call runs again")
		}
		c.retried, c.restart, c.mayHaveRun = true, true, twice
		c.enter(starting)
		c.wake()
		return
	}
	reason := asRefusal(err, c.x.Accepted() || !errors.Is(err, legacy.ErrSessionGone))
	if !c.bequeath(nil, reason) && !c.strand(err, reason) && !c.await(err, reason) && !c.putBackLocked(c.fallback, reason) {
		c.lost(reason)
	}
}

// fail ends a call that could not be sent.
func (c *call) fail(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mayHaveRun && idle(err) {
		err = mayHaveRun(err)
	}
	if !c.strand(err, err) && !c.putBackLocked(c.fallback, err) {
		c.lost(err)
	}
}

// lost ends the call with an error of ours where the server cannot be told any
// more. mu is held.
func (c *call) lost(err error) {
	was := c.phase
	if !c.enter(done) {
		return
	}
	c.err = err
	c.inputs = nil
	c.settle(was)
	c.wake()
}

// finish ends the call with the server's response. mu is held.
func (c *call) finish(end Outcome, borrowed bool) {
	was := c.phase
	if was == parked && len(c.inputs)+len(c.withdrawn) > 0 && failedOutcome(&end) {
		// It has given up while its client was thinking.
		own := &Outcome{Method: c.method, Result: bytes.Clone(end.Result), Error: bytes.Clone(end.Error), Cache: c.up.Cache}
		own.ServerInfo = c.x.Session().Info().ServerInfo
		if c.bequeath(own, nil) {
			return
		}
	}
	if !c.enter(done) {
		return
	}
	var o *Outcome
	// What is lent serves the one round that drives; else it is kept.
	if borrowed && c.driver == byRound && c.round == 0 && len(c.rounds) == 1 {
		o = &c.rounds[0].own
		*o = end
	} else {
		o = &Outcome{Result: bytes.Clone(end.Result), Error: bytes.Clone(end.Error), unfit: end.unfit}
	}
	o.Method, o.Cache = c.method, c.up.Cache
	if s := c.x.Session(); s != nil {
		o.ServerInfo = s.Info().ServerInfo
	}
	c.result = o
	if was == parked {
		// A server that has answered no longer waits for its questions.
		c.inputs = nil
	}
	c.settle(was)
}

// finishError maps the codes that a modern server must not send: spec
// 2026-07-28, basic/index, "Error Codes".
func (c *call) finishError(raw []byte, borrowed bool) {
	e, ok := jsonrpc.ParseError(raw)
	if !ok {
		c.lost(&Refusal{Reason: ReasonUpstreamReply, Detail: "the server's error is not legal", MayHaveRun: true})
		return
	}
	switch e.Code {
	case mcp.CodeLegacyResourceNotFound:
		c.finish(Outcome{Error: withCode(raw, jsonrpc.CodeInvalidParams)}, false)
	case mcp.CodeLegacyURLElicitation:
		c.visit(e)
	default:
		c.finish(Outcome{Error: raw, unfit: legacy.IsModernOnly(e.Code)}, borrowed)
	}
}

// withCode returns an error object with another code, the rest unchanged.
func withCode(raw []byte, code int) []byte {
	out := strconv.AppendInt([]byte(`{"code":`), int64(code), 10)
	if rest := jsonrpc.AppendMembers(nil, raw, isCode); len(rest) > 0 {
		out = append(append(out, ','), rest...)
	}
	return append(out, '}')
}

func isCode(name []byte) bool { return string(name) == "code" }

func missing(capability string) *Refusal {
	return &Refusal{
		Reason: ReasonMissingCapability, Required: []byte(capability), MayHaveRun: true,
		Detail: "the server asks for what the client did not declare; declare the capability and send the request again",
	}
}

// noted takes a notification that went to all calls of the session.
func (c *call) noted(m *jsonrpc.Message) {
	switch {
	case m.Method == mcp.NotifyElicitationCompleted:
		c.completed(completedID(m))
	case c.task.isOf(m.Params):
		c.task.read(m.Params)
		c.heard = time.Now()
	}
}

// progress passes progress on under each round's own token.
func (c *call) progress(params []byte) {
	if l := c.lasting; l != nil && l.following != nil && l.following.progress != nil {
		l.following.notify(c, withProgressToken(l.following.progress, params))
	}
	for _, r := range c.rounds {
		if r.progress == nil {
			continue
		}
		c.tell(r, withProgressToken(r.progress, params))
	}
}

func withProgressToken(token, params []byte) []byte {
	n := append([]byte(nil), `{"jsonrpc":"2.0","method":"`+mcp.NotifyProgress+`","params":{"progressToken":`...)
	n = append(n, token...)
	if rest := jsonrpc.AppendMembers(nil, withoutTask(params), isProgressToken); len(rest) > 0 {
		n = append(append(n, ','), rest...)
	}
	return append(n, "}}"...)
}

// withoutTask leaves out which task a notification belongs to: spec 2025-11-25,
// basic/utilities/tasks, "Related Task Metadata". A modern client knows of none.
func withoutTask(params []byte) []byte {
	meta := jsonrpc.Get(params, "_meta")
	if jsonrpc.Get(meta, mcp.MetaRelatedTask) == nil {
		return params
	}
	out := jsonrpc.AppendMembers([]byte{'{'}, params, func(name []byte) bool { return string(name) == "_meta" })
	if kept := jsonrpc.AppendMembers(nil, meta, func(name []byte) bool { return string(name) == mcp.MetaRelatedTask }); len(kept) > 0 {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, `"_meta":{`...), kept...), '}')
	}
	return append(out, '}')
}

func isProgressToken(name []byte) bool { return string(name) == mcp.MetaProgressToken }

// logged passes a log message on to the rounds that want its level. Spec
// 2026-07-28, server/utilities/logging, "Per-request log level".
func (c *call) logged(params []byte) {
	params = withoutTask(params)
	text, _ := jsonrpc.Unquote(jsonrpc.Get(params, "level"))
	level := mcp.ParseLevel(text)
	if l := c.lasting; l != nil && l.following != nil && level != mcp.LevelNone && l.following.level.Admits(level) {
		l.following.notify(c, jsonrpc.AppendRequest(nil, nil, mcp.NotifyMessage, params))
	}
	for _, r := range c.rounds {
		if level != mcp.LevelNone && r.level.Admits(level) {
			c.tell(r, jsonrpc.AppendRequest(nil, nil, mcp.NotifyMessage, params))
		}
	}
}

// tell queues a notification for a round. A client that lags too far behind
// loses its call rather than make us grow or lose messages unseen.
func (c *call) tell(r *callRound, notification []byte) {
	if r.gone || r.err != nil {
		return
	}
	if !r.queue.put(notification, &c.engine.settings) {
		r.err, c.lagging = &Refusal{Reason: ReasonSlowClient, Detail: tooSlow, MayHaveRun: true}, true
	}
}

const tooSlow = "the client reads too slowly: more notifications wait than stream.buffer or stream.buffer_bytes allows"

// shed takes the rounds off the call whose clients lag too far behind. They may
// not notice for long, because a write to them hangs. mu is held.
func (c *call) shed() {
	c.lagging = false
	for i := len(c.rounds) - 1; i >= 0; i-- {
		if r := c.rounds[i]; r.err != nil {
			c.leave(r, "the client reads too slowly")
		}
	}
}

// withdraw: the server no longer wants an answer.
func (c *call) withdraw(id []byte) {
	if id == nil {
		return
	}
	c.inputs = slices.DeleteFunc(c.inputs, func(in *input) bool {
		if !bytes.Equal(in.id, id) {
			return false
		}
		if c.phase == parked {
			c.withdrawn = append(c.withdrawn, in)
		}
		return true
	})
}
