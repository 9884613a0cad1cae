package adapter

import (
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

func releasing(after time.Duration) change {
	return func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.ReleaseAfter = after }
}

func (r *rig) released() int {
	_, _, n := r.calls.count()
	return n
}

// A parked call's stream is let go, and its retry, wherever it comes, goes on
// with it.
func TestReleasedCall(t *testing.T) {
	t.Parallel()
	for at, name := range []string{"where it was", "elsewhere"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReplicas(t, 2, releasing(10*time.Millisecond))
			gone := make(chan struct{}, 4)
			f.raw.Tool("greet", func(c *rawserver.Call) {
				name := c.Ask(mcp.MethodElicit, askFor("name"))
				select { // the stream that brought the question has ended
				case <-c.Gone():
					gone <- struct{}{}
				case <-time.After(5 * time.Second): // its end may come a little after the answer
				}
				c.Text(name.Content("name") + c.Ask(mcp.MethodElicit, askFor("title")).Content("title"))
			})
			q := toolCall("greet")
			o := f.rigs[0].play(q)
			for i, key := range []string{"elicitation-1", "elicitation-2"} {
				eventually(t, "the release", func() bool { return f.rigs[0].released()+f.rigs[1].released() == 1 })
				for _, r := range f.rigs {
					if n := r.calls.parkedCalls() + len(r.calls.all()); n != 0 {
						t.Errorf("%d calls are left beside the record", n)
					}
				}
				retry := q.retry(o, accept(key, []string{"name", "title"}[i], fmt.Sprint(i)))
				o = f.rigs[at].play(retry)
				if again := f.rigs[1-at].play(retry); again.State == nil && o.State == nil && string(again.Result) != string(o.Result) {
					t.Errorf("got %s, and %s for the same retry", again.Result, o.Result)
				}
			}
			if got := o.text(t); got != "01" {
				t.Errorf("got %q", got)
			}
			select {
			case <-gone:
			default:
				t.Error("the stream was still there when the answer came")
			}
			if n := f.raw.ToolCalls("greet"); n != 1 || len(f.raw.Cancelled()) != 0 {
				t.Errorf("it ran %d times and was cancelled %d times", n, len(f.raw.Cancelled()))
			}
			if n := f.rigs[0].released() + f.rigs[1].released(); n != 0 {
				t.Errorf("%d records are left", n)
			}
			if n := len(f.posted()); n != 2 {
				t.Errorf("the server got %d answers, want 2", n)
			}
		})
	}
}

// Two retries at once: one goes on with the call, and both get what comes of it.
func TestReleasedCallIsTakenOnce(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3, releasing(time.Millisecond))
	gate := make(chan struct{})
	f.raw.Tool("slow", askOnce(func(c *rawserver.Call) {
		<-gate
		c.Text("done")
	}))
	q := toolCall("slow")
	retry := q.retry(f.rigs[0].play(q), accept("elicitation-1", "a", "x"))
	eventually(t, "the release", func() bool { return f.rigs[0].released() == 1 })
	var ends []<-chan result
	for i := range 9 {
		ends = append(ends, f.rigs[i%3].mustBegin(retry).goes())
	}
	f.raw.Wait("the answer", func() bool { return len(f.posted()) == 1 })
	eventually(t, "all at the call", func() bool { return f.rigs[0].waiting()+f.rigs[1].waiting()+f.rigs[2].waiting() == len(ends) })
	close(gate)
	for _, end := range ends {
		if r := endOf(t, end); r.err != nil || r.text(t) != "done" {
			t.Error(r.describe())
		}
	}
	if n := len(f.posted()); n != 1 {
		t.Errorf("the server got %d answers, want 1", n)
	}
}

