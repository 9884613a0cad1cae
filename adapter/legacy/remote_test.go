package legacy

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

const formParams = `{"message":"?","requestedSchema":{"type":"object","properties":{}}}`

// pushing is a server with a tool that asks on the GET stream, as the official
// TypeScript SDK does, and says everything else there too.
func pushing(t testing.TB) *rawserver.Server {
	raw := rawserver.New(t, rawserver.Settings{})
	raw.Tool("greet", func(c *rawserver.Call) {
		c.Session.Notify(mcp.NotifyProgress, `{"progressToken":`+string(c.Token())+`,"progress":1}`)
		c.Session.Notify(mcp.NotifyMessage, `{"level":"info","data":"greeting"}`)
		answer := c.Push(mcp.MethodElicit, formParams)
		if !answer.OK() {
			c.Text("refused")
			return
		}
		c.Session.Send(c.ResultText(`{"content":[{"type":"text","text":"Hello ` + answer.Content("name") + `"}]}`))
	})
	raw.Tool("wait", func(c *rawserver.Call) { <-c.Context().Done() })
	return raw
}

// onMesh starts three replicas of which each has the key's session; aa is its
// home.
func onMesh(t testing.TB, raw *rawserver.Server, change func(*Settings)) (*mesh, *Key) {
	m := newMesh(t, raw, change, "aa", "bb", "cc")
	key := m.key("aa", "bb", "cc")
	for _, name := range []string{"aa", "bb", "cc"} {
		m.lent(name, key)
	}
	return m, key
}

// What comes on the holder's GET stream finds the call of a borrower: by its id,
// and without one where it is the only call.
func TestPushFindsABorrowersCall(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, nil)
	s := mustAcquire(t, m.servers["bb"], key, true)
	c := call(t, s, "greet")
	if got := c.next(t); got.Method != mcp.NotifyProgress {
		t.Errorf("got %s, want progress", got.Method)
	}
	if got := c.next(t); got.Method != mcp.NotifyMessage || string(got.Params) != `{"level":"info","data":"greeting"}` {
		t.Errorf("got %s %s, want the log message", got.Method, got.Params)
	}
	asked := c.next(t)
	if asked.Method != mcp.MethodElicit || string(asked.Params) != formParams {
		t.Fatalf("got %s %s, want the question", asked.Method, asked.Params)
	}
	if err := s.Post(t.Context(), nil, answerText(asked.ID, "Bo")); err != nil {
		t.Fatal(err)
	}
	if got := c.next(t); string(got.Result) != `{"content":[{"type":"text","text":"Hello Bo"}]}` {
		t.Errorf("got %s%s", got.Result, got.Error)
	}
	<-c.ended
	for name, server := range m.servers {
		eventually(t, name+" to learn that the server pushes", server.PushesOnGET)
	}
}

func TestPushIsRefusedWithCallsOnTwoReplicas(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, nil)
	one := call(t, mustAcquire(t, m.servers["bb"], key, true), "wait")
	two := call(t, mustAcquire(t, m.servers["cc"], key, true), "wait")
	raw.WaitCount(mcp.MethodToolsCall, 2)
	raw.Session().Notify(mcp.NotifyMessage, `{"level":"info","data":"whose?"}`)
	q := raw.Session().Push(mcp.MethodElicit, formParams)
	if answer := q.Wait(); answer.Error == nil {
		t.Errorf("the question was answered with %s", answer.Result)
	}
	for _, c := range []*driven{one, two} {
		select {
		case got := <-c.got:
			t.Errorf("a call was given %s", got.Method)
		default:
		}
		c.Abort()
		<-c.ended
	}
}

// A question that no call can be asked waits for the next one, wherever that is.
func TestOrphanWaitsForACallOfAnyReplica(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, nil)
	q := raw.Session().Push(mcp.MethodElicit, formParams)
	borrowed := m.lent("cc", key)
	var taken []Orphan
	eventually(t, "cc to be given the question", func() bool {
		taken = append(taken, borrowed.TakeOrphans()...)
		return len(taken) > 0
	})
	if len(taken) != 1 || string(taken[0].ID) != q.ID || string(taken[0].Params) != formParams {
		t.Fatalf("taken: %+v", taken)
	}
	eventually(t, "the others to forget it", func() bool {
		return !m.lent("aa", key).HasOrphans() && !m.lent("bb", key).HasOrphans()
	})
	if again := borrowed.TakeOrphans(); len(again) != 0 {
		t.Error("a question was taken twice")
	}
	// Withdrawn at one, it is withdrawn at all.
	q = raw.Session().Push(mcp.MethodElicit, formParams)
	home := m.lent("aa", key)
	eventually(t, "the question to wait", func() bool {
		home.mu.Lock()
		defer home.mu.Unlock()
		return len(home.orphans) == 1
	})
	eventually(t, "cc to hear of the question", borrowed.HasOrphans)
	raw.Session().Notify(mcp.NotifyCancelled, `{"requestId":`+q.ID+`}`)
	eventually(t, "the question to be withdrawn", func() bool {
		home.mu.Lock()
		defer home.mu.Unlock()
		return len(home.orphans) == 0
	})
	if taken := borrowed.TakeOrphans(); len(taken) != 0 {
		t.Errorf("taken: %+v", taken)
	}
}

