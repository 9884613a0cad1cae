package adapter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// checkStock checks that nothing waits for clients, as far as is counted.
func (r *rig) checkStock(when string) {
	r.t.Helper()
	s := &r.calls.stock
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes != 0 || len(s.shelfOf) != 0 || len(s.shelves) != 0 {
		r.t.Errorf("after %s %d bytes of %d callers are counted, of which nothing is left", when, s.bytes, len(s.shelfOf))
	}
}

// emptied waits until nothing is counted any more.
func (r *rig) emptied(when string) {
	r.t.Helper()
	eventually(r.t, "the end of what waited: "+when, func() bool { return r.calls.stock.held() == 0 })
	r.checkStock(when)
}

// Who has the most gives way, with what is oldest; what has given way is told.
func TestStockGivesWay(t *testing.T) {
	set := testSettings()
	for name, test := range map[string]struct {
		do   func(put func(at, n string))
		want string
	}{
		"all fit":        {func(put func(at, n string)) { put("a1", "1234"); put("b1", "5678") }, "a1:1234 b1:5678"},
		"the one itself": {func(put func(at, n string)) { put("a1", "1234"); put("a1", "5678"); put("a1", "90") }, "a1:-1 a1:5678 a1:90"},
		"another of the same caller": {func(put func(at, n string)) {
			put("a1", "1234")
			put("a2", "5678")
			put("a2", "90")
		}, "a1:-1 a2:5678 a2:90"},
		"who has the most": {func(put func(at, n string)) {
			put("b1", "12")
			put("a1", "345")
			put("a2", "67")
			put("c1", "890")
		}, "b1:12 a1:-1 a2:67 c1:890"},
		"more than one": {func(put func(at, n string)) {
			put("b1", "1")
			put("b1", "2")
			put("b1", "34567")
			put("a1", "8901")
		}, "b1:-2 b1:34567 a1:8901"},
		"as large as all":            {func(put func(at, n string)) { put("a1", "12"); put("b1", "1234567") }, "a1:12 b1:1234567"},
		"one that is too large":      {func(put func(at, n string)) { put("a1", "12"); put("b1", "1234567890a") }, "a1:12 b1:-1"},
		"one for a client who waits": {func(put func(at, n string)) { put("a1", "12"); put("b1!", "1234567890a") }, "a1:12 b1:1234567890a"},
		"but what it has missed":     {func(put func(at, n string)) { put("b1!", "1"); put("b1!", "1234567890a") }, "b1:-1 b1:1234567890a"},
		"and nobody else's":          {func(put func(at, n string)) { put("b1!", "1"); put("b2", "1234567890a") }, "b1:-1 b2:-1"},
	} {
		t.Run(name, func(t *testing.T) {
			var s stock
			s.init(9)
			backlogs := map[string]*backlog{}
			var order []string
			test.do(func(at, n string) {
				at, here := strings.CutSuffix(at, "!")
				b := backlogs[at]
				if b == nil {
					b = new(backlog)
					backlogs[at] = b
					order = append(order, at)
					s.admit(b, principal{at[0]})
				}
				b.put([]byte(n), &set, here)
			})
			var sum int64
			for _, b := range backlogs {
				sum += int64(b.bytes)
			}
			if s.held() != sum {
				t.Errorf("%d bytes are counted of %d", s.held(), sum)
			}
			var got []string
			for _, at := range order {
				for _, word := range strings.Fields(backlogs[at].told()) {
					got = append(got, at+":"+word)
				}
			}
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("told %s, want %s", got, test.want)
			}
			if s.held() != 0 || len(s.shelfOf)+len(s.shelves) != 0 {
				t.Errorf("%d bytes of %d callers are left", s.held(), len(s.shelfOf))
			}
		})
	}
}

