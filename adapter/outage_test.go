package adapter

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// Nobody else can have a call whose first round has not been answered: it needs
// no lease.
func TestFirstRoundWithoutTheLease(t *testing.T) {
	f := newReplicas(t, 2)
	f.raw.Tool("greet", greet)
	f.rigs[0].port().revoke(true)
	v := f.rigs[0].mustBegin(toolCall("greet"))
	end := endOf(t, v.goes())
	if got := end.asked(t); got != "elicitation-1" {
		t.Errorf("asked %q", got)
	}
	f.rigs[0].port().revoke(false)
}

// So its client is told the handle; what comes after that waits.
func TestHandleWithoutTheLease(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	f.raw.Tool("ask", func(c *rawserver.Call) { c.Text(c.Ask(mcp.MethodElicit, askFor("a")).Content("a")) })
	r := f.rigs[0]
	r.play(toolCall("ask")) // there is a session
	r.port().revoke(true)
	v, handle := r.handleFirst(toolCall("ask").followed(time.Hour))
	if ev, err := v.Next(time.Now().Add(250 * time.Millisecond)); !errors.Is(err, ErrDeadline) {
		t.Errorf("got %+v, %v", ev, err)
	}
	r.port().revoke(false)
	key := v.hears(t)[1:]
	r.play(answerOf(handle, posted(key, "a", "A")))
	v.hear(t, "=A")
	v.close()
}

// A call that was let go twice ends when its second question does.
func TestReleasedTwice(t *testing.T) {
	f := newReplicas(t, 2, releasing(10*time.Millisecond), func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.ParkTTL = 3 * time.Second })
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	r := f.rigs[0]
	o := r.play(q)
	eventually(t, "the first release", func() bool { return r.released() == 1 })
	r.calls.mu.Lock()
	first := r.calls.releasedQueue[0].until
	r.calls.mu.Unlock()
	eventually(t, "the second question's end to be later", func() bool { return time.Now().Unix()+3+2 > first/int64(time.Second) })
	r.play(q.retry(o, accept("elicitation-1", "name", "Ada")))
	eventually(t, "the second release", func() bool { return r.released() == 1 })
	r.expireReleased(time.Unix(0, first+1))
	if n := r.released(); n != 1 {
		t.Errorf("%d records at the end of the first question, want 1", n)
	}
	r.expireReleased(time.Now().Add(time.Minute))
}
