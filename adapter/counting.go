package adapter

import "github.com/holdfast-mcp/holdfast/adapter/mcp"

// counting is where a round is on the books.
type counting uint8

const (
	uncounted counting = iota
	asRound            // Engine.enter
	asListener
)

// count puts the round on the books, which uncount undoes.
func (r *routeRound) count() error {
	e := r.engine
	if r.req.Method == mcp.MethodListen {
		if err := e.admit(r, caller(&r.key)); err != nil {
			return err
		}
		r.counts = asListener
		return nil
	}
	if err := e.arrive(); err != nil {
		return err
	}
	r.counts = asRound
	e.mu.Lock()
	e.routes[r] = struct{}{}
	e.mu.Unlock()
	return nil
}

// endRoutes ends the rounds that are passed through: the grace period is over.
func (e *Engine) endRoutes() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for r := range e.routes {
		r.finish()
	}
}

// uncount takes the round off the books.
func (r *routeRound) uncount() {
	was := r.counts
	r.counts = uncounted
	r.engine.mu.Lock()
	delete(r.engine.routes, r)
	r.engine.mu.Unlock()
	switch was {
	case asRound:
		r.engine.leave()
	case asListener:
		r.engine.dismiss(r, caller(&r.key))
	}
}
