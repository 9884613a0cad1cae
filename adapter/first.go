package adapter

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// servedRound is a round whose client is at another replica.
type servedRound interface {
	Round
	// letDown ends it when the stream to its client has ended before its outcome.
	letDown(ctx context.Context)
}

// beginFirst begins a first round, or a listener, that another replica has sent
// on s because the session of its key is kept here.
func (e *Engine) beginFirst(ctx context.Context, s Stream, req *Request) (servedRound, error) {
	g := e.groups[req.Upstream]
	if g == nil {
		return nil, refuse(ReasonInternal, "the replica that keeps the session has no upstream of this name")
	}
	caps, err := e.caps.get(req.Capabilities)
	if err != nil {
		return nil, &Refusal{Reason: ReasonInvalidParams, Detail: err.Error()}
	}
	if e.draining.Load() {
		return nil, errAway
	}
	// Who was frozen finds requests that were sent elsewhere meanwhile: it looks
	// at what else has come, and at its lease, before it runs one.
	if err := e.sure(ctx); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ErrGone
	}
	up := g.named(req.endpoint)
	if up == nil || up.known() == legacy.EraModern {
		return nil, errAway
	}
	key := e.key(req, caps)
	keeper, err := up.Server.Keeper(ctx, &key, credentials(req), nil)
	if err != nil {
		return nil, asRefusal(err, false)
	}
	if keeper != "" && keeper != e.settings.Replica {
		return nil, away{keeper}
	}
	if req.Method == mcp.MethodListen {
		l, err := e.beginListen(up, req, caps)
		if err != nil {
			return nil, err
		}
		return l, nil
	}
	if err := e.arrive(); err != nil {
		return nil, err
	}
	e.remote.Add(1)
	r, err := e.startFirst(ctx, s, up, req, caps)
	if err != nil {
		e.remote.Add(-1)
		e.leave()
		return nil, err
	}
	return r, nil
}

func (e *Engine) startFirst(ctx context.Context, s Stream, up *upstream, req *Request, caps *mcp.Capabilities) (*callRound, error) {
	if req.once {
		key := e.key(req, caps)
		if err := e.awaitGo(ctx, s, req.Method == mcp.MethodToolsCall && up.Server.Harmless(&key, req.Name)); err != nil {
			return nil, err
		}
	}
	r := e.newRound(req)
	r.remote = true
	return r, e.start(up, req, caps, r)
}

// awaitGo says that a first round can begin, and whether it is known to be
// harmless, and waits until whoever has sent it knows that.
func (e *Engine) awaitGo(ctx context.Context, s Stream, harmless bool) error {
	f := newFields(formReady, 0)
	f.flag('s', harmless)
	if s.Send(ctx, e.seal(f)) != nil {
		return ErrGone
	}
	message, err := s.Recv(time.Now().Add(e.settings.Bus.Patience()))
	if errors.Is(err, ErrDeadline) {
		return away{e.settings.Replica} // it may ask again
	}
	if err != nil {
		return ErrGone
	}
	plain, err := e.ring.OpenMessage(nil, message, contextRound)
	if err != nil {
		return errWire
	}
	if form, _, err := readForm(plain); err != nil || form != formGo {
		return errWire
	}
	return nil
}
