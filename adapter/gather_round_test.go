package adapter

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A round that waits for sibling questions keeps its caller's deadline, and
// does not spin until they are gathered.
func TestGatheringKeepsTheDeadline(t *testing.T) {
	r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.Gather = time.Second })
	r.raw.Tool("greet", greet)
	r.raw.Tool("plain", func(c *rawserver.Call) { c.Text("ok") })
	r.play(toolCall("plain")) // the session stands: the next call runs on its round's goroutine
	v := r.mustBegin(toolCall("greet"))
	defer v.close()
	if _, err := v.Next(time.Now().Add(20 * time.Millisecond)); !errors.Is(err, ErrDeadline) {
		t.Fatalf("got %v while a question gathers its siblings, want ErrDeadline", err)
	}
	ev, err := v.Next(time.Now().Add(10 * time.Second))
	if err != nil || ev.Outcome == nil || len(ev.Outcome.Inputs) != 1 || ev.Outcome.Inputs[0].Method != mcp.MethodElicit {
		t.Errorf("got %+v, %v; want the question", ev.Outcome, err)
	}
}
