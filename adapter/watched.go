package adapter

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// watched are the lasting calls that a listener hears of; of what is said of each
// only the newest is kept.
type watched struct {
	handles []string
	request Request    // of the rounds that watch them, but for the handle
	changed []*Outcome // how calls stand that have changed; guarded by the listener's mu
}

// choose takes the handles that are good for a caller.
func (w *watched) choose(e *Engine, up *upstream, req *Request, caps *mcp.Capabilities, handles []string) []string {
	if len(handles) == 0 {
		return nil
	}
	w.request = Request{
		Upstream: req.Upstream, Method: methodWatch, ID: []byte("0"), Params: []byte("{}"),
		ClientInfo: bytes.Clone(req.ClientInfo), Capabilities: bytes.Clone(req.Capabilities),
		Credentials: req.Credentials, PrincipalHeader: req.PrincipalHeader,
	}
	for _, handle := range handles {
		r := w.request
		r.RequestState = []byte(handle)
		t, err := e.openState(up, &r, caps)
		if err == nil && !t.Foreign && !slices.Contains(w.handles, handle) { // of a modern server's task only that server tells
			w.handles = append(w.handles, handle)
		}
	}
	return w.handles
}

// follow begins to watch, until what it returns is called.
func (w *watched) follow(l *listenRound) (leave func()) {
	for _, handle := range w.handles {
		l.engine.watching.join(l, handle)
	}
	return func() {
		for _, handle := range w.handles {
			l.engine.watching.leave(l, handle)
		}
	}
}

// show has the listener's client told how a call stands, instead of what it was
// to be told of it before.
func (w *watched) show(l *listenRound, o *Outcome) {
	o.Subscription = l.id
	l.mu.Lock()
	defer l.mu.Unlock()
	same := func(old *Outcome) bool { return bytes.Equal(old.Standing.Handle, o.Standing.Handle) }
	w.changed = append(slices.DeleteFunc(w.changed, same), o)
	l.rouse()
}

// take returns what the client is to be told next. The listener's mu is held.
func (w *watched) take() *Outcome {
	o := w.changed[0]
	w.changed = slices.Delete(w.changed, 0, 1)
	return o
}

// watching are the lasting calls that listeners here hear of. However many hear of
// one, it is watched once, so that a caller has no more watches than calls that
// last, which are bounded.
type watching struct {
	mu sync.Mutex
	of map[string]*watch // by handle, which is one caller's
}

// watch is a lasting call that is watched. It has a round of its own, which finds
// the call wherever it is.
type watch struct {
	engine *Engine
	handle string
	ctx    context.Context
	cancel context.CancelFunc // with the last listener

	// Guarded by watching's mu.
	request Request // of its rounds, as who came last has it
	hearers []*listenRound
	newest  *Outcome // what was said last, for who comes later
}

// join lets a listener hear of a call. A watch that it begins is on the engine's
// books, where the listener is.
func (ws *watching) join(l *listenRound, handle string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.of[handle]
	if w == nil {
		w = &watch{engine: l.engine, handle: handle}
		w.ctx, w.cancel = context.WithCancel(l.engine.ctx)
		if ws.of == nil {
			ws.of = make(map[string]*watch)
		}
		ws.of[handle] = w
		l.engine.wg.Add(1)
		go w.run()
	}
	w.request = l.calls.request
	w.request.RequestState = []byte(handle)
	w.hearers = append(w.hearers, l)
	if w.newest != nil {
		l.calls.show(l, w.newest.clone())
	}
}

// leave lets a listener hear of a call no more.
func (ws *watching) leave(l *listenRound, handle string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.of[handle]
	if w == nil {
		return
	}
	i := slices.Index(w.hearers, l)
	if i < 0 { // it is another watch: the listener's was over
		return
	}
	if w.hearers = slices.Delete(w.hearers, i, i+1); len(w.hearers) == 0 {
		delete(ws.of, handle)
		w.cancel()
	}
}

// end takes a watch off that has nothing more to say.
func (ws *watching) end(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.of[w.handle] == w {
		delete(ws.of, w.handle)
	}
}

// next is the request of a watch's next round.
func (ws *watching) next(w *watch) Request {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return w.request
}

// run watches until there is nothing more to hear, or nobody who listens.
func (w *watch) run() {
	e := w.engine
	defer e.wg.Done()
	defer w.cancel()
	defer e.watching.end(w)
	for first := true; w.ctx.Err() == nil; first = false {
		if !first && !wait.Pause(w.ctx, time.Second) || w.hear() {
			return
		}
	}
}

// hear hears of the call. It reports whether there is nothing more to hear.
func (w *watch) hear() (over bool) {
	w.engine.watches.Add(1)
	defer w.engine.watches.Add(-1)
	r := w.engine.watching.next(w)
	round, err := w.engine.Begin(&r)
	if err != nil {
		var refusal *Refusal
		return errors.As(err, &refusal) && refusal.RetryAfter == 0
	}
	defer round.Close()
	stop := context.AfterFunc(w.ctx, round.Gone)
	defer stop()
	for {
		ev, err := round.Next(time.Now().Add(time.Hour))
		switch {
		case errors.Is(err, ErrDeadline):
		case err != nil:
			return false
		case ev.Standing != nil:
			w.tell(ev.Standing)
		case ev.Outcome != nil:
			return true
		}
	}
}

// tell tells all who listen.
func (w *watch) tell(o *Outcome) {
	ws := &w.engine.watching
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.newest = o.clone()
	for _, l := range w.hearers {
		l.calls.show(l, o.clone())
	}
}

// clone is the outcome in memory of its own.
func (o *Outcome) clone() *Outcome {
	c := *o
	c.Result, c.Error, c.State, c.ServerInfo = bytes.Clone(o.Result), bytes.Clone(o.Error), bytes.Clone(o.State), bytes.Clone(o.ServerInfo)
	c.Inputs = slices.Clone(o.Inputs)
	for i := range c.Inputs {
		c.Inputs[i].Params = bytes.Clone(c.Inputs[i].Params)
	}
	if o.Standing != nil {
		s := *o.Standing
		s.Handle = bytes.Clone(s.Handle)
		c.Standing = &s
	}
	return &c
}
