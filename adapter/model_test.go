package adapter

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// The state machine of a call over two replicas, in small: whatever happens to
// a call, in whatever order, every round ends, the server gets each answer in
// one form, nobody gets two different outcomes for one retry, the call runs
// once, and nothing is left.

// happening is what may happen to the model's call.
type happening string

const (
	retryHere  happening = "retry-at-r1"
	retryThere happening = "retry-at-r2"
	again      happening = "again-elsewhere" // the last retry, sent to the other replica, too
	leaves     happening = "client-gone"
	serves     happening = "server-goes-on"
	loses      happening = "lease-lost" // r1's
	regains    happening = "lease-back"
	dies       happening = "r1-dies"
	expires    happening = "expiry"
)

// possible reports whether something can happen after what has.
func (h happening) possible(past []happening) bool {
	alive, cut, waiting, retried, expired := true, false, false, false, false
	for _, p := range past {
		switch p {
		case dies:
			alive = false
		case loses:
			cut = true
		case regains:
			cut = false
		case retryHere, retryThere, again:
			waiting, retried = true, true
		case leaves:
			waiting = false
		case expires:
			expired = true
		}
	}
	switch h {
	case loses, dies:
		return alive && !cut && !expired // a state that r2 takes for good outlives its call by a second: none goes on with what is cancelled
	case regains:
		return alive && cut
	case retryHere:
		return alive
	case again:
		return retried
	case leaves:
		return waiting
	}
	return true
}

// model is one run.
type model struct {
	*replicas
	q     query
	gate  chan struct{}
	first *Outcome
	past  []happening
	calm  bool        // each thing has its effect before the next
	idle  atomic.Bool // the server waits to go on

	newest *Outcome // that the client has
	last   query    // that it sent
	at     int      // and where: the index of a replica
	rounds []*modelRound
}

type modelRound struct {
	*visit
	sent query
	at   int
	end  <-chan result
	over bool
	gone bool
	result
}

var modelAnswers = map[string]string{"elicitation-1": accept("elicitation-1", "a", "1"), "elicitation-2": accept("elicitation-2", "b", "2")}

const modelText = "a=1 b=2"

func runModel(t *testing.T, events []happening, calm bool) {
	m := &model{calm: calm, replicas: newReplicas(t, 2), gate: make(chan struct{}, 16), q: toolCall("tool")}
	m.lan.change(func() { m.lan.patience = 300 * time.Millisecond })
	m.raw.Tool("tool", func(c *rawserver.Call) {
		step := func() {
			m.idle.Store(true)
			select {
			case <-m.gate:
			case <-c.Context().Done():
			}
			m.idle.Store(false)
		}
		a := c.Ask(mcp.MethodElicit, askFor("a"))
		step()
		b := c.Ask(mcp.MethodElicit, askFor("b"))
		step()
		c.Text("a=" + a.Content("a") + " b=" + b.Content("b"))
	})
	m.first = m.rigs[0].play(m.q)
	m.newest = m.first
	for _, h := range events {
		m.happen(h)
		if calm {
			m.settle()
		}
	}
	m.finish()
	m.check()
}

func (m *model) happened(h happening) bool { return slices.Contains(m.past, h) }

func (m *model) happen(h happening) {
	m.past = append(m.past, h)
	m.collect()
	switch h {
	case retryHere, retryThere:
		m.at = 0
		if h == retryThere {
			m.at = 1
		}
		m.retry()
	case again:
		if m.at = 1 - m.at; m.at == 0 && m.happened(dies) {
			m.at = 1
		}
		m.send(m.last)
	case leaves:
		for _, r := range m.rounds {
			if !r.over && !r.gone {
				r.gone = true
				r.Gone()
				break
			}
		}
	case serves:
		m.gate <- struct{}{}
	case loses:
		m.rigs[0].port().unplug()
		m.giveUp()
	case regains:
		m.rigs[0].port().plug()
	case dies:
		m.die(m.rigs[0])
		m.giveUp()
		for _, r := range m.rounds {
			if r.at == 0 && !r.over && !r.gone { // its connection breaks
				r.gone = true
				r.Gone()
			}
		}
	case expires:
		for _, r := range m.rigs {
			if c := r.calls.get(r.tokenOf(m.first)); c != nil {
				c.mu.Lock()
				c.until = time.Now()
				parked := c.phase == parked
				c.mu.Unlock()
				if parked {
					c.tick()
				}
			}
		}
	}
}

// settle waits until every round has ended, or waits for the server; or for as
// long as one takes to get there that can.
func (m *model) settle() {
	for end := time.Now().Add(40 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		m.collect()
		flying := 0
		for _, r := range m.rounds {
			if !r.over {
				flying++
			}
		}
		if flying == 0 || m.idle.Load() && m.rigs[0].waiting()+m.rigs[1].waiting() == flying {
			return
		}
	}
}

// retry comes back with the newest state that the client has.
func (m *model) retry() {
	if m.newest.State == nil {
		m.send(m.last)
		return
	}
	m.send(m.q.retry(m.newest, modelAnswers[m.newest.Inputs[0].Key]))
}

func (m *model) send(q query) {
	m.last = q
	v, err := m.rigs[m.at].begin(q)
	r := &modelRound{visit: v, sent: q, at: m.at}
	m.rounds = append(m.rounds, r)
	if err != nil {
		r.over, r.err = true, err
		return
	}
	r.end = v.goes()
}

// collect takes what has ended; the client goes on with the newest state.
func (m *model) collect() {
	for _, r := range m.rounds {
		if r.over {
			continue
		}
		select {
		case r.result = <-r.end:
			m.ended(r)
		default:
		}
	}
}

