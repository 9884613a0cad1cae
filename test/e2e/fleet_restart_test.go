package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// rota is a load balancer that heeds /readyz: who is told that a replica is not
// ready takes it off.
type rota struct {
	mu   sync.Mutex
	next int
	all  []Target
	off  map[int]bool
}

func newRota(h *Holdfast) *rota {
	r := &rota{off: map[int]bool{}}
	for i := range h.Size() {
		r.all = append(r.all, h.Replica(i).Target)
	}
	return r
}

// take returns the next replica that is ready.
func (r *rota) take() Target {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if r.next = (r.next + 1) % len(r.all); !r.off[r.next] {
			return r.all[r.next]
		}
	}
}

func (r *rota) ready(i int, yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.off[i] = !yes
}

// play drives a call to its end, each round at the next replica.
func (r *rota) play(t testing.TB, m *Message) (last *Reply, answers int) {
	return r.goOn(t, r.take().Send(t, m))
}

// goOn is play from an answer on.
func (r *rota) goOn(t testing.TB, reply *Reply) (last *Reply, answers int) {
	for reply.Type == "input_required" {
		given := Answers{}
		for key := range reply.Inputs {
			given[key] = Accept("name", strings.TrimPrefix(key, "elicitation-"))
			answers++
		}
		reply = r.take().Retry(t, reply, given)
	}
	return reply, answers
}

// asksFor asks as often as its argument "rounds" says.
func asksFor(c *rawserver.Call) {
	var got []string
	for len(got) < len(c.Argument("rounds")) {
		got = append(got, c.Ask("elicitation/create", question("name")).Content("name"))
	}
	c.Text(c.Argument("call") + ": " + strings.Join(got, " "))
}

// TestRollingRestart restarts all replicas one after the other, under a load of
// calls with up to two questions. Where events carry ids, nothing is lost,
// nothing runs twice, and nobody is told of an error: neither those who call nor
// who left a question open nor whose call takes longer than the old replica has.
func TestRollingRestart(t *testing.T) {
	onlyStreamable(t, "only event ids let a stream go on")
	t.Parallel()
	server := newServer(t, rawserver.Settings{Prime: true})
	server.Tool("ask", asksFor)
	gates := map[string]gate{}
	for i := range replicas {
		gates[strconv.Itoa(i)] = newGate(t)
	}
	server.Tool("hold", func(c *rawserver.Call) { gates[c.Argument("say")].holding(c) })
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty + "shutdown: {delay: 2s, grace: 20s}\nstream: {after: 10m}"})
	front := newRota(h)
	stop := newGate(t)
	var load sync.WaitGroup
	var mu sync.Mutex
	calls, answered := 0, 0
	play := func(name string, questions int) {
		last, n := front.play(t, CallTool("ask", map[string]any{"call": name, "rounds": strings.Repeat("x", questions)}))
		if want := name + ": " + strings.Join([]string{"1", "2"}[:questions], " "); last.Text(t) != want {
			t.Errorf("got %q, want %q", last.Text(t), want)
		}
		mu.Lock()
		defer mu.Unlock()
		calls, answered = calls+1, answered+n
	}
	for worker := range 2 {
		load.Go(func() {
			pace := time.NewTicker(5 * time.Millisecond) // the other tests want to run as well
			defer pace.Stop()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-pace.C:
					play(fmt.Sprintf("%d.%d", worker, i), i%3)
				}
			}
		})
	}
	for i := range h.Size() {
		one, name := h.Replica(i), strconv.Itoa(i)
		parked := one.Send(t, CallTool("ask", map[string]any{"call": name, "rounds": "x"}))
		parked.Asks(t, "elicitation-1")
		held := one.Open(t, CallTool("hold", map[string]any{"say": name}))
		server.Wait("the call", func() bool { return server.ToolCalls("hold") == i+1 })
		one.Signal(syscall.SIGTERM)
		waitReady(t, one, "not ready")
		front.ready(i, false)
		let := held.Reply() // at the latest when its replica has no more time for it
		comesBack(t, let)
		again := front.take().Open(t, RetryOf(let, nil))
		gates[name].open()
		last, _ := front.goOn(t, again.Reply())
		if got := last.Text(t); got != "said "+name {
			t.Errorf("a call that was let go ends with %q", got)
		}
		one.ends(t)
		last, n := front.goOn(t, parked)
		if got := last.Text(t); got != name+": 1" {
			t.Errorf("a call that was parked ends with %q", got)
		}
		h.Restart(t, i)
		front.ready(i, true)
		mu.Lock()
		calls, answered = calls+1, answered+n
		mu.Unlock()
	}
	stop.open()
	load.Wait()
	if n := server.ToolCalls("ask"); n != calls || calls < 30 {
		t.Errorf("the tool was called %d times for %d calls, want as many, and more than a few", n, calls)
	}
	if n := server.ToolCalls("hold"); n != h.Size() {
		t.Errorf("the tool was called %d times for %d calls", n, h.Size())
	}
	ids := map[string]bool{}
	for _, m := range server.Responses() { // one may be posted a second time by a take-over
		ids[string(m.ID)] = true
	}
	if len(ids) != answered {
		t.Errorf("%d questions were answered, want %d", len(ids), answered)
	}
	if n := len(server.Cancelled()); n != 0 {
		t.Errorf("%d calls were cancelled", n)
	}
	if n := server.Count("initialize"); n != 1 {
		t.Errorf("%d sessions, want the one that moves along", n)
	}
}

// TestFirstRoundLost: a replica dies before its client has a request state. That
// is the one thing that cannot be gone on with: the connection breaks, and the
// client's next call is a new one.
func TestFirstRoundLost(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{Prime: true})
	hold := newGate(t)
	server.Tool("hold", hold.holding)
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty + "stream: {after: 10m}"})
	message := CallTool("hold", map[string]any{"say": "x"})
	lost := h.Replica(0).Open(t, message)
	server.Wait("the call", func() bool { return server.ToolCalls("hold") == 1 })
	h.Replica(0).Kill()
	<-lost.headers
	if lost.err == nil {
		t.Fatalf("HTTP %d from a replica that was killed", lost.response.StatusCode)
	}
	hold.open()
	if got := h.Send(t, message.Copy(ID("again"))).Text(t); got != "said x" { // the balancer passes the dead one over
		t.Errorf("got %q", got)
	}
	if n := server.ToolCalls("hold"); n != 2 {
		t.Errorf("the tool was called %d times, want once for each request", n)
	}
}
