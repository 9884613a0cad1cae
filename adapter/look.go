package adapter

import (
	"bytes"
	"errors"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// handleRound is a round that is about a lasting call. One that is lost has
// failed: what was promised with its handle does not vanish without a word.
type handleRound struct {
	Round
	req  *Request // valid until Close
	t    *state.Token
	lost *Outcome // what is left of the call to be told, or nil
	why  *Refusal // it is lost
	told bool     // it was
}

// orLost tells of a round about a lasting call, also where that is lost.
func (e *Engine) orLost(req *Request, r Round, err error) (Round, error) {
	var refusal *Refusal
	if err != nil && !isLost(err, &refusal) {
		e.metrics.round(ServedRefused, time.Time{})
		return nil, aboutHandle(req.Method, err)
	}
	t, opened := e.ring.Open(req.RequestState, e.settings.MaxState)
	if opened != nil {
		return r, err // it was open a moment ago
	}
	h := &handleRound{Round: r, req: req, t: &t}
	if err != nil {
		h.lose(refusal)
	}
	return h, nil
}

// aboutHandle puts a refusal of a request state into the words of a handle.
func aboutHandle(method string, err error) error {
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.MayHaveRun { // the call's own end
		return err
	}
	what, handle := "task", "id"
	if byFollower(method) {
		what, handle = "request", "token"
	}
	switch refusal.Reason {
	case ReasonStateInvalid:
		return refuse(ReasonStateInvalid, "no such %s: its %s is damaged, or not ours", what, handle)
	case ReasonStateUnknown:
		return refuse(ReasonStateUnknown, "no such %s here: its %s was sealed with a key that this replica does not have", what, handle)
	case ReasonStateForeign:
		return refuse(ReasonStateForeign, "no such %s: its %s belongs to another caller, server or %s", what, handle, what)
	case ReasonStateExpired:
		return refuse(ReasonStateExpired, "the %s has expired", what)
	}
	return err
}

func isLost(err error, refusal **Refusal) bool {
	return errors.As(err, refusal) && (*refusal).Reason == ReasonCallLost
}

func (h *handleRound) lose(why *Refusal) {
	h.why = why
	h.lost = lostStanding(h.req.Method, bytes.Clone(h.req.RequestState), h.t, why)
}

// Next implements Round.
func (h *handleRound) Next(until time.Time) (Event, error) {
	if h.lost == nil {
		ev, err := h.Round.Next(until)
		var refusal *Refusal
		if !isLost(err, &refusal) {
			return ev, aboutHandle(h.req.Method, err)
		}
		h.lose(refusal)
	}
	switch {
	case h.req.Method == methodWatch && !h.told:
		h.told = true
		return Event{Standing: h.lost}, nil
	case h.req.Method == mcp.MethodResume, h.req.Method == mcp.MethodAnswer:
		return Event{}, h.why
	case h.req.Method != mcp.MethodTaskGet && h.req.Method != mcp.MethodTaskResult && h.req.Method != mcp.MethodStatus:
		o := acknowledged(h.req.Method)
		o.Standing = h.lost.Standing
		return Event{Outcome: o}, nil
	}
	return Event{Outcome: h.lost}, nil
}

// Gone implements Round.
func (h *handleRound) Gone() {
	if h.Round != nil {
		h.Round.Gone()
	}
}

// Close implements Round.
func (h *handleRound) Close() {
	if h.Round != nil {
		h.Round.Close()
	}
}

// Served implements Round.
func (h *handleRound) Served() Served {
	if h.Round == nil {
		return ServedRefused
	}
	return h.Round.Served()
}

// CallID implements Round.
func (h *handleRound) CallID() [16]byte { return h.t.Call }
