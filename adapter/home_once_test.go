package adapter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// apart are two replicas in front of one server with a ring of keys each, which
// are the same at first.
func apart(t *testing.T, q query) (f *replicas, home, other *rig, key state.Key) {
	t.Helper()
	f, key = newReplicas(t, 0, oneStream), state.NewKey()
	for _, id := range []string{"r1", "r2"} {
		ring, err := state.NewRing(key)
		if err != nil {
			t.Fatal(err)
		}
		f.add(id, ring, oneStream)
	}
	f.raw.Tool("plain", func(c *rawserver.Call) { c.Text("ok") })
	home, others := f.keeper(q)
	others[0].served(q, ServedForwarded) // who keeps the session is known
	return f, home, others[0], key
}

func (r *rig) seals(t *testing.T, keys ...state.Key) {
	t.Helper()
	if err := r.ring.Replace(keys...); err != nil {
		t.Fatal(err)
	}
}

// The keeper of a session was frozen, and finds a first round that was sent
// elsewhere meanwhile: it does not run it, whether the one that asked has let go
// of it or its own lease has run out.
func TestThawedKeeperRunsNothing(t *testing.T) {
	t.Parallel()
	for name, revoked := range map[string]bool{"without its lease": true, "after its asker has left": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := toolCall("plain")
			f, home, _, _ := apart(t, q)
			ran := f.raw.ToolCalls("plain")
			f.lan.change(func() { f.lan.patience = 10 * time.Millisecond }) // how long it waits for its lease
			home.port().revoke(revoked)
			ctx, left := context.WithCancel(t.Context())
			defer left()
			if !revoked {
				left()
			}
			v := home.decode(q)
			v.req.endpoint = home.upstreams()["up"].id
			round, err := home.beginFirst(ctx, nil, v.req)
			if err == nil {
				round.Gone()
				round.Close()
				t.Error("it begins the round")
			}
			f.lan.change(func() { f.lan.patience = lanPatience })
			home.port().revoke(false)
			home.served(q, ServedLocal) // on the same session: what was sent before has arrived
			if n := f.raw.ToolCalls("plain") - ran; n != 1 {
				t.Errorf("the tool ran %d times, want once, for the call after it", n)
			}
		})
	}
}

// A keeper that is frozen before it takes a first round: that runs once, where it
// was sent, after a while.
func TestFrozenKeeper(t *testing.T) {
	t.Parallel()
	q := toolCall("plain")
	f, home, other, _ := apart(t, q)
	ran := f.raw.ToolCalls("plain")
	home.port().unplug()
	asked := f.lan.questions(KindRound)
	end := other.mustBegin(q).goes()
	eventually(t, "the keeper to be asked", func() bool { return f.lan.questions(KindRound) > asked })
	f.giveUp()
	if r := endOf(t, end); r.err != nil || r.text(t) != "ok" {
		t.Error(r.describe())
	}
	home.port().plug()
	home.served(q, ServedLocal)
	if n := f.raw.ToolCalls("plain") - ran; n != 2 {
		t.Errorf("two calls ran %d times", n)
	}
}

// A keeper that dies when it has taken a first round and has not been heard yet:
// the one that asked cannot know that, and the round runs elsewhere, so the keeper
// must not have begun it.
func TestKeeperThatNobodyHears(t *testing.T) {
	t.Parallel()
	q := toolCall("plain")
	f, home, other, _ := apart(t, q)
	ran := f.raw.ToolCalls("plain")
	f.lan.change(func() { home.port().muted = true })
	served := home.remote.Load()
	end := other.mustBegin(q).goes()
	eventually(t, "the keeper to have the round", func() bool { return home.remote.Load() > served })
	home.port().unplug() // it is killed
	f.giveUp()
	if r := endOf(t, end); r.err != nil || r.text(t) != "ok" {
		t.Error(r.describe())
	}
	f.lan.change(func() { home.port().muted = false })
	home.port().plug()
	home.served(q, ServedLocal)
	if n := f.raw.ToolCalls("plain") - ran; n != 2 {
		t.Errorf("two calls ran %d times", n)
	}
}