// The call came while the news of the question was on its way.
func TestOrphanFindsACallThatIsInFlight(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, nil)
	home := m.lent("aa", key)
	home.mu.Lock()
	home.orphans = append(home.orphans, Orphan{ID: []byte("7"), Method: mcp.MethodElicit, Params: []byte(formParams), until: time.Now().Add(time.Hour)})
	home.mu.Unlock()
	c := call(t, mustAcquire(t, m.servers["bb"], key, true), "wait")
	home.tellOrphans(1)
	if got := c.next(t); got.Method != mcp.MethodElicit || string(got.ID) != "7" {
		t.Errorf("got %s %s", got.Method, got.ID)
	}
	c.Abort()
	<-c.ended
}

func TestNotificationsReachEveryReplicasListeners(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, nil)
	listeners := make(map[string]*noticing)
	for _, name := range []string{"aa", "bb", "cc"} {
		l := newNoticing()
		listeners[name] = l
		s := mustAcquire(t, m.servers[name], key, false)
		if !s.Listen(l) {
			t.Fatal("the session is over")
		}
		defer s.Unlisten(l)
	}
	tools := &m.lent("bb", key).entry.tools
	tools.mu.Lock()
	tools.until = time.Now().Add(time.Hour)
	tools.mu.Unlock()
	for _, n := range []string{mcp.NotifyToolsChanged, mcp.NotifyResourceUpdated} {
		raw.Session().Notify(n, `{"uri":"x:1"}`)
		for name, l := range listeners {
			if got := l.next(t); got != n+`{"uri":"x:1"}` {
				t.Errorf("%s was told %s", name, got)
			}
		}
	}
	tools.mu.Lock()
	if !tools.until.IsZero() {
		t.Error("bb still believes in the tools that have changed")
	}
	tools.mu.Unlock()
	// The GET stream of the holder breaks, and nobody knows what came meanwhile.
	m.lent("aa", key).missed()
	for name, l := range listeners {
		if got := l.next(t); got != "missed" {
			t.Errorf("%s was told %s", name, got)
		}
	}
}

// A replica's last listener leaves the subscription to those of the others.
func TestSubscriptionIsKeptForOtherReplicas(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, nil)
	b, c := m.lent("bb", key), m.lent("cc", key)
	lb, lc := newNoticing(), newNoticing()
	for _, s := range []struct {
		*Session
		*noticing
	}{{b, lb}, {c, lc}} {
		if err := s.Subscribe(t.Context(), nil, s.noticing, "x:1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Unsubscribe(t.Context(), nil, lb, "x:1"); err != nil {
		t.Fatal(err)
	}
	if n := raw.Count(mcp.MethodUnsubscribe); n != 0 {
		t.Fatal("the subscription was given up under cc's listener")
	}
	if err := c.Unsubscribe(t.Context(), nil, lc, "x:1"); err != nil {
		t.Fatal(err)
	}
	if n := raw.Count(mcp.MethodUnsubscribe); n != 1 {
		t.Errorf("%d times unsubscribed, want once", n)
	}
}

