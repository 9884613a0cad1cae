package adapter

import (
	"crypto/sha256"
	"hash"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// park ends the rounds that wait with what the server asks: spec 2026-07-28,
// basic/patterns/mrtr. r is a round whose request is at hand, or nil for a call
// that has parked before. mu is held.
func (c *call) park(r *callRound) {
	e := c.engine
	if c.round == 0 && c.lasting == nil {
		c.id, c.since = newCallID(), sinceNow()
		c.digest = requestDigest(r.req)
		c.name = string(r.req.Name)
	}
	was := c.phase
	if err := e.calls.park(c); err != nil {
		c.terminate(err, "too many calls wait for their clients")
		return
	}
	if !c.enter(parked) {
		e.calls.unpark(c)
		return
	}
	now := time.Now()
	c.withdrawn, c.kept = nil, false
	c.lastAt = c.waitsUntil()
	c.unwatchTask() // while people think, nobody waits for news of it
	c.round++
	if len(c.inputs) > 0 {
		c.asking++
	}
	c.parkedAt, c.until = now, now.Add(e.settings.ParkTTL)
	if c.lasting != nil {
		c.until = c.lasting.until
	}
	c.gathering().parked(len(c.inputs))
	if c.driver == byRound {
		c.detach() // arms the timer, too
	} else {
		c.arm()
	}
	e.metrics.parked(was == starting)
	for _, in := range c.inputs {
		in.told = true
	}
	if len(c.rounds) > 0 {
		o := c.question()
		for _, waiting := range c.rounds {
			waiting.outcome = o
		}
	}
	c.wake()
}

// waitsUntil is when the client of a call that parks with nothing to ask would have
// been told the handle of a lasting call; zero: it asks, or no such client waits. mu
// is held.
func (c *call) waitsUntil() (at time.Time) {
	if len(c.inputs) > 0 {
		return at
	}
	for _, r := range c.rounds {
		if !r.lastAt.IsZero() && !r.follows && (at.IsZero() || r.lastAt.Before(at)) {
			at = r.lastAt
		}
	}
	return at
}

// stay parks a running call at the same round whose last client has lost its
// connection, so that it waits for the newest request state to come again. It
// reports whether it did. mu is held.
func (c *call) stay() bool {
	switch {
	case c.round == 0 || c.elsewhere || !time.Now().Before(c.until): // there is none, or it is refused by now
		return false
	case c.phase == starting || c.moving: // on its way to where it goes on
		return true
	case c.x == nil && c.estate == nil, c.engine.calls.park(c) != nil:
		return false
	}
	c.enter(parked)
	c.parkedAt, c.kept = time.Now(), false
	c.unwatchTask()
	if c.driver == byRound {
		c.detach() // arms the timer, too
	} else {
		c.arm()
	}
	return true
}

// question is the outcome of a round that ends with open input requests: those
// that there were when the call parked, so that a retry that comes twice is told
// the same. What came later goes out with the next round.
func (c *call) question() *Outcome {
	o := &Outcome{Method: c.method, Inputs: make([]Input, 0, len(c.inputs))}
	for _, in := range c.inputs {
		if in.told {
			o.Inputs = append(o.Inputs, in.Input)
		}
	}
	if c.x != nil {
		o.ServerInfo = c.x.Session().Info().ServerInfo
	}
	o.State = c.seal()
	return o
}

// seal makes the request state of the present round. mu is held.
func (c *call) seal() []byte {
	t := state.Token{
		Owner: c.engine.settings.Replica, Call: c.id, Round: c.round, Upstream: c.up.Name, Endpoint: c.up.id,
		Principal: bearer(&c.key), Request: c.digest, Expires: c.until.Unix() + 1,
		Ran: uint32(max(c.parkedAt.Sub(c.begun), 0) / time.Second), Transcript: c.transcript, Cut: c.cut,
	}
	replayable := c.x == nil || c.mayReplay(c.x.Session())
	c.safe = c.x != nil && replayable
	if c.carried != nil {
		t.Method, t.Params = c.method, c.carried
	}
	plain := t
	// What nobody could make use of, the client need not carry.
	set := &c.engine.settings
	if set.OwnKey && set.ReleaseAfter == 0 {
		return c.sealPlain(&plain)
	}
	if c.x != nil {
		if at := c.x.Position(); at.Event != "" || c.task != nil {
			t.Position = state.Position(at)
		}
	}
	if c.task != nil {
		t.Task = string(c.task.id)
	}
	if t.Position.Event != "" || t.Task != "" || replayable {
		c.describe(&t)
	}
	limit := set.MaxState
	if t.Valid() {
		if text := c.engine.ring.Seal(nil, &t); len(text) <= limit {
			return text
		}
		t.Transcript, t.Cut = nil, true // it stays with the owner
		if text := c.engine.ring.Seal(nil, &t); c.carried == nil && len(text) <= limit {
			return text
		}
	}
	return c.sealPlain(&plain)
}

// sealPlain makes a request state that only the owner can make use of. What a
// client brings with every round it is held against, as far as there is room.
func (c *call) sealPlain(t *state.Token) []byte {
	t.Cut = true
	if c.carried != nil && t.Valid() {
		if text := c.engine.ring.Seal(nil, t); len(text) <= c.engine.settings.MaxState {
			return text
		}
	}
	t.Transcript = nil
	return c.engine.ring.Seal(nil, t)
}

// describe puts the open input requests into a token. The questions themselves
// are needed only where the same stream goes on, on which they do not come
// again.
func (c *call) describe(t *state.Token) {
	t.Inputs = make([]state.Question, 0, len(c.inputs))
	for _, in := range c.inputs {
		kind, ok := state.KindOf(in.Method)
		if !ok {
			continue
		}
		q := state.Question{Key: in.Key, Method: kind, Digest: in.questionDigest(), ID: string(in.id), Hinted: in.hinted}
		if t.Position.Event != "" || t.Task != "" {
			q.Params = in.Params
		}
		t.Inputs = append(t.Inputs, q)
	}
	for i, n := range c.asked {
		t.Asked[i] = uint32(n)
	}
}

// requestDigest binds a request state to what was asked: the method and the
// params without what differs from round to round.
func requestDigest(req *Request) [16]byte { return digestOf(req.Method, req.Params) }

// digestOf is a digest of a method and its params that does not depend on how
// the JSON is written.
func digestOf(method string, params []byte) (digest [16]byte) {
	d := digesters.Get().(*digester)
	d.hash.Reset()
	d.hash.Write(append(append(d.space[:0], method...), 0))
	jsonrpc.Digest(d.hash, params, isPerRound)
	copy(digest[:], d.hash.Sum(d.space[:0]))
	digesters.Put(d)
	return digest
}

// digester is a hash and room for what goes in and comes out of it.
type digester struct {
	hash  hash.Hash
	space [64]byte
}

var digesters = sync.Pool{New: func() any { return &digester{hash: sha256.New()} }}

func isPerRound(name []byte) bool {
	switch string(name) {
	case "_meta", "inputResponses", "requestState":
		return true
	}
	return false
}