// A keeper begins a first round when it is told to, and not where it is let go of
// before; a word that never comes is not waited for.
func TestKeeperWaitsForTheWord(t *testing.T) {
	t.Parallel()
	q := toolCall("plain")
	f, home, other, _ := apart(t, q)
	ask := func() Stream {
		t.Helper()
		v := other.decode(q)
		v.req.endpoint, v.req.once = home.upstreams()["up"].id, true
		s, err := other.port().Ask(t.Context(), home.port().id, KindRound, other.ring.SealMessage(nil, appendFirst(v.req), contextRound))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	next := func(s Stream) error {
		t.Helper()
		message, err := s.Recv(time.Now().Add(10 * time.Second))
		if err != nil {
			return err
		}
		plain, err := other.ring.OpenMessage(nil, message, contextEvent)
		if err != nil {
			t.Fatal(err)
		}
		ev, err := readEvent(plain)
		if err == nil && ev.Outcome == nil {
			t.Errorf("got %+v, want an outcome", ev)
		}
		return err
	}
	ran := f.raw.ToolCalls("plain")
	for name, after := range map[string]func(Stream){
		"let go of":     func(s Stream) { s.Close() },
		"fallen silent": func(s Stream) { s.Abandon() },
		"never told": func(s Stream) {
			var to away
			if err := next(s); !errors.As(err, &to) || to.to != home.port().id {
				t.Errorf("got %v, want to be sent to it again", err)
			}
		},
		"told otherwise": func(s Stream) {
			if err := s.Send(t.Context(), other.ring.SealMessage(nil, newFields(formTold, 0), contextRound)); err != nil {
				t.Fatal(err)
			}
			if err := next(s); err == nil {
				t.Error("it has begun")
			}
		},
	} {
		s := ask()
		if err := next(s); !errors.As(err, new(ready)) {
			t.Fatalf("%s: got %v, want that it can begin", name, err)
		}
		after(s)
		s.Close()
	}
	eventually(t, "the keeper to have none of them any more", func() bool { return home.remote.Load() == 0 })
	if n := f.raw.ToolCalls("plain") - ran; n != 0 {
		t.Fatalf("the tool ran %d times without the word", n)
	}
	s := ask()
	defer s.Close()
	if err := next(s); !errors.As(err, new(ready)) {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), other.ring.SealMessage(nil, newFields(formGo, 0), contextRound)); err != nil {
		t.Fatal(err)
	}
	if err := next(s); err != nil {
		t.Error(err)
	}
	if n := f.raw.ToolCalls("plain") - ran; n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}

// A keeper whose answer cannot be read may have run the tool: nobody runs it
// again, and the client is told.
func TestUnreadableAnswerOfTheKeeper(t *testing.T) {
	t.Parallel()
	q := toolCall("plain")
	f, home, other, key := apart(t, q)
	ran := f.raw.ToolCalls("plain")
	f.raw.Tool("plain", func(c *rawserver.Call) {
		home.seals(t, state.NewKey(), key)
		c.Text("ok")
	})
	if refusal := other.refused(q, ReasonCallLost); !refusal.MayHaveRun {
		t.Errorf("got %+v, want that it may have run", refusal)
	}
	if n := f.raw.ToolCalls("plain") - ran; n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}

// A keeper that cannot be understood when it says that it can begin does not begin:
// the round runs elsewhere.
func TestUnreadableWordOfTheKeeper(t *testing.T) {
	t.Parallel()
	q := toolCall("plain")
	f, home, other, key := apart(t, q)
	ran := f.raw.ToolCalls("plain")
	home.seals(t, state.NewKey(), key)
	if o := other.play(q); o.text(t) != "ok" {
		t.Errorf("got %s", o.text(t))
	}
	if n := f.raw.ToolCalls("plain") - ran; n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}

