package adapter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// resumptions are the streams that a replica has opened where another had them,
// by the event after which.
func (f *replicas) resumptions(r *rig) (events []string) {
	for _, record := range f.raw.Records() {
		if id := record.Header.Get("Last-Event-ID"); id != "" && strings.HasPrefix(id, "call") && record.Header.Get("X-Replica") == r.settings.Replica {
			events = append(events, id)
		}
	}
	return events
}

// The owner is gone, and the server's events carry ids: whoever the retry
// reaches goes on with the same request on the same session.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	f.raw.Tool("greet", greet)
	q := toolCall("greet").with(func(q *query) { q.auth = "Bearer mine" })
	first := f.rigs[0].play(q)
	f.die(f.rigs[0])
	f.giveUp()
	second := f.rigs[1].served(q.retry(first, accept("elicitation-1", "name", "Ada")), ServedTakenOver)
	if got := second.asked(t); got != "elicitation-2" {
		t.Fatalf("asked %q", got)
	}
	last := f.rigs[1].served(q.retry(second, accept("elicitation-2", "title", "Dr")), ServedLocal)
	if got := last.text(t); got != "Dr Ada" {
		t.Errorf("got %q", got)
	}
	want := []string{`r2:0={"action":"accept","content":{"name":"Ada"}}`, `r2:1={"action":"accept","content":{"title":"Dr"}}`}
	if got := f.posted(); !slices.Equal(got, want) {
		t.Errorf("the server got %s, want %s", got, want)
	}
	if n := f.raw.ToolCalls("greet"); n != 1 {
		t.Errorf("the tool was called %d times, want once", n)
	}
	events := f.resumptions(f.rigs[1])
	if len(events) != 1 || !strings.HasSuffix(events[0], "-0") {
		t.Errorf("went on after the events %q, want once, after the question's", events)
	}
	for _, r := range f.raw.Records() {
		if r.Header.Get("X-Replica") == "r2" && r.Header.Get("Authorization") != "Bearer mine" {
			t.Errorf("%s %s went without the caller's credentials", r.HTTP, r.Body)
		}
	}
	if n := len(f.raw.Sessions()); n != 1 {
		t.Errorf("%d sessions, want the one", n)
	}
}