// What cannot be resumed keeps its stream.
func TestNothingToResumeIsNotReleased(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 1, noEventIDs, releasing(time.Millisecond))
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	o := f.rigs[0].play(q)
	c := f.rigs[0].calls.get(f.rigs[0].tokenOf(o))
	eventually(t, "the time to pass", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.kept
	})
	if n := f.rigs[0].released(); n != 0 {
		t.Errorf("%d calls were released", n)
	}
	if got := f.rigs[0].play(q.retry(o, accept("elicitation-1", "name", "x"))).asked(t); got != "elicitation-2" {
		t.Errorf("asked %q", got)
	}
}

// Beyond calls.max_released a call keeps its stream.
func TestReleasedCallsAreBounded(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 1, releasing(time.Millisecond), func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxReleased = 2 })
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	var outcomes []*Outcome
	for range 3 {
		outcomes = append(outcomes, f.rigs[0].play(q))
	}
	eventually(t, "two releases", func() bool { return f.rigs[0].released() == 2 && f.rigs[0].calls.parkedCalls() == 1 })
	for _, o := range outcomes {
		if got := f.rigs[0].play(q.retry(o, accept("elicitation-1", "name", "x"))).asked(t); got != "elicitation-2" {
			t.Errorf("asked %q", got)
		}
	}
}

// The server is told when the client of a released call does not come back,
// once the lease is sure, and the session lives until then.
func TestReleasedCallExpires(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, releasing(time.Millisecond), func(_ *Settings, l *legacy.Settings, _ *rawserver.Settings) { l.IdleTTL = time.Millisecond })
	f.raw.Tool("asking", func(c *rawserver.Call) {
		c.Start(mcp.MethodElicit, askFor("a"))
		c.Start(mcp.MethodCreateMessage, `{}`)
		c.Start(mcp.MethodRootsList, "")
		<-c.Context().Done()
	})
	r := f.rigs[0]
	r.play(toolCall("asking"))
	eventually(t, "the release", func() bool { return r.released() == 1 })
	r.expireReleased(time.Now().Add(30 * time.Minute))
	if n := r.released(); n != 1 {
		t.Fatal("it expired before its time")
	}
	r.port().revoke(true)
	r.expireReleased(time.Now().Add(2 * time.Hour))
	if n := r.released(); n != 1 {
		t.Fatal("it expired although its call may be another's")
	}
	r.port().revoke(false)
	eventually(t, "the lease", r.confirmed)
	if n := f.raw.HTTPCount(http.MethodDelete); n != 0 {
		t.Error("the session was deleted while a call was on it")
	}
	r.expireReleased(time.Now().Add(2 * time.Hour))
	f.raw.WaitCount(mcp.NotifyCancelled, 1)
	posted := f.posted()
	slices.Sort(posted)
	if len(posted) != 3 || posted[0] != `r1:0={"action":"cancel"}` || !strings.HasPrefix(posted[1], "r1:1=-32603 ") || !strings.HasPrefix(posted[2], "r1:2=-32603 ") {
		t.Errorf("the server got %q", posted)
	}
	if got, want := string(f.raw.Cancelled()[0]), string(f.raw.Received(mcp.MethodToolsCall)[0].ID); got != want {
		t.Errorf("request %s was cancelled, want %s", got, want)
	}
}

// A retry that cannot be served just now leaves the record, for the next one.
func TestReleasedCallThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 1, releasing(time.Millisecond), func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) {
		s.MaxParkedPerPrincipal, s.MaxReleased = 1, 1
	})
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	o := f.rigs[0].play(q)
	eventually(t, "the release", func() bool { return f.rigs[0].released() == 1 })
	f.rigs[0].play(q) // takes the one place, and keeps it
	retry := q.retry(o, accept("elicitation-1", "name", "x"))
	f.rigs[0].refused(retry, ReasonQuota)
	if n := f.rigs[0].released(); n != 1 {
		t.Errorf("%d records, want the one", n)
	}
}

