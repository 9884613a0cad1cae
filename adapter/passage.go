package adapter

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// What passes between a modern client and a modern server stays as it is: the
// id, the params and the result, byte for byte. Only where an upstream has
// several endpoints, a server's request state goes out sealed in one of ours,
// which names the endpoint that it belongs to.

// request is the round's request as a modern server gets it.
func (r *routeRound) request() *legacy.Request {
	params := r.req.Params
	switch {
	case r.fresh:
		params = withState(params, nil, true)
	case r.aboutTask():
		return r.askForTask()
	case r.state != nil:
		params = withState(params, r.state.Inner, false)
	}
	return r.requestFor(params, r.req.Name)
}

func (r *routeRound) requestFor(params, name []byte) *legacy.Request {
	req := r.req
	out := &legacy.Request{
		ID: req.ID, Creds: r.creds, Text: jsonrpc.AppendRequest(legacy.Text(), req.ID, req.Method, params),
		Headers: append(make([]legacy.Field, 0, 4), legacy.Field{Name: mcp.HeaderMethod, Value: req.Method}),
	}
	if name != nil {
		out.Headers = append(out.Headers, legacy.Field{Name: mcp.HeaderName, Value: mcp.HeaderValue(string(name))})
	}
	if req.Headers != nil {
		for _, f := range req.Headers.Fields() {
			out.Headers = append(out.Headers, legacy.Field{Name: mcp.HeaderParamPrefix + f.Name, Value: f.Value})
		}
	}
	return out
}

// withState is params with the server's own request state, or with none; anew
// leaves out the answers too.
func withState(params, own []byte, anew bool) []byte {
	out := append(make([]byte, 0, len(params)+len(own)), '{')
	out = jsonrpc.AppendMembers(out, params, func(name []byte) bool {
		return string(name) == "requestState" || anew && string(name) == "inputResponses"
	})
	if own != nil {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, `"requestState":`...), own...)
	}
	return append(out, '}')
}

// read reads what a modern server says next. An empty event without an error
// says that the request goes another way.
func (r *routeRound) read(up *upstream, p *legacy.Passage, until time.Time) (Event, error) {
	limit := r.limit()
	a, err := p.Next(earlier(until, limit))
	switch {
	case errors.Is(err, legacy.ErrDeadline):
		if now := time.Now(); !limit.IsZero() && !now.Before(limit) {
			p.Abort() // which tells the server
			return Event{}, r.timedOut(now)
		} else if now.Before(until) { // a Wake
			return Event{}, nil
		}
		return Event{}, ErrDeadline
	case err != nil:
		return r.broke(up, p, err)
	}
	r.heard = time.Now()
	if !a.IsResponse() {
		if len(r.handles) > 0 {
			return Event{Notification: r.withHandles(a.Text)}, nil
		}
		return Event{Notification: a.Text}, nil
	}
	o := &Outcome{Method: r.req.Method, Raw: true, Result: a.Result, Error: a.Error, Status: a.Status}
	if a.Error != nil && r.odd(up, &a) && !r.told && r.suspect(up, legacy.EraModern, Event{Outcome: o}, nil) {
		o.Error = bytes.Clone(o.Error)
		r.drop(p)
		r.set()
		return Event{}, nil
	}
	if r.group.only == nil {
		err = r.wrap(up, o)
	}
	return Event{Outcome: o}, err
}

func earlier(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}

// limit is when the request has lasted too long; zero: never.
func (r *routeRound) limit() time.Time {
	if r.req.Method == mcp.MethodListen {
		return time.Time{}
	}
	set := &r.engine.settings
	return earlier(r.heard.Add(set.Timeout), r.began.Add(set.MaxDuration))
}

func (r *routeRound) timedOut(now time.Time) error {
	if now.Sub(r.began) >= r.engine.settings.MaxDuration {
		return &Refusal{Reason: ReasonCallDuration, Detail: "the call lasted longer than calls.max_duration", MayHaveRun: true}
	}
	return &Refusal{Reason: ReasonCallTimeout, Detail: "the server was silent for calls.timeout", MayHaveRun: true}
}

// broke decides what follows from a passage that has ended without a response.
func (r *routeRound) broke(up *upstream, p *legacy.Passage, err error) (Event, error) {
	r.mu.Lock()
	gone, ending := r.gone, r.ending
	r.mu.Unlock()
	var status *legacy.StatusError
	refusal := asRefusal(err, true)
	unsent := errors.Is(err, legacy.ErrUnreachable)
	switch {
	case gone:
		return Event{}, ErrGone
	case ending:
		return Event{}, nil
	case r.engine.ctx.Err() != nil:
		return Event{}, stopping()
	case r.told:
		return Event{}, refusal
	case errors.As(err, &status) && (status.Status == 400 || status.Status == 404 || status.Status == 405):
		// A server before 2026-07-28 has no session for it, or no such path.
		if !r.suspect(up, legacy.EraModern, Event{}, refusal) {
			return Event{}, refusal
		}
	case unsent, errors.Is(err, legacy.ErrBroken) && mcp.MethodTraits(r.req.Method).Harmless && !r.again:
		r.again, r.ran = r.again || !unsent, r.ran || !unsent
		up.forget()
	default:
		if errors.Is(err, legacy.ErrBroken) {
			up.forget()
		}
		return Event{}, refusal
	}
	r.drop(p)
	r.set()
	return Event{}, nil
}