// What the server said while nobody listened is not lost: it comes behind the
// event that the request state names.
func TestTakeOverOfACallThatEnded(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	gate := make(chan struct{})
	ended := make(chan struct{})
	f.raw.Tool("hasty", func(c *rawserver.Call) {
		c.Progress(1, 3)
		c.Start(mcp.MethodElicit, askFor("a"))
		<-gate
		c.Progress(2, 3)
		c.Text("never mind")
		close(ended)
	})
	q := toolCall("hasty").with(func(q *query) { q.token = `"t"` })
	o := f.rigs[0].play(q)
	f.die(f.rigs[0])
	close(gate)
	<-ended
	f.giveUp()
	v := f.rigs[1].mustBegin(q.retry(o, accept("elicitation-1", "a", "x")))
	r := endOf(t, v.goes())
	if r.err != nil || r.text(t) != "never mind" {
		t.Fatal(r.describe())
	}
	want := []string{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":2,"total":3}}`}
	if !slices.Equal(r.told, want) {
		t.Errorf("told %q, want %q", r.told, want)
	}
}

// A retry may answer a part of the questions, after a take-over as before.
func TestPartOfTheAnswersAfterATakeOver(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	f.raw.Tool("two", func(c *rawserver.Call) {
		a, b := c.Start(mcp.MethodElicit, hinted("who", "a")), c.Start(mcp.MethodElicit, askFor("b"))
		first := a.Wait().Content("a") + b.Wait().Content("b")
		c.Text(first + c.Ask(mcp.MethodElicit, hinted("who", "c")).Content("c"))
	})
	q := toolCall("two")
	o := f.rigs[0].play(q)
	params := string(o.Inputs[1].Params)
	f.die(f.rigs[0])
	f.giveUp()
	for _, tt := range []struct{ name, responses, want string }{
		{"none", "", "who elicitation-1"},
		{"unfit", `{"elicitation-1":{"action":"accept","content":{"b":7}},"who":"no object"}`, "who elicitation-1"},
		{"one", accept("who", "a", "1"), "elicitation-1"},
		{"the same again", accept("who", "a", "other"), "elicitation-1"},
		{"the other", accept("elicitation-1", "b", "2"), "who-2"},
	} {
		o = f.rigs[1].play(q.retry(o, tt.responses))
		if got := o.asked(t); got != tt.want {
			t.Fatalf("%s: asked %q, want %q", tt.name, got, tt.want)
		}
		if tt.name == "one" && string(o.Inputs[0].Params) != params {
			t.Errorf("asked %s, and %s before", o.Inputs[0].Params, params)
		}
	}
	if got := f.rigs[1].play(q.retry(o, accept("who-2", "c", "3"))).text(t); got != "123" {
		t.Errorf("the server was told %q", got)
	}
	if n := len(f.raw.Responses()); n != 3 {
		t.Errorf("the server got %d answers, want 3", n)
	}
}

// The owner dies while it serves a round: the same retry elsewhere goes on. The
// answer may be posted again, as the same response to the same request.
func TestOwnerDiesInMidRound(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	gate := make(chan struct{})
	f.raw.Tool("slow", askOnce(func(c *rawserver.Call) {
		<-gate
		c.Text("done")
	}))
	q := toolCall("slow")
	retry := q.retry(f.rigs[0].play(q), accept("elicitation-1", "a", "x"))
	v := f.rigs[1].mustBegin(retry)
	end := v.goes()
	f.raw.Wait("the answer", func() bool { return len(f.raw.Responses()) == 1 })
	f.die(f.rigs[0])
	f.giveUp()
	f.raw.Wait("the stream to go on, and the answer", func() bool { return len(f.resumptions(f.rigs[1])) == 1 && len(f.posted()) == 2 })
	close(gate)
	if r := endOf(t, end); r.err != nil || r.text(t) != "done" {
		t.Errorf("got %s", r.describe())
	}
	if got := v.Served(); got != ServedTakenOver {
		t.Errorf("served as %s", got)
	}
	if got := f.posted(); len(got) != 2 || got[0][len("r1"):] != got[1][len("r1"):] {
		t.Errorf("the server got %s, want the same twice", got)
	}
	if n := f.raw.ToolCalls("slow"); n != 1 {
		t.Errorf("the tool was called %d times, want once", n)
	}
}

// Nobody takes over before the owner's lease is over, and an owner that is
// heard again goes on with its call.
func TestTakerWaitsForTheLease(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	retry := q.retry(f.rigs[0].play(q), accept("elicitation-1", "name", "x"))
	owner, other := f.rigs[0], f.rigs[1]
	owner.port().unplug()
	v := other.mustBegin(retry)
	for _, after := range []time.Duration{lanPatience / 2, lanPatience * 2 / 3, lanPatience / 7} {
		f.lan.advance(after)
		if ev, err := v.Next(time.Now().Add(300 * time.Millisecond)); !errors.Is(err, ErrDeadline) {
			t.Fatalf("got %+v, %v while the owner may still act", ev, err)
		}
		if n := len(f.posted()) + len(f.resumptions(other)); n != 0 {
			t.Fatal("the call was taken over while the owner may still act")
		}
		if _, _, gone := other.ownerLease("r1"); gone {
			t.Fatal("the owner is given up while it may still act")
		}
	}
	if owner.confirmed() {
		t.Error("the owner still holds its lease when it is about to be given up")
	}
	owner.port().plug()
	if r := endOf(t, v.goes()); r.err != nil || r.asked(t) != "elicitation-2" {
		t.Fatal(r.describe())
	}
	if got := f.posted(); len(got) != 1 || !strings.HasPrefix(got[0], "r1:") {
		t.Errorf("the server got %s, want one answer, of the owner", got)
	}
}

// Of several replicas that the same retry reaches, one takes the call over.
func TestTakersAgree(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 4)
	const calls = 12
	f.raw.Tool("greet", func(c *rawserver.Call) {
		name := c.Ask(mcp.MethodElicit, askFor("name"))
		c.Text(c.Argument("n") + name.Content("name"))
	})
	var retries []query
	for n := range calls {
		q := toolCall("greet")
		q.params += fmt.Sprintf(`,"arguments":{"n":"%d"}`, n)
		retries = append(retries, q.retry(f.rigs[0].play(q), accept("elicitation-1", "name", fmt.Sprint("-", n))))
	}
	f.die(f.rigs[0])
	f.giveUp()
	served := make(map[Served]int)
	for n, retry := range retries {
		var visits []*visit
		var ends []<-chan result
		for _, r := range f.rigs[1:] {
			v := r.mustBegin(retry)
			visits, ends = append(visits, v), append(ends, v.goes())
		}
		for i, end := range ends {
			r := endOf(t, end)
			if r.err != nil || r.text(t) != fmt.Sprintf("%d-%d", n, n) {
				t.Errorf("call %d at replica %d: %s", n, i+2, r.describe())
			}
			served[visits[i].Served()]++
		}
	}
	if n := len(f.posted()); n != calls {
		t.Errorf("the server got %d answers, want %d", n, calls)
	}
	var resumed int
	for _, r := range f.rigs[1:] {
		resumed += len(f.resumptions(r))
	}
	if resumed != calls {
		t.Errorf("%d streams were opened anew, want %d", resumed, calls)
	}
	if served[ServedForwarded] == 0 || served[ServedTakenOver] == 0 {
		t.Errorf("served %v, want some taken over and some forwarded to who did", served)
	}
}

