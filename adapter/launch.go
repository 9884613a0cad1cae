package adapter

import (
	"bytes"
	"context"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// goLaunch starts launch with what it needs beyond the round's own memory. mu
// is held.
func (c *call) goLaunch(s *legacy.Session, text []byte) {
	c.ownKey()
	ctx, cancel := context.WithCancel(c.engine.ctx)
	c.stop, c.driver = cancel, byGoroutine
	c.engine.calls.watch(c)
	c.arm()
	c.engine.wg.Add(1)
	go func() {
		defer c.engine.wg.Done()
		defer cancel()
		c.launch(ctx, s, text)
	}()
}

// ownKey: a call that lasts may need a session again when the memory of its
// first round's request has another use.
func (c *call) ownKey() {
	c.key.ClientInfo, c.key.Extra = bytes.Clone(c.key.ClientInfo), bytes.Clone(c.key.Extra)
}

// launch sends the request, taking the time that this needs. It owns s and
// text.
func (c *call) launch(ctx context.Context, s *legacy.Session, text []byte) {
	c.mu.Lock()
	x, creds := c.x, c.creds
	c.mu.Unlock()
	var err error
	if x == nil {
		x, err = c.prepare(ctx, s, creds, text)
	}
	if x != nil && err == nil {
		err = c.sendPrepared(ctx, x)
	}
	c.fail(err)
}

// sendPrepared sends the request of an exchange and lets follow read on.
func (c *call) sendPrepared(ctx context.Context, x *legacy.Exchange) (err error) {
	c.mu.Lock()
	creds := c.creds
	c.mu.Unlock()
	c.raiseLevel(ctx, x.Session(), creds)
	if err = ctx.Err(); err == nil {
		err = x.Send(ctx, true)
	}
	c.mu.Lock()
	if err == nil && c.phase == starting { // else a question came on the GET stream already
		c.enter(running)
	}
	over := c.phase == done
	unnamed := err == nil && over && c.nameless()
	if unnamed {
		c.abandonTask(x, "the client has gone")
	}
	live := err == nil && !over || unnamed
	c.wake()
	c.mu.Unlock()
	switch {
	case live:
		// A goroutine of its own: this one's stack has grown with dialling.
		c.engine.wg.Add(1)
		go c.follow(x)
		return nil
	case over: // the client has gone meanwhile, or the response was there at once
		if !x.Ended() { // the server may have the request
			x.Cancel("the client has gone")
		}
		err = nil
	default:
		err = asRefusal(err, true)
	}
	x.Finish()
	return err
}

// prepare finds a session and makes the exchange. A nil exchange without an
// error says that there is nothing to send now: the call is over, or the
// client is asked first.
func (c *call) prepare(ctx context.Context, s *legacy.Session, creds legacy.Credentials, text []byte) (*legacy.Exchange, error) {
	var err error
	if s == nil {
		if s, err = c.up.Server.Acquire(ctx, &c.key, c.eligible, creds); err != nil {
			legacy.FreeText(text)
			return nil, asRefusal(err, false)
		}
	}
	if c.method == mcp.MethodToolsCall {
		if err := c.checkRules(ctx, s, creds); err != nil {
			s.Return(c.eligible)
			legacy.FreeText(text)
			return nil, err
		}
	}
	if c.eligible && s.HasOrphans() {
		s.FetchOrphans(ctx)
	}
	c.mu.Lock() // until the exchange is known: the session's GET stream may reach the call
	defer c.mu.Unlock()
	if c.phase == done {
		s.Return(c.eligible)
		legacy.FreeText(text)
		return nil, nil
	}
	text = c.forRevision(s.Info().Revision, text)
	id := c.msgID
	if c.tasked && c.callID == 0 {
		text = c.asTask(text)
	}
	if c.callID != 0 {
		id = c.callID
	}
	x := s.Prepare(id, c, creds, c.eligible, c.askable, c.level)
	if id != c.msgID {
		x.Continues(c.idText(c.msgID))
	}
	x.SetMessage(text)
	name := []byte(c.name)
	if len(c.rounds) > 0 {
		name = c.rounds[0].req.Name
	}
	c.keepMessage(x, s, name)
	c.x = x
	if c.eligible {
		for _, o := range s.TakeOrphans() {
			c.ask(o.ID, o.Method, o.Params)
		}
	}
	if len(c.inputs) > 0 {
		// What the server asked outside any call it may need before the next
		// one: a file system server without roots refuses every path.
		c.driver = byNobody
		c.parkAt = time.Now()
		if c.lasting != nil && len(c.rounds) == 0 {
			c.park(nil)
		}
		c.wake()
		return nil, nil
	}
	return x, nil
}

// checkRules holds the request's headers against what the tool's schema says.
func (c *call) checkRules(ctx context.Context, s *legacy.Session, creds legacy.Credentials) error {
	c.mu.Lock()
	name := c.name
	if len(c.rounds) > 0 {
		name = string(c.rounds[0].req.Name)
	}
	c.mu.Unlock()
	rules, known := s.Rules([]byte(name))
	if !known {
		s.LoadRules(ctx, creds)
		rules, _ = s.Rules([]byte(name))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rounds) == 0 && c.lasting == nil { // the client has gone, and its request with it
		return ErrGone
	}
	c.rules = rules
	support := s.TaskSupport([]byte(name))
	c.tasked = c.runsAsTask(support)
	if support == mcp.TaskRequired && !c.lasts && c.engine.settings.LastingOnly {
		refusal := missing(`{"extensions":{"` + mcp.ExtensionTasks + `":{}}}`)
		refusal.Detail, refusal.MayHaveRun = "the tool runs as a task only; declare the extension and send the request again", false
		return refusal
	}
	if len(c.rounds) == 0 {
		return nil
	}
	return checkParams(c.rounds[0].req, rules)
}

// takeText takes the unsent request back from an exchange that has failed.
func (c *call) takeText() []byte {
	c.mu.Lock()
	x := c.x
	c.x, c.restart = nil, false
	c.mu.Unlock()
	text := x.TakeMessage()
	x.Finish()
	return text
}

// detach gives the exchange a goroutine of its own. mu is held.
func (c *call) detach() {
	c.ownKey()
	c.driver, c.inline = byGoroutine, nil
	c.engine.calls.watch(c)
	c.arm()
	c.engine.wg.Add(1)
	go c.follow(c.x)
}

// follow is the goroutine of a call that has been sent. It is small: thousands
// of parked calls have one each.
func (c *call) follow(x *legacy.Exchange) {
	defer c.engine.wg.Done()
	if !x.Run(c.engine.ctx) {
		c.engine.wg.Add(1)
		go c.follow(x)
		return
	}
	c.mu.Lock()
	again := c.restart
	c.mu.Unlock()
	if again {
		c.relaunch()
		return
	}
	next := c.dueTask(x)
	x.Finish()
	if next != nil {
		c.pursue(next)
		return
	}
	c.mu.Lock()
	if c.x == x && (c.phase == done || c.estate != nil) {
		c.x = nil // what is kept of the call needs no session
	}
	if c.phase == done && c.stop != nil {
		c.stop() // nothing of it is waited for any more
	}
	c.mu.Unlock()
}

// renamed returns the request under an id of its own where the server may have it
// already. Spec 2025-11-25, basic, "Requests": an id is used once in a session.
func (c *call) renamed(text []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mayHaveRun || len(c.rounds) == 0 {
		return text
	}
	legacy.FreeText(text)
	c.msgID, c.callID = c.up.Server.NextID(), 0
	return c.appendRequest(legacy.Text(), c.rounds[0].req)
}

// relaunch sends a request again that has met a session that is gone.
func (c *call) relaunch() {
	ctx, cancel := context.WithCancel(c.engine.ctx)
	defer cancel()
	c.mu.Lock()
	c.stop = cancel
	over := c.phase == done
	c.mu.Unlock()
	text := c.takeText()
	if over { // the client has gone meanwhile
		legacy.FreeText(text)
		return
	}
	c.launch(ctx, nil, c.renamed(text))
}
