package adapter

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// Peers are the other replicas as the sessions of one upstream see them: a
// legacy.Peers. What they say to each other is sealed, because credentials are
// in it.
type Peers struct {
	bus      Bus
	ring     *state.Ring
	self     string
	upstream string
}

// NewPeers makes the Peers of an upstream. What comes from the others for it,
// Engine.ServeStream and Engine.Hear bring.
func NewPeers(bus Bus, ring *state.Ring, self, upstream string) *Peers {
	return &Peers{bus, ring, self, upstream}
}

// Self is this replica.
func (p *Peers) Self() string { return p.self }

// Live are the other replicas that are known to live.
func (p *Peers) Live() []string { return p.bus.Live() }

// Confirmed reports whether this replica holds its lease.
func (p *Peers) Confirmed() bool { return p.bus.Confirmed() }

// Missing reports whether another replica may live that is not heard of.
func (p *Peers) Missing() bool { return p.bus.Missing() }

// Request asks a replica, and returns its answer.
func (p *Peers) Request(ctx context.Context, replica string, body []byte) ([]byte, error) {
	stream, err := p.bus.Ask(ctx, replica, KindSession, p.seal(body, contextRound))
	if err != nil {
		return nil, fmt.Errorf("ask replica %s about a session: %w", replica, err)
	}
	defer stream.Close()
	stop := context.AfterFunc(ctx, stream.Close)
	defer stop()
	until, ok := ctx.Deadline()
	if !ok {
		until = time.Now().Add(time.Hour) // the stream itself ends when the replica does
	}
	message, err := stream.Recv(until)
	if err == nil {
		var plain []byte
		if plain, err = p.ring.OpenMessage(nil, message, contextEvent); err == nil {
			return sessionBody(plain, nil)
		}
	}
	return nil, fmt.Errorf("ask replica %s about a session: %w", replica, err)
}

// Tell tells a replica something. It may be lost.
func (p *Peers) Tell(replica string, body []byte) {
	p.bus.Tell(replica, KindNote, p.seal(body, contextRound))
}

func (p *Peers) seal(body, context []byte) []byte {
	f := newFields(formSession, len(body))
	f.text('u', p.upstream)
	f.bytes('b', body)
	return p.ring.SealMessage(nil, f, context)
}

// sessionBody returns what is said about sessions, and of which upstream.
func sessionBody(plain []byte, upstream *string) (body []byte, err error) {
	form, rest, err := readForm(plain)
	if err != nil || form != formSession {
		return nil, errWire
	}
	ok := readFields(rest, func(f item) {
		switch f.tag {
		case 'u':
			if upstream != nil {
				*upstream = string(f.value)
			}
		case 'b':
			body = f.value
		}
	})
	if !ok || body == nil {
		return nil, errWire
	}
	return body, nil
}

// serveSession answers a question about an upstream's sessions.
func (e *Engine) serveSession(ctx context.Context, from string, s Stream, plain []byte) {
	var name string
	body, err := sessionBody(plain, &name)
	up := e.upstreams()[name]
	if err != nil || up == nil {
		e.noisy.Warn().Str("peer", from).Str("upstream", name).Msg("question of another replica about sessions refused: has it other upstreams?")
		_ = s.End(ctx, nil)
		return
	}
	f := newFields(formSession, 0)
	f.bytes('b', up.Server.Answer(ctx, from, body))
	_ = s.End(ctx, e.seal(f))
}

// Hear takes what another replica told. It does not block; message is the
// engine's.
func (e *Engine) Hear(from string, kind Kind, message []byte) {
	if kind != KindNote {
		return
	}
	var name string
	plain, err := e.ring.OpenMessage(nil, message, contextRound)
	if err == nil {
		form, rest, formErr := readForm(plain)
		if formErr == nil && form == formDismiss {
			if err := e.dismissGuest(rest); err != nil {
				e.noisy.Warn().Err(err).Str("peer", from).Msg("message of another replica about a round refused")
			}
			return
		}
		plain, err = sessionBody(plain, &name)
	}
	up := e.upstreams()[name]
	if err != nil || up == nil {
		e.noisy.Warn().Err(err).Str("peer", from).Str("upstream", name).Msg("message of another replica about sessions refused")
		return
	}
	up.Server.Hear(from, plain)
}

// PeersChanged says that the set of live replicas changed. It does not block.
func (e *Engine) PeersChanged() {
	for _, u := range e.upstreams() {
		u.Server.PeersChanged()
	}
	e.others.look(e.settings.Bus.Live())
	select {
	case e.company <- struct{}{}: // to Shutdown, which may let calls go to another replica that has just begun
	default:
	}
	e.calls.look() // Shutdown need not wait for clients that nobody can bring here
}