// drop ends a passage that is of no more use.
func (r *routeRound) drop(p *legacy.Passage) {
	r.mu.Lock()
	r.passage = nil
	r.mu.Unlock()
	p.Finish()
}

// odd reports whether an error does not fit a modern server, so that its era is
// to be found out again: it wants a session, or does not know the revision, or
// the method. The request was refused before it ran.
func (r *routeRound) odd(up *upstream, a *legacy.Arrival) bool {
	code, err := strconv.Atoi(string(jsonrpc.Get(a.Error, "code")))
	if err != nil {
		return false
	}
	switch code {
	case mcp.CodeUnsupportedVersion:
		return true
	case codeServer, codeSession: // with any other status it may be the tool's own
		return (a.Status == 400 || a.Status == 404) && up.doubt()
	case jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidRequest:
		return up.doubt()
	}
	return false
}

// What legacy servers of the TypeScript and Python SDKs answer to a request
// without a session, with HTTP 400 or 404.
const (
	codeServer  = -32000
	codeSession = -32001
)

// wrap seals a server's request state in one of ours, and its task's id.
func (r *routeRound) wrap(up *upstream, o *Outcome) error {
	if o.Result == nil || !jsonrpc.IsObject(o.Result) {
		return nil
	}
	switch kind := string(jsonrpc.Get(o.Result, "resultType")); {
	case r.aboutTask():
		if jsonrpc.Get(o.Result, "taskId") != nil {
			o.Result = withTask(o.Result, append(append([]byte{'"'}, r.req.RequestState...), '"'))
		}
		return nil
	case kind == `"task"`:
		return r.wrapTask(up, o)
	case kind != `"input_required"`:
		return nil
	}
	e := r.engine
	t := state.Token{
		Owner: e.settings.Replica, Upstream: r.group.name, Endpoint: up.id, Principal: bearer(&r.key), Request: requestDigest(r.req),
		Expires: time.Now().Add(e.settings.ParkTTL).Unix() + 1, Foreign: true, Inner: jsonrpc.Get(o.Result, "requestState"),
	}
	text := e.ring.Seal(nil, &t)
	if len(text) > e.settings.MaxState {
		return &Refusal{Reason: ReasonUpstreamReply, MayHaveRun: true, Detail: "the server's request state is larger than state.max_bytes leaves room for"}
	}
	out := append(make([]byte, 0, len(o.Result)+len(text)), '{')
	out = jsonrpc.AppendMembers(out, o.Result, func(name []byte) bool { return string(name) == "requestState" })
	out = append(append(append(out, `,"requestState":"`...), text...), `"}`...)
	o.Result = out
	return nil
}

// readState reads the request state that the round came with. A nil endpoint
// says that a modern server is to get it: its own, which passes as it is, or one
// that was sealed in one of ours. Else it is of a call that a legacy server's
// session carries, at the endpoint that is returned.
func (r *routeRound) readState() (*upstream, error) {
	e := r.engine
	t, err := e.ring.Open(r.req.RequestState, e.settings.MaxState)
	strange := err != nil || t.Upstream != r.group.name // another Holdfast's, perhaps
	switch {
	case strange && r.group.only != nil && r.group.only.known() != legacy.EraLegacy:
		return nil, nil // a modern server's own
	case err != nil: // resume says so
		return r.group.list()[0], nil
	case !t.Foreign:
		return r.legacyEndpoint(&t), nil
	}
	if err := e.checkState(&t, r.group.name, r.req, r.caps); err != nil {
		return nil, err
	}
	r.state = &t
	if r.group.named(t.Endpoint) == nil && !r.rerun(lostState()) {
		return nil, lostState()
	}
	return nil, nil
}

// legacyEndpoint is the endpoint that a call's request state belongs to, or one
// where it may run again.
func (r *routeRound) legacyEndpoint(t *state.Token) *upstream {
	if up := r.group.named(t.Endpoint); up != nil {
		return up
	}
	order := r.group.order(&r.key)
	for _, up := range order {
		if up.known() != legacy.EraModern {
			return up
		}
	}
	return order[0]
}

func lostState() error {
	return &Refusal{Reason: ReasonCallLost, MayHaveRun: true, Detail: "the server that the request state belongs to is not there any more, and running the call again might not be harmless"}
}
