package adapter

import (
	"context"
	"slices"
	"time"
)

// upstreams is every endpoint by its PeersName.
func (e *Engine) upstreams() map[string]*upstream { return *e.endpoints.Load() }

// index makes the map of all endpoints anew.
func (e *Engine) index() {
	all := make(map[string]*upstream)
	for _, g := range e.groups {
		for _, up := range g.list() {
			all[PeersName(g.name, up.id)] = up
		}
	}
	e.endpoints.Store(&all)
}

// SetEndpoints says which endpoints an upstream has from now on, as a DNS name
// may tell: ids are theirs, of which open makes those that are new. Nothing new
// goes to one that is no longer named; what is there finishes there, and then,
// once no request state can lead to it any more, it is closed. An upstream
// whose only endpoint has no ID, and an empty list, are left as they are. It is
// called by one goroutine, which has ended before Shutdown begins.
func (e *Engine) SetEndpoints(ctx context.Context, name string, ids []string, open func(id string) (Endpoint, error)) error {
	g := e.groups[name]
	if g == nil || g.only != nil || len(ids) == 0 {
		return nil
	}
	now := time.Now()
	var list, over []*upstream
	for _, up := range g.list() {
		switch {
		case slices.Contains(ids, up.id):
			up.left.Store(0)
		case !up.retired():
			up.left.Store(now.UnixNano())
		case now.Sub(time.Unix(0, up.left.Load())) > e.settings.ParkTTL+e.settings.MaxDuration && up.Server.Sessions() == 0:
			over = append(over, up)
			continue
		}
		list = append(list, up)
	}
	var failed error
	for _, id := range ids {
		if slices.ContainsFunc(list, func(up *upstream) bool { return up.id == id }) {
			continue
		}
		at, err := open(id)
		if err != nil {
			failed = err
			continue
		}
		list = append(list, g.endpoint(at))
	}
	g.endpoints.Store(&list)
	e.index()
	for _, up := range over {
		up.Server.Close(ctx)
	}
	return failed
}

// retired reports whether the endpoint is no longer named.
func (up *upstream) retired() bool { return up.left.Load() != 0 }
