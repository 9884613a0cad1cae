package legacy

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// teller is a sink that a test waits on.
type teller struct {
	got    chan jsonrpc.Message // copies
	failed chan error
}

func newTeller() *teller {
	return &teller{got: make(chan jsonrpc.Message, 100), failed: make(chan error, 1)}
}

func (k *teller) Receive(m *jsonrpc.Message, _ bool) {
	k.got <- jsonrpc.Message{
		ID: slices.Clone(m.ID), Method: m.Method, Params: slices.Clone(m.Params),
		Result: slices.Clone(m.Result), Error: slices.Clone(m.Error),
	}
}

func (k *teller) Fail(err error) { k.failed <- err }

// next returns what the sink is given next.
func (k *teller) next(t testing.TB) jsonrpc.Message {
	t.Helper()
	select {
	case m := <-k.got:
		return m
	case err := <-k.failed:
		t.Fatalf("the sink was told: %v", err)
	case <-time.After(10 * time.Second):
		t.Fatal("the sink was given nothing")
	}
	return jsonrpc.Message{}
}

// driven is an exchange and the goroutine that drives it.
type driven struct {
	*Exchange
	*teller
	ended chan struct{}
}

// drive runs an exchange to its end.
func drive(t testing.TB, x *Exchange, k *teller) *driven {
	d := &driven{Exchange: x, teller: k, ended: make(chan struct{})}
	go func() {
		defer close(d.ended)
		for !x.Run(t.Context()) {
		}
		x.Finish()
	}()
	return d
}