// The record of a released call, with its place in the registry, takes at most
// 256 bytes.
func TestReleasedCallIsSmall(t *testing.T) {
	const n = 20_000
	r := newRig(t)
	r.raw.Tool("echo", func(c *rawserver.Call) { c.Text("") })
	r.play(toolCall("echo"))
	s := r.upstreams()["up"].Server.TryAcquire(&legacy.Key{Caps: mustCaps(t, r), ClientInfo: []byte(`{"name":"client","version":"1"}`), Extra: []byte(`{"name":"client","version":"1"}`)}, false)
	if s == nil {
		t.Fatal("no session")
	}
	defer s.Return(false)
	calls := testRegistry(func(s *Settings) { s.MaxParked, s.MaxParkedPerPrincipal, s.MaxReleased = n+1, n+1, n })
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		c := &call{id: newCallID(), up: r.upstreams()["up"]}
		c.until = time.Now().Add(time.Hour)
		if err := calls.park(c); err != nil {
			t.Fatal(err)
		}
		rec := &record{session: s, request: fmt.Sprintf("1f2e3d4c-%d", i), until: c.until.UnixNano(), since: sinceNow()}
		for range 8 { // the most there is room for
			c.inputs = append(c.inputs, &input{Input: Input{Method: mcp.MethodElicit}, id: []byte(strings.Repeat("7", maxAsked/8-2))})
		}
		if rec.asked = c.askedIDs(); len(rec.asked) != maxAsked {
			t.Fatalf("%d bytes of ids, want %d", len(rec.asked), maxAsked)
		}
		if !calls.release(c, rec) {
			t.Fatal("not released")
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := float64(after.HeapAlloc-before.HeapAlloc) / n
	if each > 256 {
		t.Errorf("%.0f bytes each, want at most 256", each)
	}
	if len(calls.released) != n || len(calls.named)+len(calls.live) != 0 {
		t.Errorf("%d released, %d named, %d live", len(calls.released), len(calls.named), len(calls.live))
	}
	if late := calls.lapsed(time.Now().Add(2 * time.Hour).UnixNano()); len(late) != n || len(calls.released) != 0 {
		t.Errorf("%d expired, want all", len(late))
	}
}

func mustCaps(t *testing.T, r *rig) *mcp.Capabilities {
	t.Helper()
	caps, err := r.caps.get([]byte(allCapabilities))
	if err != nil {
		t.Fatal(err)
	}
	return caps
}

// What a replica leaves of a call is of use for that call only, and nothing that is
// damaged is.
func TestHeirloomIsOfItsCall(t *testing.T) {
	r := newRig(t)
	id := newCallID()
	token := func(id [16]byte, born int64) state.Token {
		return state.Token{Owner: "r", Call: id, Upstream: "up", Born: born, Expires: time.Now().Add(time.Hour).Unix(), Asked: [3]uint32{2}}
	}
	seal := func(t state.Token) []byte { return r.ring.Seal(nil, &t) }
	asked := token(id, 1)
	whole := &heirloom{handle: seal(token(id, 1)), token: seal(token(id, 0)), names: []string{"n"}, who: principal{7}}
	whole.backlog.first(pending{note: []byte("{}")}, pending{lost: 3}, pending{key: "k"})
	whole.measure()
	var f fields
	whole.append(&f)
	readFields(f, func(field item) {
		if got := readHeirloom(field.value); !reflect.DeepEqual(got, whole) {
			t.Errorf("got %+v, want %+v", got, whole)
		}
		if readHeirloom(field.value[:len(field.value)-1]) != nil {
			t.Error("one that is cut is read")
		}
	})
	if got := whole.open(r.Engine, &asked); got == nil || got.Asked[0] != 2 || got.Born != 1 {
		t.Errorf("opened as %+v", got)
	}
	for name, h := range map[string]*heirloom{
		"none":             nil,
		"another's handle": {handle: seal(token(newCallID(), 1)), token: whole.token},
		"another's state":  {handle: whole.handle, token: seal(token(newCallID(), 0))},
		"no handle":        {handle: seal(token(id, 0)), token: whole.token},
		"damaged":          {handle: whole.handle, token: whole.token[1:]},
	} {
		if got := h.open(r.Engine, &asked); got != nil {
			t.Errorf("%s: opened as %+v", name, got)
		}
	}
}
