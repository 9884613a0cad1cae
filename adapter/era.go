package adapter

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
)

// probe is a question for an endpoint's era that is in flight.
type probe struct {
	done chan struct{} // closed when era and err stand
	era  legacy.Era
	err  error
}

// known returns the endpoint's era, as far as it is known.
//
// Hot: once per request.
func (up *upstream) known() legacy.Era { return legacy.Era(up.era.Load()) }

// forget: an answer did not fit the era, or the server may be another by now.
func (up *upstream) forget() {
	if !up.fixed {
		up.era.Store(uint32(legacy.EraUnknown))
	}
}

// doubt forgets the era for an answer that servers of either era may give. It
// reports false where the server was asked just now.
func (up *upstream) doubt() bool {
	if up.fixed || time.Since(time.Unix(0, up.asked.Load())) < doubtAfter {
		return false
	}
	up.forget()
	return true
}

// doubtAfter is how long what a server said of its era stands against answers
// that are odd, but not impossible: a client must not make every request two.
const doubtAfter = 5 * time.Second

// find returns the endpoint's era. The first request of several asks for it; the
// others wait. EraUnknown: the server has said nothing that would tell, and counts
// as legacy for this time: that begins with initialize, which does nothing either.
func (up *upstream) find(ctx context.Context, creds legacy.Credentials) (legacy.Era, error) {
	if era := up.known(); era != legacy.EraUnknown {
		return era, nil
	}
	up.mu.Lock()
	p := up.probing
	if p == nil {
		p = &probe{done: make(chan struct{})}
		up.probing = p
		up.mu.Unlock()
		p.era, p.err = up.probe(ctx, creds)
		up.mu.Lock()
		up.probing = nil
		up.mu.Unlock()
		close(p.done)
		return p.era, p.err
	}
	up.mu.Unlock()
	select {
	case <-p.done:
	case <-ctx.Done():
		return legacy.EraUnknown, ctx.Err()
	}
	if p.err == nil || errors.Is(p.err, legacy.ErrUnreachable) {
		return p.era, p.err
	}
	return up.probe(ctx, creds) // the other had other credentials, or its client has gone
}

func (up *upstream) probe(ctx context.Context, creds legacy.Credentials) (legacy.Era, error) {
	era, err := up.Server.Probe(ctx, creds)
	switch {
	case errors.Is(err, legacy.ErrDeadline):
		// Legacy servers may be silent for good; one that was modern is busy first.
		if !up.wasModern.Swap(false) && !up.fixed {
			up.asked.Store(time.Now().UnixNano())
			up.era.Store(uint32(legacy.EraLegacy))
		}
		return legacy.EraUnknown, nil
	case err != nil, era == legacy.EraUnknown:
		return legacy.EraUnknown, err
	}
	up.wasModern.Store(era == legacy.EraModern)
	up.asked.Store(time.Now().UnixNano())
	if !up.fixed {
		up.era.Store(uint32(era))
	}
	return era, nil
}

// refused reports whether an error says that the server has refused the
// handshake, or a request on a session, in a way that one does which no longer
// speaks a legacy revision. It has done nothing of what it was asked.
func refusedLegacy(err error) bool {
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.MayHaveRun || refusal.Err == nil {
		return false
	}
	var envelope *jsonrpc.Error
	var status *legacy.StatusError
	switch {
	case errors.As(refusal.Err, &envelope), errors.Is(refusal.Err, legacy.ErrMalformed): // to initialize
		return true
	case errors.As(refusal.Err, &status):
		return status.Status == 400 || status.Status == 404 || status.Status == 405
	}
	return false
}

// unreached reports whether an error says that the server has been sent nothing
// because it is away.
func unreached(err error) bool {
	var refusal *Refusal
	return errors.Is(err, legacy.ErrUnreachable) && !(errors.As(err, &refusal) && refusal.MayHaveRun)
}

// idle reports whether a refusal says that the server has done nothing of the
// request: the handshake before it was cut, for one.
func idle(err error) bool {
	var refusal *Refusal
	return errors.As(err, &refusal) && !refusal.MayHaveRun
}