// A keeper that cannot read what it is sent has not run it, and says so: it runs
// elsewhere, at once.
func TestKeeperThatDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	q := toolCall("plain")
	f, home, other, _ := apart(t, q)
	ran := f.raw.ToolCalls("plain")
	fresh := state.NewKey()
	home.seals(t, fresh)
	v := other.mustBegin(q)
	o, _, err := v.finish()
	if err != nil || o.text(t) != "ok" {
		t.Errorf("%+v: %v", o, err)
	}
	if n := f.raw.ToolCalls("plain") - ran; n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}

// A first round goes on at the endpoint that it was sent for, or nowhere.
func TestFirstRoundOfAnotherEndpoint(t *testing.T) {
	t.Parallel()
	q := toolCall("plain")
	f, home, _, _ := apart(t, q)
	ran := f.raw.ToolCalls("plain")
	v := home.decode(q)
	v.req.endpoint = "gone"
	if _, err := home.beginFirst(t.Context(), nil, v.req); !errors.Is(err, errAway) {
		t.Errorf("got %v, want errAway", err)
	}
	if n := f.raw.ToolCalls("plain") - ran; n != 0 {
		t.Errorf("the tool ran %d times", n)
	}
}

// A round is not let go while its answers are on their way: a client that comes
// back has none to give any more.
func TestHoldOfAnswersUnderWay(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxHold = time.Millisecond })
	gate, done := make(chan struct{}), make(chan struct{})
	f.raw.Hook(func(x *rawserver.Exchange) bool {
		if len(x.Record.Messages) == 1 && x.Record.Messages[0].Method == "" && x.Record.Messages[0].ID != nil {
			x.Hold(gate)
		}
		return false
	})
	f.raw.Tool("ask", func(c *rawserver.Call) {
		name := c.Ask(mcp.MethodElicit, askFor("name")).Content("name")
		<-done
		c.Text("Hello " + name)
	})
	q := toolCall("ask")
	o := f.rigs[0].play(q)
	for len(o.Inputs) == 0 { // it may be let go before it is asked something
		o = f.rigs[0].play(q.retry(o, ""))
	}
	v := f.rigs[0].mustBegin(q.retry(o, accept("elicitation-1", "name", "Ada")))
	round := v.Round.(*callRound)
	end := v.goes()
	f.raw.Wait("the answer", func() bool { return len(f.raw.Responses()) == 1 })
	held := func() (let, late bool) {
		round.call.mu.Lock()
		defer round.call.mu.Unlock()
		return round.mustLetGo(), !round.hold.IsZero() && time.Now().After(round.hold)
	}
	eventually(t, "the end of the hold", func() bool { _, late := held(); return late })
	if let, _ := held(); let {
		t.Error("the round may be let go while its answer is on its way")
	}
	select {
	case r := <-end:
		t.Fatalf("the round was let go while its answer was on its way: %s", r.describe())
	default:
	}
	close(gate)
	r := endOf(t, end)
	if r.err != nil || r.State == nil || len(r.Inputs) != 0 {
		t.Fatalf("got %s, want that it is let go once the answer has arrived", r.describe())
	}
	close(done)
	for r.Outcome.State != nil {
		r.Outcome = f.rigs[0].play(q.retry(r.Outcome, ""))
	}
	if got := r.Outcome.text(t); got != "Hello Ada" {
		t.Errorf("got %q", got)
	}
	if n := len(f.raw.Responses()); n != 1 {
		t.Errorf("%d answers were posted", n)
	}
}

// A shutdown that is cut short tells the servers of the end of their sessions all
// the same.
func TestShutdownCutShort(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.raw.Tool("plain", func(c *rawserver.Call) { c.Text("ok") })
	r.play(toolCall("plain"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.Shutdown(ctx)
	if n := r.raw.HTTPCount("DELETE"); n != 1 {
		t.Errorf("%d sessions were ended, want the one", n)
	}
}