// A replica that does not yet think that the owner is gone takes nothing over,
// whoever says so.
func TestTakerThatStillHearsTheOwner(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3)
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	var o *Outcome
	var token [16]byte
	for token == [16]byte{} || f.rigs[1].takerOf(token) != "r3" { // one that r3 would take
		o = f.rigs[0].play(q)
		token = f.rigs[0].tokenOf(o)
	}
	f.die(f.rigs[0])
	f.lan.advance(lanPatience * 5 / 4)
	f.rigs[2].port().plug() // it began to listen just now
	f.lan.advance(lanPatience / 4)
	v := f.rigs[1].mustBegin(q.retry(o, accept("elicitation-1", "name", "x")))
	if ev, err := v.Next(time.Now().Add(200 * time.Millisecond)); !errors.Is(err, ErrDeadline) {
		t.Fatalf("got %+v, %v", ev, err)
	}
	if f.lan.questions(KindRound) == 0 {
		t.Error("nobody was asked")
	}
	if n := len(f.posted()); n != 0 {
		t.Error("the call was taken over")
	}
	f.lan.advance(2 * lanPatience)
	if r := endOf(t, v.goes()); r.err != nil || r.asked(t) != "elicitation-2" {
		t.Error(r.describe())
	}
}

func (r *rig) tokenOf(o *Outcome) [16]byte {
	r.t.Helper()
	token, err := r.ring.Open(o.State, r.settings.MaxState)
	if err != nil {
		r.t.Fatal(err)
	}
	return token.Call
}

// takerOf is who would take a call over if r1 were gone.
func (r *rig) takerOf(call [16]byte) string {
	f := newLan()
	for _, id := range []string{"r2", "r3"} {
		f.join(id).engine = r.Engine
	}
	settings := r.settings
	settings.Replica, settings.Bus = "r2", f.port("r2")
	return (&Engine{settings: settings}).taker(call)
}

// A replica without its lease takes nothing over: it may be the one that is cut
// off.
func TestReplicaWithoutItsLeaseTakesNothingOver(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	retry := q.retry(f.rigs[0].play(q), accept("elicitation-1", "name", "x"))
	f.rigs[1].port().unplug()
	f.giveUp()
	before := f.sentBy(f.rigs[1])
	f.rigs[1].refused(retry, ReasonBusDown)
	if f.sentBy(f.rigs[1]) != before {
		t.Error("it has turned to the server")
	}
	f.rigs[1].port().plug()
	if got := f.rigs[1].served(retry, ServedForwarded).asked(t); got != "elicitation-2" {
		t.Errorf("asked %q", got)
	}
}

// Where the server does not let the stream go on, and running the call again
// might do harm, the client is told.
func TestCallThatNobodyCanGoOnWith(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change change
		spoil  func(*replicas)
		want   Reason
	}{
		"no event ids":           {noEventIDs, func(*replicas) {}, ReasonCallLost},
		"a session that is gone": {nil, func(f *replicas) { f.raw.Session().Expire() }, ReasonCallLost},
		"a server that refuses to go on": {nil, func(f *replicas) {
			f.raw.Hook(func(x *rawserver.Exchange) bool {
				if x.Record.Header.Get("Last-Event-ID") == "" {
					return false
				}
				x.Reply(400, "Invalid event ID format")
				return true
			})
		}, ReasonCallLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes := []change{func(_ *Settings, l *legacy.Settings, _ *rawserver.Settings) { l.RetryMax = 2 * time.Millisecond }}
			if tt.change != nil {
				changes = append(changes, tt.change)
			}
			f := newReplicas(t, 2, changes...)
			f.raw.Tool("greet", greet)
			q := toolCall("greet")
			retry := q.retry(f.rigs[0].play(q), accept("elicitation-1", "name", "x"))
			f.die(f.rigs[0])
			tt.spoil(f)
			f.giveUp()
			for range 2 { // whoever asks again is told the same
				if refusal := f.rigs[1].refused(retry, tt.want); !refusal.MayHaveRun {
					t.Error("it is not said that the call may have run")
				}
			}
			if n := f.raw.ToolCalls("greet"); n != 1 {
				t.Errorf("the tool was called %d times, want once", n)
			}
			if n := len(f.posted()); n != 0 {
				t.Errorf("the server got %d answers", n)
			}
		})
	}
}