// A backlog counts while it is in the stock, with all that it has.
func TestStockCountsWhoIsThere(t *testing.T) {
	set := testSettings()
	var s stock
	s.init(10)
	count := func(when string, want int64) {
		t.Helper()
		if got := s.held(); got != want {
			t.Errorf("%s %d bytes are counted, want %d", when, got, want)
		}
	}
	var b backlog
	b.put([]byte("1234"), &set, false)
	b.put([]byte(""), &set, false) // as another replica may say
	count("before", 0)
	s.admit(&b, principal{1})
	count("admitted", 4)
	b.ask("k")
	b.leave()
	b.leave()
	count("gone", 0)
	b.put([]byte("5678"), &set, false)
	count("elsewhere", 0)
	s.admit(&b, principal{1})
	count("back", 8)
	b.close()
	count("closed", 0)
	b.put([]byte("1"), &set, false)
	b.giveBack([]pending{{note: []byte("1")}}, &set, false)
	count("closed for good", 0)
	b.leave()
	if len(s.shelfOf)+len(s.shelves) != 0 {
		t.Errorf("%d callers are left", len(s.shelfOf))
	}
}

// What waits for clients is bounded over all calls. The client whose call had to give
// way is told, and no other caller loses anything.
func TestFollowersAreToldOfOverflowOfAll(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxUndeliveredOverall = 500 })
	begin := func(tool, auth string) (steps chan string, handle string) {
		steps = make(chan string, 16)
		r.raw.Tool(tool, stepwise(steps))
		v, handle := r.handleFirst(toolCall(tool).followed(time.Hour).with(func(q *query) { q.auth = auth }))
		v.nothing(t)
		v.close()
		return steps, handle
	}
	as := func(auth string, q query) query { return q.with(func(q *query) { q.auth = auth }) }
	waits := func(auth, handle string, n int) {
		t.Helper()
		eventually(t, "what waits", func() bool { return r.play(as(auth, ofFollower(mcp.MethodStatus, handle))).Standing.Waiting == n })
	}
	few, handleOfFew := begin("few", "Bearer few")
	few <- "p1"
	waits("Bearer few", handleOfFew, 1)
	most := []string{"one", "two", "three"}
	var all []chan string
	var handles []string
	for _, tool := range most {
		steps, handle := begin(tool, "Bearer most")
		all, handles = append(all, steps), append(handles, handle)
		for i := 1; i <= 3; i++ {
			steps <- fmt.Sprintf("p%d", i)
			waits("Bearer most", handle, i)
		}
	}
	if n := r.calls.stock.held(); n > 500 || n < 300 {
		t.Errorf("%d bytes are kept", n)
	}
	hears := func(auth, handle string, steps chan string, words string) {
		t.Helper()
		v := r.mustBegin(as(auth, ofFollower(mcp.MethodResume, handle)))
		steps <- "="
		v.hear(t, words+" =")
		v.close()
	}
	hears("Bearer few", handleOfFew, few, "p1")
	hears("Bearer most", handles[0], all[0], "-3")
	hears("Bearer most", handles[2], all[2], "p1 p2 p3")
	hears("Bearer most", handles[1], all[1], "-3")
	r.checkStock("all that there was to tell")
}