func TestLogLevelIsSharedByReplicas(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, nil)
	home, b, c := m.lent("aa", key), mustAcquire(t, m.servers["bb"], key, false), mustAcquire(t, m.servers["cc"], key, false)
	loud := b.Prepare(m.servers["bb"].NextID(), newTeller(), nil, false, false, mcp.LevelDebug)
	if err := b.RaiseLevel(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Session{"aa": home, "cc": c} {
		eventually(t, name+" to know the level", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.level == mcp.LevelDebug
		})
	}
	quiet := c.Prepare(m.servers["cc"].NextID(), newTeller(), nil, false, false, mcp.LevelWarning)
	if c.LevelShort() {
		t.Error("cc would set a level that is set already")
	}
	// Nobody at the home wants any, but the others do.
	if err := home.lowerLevel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if levels := raw.Levels(); !slices.Equal(levels, []string{"debug"}) {
		t.Errorf("levels %q: it was lowered under bb's call", levels)
	}
	loud.Finish()
	if err := home.lowerLevel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if levels := raw.Levels(); !slices.Equal(levels, []string{"debug", "warning"}) {
		t.Errorf("levels %q, want it lowered to what cc wants", levels)
	}
	quiet.Finish()
	// A borrower leaves lowering to the holder.
	m.entryOf("bb", key).expire(time.Now())
	m.entryOf("aa", key).expire(time.Now())
	raw.WaitCount(mcp.MethodSetLevel, 3)
	if levels := raw.Levels(); !slices.Equal(levels, []string{"debug", "warning", "emergency"}) {
		t.Errorf("levels %q", levels)
	}
	eventually(t, "bb to know the level", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.level == mcp.LevelEmergency
	})
}

// A call was let go at one replica and taken over by another: what the GET
// stream brings for it comes through its old owner, or past it where that is
// dead.
func TestMessagesFindACallThatWasTakenOver(t *testing.T) {
	for _, dead := range []bool{false, true} {
		raw := asking(t, rawserver.Settings{})
		m, key := onMesh(t, raw, nil)
		s := mustAcquire(t, m.servers["bb"], key, true)
		one := call(t, s, "greet")
		one.next(t)
		at := one.Position()
		one.Release()
		<-one.ended
		if dead {
			m.kill("bb")
		}
		adopted := mustAdopt(t, m.servers["cc"], key, at)
		k := newTeller()
		x := adopted.Resume(at.Request, at.Event, k, nil, true, true, mcp.LevelNone)
		raw.Session().Notify(mcp.NotifyProgress, `{"progressToken":"`+at.Request+`"}`)
		if got := k.next(t); got.Method != mcp.NotifyProgress {
			t.Errorf("got %s, want progress", got.Method)
		}
		raw.Session().Send(`{"jsonrpc":"2.0","id":"` + at.Request + `","error":{"code":-1,"message":"no","data":{"n":1.0}}}`)
		if got := k.next(t); string(got.Error) != `{"code":-1,"message":"no","data":{"n":1.0}}` {
			t.Errorf("got %s, want the error as it was sent", got.Error)
		}
		x.Finish()
	}
}

// A question on the stream of a call that is never asked is for the one call
// that can be, though that is elsewhere.
func TestQuestionOnAnothersStreamIsAttributedAmongReplicas(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, nil)
	c := call(t, mustAcquire(t, m.servers["cc"], key, true), "wait")
	s := mustAcquire(t, m.servers["bb"], key, false)
	x := s.Prepare(m.servers["bb"].NextID(), newTeller(), nil, false, false, mcp.LevelNone)
	text := []byte(formParams)
	s.route(x, &jsonrpc.Message{ID: []byte("5"), Method: mcp.MethodElicit, Params: text}, true)
	clear(text)
	if got := c.next(t); got.Method != mcp.MethodElicit || string(got.ID) != "5" || string(got.Params) != formParams {
		t.Errorf("got %s %s %s", got.Method, got.ID, got.Params)
	}
	x.Finish()
	c.Abort()
	<-c.ended
}

// A question is withdrawn on the GET stream: the call that has it learns so.
func TestWithdrawalReachesABorrowersCall(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, nil)
	c := call(t, mustAcquire(t, m.servers["bb"], key, true), "wait")
	q := raw.Session().Push(mcp.MethodElicit, formParams)
	c.next(t)
	raw.Session().Notify(mcp.NotifyCancelled, `{"requestId":`+q.ID+`}`)
	if got := c.next(t); got.Method != mcp.NotifyCancelled || string(got.Params) != `{"requestId":`+q.ID+`}` {
		t.Errorf("got %s %s", got.Method, got.Params)
	}
	c.Abort()
	<-c.ended
}

