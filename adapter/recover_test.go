package adapter

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A take-over or a replay that the server refuses for want of credentials
// costs the call nothing: the same retry with others goes on.
func TestCredentialsThatARecoveryNeeds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		changes []change
		refuse  func(*rawserver.Record) bool
		want    Served
	}{
		"the stream": {
			[]change{}, func(r *rawserver.Record) bool { return r.Header.Get("Last-Event-ID") != "" }, ServedTakenOver,
		},
		"the answer": {
			[]change{}, func(r *rawserver.Record) bool { return len(r.Messages) == 1 && r.Messages[0].Method == "" }, ServedLocal,
		},
		"a new session": {
			[]change{noEventIDs, replaying(ReplayAlways)}, func(r *rawserver.Record) bool {
				return r.Method() == mcp.MethodInitialize && r.Header.Get("X-Replica") == "r2"
			}, ServedReplayed,
		},
		"the request": {
			[]change{noEventIDs, replaying(ReplayAlways)}, func(r *rawserver.Record) bool {
				return r.Method() == mcp.MethodToolsCall && r.Header.Get("X-Replica") == "r2"
			}, ServedReplayed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReplicas(t, 2, tt.changes...)
			f.raw.Tool("tool", askOnce(func(c *rawserver.Call) { c.Text("done") }))
			q := toolCall("tool")
			retry := q.retry(f.rigs[0].play(q), accept("elicitation-1", "a", "x"))
			f.die(f.rigs[0])
			if tt.want == ServedReplayed {
				f.raw.Session().Expire()
			}
			f.giveUp()
			f.raw.Once(tt.refuse, func(x *rawserver.Exchange) { x.Unauthorized("Bearer") })
			_, _, err := f.rigs[1].mustBegin(retry).finish()
			var unauthorized *Unauthorized
			if !errors.As(err, &unauthorized) || unauthorized.Status != 401 {
				t.Fatalf("got %v, want the server's 401", err)
			}
			if got := f.rigs[1].served(retry, tt.want).text(t); got != "done" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A replay that meets a session which the server no longer knows gets another.
func TestReplayOnASessionThatIsGone(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, noEventIDs, replaying(ReplayAlways))
	f.raw.Tool("tool", askOnce(func(c *rawserver.Call) { c.Text("done") }))
	f.raw.Tool("echo", func(c *rawserver.Call) { c.Text("echo") })
	q := toolCall("tool")
	retry := q.retry(f.rigs[0].play(q), accept("elicitation-1", "a", "x"))
	f.rigs[1].play(toolCall("echo")) // it knows the session
	f.die(f.rigs[0])
	f.raw.Session().Expire()
	f.giveUp()
	if got := f.rigs[1].served(retry, ServedReplayed).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
}

// The server cannot be reached: the call waits for a retry that can.
func TestRecoveryWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	for name, changes := range map[string][]change{"take-over": nil, "replay": {noEventIDs, replaying(ReplayAlways)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReplicas(t, 2, changes...)
			f.raw.Tool("tool", askOnce(func(c *rawserver.Call) { c.Text("done") }))
			q := toolCall("tool")
			o := f.rigs[0].play(q)
			retry := q.retry(o, accept("elicitation-1", "a", "x"))
			f.die(f.rigs[0])
			f.giveUp()
			server := f.rigs[1].upstreams()["up"].Server
			nowhere, err := legacy.NewServer(legacySettings("up", "http://127.0.0.1:1/mcp"), f.rigs[1].log)
			if err != nil {
				t.Fatal(err)
			}
			f.rigs[1].upstreams()["up"].Server = nowhere
			f.rigs[1].refused(retry, ReasonUpstreamDown)
			c := f.rigs[1].calls.get(f.rigs[1].tokenOf(o))
			c.mu.Lock()
			f.rigs[1].upstreams()["up"].Server = server
			c.mu.Unlock()
			nowhere.Close(t.Context())
			if got := f.rigs[1].play(retry).text(t); got != "done" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A replay whose stream breaks before the server's first question is tried again
// while the server is away, as one is that could not be sent, and then waits for
// a retry.
func TestReplayBreaksAndTheServerIsAway(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, noEventIDs, replaying(ReplayAlways))
	breaks := make(chan struct{})
	var runs atomic.Int32
	f.raw.Tool("tool", func(c *rawserver.Call) {
		if runs.Add(1) == 2 {
			c.Progress(1, 2)
			<-breaks
			c.Cut()
			return
		}
		c.Ask(mcp.MethodElicit, askFor("a"))
		c.Text("done")
	})
	q := toolCall("tool").with(func(q *query) { q.token = `"p"` })
	o := f.rigs[0].play(q)
	f.die(f.rigs[0])
	f.giveUp()
	other := f.rigs[1]
	retry := q.retry(o, accept("elicitation-1", "a", "x"))
	end := other.mustBegin(retry).goes()
	var c *call
	eventually(t, "the progress of the replay", func() bool {
		if c = other.calls.get(other.tokenOf(o)); c == nil {
			return false
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return runs.Load() == 2 && c.phase == running && c.fallback == nil && c.x != nil
	})
	server := other.upstreams()["up"].Server
	nowhere, err := legacy.NewServer(legacySettings("up", "http://127.0.0.1:1/mcp"), other.log)
	if err != nil {
		t.Fatal(err)
	}
	use := func(s *legacy.Server) {
		c.mu.Lock()
		defer c.mu.Unlock()
		other.upstreams()["up"].Server = s
	}
	use(nowhere)
	close(breaks)
	var refusal *Refusal
	if r := endOf(t, end); !errors.As(r.err, &refusal) || refusal.Reason != ReasonUpstreamDown {
		t.Errorf("got %s", r.describe())
	}
	if c.strandings != maxStrandings {
		t.Errorf("it was tried %d times, want %d", c.strandings, maxStrandings)
	}
	use(server)
	nowhere.Close(t.Context())
	if got := other.play(retry).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
}
