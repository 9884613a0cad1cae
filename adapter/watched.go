package adapter

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// watched are the lasting calls that a listener hears of. Each has a round of its
// own, which finds the call wherever it is; of what it says only the newest is
// kept.
type watched struct {
	handles []string
	request Request    // of those rounds, but for the handle
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

// follow begins to watch. What it returns waits for the end of that, which comes
// with the listener's.
func (w *watched) follow(l *listenRound) (wait func()) {
	var watching sync.WaitGroup
	for _, handle := range w.handles {
		watching.Go(func() {
			for first := true; l.ctx.Err() == nil; first = false {
				if !first && !pause(l.ctx, time.Second) {
					return
				}
				if w.watch(l, handle) {
					return
				}
			}
		})
	}
	return watching.Wait
}

// watch hears of one call. It reports whether there is nothing more to hear.
func (w *watched) watch(l *listenRound, handle string) (over bool) {
	r := w.request
	r.RequestState = []byte(handle)
	round, err := l.engine.Begin(&r)
	if err != nil {
		var refusal *Refusal
		return errors.As(err, &refusal) && refusal.RetryAfter == 0
	}
	defer round.Close()
	stop := context.AfterFunc(l.ctx, round.Gone)
	defer stop()
	for {
		ev, err := round.Next(time.Now().Add(time.Hour))
		switch {
		case errors.Is(err, ErrDeadline):
		case err != nil:
			return false
		case ev.Standing != nil:
			w.show(l, ev.Standing.clone())
		case ev.Outcome != nil:
			return true
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