// One subscription serves the listeners of all replicas, whoever asked for it.
func TestSubscriptionOfAnotherReplicaServes(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, nil)
	sessions, listeners := make([]*Session, 0, 3), make([]*noticing, 0, 3)
	for _, name := range []string{"bb", "cc", "aa"} {
		s, l := m.lent(name, key), newNoticing()
		if err := s.Subscribe(t.Context(), nil, l, "x:1"); err != nil {
			t.Fatal(err)
		}
		sessions, listeners = append(sessions, s), append(listeners, l)
	}
	for i, s := range sessions {
		if n := raw.Count(mcp.MethodUnsubscribe); n != 0 {
			t.Errorf("unsubscribed when %d of 3 listeners had gone", i)
		}
		if err := s.Unsubscribe(t.Context(), nil, listeners[i], "x:1"); err != nil {
			t.Fatal(err)
		}
	}
	if in, out := raw.Count(mcp.MethodSubscribe), raw.Count(mcp.MethodUnsubscribe); in != 1 || out != 1 {
		t.Errorf("%d times subscribed and %d times unsubscribed, want once each", in, out)
	}
}

// A question waits for a call of a replica that borrows the session only later.
func TestOrphanIsKnownToWhoBorrowsLater(t *testing.T) {
	raw := pushing(t)
	m := newMesh(t, raw, nil, "aa", "bb")
	key := m.key("aa", "bb")
	home := m.lent("aa", key)
	raw.Session().Push(mcp.MethodElicit, formParams)
	eventually(t, "the question to wait", home.HasOrphans)
	borrowed := m.lent("bb", key)
	if !borrowed.HasOrphans() {
		t.Fatal("bb does not know of the question")
	}
	if taken := borrowed.TakeOrphans(); len(taken) != 1 {
		t.Errorf("taken: %+v", taken)
	}
}

// Questions go along with the session that they wait on.
func TestOrphanMovesWithItsSession(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, nil)
	home := m.lent("aa", key)
	q := raw.Session().Push(mcp.MethodElicit, formParams)
	eventually(t, "the question to wait", func() bool {
		home.mu.Lock()
		defer home.mu.Unlock()
		return len(home.orphans) == 1
	})
	m.servers["aa"].Close(t.Context())
	m.split(-1, "aa")
	taken := m.lent("bb", key).TakeOrphans()
	if len(taken) != 1 || string(taken[0].ID) != q.ID {
		t.Errorf("taken: %+v", taken)
	}
	if n := len(q.Answers()); n != 0 {
		t.Errorf("the question was answered %d times", n)
	}
}

// A session that the server has forgotten is over on all replicas at once.
func TestSessionThatIsGoneEndsTheListenersOfAll(t *testing.T) {
	raw := pushing(t)
	m, key := onMesh(t, raw, nil)
	var ended []chan error
	for _, name := range []string{"aa", "bb", "cc"} {
		l := newNoticing()
		s := mustAcquire(t, m.servers[name], key, false)
		if !s.Listen(l) {
			t.Fatal("the session is over")
		}
		defer s.Unlisten(l)
		ended = append(ended, l.ended)
	}
	m.lent("bb", key).markGone()
	for _, end := range ended {
		if err := <-end; !errors.Is(err, ErrSessionGone) {
			t.Errorf("a listener was ended with %v", err)
		}
	}
}

// lossy loses what holds a text: each message that is told, and the first two
// questions.
type lossy struct {
	Peers
	text  string
	asked *atomic.Int64
}

func (p *lossy) Tell(replica string, body []byte) {
	if !bytes.Contains(body, []byte(p.text)) {
		p.Peers.Tell(replica, body)
	}
}

func (p *lossy) Request(ctx context.Context, replica string, body []byte) ([]byte, error) {
	if bytes.Contains(body, []byte(p.text)) && p.asked.Add(1) <= 2 {
		return nil, errNobody
	}
	return p.Peers.Request(ctx, replica, body)
}

// A response that the server gave on the GET stream is not lost between
// replicas: the server does not say it twice.
func TestResponseForABorrowersCallIsNotLost(t *testing.T) {
	raw := pushing(t)
	asked := new(atomic.Int64)
	m, key := onMesh(t, raw, func(s *Settings) { s.Peers = &lossy{s.Peers, "Hello Bo", asked} })
	s := mustAcquire(t, m.servers["bb"], key, true)
	c := call(t, s, "greet")
	for {
		got := c.next(t)
		if got.Method == mcp.MethodElicit {
			if err := s.Post(t.Context(), nil, answerText(got.ID, "Bo")); err != nil {
				t.Fatal(err)
			}
		}
		if got.Result != nil {
			break
		}
	}
	<-c.ended
	if n := asked.Load(); n != 3 {
		t.Errorf("it was sent %d times, want 3", n)
	}
}
