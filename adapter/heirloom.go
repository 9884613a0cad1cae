package adapter

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// heirloom is where a lasting call stood when its stream was let go on purpose: what
// the handle cannot say, which was made when the call began to last. With it nothing
// is told or asked again that was told or answered.
type heirloom struct {
	handle  []byte    // an answer comes with less
	token   []byte    // sealed: where it stands upstream, open questions, the transcript
	names   []string  // keys that questions have had
	visits  []string  // of open questions: the key, a zero byte, the server's id for the visit
	backlog backlog   // what its client is yet to be told
	who     principal // who is calling
	bytes   int
}

// maxHeirloom bounds what is left of a call, in bytes. A call with more goes on from
// its handle alone.
const maxHeirloom = 4 << 20

// heirloom returns nil where the handle is what there is to go on from. mu is held.
func (c *call) heirloom() *heirloom {
	if !c.quiet() || c.resend || c.restart || len(c.own) > 0 {
		return nil
	}
	t := state.Token{
		Owner: c.engine.settings.Replica, Call: c.id, Upstream: c.up.Name, Principal: bearer(&c.key),
		Position: state.Position(c.x.Position()), Transcript: c.transcript, Cut: c.cut, Ran: uint32(max(c.ran(), 0) / time.Second),
	}
	switch {
	case !c.x.Settled():
		return nil
	case c.task != nil:
		t.Task, t.Position.Event = string(c.task.id), "" // the task brings its questions itself
	case t.Position.Event == "":
		return nil
	}
	c.describe(&t)
	if c.task != nil {
		t.Inputs = nil
	}
	if !t.Valid() {
		return nil
	}
	h := &heirloom{handle: c.lasting.handle, token: c.engine.ring.Seal(nil, &t), names: c.names, who: caller(&c.key)}
	for _, in := range c.inputs {
		if in.elicitation != "" && c.task == nil {
			h.visits = append(h.visits, in.Key+"\x00"+in.elicitation)
		}
	}
	if f := c.lasting.following; f != nil {
		h.backlog.first(slices.DeleteFunc(f.backlog.all(), func(p pending) bool { return p.isHandle() || p.key != "" && c.task != nil })...)
	}
	if h.measure(); h.bytes > maxHeirloom {
		return nil
	}
	return h
}

func (h *heirloom) measure() {
	h.bytes = len(h.handle) + len(h.token)
	for _, text := range slices.Concat(h.names, h.visits) {
		h.bytes += len(text)
	}
	for _, p := range h.backlog.waiting {
		h.bytes += len(p.note) + len(p.key)
	}
}

// ran is for how long the call has run. mu is held.
func (c *call) ran() time.Duration {
	if c.phase == parked {
		return c.parkedAt.Sub(c.begun)
	}
	return time.Since(c.begun)
}

// quiet reports whether nothing is under way of which nobody could say afterwards
// whether it has arrived: answers, and what the client is being told. mu is held.
func (c *call) quiet() bool {
	if c.posting > 0 {
		return false
	}
	f := c.lasting.following
	return f == nil || (f.round == nil || len(f.round.unsure) == 0) && (f.before == nil || len(f.before.unsure) == 0)
}

// append writes it for another replica.
func (h *heirloom) append(dst *fields) {
	if h == nil {
		return
	}
	f := fields{}
	f.bytes('H', h.handle)
	f.bytes('t', h.token)
	for _, name := range h.names {
		f.text('n', name)
	}
	for _, visit := range h.visits {
		f.text('e', visit)
	}
	f.bytes('w', h.who[:])
	for _, p := range h.backlog.all() {
		switch {
		case p.note != nil:
			f.bytes('m', p.note)
		case p.lost > 0:
			f.number('l', uint64(p.lost))
		default:
			f.text('k', p.key)
		}
	}
	dst.bytes('L', f)
}