// However a call ends, what its client was not told counts no more once nobody can be
// told it.
func TestUndeliveredIsCountedBack(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.OutcomeTTL = 20 * time.Millisecond })
	away := func(t *testing.T, away time.Duration) (steps chan string, handle string, c *call) {
		t.Helper()
		steps = make(chan string, 16)
		r.raw.Tool("t", stepwise(steps))
		v, handle := r.handleFirst(toolCall("t").followed(away))
		v.nothing(t)
		v.close()
		steps <- "p1"
		steps <- "p2"
		c = r.calls.get(r.callOf(&Outcome{State: []byte(handle)}))
		eventually(t, "what waits", func() bool { return c.lasting.following.backlog.left() == 2 })
		if n := r.calls.stock.held(); n != int64(c.lasting.following.backlog.size()) || n == 0 {
			t.Errorf("%d bytes are counted", n)
		}
		return steps, handle, c
	}
	ended := func(t *testing.T, c *call) {
		t.Helper()
		eventually(t, "the end", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.phase == done
		})
	}
	for name, end := range map[string]func(t *testing.T){
		"told": func(t *testing.T) {
			steps, handle, _ := away(t, time.Hour)
			v := r.mustBegin(ofFollower(mcp.MethodResume, handle))
			steps <- "="
			v.hear(t, "p1 p2 =")
			v.close()
		},
		"told, and not known to be": func(t *testing.T) {
			steps, handle, c := away(t, time.Hour)
			steps <- "="
			ended(t, c)
			v := r.mustBegin(ofFollower(mcp.MethodResume, handle))
			v.hear(t, "p1 p2")
			v.Gone()
			v.close()
			if r.calls.stock.held() == 0 {
				t.Error("what is to be told again is not counted")
			}
			v = r.mustBegin(ofFollower(mcp.MethodResume, handle))
			v.hear(t, "p2 =")
			v.close()
		},
		"cancelled": func(t *testing.T) {
			_, handle, _ := away(t, time.Hour)
			r.play(ofFollower(mcp.MethodCancel, handle))
			r.checkStock("the cancellation")
		},
		"cancelled while its client hears": func(t *testing.T) {
			_, handle, _ := away(t, time.Hour)
			v := r.mustBegin(ofFollower(mcp.MethodResume, handle))
			v.hear(t, "p1")
			r.play(ofFollower(mcp.MethodCancel, handle))
			v.Gone()
			v.close()
			r.checkStock("the cancellation")
		},
		"its client stays away": func(t *testing.T) {
			away(t, time.Second)
		},
		"over, and its client stays away": func(t *testing.T) {
			steps, _, c := away(t, time.Second)
			steps <- "="
			ended(t, c)
			if r.calls.stock.held() == 0 {
				t.Error("what waits with the outcome is not counted")
			}
		},
		"the server fails": func(t *testing.T) {
			_, _, c := away(t, time.Second)
			c.end(refuse(ReasonUpstreamLost, "gone"), "gone")
		},
		"its outcome gives way": func(t *testing.T) {
			steps, _, c := away(t, time.Hour)
			steps <- "="
			ended(t, c)
			r.fillKept(c)
		},
		"its outcome gives way while it is busy": func(t *testing.T) {
			steps, _, c := away(t, time.Hour)
			steps <- "="
			ended(t, c)
			c.mu.Lock()
			r.fillKept(c)
			c.mu.Unlock()
		},
		"its outcome gives way to nobody": func(t *testing.T) {
			_, _, c := away(t, time.Hour)
			c.mu.Lock()
			c.lasting.handle = make([]byte, r.settings.MaxOutcomeBytes) // what is kept is larger than all may be
			c.terminate(refuse(ReasonUpstreamLost, "gone"), "gone")
			c.mu.Unlock()
			r.checkStock("an end of which nothing is kept")
		},
		"its outcome gives way to nobody, while its client hears": func(t *testing.T) {
			_, handle, c := away(t, time.Hour)
			v := r.mustBegin(ofFollower(mcp.MethodResume, handle))
			v.hear(t, "p1")
			c.mu.Lock()
			c.lasting.handle = make([]byte, r.settings.MaxOutcomeBytes)
			c.terminate(refuse(ReasonUpstreamLost, "gone"), "gone")
			c.mu.Unlock()
			v.hear(t, "p2")
			v.Gone()
			v.close()
			r.checkStock("an end of which nothing is kept")
		},
		"another replica has it": func(t *testing.T) {
			_, _, c := away(t, time.Hour)
			r.yield(c.id)
			r.checkStock("its surrender")
		},
	} {
		t.Run(name, func(t *testing.T) {
			end(t)
			r.emptied(name)
		})
	}
}

// fillKept has another outcome of a call's caller take all of the room, for a moment.
func (r *rig) fillKept(of *call) {
	c := named(200, 'o')
	c.engine, c.phase, c.key = r.Engine, done, of.key
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Now().Add(20 * time.Millisecond)
	r.calls.keep(c, r.settings.MaxOutcomeBytes-100)
}

