package adapter

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// fanRound is a subscriptions/listen request that names tasks where its upstream has
// several endpoints: only the endpoint that has a task tells of it. So the request
// goes to each of these, with the ids that it knows, and for what else is wanted to
// one as any other does. The client sees one stream: the acknowledgement names what
// all of them have agreed to; where one of them ends, it ends, and the client listens
// again.
type fanRound struct {
	engine *Engine
	req    *Request // valid until Close
	key    legacy.Key
	ctx    context.Context // ends with Gone or Close
	cancel context.CancelFunc
	arms   []*arm
	heard  chan heard
	opened chan struct{} // closed once the client is told of the acknowledgement
	driven sync.WaitGroup

	// Of Next's goroutine.
	waits int              // arms that have not acknowledged yet
	late  <-chan time.Time // when they have had their time; nil: they have
}

// arm is the part of a fanRound at one endpoint.
type arm struct {
	round  *routeRound
	rest   bool   // it is for all but the tasks
	agreed []byte // what its endpoint has agreed to, with our ids; nil: nothing
	spoken bool   // it has said whether it is served
	left   bool   // it has not in time: nobody hears it any more
}

// heard is what an arm has been told, in memory of its own.
type heard struct {
	arm *arm
	ev  Event
	err error
}

// taskIDs are the tasks that a listener names, as far as they are known here, by the
// endpoint that has them.
type taskIDs struct {
	endpoints []*upstream // in the order in which they were named
	of        map[*upstream]*armTasks
}

// armTasks are the tasks of one endpoint.
type armTasks struct {
	ids     [][]byte          // raw JSON strings, as the endpoint knows them
	handles map[string][]byte // of a modern server's, by its id: what the client knows it by, raw
}

// sortTasks finds out where the tasks are that a listener names. One that is not this
// caller's, or is over, is nobody's: the acknowledgement says so.
func (r *routeRound) sortTasks() (*taskIDs, error) {
	raw := jsonrpc.Get(jsonrpc.Get(r.req.Params, "notifications"), "taskIds")
	if raw == nil {
		return nil, nil
	}
	named, err := parseTexts("taskIds", raw, r.engine.settings.MaxURIs)
	if err != nil {
		return nil, err
	}
	t := &taskIDs{of: make(map[*upstream]*armTasks)}
	for _, handle := range named {
		asked := *r.req
		asked.Method, asked.RequestState = methodWatch, []byte(handle)
		token, err := r.engine.openState(r.group.list()[0], &asked, r.caps)
		if err != nil {
			continue
		}
		if up := r.endpointOf(token); up != nil {
			t.add(up, token, jsonrpc.AppendQuote(nil, handle))
		}
	}
	return t, nil
}

// endpointOf is the endpoint that a handle belongs to, or nil.
func (r *routeRound) endpointOf(t *state.Token) *upstream {
	if t.Foreign {
		return r.group.named(t.Endpoint)
	}
	return r.legacyEndpoint(t)
}

func (t *taskIDs) add(up *upstream, token *state.Token, handle []byte) {
	at := t.of[up]
	if at == nil {
		at = &armTasks{handles: make(map[string][]byte)}
		t.of[up] = at
		t.endpoints = append(t.endpoints, up)
	}
	id := handle
	if token.Foreign {
		id = bytes.Clone(token.Inner)
		text, _ := jsonrpc.Unquote(id)
		at.handles[text] = handle
	}
	if !slices.ContainsFunc(at.ids, func(known []byte) bool { return bytes.Equal(known, id) }) {
		at.ids = append(at.ids, id)
	}
}