// call sends a tool call on a session that was lent as eligible.
func call(t testing.TB, s *Session, tool string) *driven {
	t.Helper()
	k := newTeller()
	x := s.Prepare(s.server.NextID(), k, nil, true, true, mcp.LevelNone)
	x.SetMessage(jsonrpc.AppendRequest(Text(), x.AppendID(nil), mcp.MethodToolsCall, []byte(`{"name":"`+tool+`","arguments":{},"_meta":{"progressToken":`+string(x.AppendID(nil))+`}}`)))
	if err := x.Send(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	return drive(t, x, k)
}

// asking is a server with a tool that asks for a name.
func asking(t testing.TB, settings rawserver.Settings) *rawserver.Server {
	raw := rawserver.New(t, settings)
	raw.Tool("greet", func(c *rawserver.Call) {
		answer := c.Ask(mcp.MethodElicit, `{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}`)
		c.Progress(1, 2)
		c.Text("Hello " + answer.Content("name"))
	})
	return raw
}

// replica returns a Server in front of raw, as one replica of several.
func replica(t testing.TB, raw *rawserver.Server, prefix string, change func(*Settings)) *Server {
	settings := testSettings(raw.URL)
	settings.IDPrefix = prefix
	settings.StreamWait = 20 * time.Millisecond
	if change != nil {
		change(&settings)
	}
	return newTestServer(t, settings)
}

func mustAcquire(t testing.TB, s *Server, key *Key, eligible bool) *Session {
	t.Helper()
	session, err := s.Acquire(t.Context(), key, eligible, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func mustAdopt(t testing.TB, s *Server, key *Key, at Position) *Session {
	t.Helper()
	session, err := s.Adopt(t.Context(), key, at, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func answerText(id []byte, name string) []byte {
	return jsonrpc.AppendResult(Text(), id, []byte(`{"action":"accept","content":{"name":"`+name+`"}}`))
}

// One replica lets a call go while its client thinks, and another goes on with
// it: nothing runs twice.
func TestCallGoesOnAtAnotherReplica(t *testing.T) {
	for name, settings := range map[string]rawserver.Settings{
		"":             {},
		"primed":       {Prime: true},
		"late headers": {LateHeaders: true},
	} {
		t.Run(name, func(t *testing.T) {
			raw := asking(t, settings)
			a, b := replica(t, raw, "aa", nil), replica(t, raw, "bb", nil)
			key := &Key{Caps: capabilities(t, `{"elicitation":{}}`)}
			s := mustAcquire(t, a, key, true)
			one := call(t, s, "greet")
			asked := one.next(t)
			at := one.Position()
			if at.Session != raw.Session().ID || at.Version != mcp.Latest || at.Event == "" || at.Request != "aa-2" {
				t.Fatalf("the call stands at %+v", at)
			}
			s.Hold()
			if !one.Release() {
				t.Fatal("the call had ended")
			}
			<-one.ended
			if one.Release() {
				t.Error("a call was let go twice")
			}
			if s.users != 1 || s.eligible != 0 {
				t.Errorf("%d users and %d eligible after the release, want the hold alone", s.users, s.eligible)
			}
			adopted := mustAdopt(t, b, key, at)
			k := newTeller()
			x := adopted.Resume(at.Request, at.Event, k, nil, true, true, mcp.LevelNone)
			if err := x.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			two := drive(t, x, k)
			text := answerText(asked.ID, "Ann")
			if err := adopted.Post(t.Context(), nil, text); err != nil {
				t.Fatal(err)
			}
			if m := two.next(t); m.Method != mcp.NotifyProgress || string(jsonrpc.Get(m.Params, "progressToken")) != `"aa-2"` {
				t.Errorf("got %s %s, want progress", m.Method, m.Params)
			}
			if m := two.next(t); string(m.Result) != `{"content":[{"type":"text","text":"Hello Ann"}]}` || string(m.ID) != `"aa-2"` {
				t.Errorf("got %s %s%s", m.ID, m.Result, m.Error)
			}
			<-two.ended
			if n := raw.ToolCalls("greet"); n != 1 {
				t.Errorf("the tool ran %d times", n)
			}
			if n := raw.Count(mcp.NotifyCancelled); n != 0 {
				t.Errorf("%d cancellations were sent", n)
			}
			s.Return(false)
			if s.users != 0 || adopted.users != 0 || len(adopted.calls)+len(adopted.foreign) != 0 {
				t.Error("something is left on the sessions")
			}
		})
	}
}

// What comes on the session's GET stream finds an exchange by the id that
// another replica gave it, and by none of its own.
func TestForeignIDsFindTheirCall(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	b := replica(t, raw, "bb", nil)
	s := mustAcquire(t, b, &Key{Caps: capabilities(t, `{"elicitation":{}}`)}, true)
	k := newTeller()
	x := s.Resume("aa-7", "e-1", k, nil, true, true, mcp.LevelNone)
	for _, id := range []string{`"aa-8"`, `"bb-1"`, `"bb-2"`, `7`, `"`, ``, `null`} {
		if y := s.find([]byte(id)); y != nil {
			t.Errorf("%s has found the call", id)
		}
	}
	s.route(nil, &jsonrpc.Message{Method: mcp.NotifyProgress, Params: []byte(`{"progressToken":"aa-7"}`)}, false)
	if m := k.next(t); m.Method != mcp.NotifyProgress {
		t.Errorf("got %+v, want progress", m)
	}
	x.Cancel("enough")
	s.PostLater(nil, AppendCancelled(Text(), "cc-9", "expired"))
	raw.WaitCount(mcp.NotifyCancelled, 2)
	if ids := raw.Cancelled(); string(ids[0]) != `"aa-7"` || string(ids[1]) != `"cc-9"` {
		t.Errorf("cancelled: %s", ids)
	}
	s.route(nil, &jsonrpc.Message{ID: []byte(`"aa-7"`), Result: []byte(`{}`)}, false)
	if m := k.next(t); string(m.Result) != "{}" {
		t.Errorf("got %+v, want the response", m)
	}
	x.Finish()
	if y := s.find([]byte(`"aa-7"`)); y != nil {
		t.Error("a call was found after its end")
	}
	// An id of this replica's own is found as ever.
	own := mustAdopt(t, b, &s.entry.key, Position{Session: s.id, Version: mcp.Latest})
	if own != s {
		t.Error("the key's own session was not lent")
	}
	x = own.Resume("bb-5", "e-1", k, nil, true, true, mcp.LevelNone)
	if s.find([]byte(`"bb-5"`)) != x || x.foreign() != "" {
		t.Error("the call was not found by its own id")
	}
	x.Finish()
}

// Until its stream stands, a resumed call learns why it does not.
func TestStreamThatIsNotResumed(t *testing.T) {
	refuse := func(status int) func(x *rawserver.Exchange) bool {
		return func(x *rawserver.Exchange) bool {
			if resuming := x.R.Header.Get("Last-Event-ID") != ""; !resuming {
				return false
			}
			if status == 0 {
				x.Drop()
			}
			x.Reply(status, "no")
			return true
		}
	}
	for name, tt := range map[string]struct {
		event string
		hook  func(*rawserver.Exchange) bool
		check func(error) bool
		tries int
	}{
		"unknown event": {event: "nosuch-1", check: func(err error) bool { return errors.Is(err, ErrNotResumable) }, tries: 1},
		"no event":      {check: func(err error) bool { return errors.Is(err, ErrNotResumable) }},
		"405":           {event: "e-1", hook: refuse(405), check: func(err error) bool { return errors.Is(err, ErrNotResumable) }, tries: 1},
		"404":           {event: "e-1", hook: refuse(404), check: func(err error) bool { return errors.Is(err, ErrSessionGone) }, tries: 1},
		"409 for good":  {event: "e-1", hook: refuse(409), check: func(err error) bool { return errors.Is(err, ErrNotResumable) }, tries: 3},
		"broken":        {event: "e-1", hook: refuse(0), check: func(err error) bool { return errors.Is(err, ErrNotResumable) }, tries: 3},
		"401": {event: "e-1", hook: refuse(401), tries: 1, check: func(err error) bool {
			var status *StatusError
			return errors.As(err, &status) && status.Unauthorized()
		}},
	} {
		for _, way := range []string{"Open", "Run"} {
			t.Run(name+" "+way, func(t *testing.T) {
				raw := asking(t, rawserver.Settings{})
				if tt.hook != nil {
					raw.Hook(tt.hook)
				}
				a := replica(t, raw, "aa", func(s *Settings) { s.RetryMax = time.Second })
				key := &Key{Caps: capabilities(t, `{}`)}
				s := mustAcquire(t, a, key, true)
				before := raw.HTTPCount(http.MethodGet)
				k := newTeller()
				x := s.Resume("cc-1", tt.event, k, nil, true, true, mcp.LevelNone)
				var err error
				if way == "Open" {
					err = x.Open(t.Context())
				} else {
					for !x.Run(t.Context()) {
					}
					err = <-k.failed
				}
				if !tt.check(err) {
					t.Errorf("got %v", err)
				}
				if n := raw.HTTPCount(http.MethodGet) - before; n != tt.tries {
					t.Errorf("%d attempts, want %d", n, tt.tries)
				}
				x.Finish()
			})
		}
	}
}

// The connection of a replica that has died may be open at the server for a
// while.
func TestResumeWaitsForTheOldConnection(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	key := &Key{Caps: capabilities(t, `{"elicitation":{}}`)}
	a, b := replica(t, raw, "aa", nil), replica(t, raw, "bb", func(s *Settings) { s.RetryMax = 10 * time.Second })
	s := mustAcquire(t, a, key, true)
	one := call(t, s, "greet")
	asked := one.next(t)
	at := one.Position()
	one.Release()
	<-one.ended
	var once sync.Once
	raw.Hook(func(x *rawserver.Exchange) (answered bool) {
		if x.R.Header.Get("Last-Event-ID") != "" {
			once.Do(func() { x.Reply(http.StatusConflict, "in use"); answered = true })
		}
		return answered
	})
	adopted := mustAdopt(t, b, key, at)
	k := newTeller()
	two := drive(t, adopted.Resume(at.Request, at.Event, k, nil, true, true, mcp.LevelNone), k)
	if err := adopted.Post(t.Context(), nil, answerText(asked.ID, "Bob")); err != nil {
		t.Fatal(err)
	}
	if m := two.next(t); m.Method != mcp.NotifyProgress {
		t.Errorf("got %+v, want progress", m)
	}
	if m := two.next(t); string(m.Result) != `{"content":[{"type":"text","text":"Hello Bob"}]}` {
		t.Errorf("got %s%s", m.Result, m.Error)
	}
	<-two.ended
}

func TestOpenIsGivenUp(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	a := replica(t, raw, "aa", func(s *Settings) { s.StreamWait = 10 * time.Second })
	s := mustAcquire(t, a, &Key{Caps: capabilities(t, `{}`)}, true)
	arrived := make(chan struct{})
	raw.Hook(func(x *rawserver.Exchange) bool {
		if x.R.Header.Get("Last-Event-ID") == "" {
			return false
		}
		close(arrived)
		x.Silence()
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	x := s.Resume("cc-1", "e-1", newTeller(), nil, true, true, mcp.LevelNone)
	result := make(chan error)
	go func() { result <- x.Open(ctx) }()
	<-arrived
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	x.Finish()
}