// Where a call is handed over, what its client was not told counts where it is.
func TestUndeliveredIsCountedWhereItIs(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, func(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) { raw.Prime = true })
	begin := func(tool string, away time.Duration) string {
		steps := make(chan string, 16)
		f.raw.Tool(tool, stepwise(steps))
		v, handle := f.rigs[0].handleFirst(toolCall(tool).followed(away))
		v.nothing(t)
		v.Gone()
		v.close()
		f.rigs[0].unfollowed(handle)
		steps <- "p1"
		steps <- "p2"
		eventually(t, "what waits", func() bool { return f.rigs[0].stands(handle) == "working 2" })
		return handle
	}
	goesOn := begin("a", time.Hour)
	held := f.rigs[0].calls.stock.held()
	begin("b", 2*time.Second) // nobody comes back for it
	awaitStop(t, f.drain(f.rigs[0], 10*time.Second))
	f.rigs[0].checkStock("the drain")
	if n := f.rigs[1].calls.stock.held(); n != 2*held {
		t.Errorf("%d bytes are counted at the heir, want %d", n, 2*held)
	}
	v := f.rigs[1].mustBegin(ofFollower(mcp.MethodResume, goesOn))
	v.hear(t, "p1 p2")
	v.nothing(t)
	f.rigs[1].expireReleased(time.Now().Add(time.Minute))
	f.rigs[1].checkStock("what was told, and what nobody came for")
	f.rigs[1].play(ofFollower(mcp.MethodCancel, goesOn))
	v.hear(t, "end")
	v.close()
}

// A copy of what waits counts as well, and is bounded with the rest.
func TestUndeliveredOfACopyIsCounted(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	steps := make(chan string, 16)
	f.raw.Tool("t", stepwise(steps))
	v, handle := f.rigs[0].handleFirst(toolCall("t").followed(time.Hour))
	v.nothing(t)
	v.close()
	for _, step := range []string{"p1", "p2", "="} {
		steps <- step
	}
	id := f.rigs[0].callOf(&Outcome{State: []byte(handle)})
	eventually(t, "the copy", func() bool { return f.rigs[1].calls.get(id) != nil })
	if a, b := f.rigs[0].calls.stock.held(), f.rigs[1].calls.stock.held(); a != b || a == 0 {
		t.Errorf("%d bytes are counted, and %d of the copy", a, b)
	}
	for _, r := range f.rigs {
		r.calls.forget(r.calls.get(id))
		r.checkStock("what was kept is forgotten")
	}
	// Of one that others' outcomes leave no room for, nothing is.
	c := named(7, 'z')
	c.engine, c.phase = f.rigs[1].Engine, done
	c.lasting = &lasting{following: &following{}, handle: make([]byte, f.rigs[1].settings.MaxOutcomeBytes-callOverhead-100)}
	c.lasting.following.backlog.put([]byte("1234"), &f.rigs[1].settings, false)
	other := named(8, 'o')
	f.rigs[1].calls.keep(other, 1000)
	if f.rigs[1].calls.keepCopy(c) {
		t.Error("a copy is said to be kept that is not")
	}
	f.rigs[1].checkStock("a copy that found no room")
}

// What waits counts once when a call is let go, whose record has a copy of it: there is
// no moment at which another call's gives way to the same thing twice.
func TestUndeliveredOfAReleasedCallCountsOnce(t *testing.T) {
	r := testRegistry(func(s *Settings) { s.MaxReleased = 1 })
	lasting := func(n byte) *call {
		c := named(n, n)
		c.lasting = &lasting{following: &following{}}
		if !r.endure(c) {
			t.Fatal("no room for a lasting call")
		}
		r.stockUp(c)
		c.lasting.following.backlog.put([]byte("1234"), &r.settings, false)
		return c
	}
	c, further := lasting(1), lasting(2)
	release := func(c *call) bool {
		left := &heirloom{who: caller(&c.key)}
		left.backlog.first(c.lasting.following.backlog.all()...)
		return r.release(c, &record{until: 1, left: left})
	}
	if !release(c) || r.stock.held() != 8 {
		t.Errorf("%d bytes are counted of 8, with one call let go", r.stock.held())
	}
	if release(further) || r.stock.held() != 8 {
		t.Errorf("%d bytes are counted of 8, with no room for another record", r.stock.held())
	}
	c.closeBacklog()
	if n := r.stock.held(); n != 8 {
		t.Errorf("%d bytes are counted of 8, without the original", n)
	}
}
