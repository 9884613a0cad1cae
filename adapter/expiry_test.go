package adapter

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A server that does not wait for its answer ends the call; the retry gets
// what it said.
func TestResultArrivesWhileParked(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(*rawserver.Call)
		want string
	}{
		"result":  {func(c *rawserver.Call) { c.Text("never mind") }, `{"content":[{"type":"text","text":"never mind"}]}`},
		"error":   {func(c *rawserver.Call) { c.Error(-7, "gave up", `{"a": 1}`) }, `{"code":-7,"message":"gave up","data":{"a": 1}}`},
		"mapped":  {func(c *rawserver.Call) { c.Error(-32002, "not found", "") }, `{"code":-32602,"message":"not found"}`},
		"cut off": {func(c *rawserver.Call) { c.Cut() }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) { raw.NoEventIDs = true })
			gate := make(chan struct{})
			r.raw.Tool("hasty", func(c *rawserver.Call) {
				c.Start(mcp.MethodElicit, askFor("a"))
				<-gate
				tt.end(c)
			})
			q := toolCall("hasty")
			o := r.play(q)
			close(gate)
			eventually(t, "the end of the call", func() bool {
				r.calls.mu.Lock()
				defer r.calls.mu.Unlock()
				return r.calls.kept.Len() == 1
			})
			retry := q.retry(o, accept("elicitation-1", "a", "too late"))
			if tt.want == "" {
				r.refused(retry, ReasonUpstreamLost)
			} else if o := r.play(retry); string(o.Result)+string(o.Error) != tt.want {
				t.Errorf("got %s%s, want %s", o.Result, o.Error, tt.want)
			}
			if n := len(r.raw.Responses()); n != 0 {
				t.Errorf("the server got %d answers that it no longer waits for", n)
			}
		})
	}
}

// When a parked call expires the server is told, and so is the client that
// comes back after all.
func TestParkedCallExpires(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.ParkTTL = 30 * time.Millisecond })
	r.raw.Tool("asking", func(c *rawserver.Call) {
		c.Start(mcp.MethodElicit, askFor("a"))
		c.Start(mcp.MethodCreateMessage, `{}`)
		c.Start(mcp.MethodRootsList, "")
		<-c.Cancelled()
	})
	q := toolCall("asking")
	o := r.play(q)
	if got := o.asked(t); got != "elicitation-1 sampling-1 roots-1" {
		t.Fatalf("asked %q", got)
	}
	r.raw.WaitCount(mcp.NotifyCancelled, 1)
	responses := r.raw.Responses()
	if len(responses) != 3 {
		t.Fatalf("the server got %d answers, want 3", len(responses))
	}
	if got := string(responses[0].Result); got != `{"action":"cancel"}` {
		t.Errorf("the elicitation was answered with %s", got)
	}
	for _, m := range responses[1:] {
		if m.Error == nil {
			t.Errorf("a request was answered with %s, want an error", m.Result)
		}
	}
	if !r.refused(q.retry(o, accept("elicitation-1", "a", "late")), ReasonStateExpired).MayHaveRun {
		t.Error("the error does not say that the call may have run, up to its question")
	}
}

func TestOutcomeIsKeptForAWhile(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.OutcomeTTL = 30 * time.Millisecond })
	r.raw.Tool("greet", func(c *rawserver.Call) { c.Text(c.Ask(mcp.MethodElicit, askFor("a")).Content("a")) })
	q := toolCall("greet")
	retry := q.retry(r.play(q), accept("elicitation-1", "a", "x"))
	r.play(retry)
	eventually(t, "the outcome to be forgotten", func() bool {
		r.calls.mu.Lock()
		defer r.calls.mu.Unlock()
		return len(r.calls.named) == 0
	})
	r.refused(retry, ReasonCallLost)
}

// The outcome is forgotten while a copy of the retry is about to be told.
func TestOutcomeIsForgottenUnderARound(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("greet", func(c *rawserver.Call) { c.Text(c.Ask(mcp.MethodElicit, askFor("a")).Content("a")) })
	q := toolCall("greet")
	retry := q.retry(r.play(q), accept("elicitation-1", "a", "x"))
	r.play(retry)
	again := r.mustBegin(retry)
	r.calls.close()
	_, _, err := again.finish()
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Reason != ReasonCallLost || !refusal.MayHaveRun {
		t.Errorf("got %+v, want that the outcome is no longer kept, and that the call may have run", err)
	}
}

func TestCallLastsTooLong(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Settings)
		work   func(*rawserver.Call)
		want   Reason
	}{
		"silence": {func(s *Settings) { s.Timeout = time.Second }, func(c *rawserver.Call) { <-c.Cancelled() }, ReasonCallTimeout},
		"progress without end": {
			func(s *Settings) { s.Timeout, s.MaxDuration = 200*time.Millisecond, 500*time.Millisecond },
			func(c *rawserver.Call) {
				for n := 0.0; ; n++ {
					select {
					case <-c.Cancelled():
						return
					case <-time.After(20 * time.Millisecond):
						c.Progress(n, 0)
					}
				}
			}, ReasonCallDuration,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) {
				s.Buffer = 1000
				tt.change(s)
			})
			r.raw.Tool("slow", tt.work)
			q := toolCall("slow")
			q.token = "7"
			if refusal := r.refused(q, tt.want); !refusal.MayHaveRun {
				t.Error("it is not said that the call may have run")
			}
			r.raw.WaitCount(mcp.NotifyCancelled, 1)
		})
	}
}

// A call can end while its session is still being opened.
func TestCallEndsWhileStarting(t *testing.T) {
	for name, tt := range map[string]struct {
		timeout time.Duration
		gone    bool
		hold    string
	}{
		"gone during the handshake":            {time.Minute, true, mcp.MethodInitialize},
		"silence during the handshake":         {time.Second, false, mcp.MethodInitialize},
		"gone while tools are listed":          {time.Minute, true, mcp.MethodToolsList},
		"silence while tools are listed":       {time.Second, false, mcp.MethodToolsList},
		"gone while the log level is set":      {time.Minute, true, mcp.MethodSetLevel},
		"silence while the log level is being": {time.Second, false, mcp.MethodSetLevel},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.Timeout = tt.timeout })
			arrived, gate := make(chan struct{}), make(chan struct{})
			r.raw.Once(rawserver.ForMethod(tt.hold), func(x *rawserver.Exchange) {
				close(arrived)
				x.Hold(gate)
				x.Drop()
			})
			q := toolCall("x")
			q.level = mcp.LevelDebug
			v := r.mustBegin(q)
			ended := make(chan error)
			go func() {
				_, _, err := v.finish()
				ended <- err
			}()
			<-arrived
			if tt.gone {
				v.Gone()
				if err := <-ended; !errors.Is(err, ErrGone) {
					t.Errorf("got %v, want ErrGone", err)
				}
			} else {
				var refusal *Refusal
				if err := <-ended; !errors.As(err, &refusal) || refusal.Reason != ReasonCallTimeout || refusal.MayHaveRun {
					t.Errorf("got %v, want call_timeout of a call that has not run", err)
				}
			}
			close(gate)
			eventually(t, "the call to be off the books", func() bool { return len(r.calls.all()) == 0 })
			if n := r.raw.ToolCalls("x"); n != 0 {
				t.Error("the tool was called")
			}
		})
	}
}