func (m *model) ended(r *modelRound) {
	r.over = true
	if r.err == nil && (r.State == nil || m.newest.State != nil && len(r.Inputs) > 0 && r.Inputs[0].Key > m.newest.Inputs[0].Key) {
		m.newest = r.Outcome
	}
}

// finish lets the client come back until its call has ended.
func (m *model) finish() {
	for range 4 {
		m.gate <- struct{}{}
	}
	if !m.happened(dies) {
		m.rigs[0].port().plug()
	}
	for n := range 12 {
		for _, r := range m.rounds {
			if !r.over {
				r.result = m.endOf(r)
				m.ended(r)
			}
		}
		if last := len(m.rounds) - 1; last >= 0 && m.rounds[last].final() {
			return
		}
		if m.at = n % 2; m.happened(dies) {
			m.at = 1
		}
		m.retry()
	}
	m.t.Errorf("the client came back 12 times, and there is no end")
}

// endOf waits for a round's end. For who asks the dead, time goes on.
func (m *model) endOf(r *modelRound) result {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(20 * time.Second); ; {
		select {
		case end := <-r.end:
			return end
		case <-tick.C:
			if m.happened(dies) {
				m.giveUp()
			}
		case <-late:
			m.t.Fatal("the round did not end")
		}
	}
}

// final reports whether a client need not come back.
func (r *modelRound) final() bool {
	var refusal *Refusal
	switch {
	case !r.over, r.gone:
		return false
	case errors.As(r.err, &refusal):
		return refusal.Reason != ReasonBusDown && refusal.Reason != ReasonStateStale
	case r.err != nil:
		return true
	}
	return r.State == nil
}

func (m *model) check() {
	ended := m.happened(leaves) || m.happened(expires)
	for _, r := range m.rounds {
		var refusal *Refusal
		switch {
		case r.gone:
		case r.err == nil && r.State == nil && r.Outcome.text(m.t) != modelText && !ended:
			m.t.Errorf("got %s", r.describe())
		case r.err == nil:
		case errors.As(r.err, &refusal) && (refusal.Reason == ReasonBusDown || refusal.Reason == ReasonStateStale):
		case errors.As(r.err, &refusal) && ended && (refusal.Reason == ReasonCallLost || refusal.Reason == ReasonStateExpired):
		default:
			m.t.Errorf("a round ended with %s", r.describe())
		}
	}
	if r := m.rounds[len(m.rounds)-1]; !ended && (r.err != nil || r.Outcome.text(m.t) != modelText) {
		m.t.Errorf("the call ended with %s", r.describe())
	}
	// The same retry, the same outcome.
	outcomes := map[string]string{}
	for _, r := range m.rounds {
		if r.err != nil {
			continue
		}
		got := string(r.Result)
		if r.State != nil {
			got = r.asked(m.t)
		}
		key := r.sent.state + r.sent.responses
		if before, ok := outcomes[key]; ok && before != got && !ended {
			m.t.Errorf("one retry has got %s and %s", before, got)
		}
		outcomes[key] = got
	}
	if n := m.raw.ToolCalls("tool"); n != 1 {
		m.t.Errorf("the call ran %d times", n)
	}
	if n := len(m.raw.Cancelled()); n > 0 && !ended {
		m.t.Errorf("the call was cancelled %d times", n)
	}
	m.checkAnswers(ended)
}

// checkAnswers: each answer has one form, and comes again only from who took
// over. In a calm run nobody posts any more once another has taken over; else a
// post may be on its way when the clock jumps.
func (m *model) checkAnswers(ended bool) {
	owner, generation := "r1", 0
	form, posted := map[string]string{}, map[string]bool{}
	for _, r := range m.raw.Records() {
		who := r.Header.Get("X-Replica")
		if strings.HasPrefix(r.Header.Get("Last-Event-ID"), "call") {
			owner = who
			generation++
		}
		for _, answer := range r.Messages {
			if answer.Method != "" || answer.ID == nil {
				continue
			}
			id, text := string(answer.ID), string(answer.Result)
			if form[id] == "" {
				form[id] = text
			}
			if form[id] != text && !ended {
				m.t.Errorf("question %s was answered with %s and %s", id, form[id], text)
			}
			if who != owner && m.calm {
				m.t.Errorf("%s has answered question %s although %s has the call", who, id, owner)
			}
			key := fmt.Sprint(who, generation, id)
			if posted[key] {
				m.t.Errorf("%s has answered question %s twice", who, id)
			}
			posted[key] = true
		}
	}
}

// modelDepth is how many things happen in one run; HOLDFAST_MODEL_DEPTH sets
// another number.
func modelDepth(t *testing.T) int {
	if text := os.Getenv("HOLDFAST_MODEL_DEPTH"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 3
}

func TestModel(t *testing.T) {
	t.Parallel()
	var runs [][]happening
	var extend func(past []happening, depth int)
	extend = func(past []happening, depth int) {
		if depth == 0 {
			runs = append(runs, slices.Clone(past))
			return
		}
		for _, h := range []happening{retryHere, retryThere, again, leaves, serves, loses, regains, dies, expires} {
			if h.possible(past) {
				extend(append(past, h), depth-1)
			}
		}
	}
	extend(nil, modelDepth(t))
	for i, events := range runs {
		for _, calm := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d-%s calm=%v", i, strings.Trim(fmt.Sprint(events), "[]"), calm), func(t *testing.T) {
				t.Parallel()
				runModel(t, events, calm)
			})
		}
	}
}
