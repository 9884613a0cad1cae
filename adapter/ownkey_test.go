package adapter

import (
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A request state that no other process can open has nothing in it for one; but
// a call whose stream is let go is gone on with from its request state, also by
// the process that has let go of it.
func TestStateOfAnOwnKey(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		own          bool
		releaseAfter time.Duration
		described    bool
	}{
		{"a common key", false, 0, true},
		{"an own key", true, 0, false},
		{"an own key, and streams are let go", true, time.Hour, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) {
				s.OwnKey, s.ReleaseAfter = tt.own, tt.releaseAfter
			})
			r.raw.Tool("greet", greet)
			q := toolCall("greet")
			first := r.play(q)
			token, err := r.ring.Open(first.State, r.settings.MaxState)
			if err != nil {
				t.Fatal(err)
			}
			if got := token.Position != (state.Position{}) && len(token.Inputs) == 1; got != tt.described {
				t.Errorf("position %+v with %d inputs, want them there: %v", token.Position, len(token.Inputs), tt.described)
			}
			second := r.play(q.retry(first, accept("elicitation-1", "name", "Ada")))
			last := r.play(q.retry(second, accept("elicitation-2", "title", "Dr")))
			if got := last.text(t); got != "Dr Ada" {
				t.Errorf("got %q", got)
			}
		})
	}
}