// beginFan begins a listener whose tasks are at endpoints that are known.
func (e *Engine) beginFan(r *routeRound, tasks *taskIDs) (Round, error) {
	f := &fanRound{engine: e, req: r.req, key: r.key, heard: make(chan heard), opened: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancel(e.ctx)
	wants := jsonrpc.Get(r.req.Params, "notifications")
	if others := jsonrpc.AppendMembers([]byte{'{'}, wants, isTaskIDs); len(others) > 1 {
		f.arms = append(f.arms, &arm{rest: true, round: f.listen(r, append(others, '}'), nil, nil)})
	}
	for _, up := range tasks.endpoints {
		at := tasks.of[up]
		list := append(append([]byte(`{"taskIds":[`), bytes.Join(at.ids, []byte{','})...), "]}"...)
		f.arms = append(f.arms, &arm{round: f.listen(r, list, up, at.handles)})
	}
	f.waits = len(f.arms)
	f.late = time.After(r.group.list()[0].Server.OpenTimeout())
	if err := e.admit(f, caller(&f.key)); err != nil {
		f.cancel()
		for _, a := range f.arms {
			a.round.cancel()
		}
		return nil, err
	}
	for _, a := range f.arms {
		a.round.set()
		f.driven.Add(1)
		go f.drive(a)
	}
	return f, nil
}

func isTaskIDs(name []byte) bool { return string(name) == "taskIds" }

// listen makes the round of an arm, that wants what notifications has.
func (f *fanRound) listen(r *routeRound, notifications []byte, at *upstream, handles map[string][]byte) *routeRound {
	req := *r.req
	req.part = true
	req.Params = withMember(req.Params, "notifications", notifications)
	part := f.engine.newRoute(r.group, &req, r.caps)
	part.at, part.handles = at, handles
	return part
}

// drive hears an arm to its end.
func (f *fanRound) drive(a *arm) {
	defer f.engine.wg.Done()
	defer f.driven.Done()
	defer a.round.Close()
	stop := context.AfterFunc(f.ctx, a.round.Gone)
	defer stop()
	for first := true; ; {
		ev, err := a.round.Next(time.Now().Add(time.Hour))
		if errors.Is(err, ErrDeadline) {
			continue
		}
		ev.Notification = bytes.Clone(ev.Notification)
		for _, o := range []**Outcome{&ev.Outcome, &ev.Standing} {
			if *o != nil {
				*o = (*o).clone()
			}
		}
		select {
		case f.heard <- heard{a, ev, err}:
		case <-f.ctx.Done():
			return
		}
		if err != nil || ev.Outcome != nil {
			return
		}
		if first {
			first = false
			select {
			case <-f.opened:
			case <-f.ctx.Done():
				return
			}
		}
	}
}

// Next implements Round.
func (f *fanRound) Next(until time.Time) (Event, error) {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	for {
		select {
		case h := <-f.heard:
			if h.arm.left {
				continue
			}
			if f.waits == 0 {
				return h.ev, h.err
			}
			if ev, err, ok := f.acknowledged(h); ok {
				return ev, err
			}
		case <-f.late:
			if f.late = nil; f.waits > 0 && f.serves() {
				return f.acknowledge(), nil
			}
		case <-t.C:
			return Event{}, ErrDeadline
		case <-f.ctx.Done():
			return Event{}, ErrGone
		}
	}
}

// acknowledged takes the first word of an arm. What the rest has to say is the
// client's answer where it is not served; an endpoint that does not tell of its tasks
// has agreed to none, unless there is nothing else. ok says that the client is told now.
func (f *fanRound) acknowledged(h heard) (ev Event, err error, ok bool) {
	f.waits--
	h.arm.spoken = true
	params := jsonrpc.Get(h.ev.Notification, "params")
	h.arm.agreed = jsonrpc.Get(params, "notifications")
	switch {
	case h.arm.agreed != nil:
	case h.arm.rest || len(f.arms) == 1, f.waits == 0 && !f.serves():
		return h.ev, h.err, true
	}
	if f.waits > 0 && (f.late != nil || !f.serves()) {
		return Event{}, nil, false
	}
	return f.acknowledge(), nil, true
}

// serves reports whether an endpoint has agreed to something.
func (f *fanRound) serves() bool {
	return slices.ContainsFunc(f.arms, func(a *arm) bool { return a.agreed != nil })
}

// acknowledge tells the client what has been agreed to. An endpoint that has said
// nothing in the time for opening a session is left out; while none has agreed, the
// listener waits as any other does.
func (f *fanRound) acknowledge() Event {
	f.waits = 0
	for _, a := range f.arms {
		if !a.spoken {
			a.left = true
			a.round.Gone()
		}
	}
	close(f.opened)
	n := append([]byte(nil), `{"jsonrpc":"2.0","method":"`+mcp.NotifyAcknowledged+`","params":{"_meta":{"`+mcp.MetaSubscriptionID+`":`...)
	n = append(append(n, f.req.ID...), `},"notifications":{`...)
	var ids []byte
	start := len(n)
	for _, a := range f.arms {
		for list := jsonrpc.Array(jsonrpc.Get(a.agreed, "taskIds")); list.Next(); {
			ids = append(append(ids, list.Value()...), ',')
		}
		if a.rest {
			n = jsonrpc.AppendMembers(n, a.agreed, isTaskIDs)
		}
	}
	if len(ids) > 0 {
		if len(n) > start {
			n = append(n, ',')
		}
		n = append(append(append(n, `"taskIds":[`...), ids[:len(ids)-1]...), ']')
	}
	return Event{Notification: append(n, "}}}"...)}
}

// finish implements listener.
func (f *fanRound) finish() {
	for _, a := range f.arms {
		a.round.finish()
	}
}

func (f *fanRound) within() bool { return false }

// Gone implements Round.
func (f *fanRound) Gone() { f.cancel() }

// Close implements Round.
func (f *fanRound) Close() {
	f.cancel()
	f.driven.Wait()
	f.engine.dismiss(f, caller(&f.key))
}

// Served implements Round: a listener needs no other replica.
func (f *fanRound) Served() Served { return ServedLocal }

// CallID implements Round: a listener never parks.
func (f *fanRound) CallID() (id [16]byte) { return id }
