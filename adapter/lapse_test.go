package adapter

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// lapsing is how many calls are over that a server is being told of.
func (r *rig) lapsing() int {
	r.calls.mu.Lock()
	defer r.calls.mu.Unlock()
	return r.calls.lapsing
}

// letGo has so many calls parked and let go of.
func (f *replicas) letGo(calls int) *rig {
	f.t.Helper()
	f.raw.Tool("asking", func(c *rawserver.Call) {
		c.Start(mcp.MethodElicit, askFor("a"))
		<-c.Context().Done()
	})
	r := f.rigs[0]
	for range calls {
		r.play(toolCall("asking"))
	}
	eventually(f.t, "the releases", func() bool { return r.released() == calls })
	return r
}

// However many released calls of a session end at once, the server is told of each.
func TestReleasedCallsEndTogether(t *testing.T) {
	t.Parallel()
	const calls = 400 // whose messages are more than may wait to be posted
	for name, end := range map[string]func(*replicas, *rig){
		"expired": func(f *replicas, r *rig) {
			r.expireReleased(time.Now().Add(2 * time.Hour))
			f.raw.WaitCount(mcp.NotifyCancelled, calls)
			eventually(f.t, "room for others", func() bool { return r.lapsing() == 0 })
		},
		"stopped": func(f *replicas, r *rig) { awaitStop(f.t, f.drain(r, 10*time.Second)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReplicas(t, 1, releasing(time.Millisecond))
			end(f, f.letGo(calls))
			if n := f.raw.Count(mcp.NotifyCancelled); n != calls {
				t.Errorf("%d calls were cancelled, want %d", n, calls)
			}
			if n := len(f.posted()); n != calls {
				t.Errorf("%d questions were answered, want %d", n, calls)
			}
		})
	}
}

// A server that takes no messages is not told of all calls that have expired, which
// would take for ever, and has its sessions given back.
func TestReleasedCallsOfAServerThatDoesNotListen(t *testing.T) {
	t.Parallel()
	const silent = "silent"
	for name, deafen := range map[string]func(*rawserver.Server){
		silent: func(raw *rawserver.Server) {
			raw.Hook(func(x *rawserver.Exchange) bool {
				if x.R.Method != http.MethodPost {
					return false
				}
				<-x.R.Context().Done()
				return true
			})
		},
		"without the session": func(raw *rawserver.Server) { raw.Session().Expire() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReplicas(t, 1, releasing(time.Millisecond), func(_ *Settings, l *legacy.Settings, _ *rawserver.Settings) {
				l.PostTimeout, l.IdleTTL = 20*time.Millisecond, time.Millisecond
			})
			r := f.letGo(4 * maxUnheard)
			deafen(f.raw)
			r.expireReleased(time.Now().Add(2 * time.Hour))
			eventually(t, "the end", func() bool { return r.lapsing() == 0 })
			if n := len(f.posted()); n > maxUnheard+tellers {
				t.Errorf("the server was told of %d calls, want no more than %d", n, maxUnheard+tellers)
			}
			if warned := strings.Contains(f.logs.String(), "it takes no messages"); warned != (name == silent) {
				t.Errorf("warned: %v", warned)
			}
			eventually(t, "the end of the session", func() bool { return r.upstreams()["up"].Server.Sessions() == 0 })
		})
	}
}

// Calls that a server is still being told of count against calls.max_released.
func TestLapsingCallsTakeRoom(t *testing.T) {
	r := testRegistry(func(s *Settings) { s.MaxParked, s.MaxParkedPerPrincipal, s.MaxReleased = 10, 10, 1 })
	release := func() bool {
		c := &call{id: newCallID()}
		if err := r.park(c); err != nil {
			t.Fatal(err)
		}
		return r.release(c, &record{until: 1})
	}
	if !release() || release() {
		t.Error("want one call let go, and no second one")
	}
	if late := r.lapsed(2); len(late) != 1 || release() || r.keepRecord(newCallID(), &record{}) {
		t.Errorf("%d calls are over, and there is room before the server was told", len(late))
	}
	if n := r.releasedCalls(); n != 1 {
		t.Errorf("the metric says %d calls, want the one that takes the room", n)
	}
	r.heardOf()
	if !release() {
		t.Error("no room when it was told")
	}
}

// A call that takes all of the grace period leaves time to tell the server of those
// that are over, and of the end of the session.
func TestReleasedCallsEndBesideACallThatStays(t *testing.T) {
	t.Parallel()
	const calls = 8
	f := newReplicas(t, 1, releasing(time.Millisecond))
	f.raw.Handle(mcp.MethodPromptsList, func(c *rawserver.Call) { <-c.Context().Done() })
	r := f.letGo(calls)
	f.raw.Hook(func(x *rawserver.Exchange) bool { // a server takes some time for what it is told
		if x.R.Method == http.MethodPost {
			<-time.After(20 * time.Millisecond)
		}
		return false
	})
	staying := r.mustBegin(query{method: mcp.MethodPromptsList}).goes()
	f.raw.WaitCount(mcp.MethodPromptsList, 1)
	stopped := f.drain(r, 3*time.Second)
	if end := endOf(t, staying); refusalFor(end.err) != ReasonShutdown {
		t.Errorf("the call that stays: %s", end.describe())
	}
	awaitStop(t, stopped)
	if n := f.raw.Count(mcp.NotifyCancelled); n != calls+1 {
		t.Errorf("%d calls were cancelled, want %d", n, calls+1)
	}
	if n := f.raw.HTTPCount(http.MethodDelete); n != 1 {
		t.Errorf("%d sessions were deleted, want 1", n)
	}
}

// However many sessions released calls have, and however often some end, no more than
// so many messages are under way to one server.
func TestTellersOfAnUpstreamAreBounded(t *testing.T) {
	t.Parallel()
	const batch = tellers - 4
	f := newReplicas(t, 1, releasing(time.Millisecond), func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.Scope = ScopeCall })
	r := f.letGo(batch)
	var posts atomic.Int32
	gate := make(chan struct{})
	f.raw.Hook(func(x *rawserver.Exchange) bool {
		if len(x.Record.Messages) == 1 && (x.Record.Messages[0].Method == "" || x.Record.Messages[0].Method == mcp.NotifyCancelled) {
			posts.Add(1)
			<-gate
		}
		return false
	})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	r.expireReleased(time.Now().Add(2 * time.Hour))
	eventually(t, "the first to be told", func() bool { return posts.Load() == batch })
	f.letGo(batch)
	r.expireReleased(time.Now().Add(2 * time.Hour))
	eventually(t, "as many as may be", func() bool { return posts.Load() >= tellers })
	<-time.After(50 * time.Millisecond) // long enough for more
	if n := posts.Load(); n != tellers {
		t.Errorf("%d messages are under way, want %d", n, tellers)
	}
	open()
	eventually(t, "the end", func() bool { return r.lapsing() == 0 })
	if n := f.raw.Count(mcp.NotifyCancelled); n != 2*batch {
		t.Errorf("%d calls were cancelled, want %d", n, 2*batch)
	}
}
