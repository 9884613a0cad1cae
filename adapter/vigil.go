package adapter

import (
	"slices"
	"sync"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// vigil hears for a lasting call that was let go when a visit is over that its server
// had asked for: the server says so once, on the session, and whoever goes on with
// the call is to know. It is a legacy.Sink of the record's session.
type vigil struct {
	open []string // elicitation ids of the call's open questions

	mu   sync.Mutex
	over []string // of them, those whose visit is over
}

// vigil returns nil where there is nothing to hear of. mu is held.
func (c *call) vigil() *vigil {
	v := &vigil{over: slices.Clone(c.over)}
	for _, in := range c.inputs {
		v.add(in.elicitation)
	}
	if len(v.open)+len(v.over) == 0 {
		return nil
	}
	return v
}

func (v *vigil) add(id string) {
	if id != "" && len(v.open) < maxNames {
		v.open = append(v.open, id)
	}
}

// Receive implements legacy.Sink.
func (v *vigil) Receive(m *jsonrpc.Message, _ bool) {
	if m.Method != mcp.NotifyElicitationCompleted {
		return
	}
	if id := completedID(m); slices.Contains(v.open, id) {
		v.note(id)
	}
}

// Fail implements legacy.Sink.
func (v *vigil) Fail(error) {}

func (v *vigil) note(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if id != "" && len(v.over) < maxNames && !slices.Contains(v.over, id) {
		v.over = append(v.over, id)
	}
}

// heard returns the ids of the visits that are over.
func (v *vigil) heard() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.over)
}

// append writes it for another replica.
func (v *vigil) append(dst *fields) {
	if v == nil {
		return
	}
	for _, id := range v.open {
		dst.text('E', id)
	}
	for _, id := range v.heard() {
		dst.text('O', id)
	}
}

// expect has a record's vigil hear what comes on its session, which unexpect undoes.
func (rec *record) expect() {
	if rec.vigil != nil {
		rec.session.Expect(rec.vigil)
	}
}

func (rec *record) unexpect() {
	if rec.vigil != nil {
		rec.session.Ignore(rec.vigil)
	}
}

// keepVigil has a call keep the session of its record until it is on it again: for a
// moment nothing else would, and a replica that stops would delete it. Meanwhile the
// call hears itself what the record's vigil has heard. mu need not be held.
func (c *call) keepVigil(rec *record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.estate == nil || c.expects != nil || c.lent != nil {
		return
	}
	rec.session.Hold()
	c.lent = rec.session
	if rec.vigil == nil {
		return
	}
	c.expects = rec.session
	c.expects.Expect(c)
	c.awaits = rec.vigil.open  // what comes again is not among the questions yet
	c.over = rec.vigil.heard() // after Expect, so that nothing is missed
}

// noteOver notes that a visit of the call's is over while nothing of the call is on its session, and
// has the call go on that waits for it. mu is held.
func (c *call) noteOver(m *jsonrpc.Message) {
	id := completedID(m)
	asked := slices.ContainsFunc(c.inputs, func(in *input) bool { return in.elicitation == id })
	mine := asked || slices.Contains(c.awaits, id) || slices.Contains(c.consented, id) // each list has a bound
	if id == "" || !mine || slices.Contains(c.over, id) {
		return
	}
	c.over = append(c.over, id)
	if asked && c.phase == parked && c.unattended() && c.sure() {
		c.goOnAs(c.creds)
	}
}

// catchUp takes in what came while nothing of the call was on its session. mu is held.
func (c *call) catchUp() {
	for _, in := range slices.Clone(c.inputs) {
		if c.wasOver(in.elicitation) {
			c.completed(in.elicitation)
		}
	}
}

// wasOver reports whether a visit was over meanwhile, once: a server that asks for it
// again wants it again. mu is held.
func (c *call) wasOver(id string) bool {
	i := slices.Index(c.over, id)
	if id == "" || i < 0 {
		return false
	}
	c.over = slices.Delete(c.over, i, i+1)
	return true
}

// overBefore answers a question that comes again, after its visit was over. It reports
// whether it did. mu is held.
func (c *call) overBefore(in *input) bool {
	over := c.wasOver(in.elicitation)
	if over {
		c.answerVisited(in)
	}
	return over
}

// completedID is the id of the elicitation that a notification says is over.
func completedID(m *jsonrpc.Message) string {
	id, _ := jsonrpc.Unquote(jsonrpc.Get(m.Params, "elicitationId"))
	return id[:min(len(id), maxKey)]
}

var _ legacy.Sink = (*vigil)(nil)
