package adapter

import (
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// A request state is good for one caller, one request, one upstream and one
// replica; nothing of a refused one reaches the server.
func TestForeignStates(t *testing.T) {
	r := newRig(t)
	r.raw.Tool("greet", greet)
	q := toolCall("greet").with(func(q *query) { q.auth = "mine" })
	q.params += `,"arguments":{"a":1}`
	o := r.play(q)
	retry := q.retry(o, accept("elicitation-1", "name", "Ada"))
	tampered := []byte(retry.state)
	tampered[len(tampered)/2] ^= 1
	seal := func(change func(*state.Token)) string {
		token, err := r.ring.Open(o.State, 4096)
		if err != nil {
			t.Fatal(err)
		}
		change(&token)
		return string(r.ring.Seal(nil, &token))
	}
	otherRing, err := state.NewRing(state.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	token, err := r.ring.Open(o.State, 4096)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*query)
		want   Reason
	}{
		"another caller":   {func(q *query) { q.auth = "other" }, ReasonStateForeign},
		"no caller":        {func(q *query) { q.auth = "" }, ReasonStateForeign},
		"other arguments":  {func(q *query) { q.params = `"name":"greet","arguments":{"a":2}` }, ReasonStateForeign},
		"another method":   {func(q *query) { q.method = mcp.MethodPromptsGet }, ReasonStateForeign},
		"tampered with":    {func(q *query) { q.state = string(tampered) }, ReasonStateInvalid},
		"cut":              {func(q *query) { q.state = q.state[:len(q.state)-4] }, ReasonStateInvalid},
		"garbage":          {func(q *query) { q.state = "x" }, ReasonStateInvalid},
		"another key":      {func(q *query) { q.state = string(otherRing.Seal(nil, &token)) }, ReasonStateUnknown},
		"another upstream": {func(q *query) { q.state = seal(func(t *state.Token) { t.Upstream = "other" }) }, ReasonStateForeign},
		"another replica": {func(q *query) {
			q.state = seal(func(t *state.Token) { t.Owner, t.Position = "r2", state.Position{}; t.Call[0] ^= 1 })
		}, ReasonCallLost},
		"another call":      {func(q *query) { q.state = seal(func(t *state.Token) { t.Call[0] ^= 1 }) }, ReasonCallLost},
		"a round to come":   {func(q *query) { q.state = seal(func(t *state.Token) { t.Round++ }) }, ReasonStateStale},
		"a state in ruins":  {func(q *query) { q.state = seal(func(t *state.Token) { t.Expires = 1 }) }, ReasonStateExpired},
		"larger than legal": {func(q *query) { q.state = strings.Repeat("A", 5000) }, ReasonStateInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			if refusal := r.refused(retry.with(tt.change), tt.want); tt.want == ReasonStateExpired && !refusal.MayHaveRun {
				t.Error("the error does not say that the call may have run, up to its question")
			}
		})
	}
	if n := len(r.raw.Responses()); n != 0 {
		t.Fatalf("the server got %d answers", n)
	}
	r.play(retry) // and the call is unharmed
}