// readHeirloom reads what append wrote, or returns nil.
func readHeirloom(b []byte) *heirloom {
	h := new(heirloom)
	var left []pending
	ok := readFields(b, func(f item) {
		switch f.tag {
		case 'H':
			h.handle = bytes.Clone(f.value)
		case 't':
			h.token = bytes.Clone(f.value)
		case 'n':
			h.names = append(h.names, string(f.value))
		case 'e':
			h.visits = append(h.visits, string(f.value))
		case 'w':
			if len(f.value) == len(h.who) {
				h.who = principal(f.value)
			}
		case 'm':
			left = append(left, pending{note: bytes.Clone(f.value)})
		case 'l':
			left = append(left, pending{lost: int(min(f.number(), 1<<30))})
		case 'k':
			left = append(left, pending{key: string(f.value)})
		}
	})
	h.backlog.first(left...)
	if h.measure(); !ok || h.token == nil || len(h.names) > maxNames || len(h.visits) > maxNames || h.bytes > maxHeirloom {
		return nil
	}
	return h
}

// open returns the handle's token as of when the call was let go, or, where that is no
// handle of the same call as t, nil.
func (h *heirloom) open(e *Engine, asked *state.Token) *state.Token {
	if h == nil {
		return nil
	}
	left, err := e.ring.Open(h.token, len(h.token))
	t, wrong := e.ring.Open(h.handle, len(h.handle))
	for _, token := range []*state.Token{&left, &t} {
		if err != nil || wrong != nil || token.Call != asked.Call || token.Principal != asked.Principal || token.Upstream != asked.Upstream {
			return nil
		}
	}
	if t.Born == 0 || asked.Born == 0 {
		return nil
	}
	t.Position, t.Task, t.Ran, t.Asked = left.Position, left.Task, left.Ran, left.Asked
	t.Inputs, t.Transcript, t.Cut = left.Inputs, left.Transcript, left.Cut
	return &t
}

// restore gives a call that was inherited with open's token the rest. mu need not be
// held: nobody else knows the call yet.
func (h *heirloom) restore(c *call, t *state.Token) {
	c.estate.stands = true
	c.names = slices.Clone(h.names)
	c.lasting.behind = 0
	for _, in := range c.inputs {
		for _, visit := range h.visits {
			if id, ok := strings.CutPrefix(visit, in.Key+"\x00"); ok {
				in.elicitation = id
			}
		}
	}
	for i, n := range t.Asked {
		c.asked[i] = int(n)
	}
	f := c.lasting.following
	if f == nil {
		return
	}
	f.backlog.giveBack(h.backlog.all(), &c.engine.settings, false)
	for _, in := range c.inputs {
		f.asked = append(f.asked, strings.Clone(in.Key))
	}
}

// unattended reports whether a call that came from another replica may go on by
// itself: nothing is asked, or its stream can go on without the answers. mu is held.
func (c *call) unattended() bool {
	return c.estate != nil && (len(c.inputs) == 0 || c.estate.stands)
}

// releaseAll lets go of the calls that another replica can go on with. Those that
// last are told nothing more for a moment first, so that what their clients were told
// is known.
func (e *Engine) releaseAll(ctx context.Context) {
	var lasting []*call
	for _, c := range e.calls.all() {
		c.mu.Lock()
		if !c.release() && c.lasting != nil && c.lasting.following != nil {
			c.lasting.following.still = true
		}
		if c.lasting != nil {
			lasting = append(lasting, c)
		}
		c.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, handTime)
	defer cancel()
	for last := false; len(lasting) > 0; {
		lasting = slices.DeleteFunc(lasting, func(c *call) bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.phase == done || (last || c.quiet() && (c.x == nil || c.x.Settled())) && c.releaseLasting() {
				return true
			}
			if last && c.lasting.following != nil {
				c.lasting.following.still = false
				c.wake()
			}
			return false
		})
		if last {
			return
		}
		last = len(lasting) == 0 || !wait.Pause(ctx, stillPoll)
	}
}

// stillPoll is how often it is looked whether a call can be let go.
const stillPoll = 5 * time.Millisecond

// handOn gives a record to the replica that is to go on with its call, which it
// returns; or "".
func (e *Engine) handOn(ctx context.Context, id [16]byte, rec *record) string {
	up := e.upstreamOf(rec)
	if rec.left == nil || up == nil {
		return ""
	}
	taker := highest(id, slices.DeleteFunc(slices.Clone(e.settings.Bus.Staying()), func(r string) bool { return r == e.settings.Replica }))
	if taker == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, e.settings.Bus.Patience())
	defer cancel()
	k := keepable{id, up, rec}
	_, kept, err := e.askForm(ctx, taker, KindKeep, k.append(newFields(formKeep, 1024)))
	if err != nil || len(kept) == 0 {
		return ""
	}
	return taker
}
