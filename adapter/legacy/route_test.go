package legacy

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// sink records what an exchange is given.
type sink struct {
	mu  sync.Mutex
	got []string
}

func (s *sink) Receive(m *jsonrpc.Message, _ bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, m.Method+string(m.ID)+string(m.Params))
}

func (s *sink) Fail(error) {}

func (s *sink) taken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := strings.Join(s.got, " ")
	s.got = nil
	return taken
}

// prepared is a call on a session that has not been sent.
func (p *pool) prepared(s *Session, eligible bool, level mcp.Level) (*Exchange, *sink) {
	k := &sink{}
	s.entry.mu.Lock()
	s.entry.lend(s, eligible)
	s.entry.mu.Unlock()
	return s.Prepare(p.NextID(), k, nil, eligible, eligible, level), k
}

func question(id int) *jsonrpc.Message {
	return &jsonrpc.Message{ID: fmt.Append(nil, id), Method: mcp.MethodElicit, Params: []byte(`{"message":"?"}`)}
}

// refusals are the errors that the server was answered with.
func (p *pool) refusals() (n int) {
	for _, m := range p.raw.Responses() {
		if m.Error != nil {
			n++
		}
	}
	return n
}

// A question on the GET stream belongs to the one call that can be asked; with
// several it is refused, never guessed.
func TestQuestionOnTheGETStreamIsAttributed(t *testing.T) {
	p := newPool(t, nil)
	s := p.acquire("a", false)
	defer s.Return(false)
	other, otherSink := p.prepared(s, false, mcp.LevelNone)
	one, oneSink := p.prepared(s, true, mcp.LevelNone)
	s.route(nil, question(1), false)
	if got := oneSink.taken(); got != mcp.MethodElicit+`1{"message":"?"}` {
		t.Errorf("the call was given %q", got)
	}
	if !p.PushesOnGET() {
		t.Error("it was not learned that the server pushes")
	}
	two, twoSink := p.prepared(s, true, mcp.LevelNone)
	s.route(nil, question(2), false)
	p.raw.Wait("the refusal", func() bool { return p.refusals() == 1 })
	if got := oneSink.taken() + twoSink.taken() + otherSink.taken(); got != "" {
		t.Errorf("with two candidates a call was given %q", got)
	}
	// On a call's own stream there is nothing to guess.
	s.route(two, question(3), false)
	if got := twoSink.taken(); got != mcp.MethodElicit+`3{"message":"?"}` || oneSink.taken() != "" {
		t.Errorf("the call was given %q", got)
	}
	// On the stream of a call that cannot be asked it can only be the other's.
	two.Finish()
	s.route(other, question(4), false)
	if got := oneSink.taken(); got != mcp.MethodElicit+`4{"message":"?"}` || otherSink.taken() != "" {
		t.Errorf("the call was given %q", got)
	}
	// What the client did not declare is not asked.
	s.route(nil, &jsonrpc.Message{ID: []byte("5"), Method: mcp.MethodRootsList}, false)
	p.raw.Wait("the refusal", func() bool { return p.refusals() == 2 })
	// What is no client's to answer.
	s.route(nil, &jsonrpc.Message{ID: []byte("6"), Method: "tasks/get"}, false)
	p.raw.Wait("the refusal", func() bool { return p.refusals() == 3 })
	s.route(nil, &jsonrpc.Message{ID: []byte("7"), Method: mcp.MethodPing}, false)
	p.raw.Wait("the pong", func() bool { return len(p.raw.Responses()) == 4 })
	if got := oneSink.taken(); got != "" {
		t.Errorf("the call was given %q", got)
	}
	one.Finish()
	other.Finish()
}

func TestOrphansAreBoundedAndExpire(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.MaxOrphans = 2 })
	s := p.acquire("a", false)
	defer s.Return(false)
	text := []byte(`{"message":"?"}`)
	for id := range 3 {
		m := question(id)
		m.Params = text
		s.route(nil, m, false)
	}
	p.raw.Wait("the refusal of the third", func() bool { return p.refusals() == 1 })
	for i := range text { // the stream's buffer has another use
		text[i] = '#'
	}
	s.route(nil, &jsonrpc.Message{Method: mcp.NotifyCancelled, Params: []byte(`{"requestId":0}`)}, false)
	s.expireOrphans(time.Now())
	if !s.HasOrphans() {
		t.Fatal("the question has expired too early")
	}
	taken := s.TakeOrphans()
	if len(taken) != 1 || string(taken[0].ID) != "1" || string(taken[0].Params) != `{"message":"?"}` {
		t.Errorf("taken: %+v, want the one that was not withdrawn", taken)
	}
	if s.HasOrphans() || len(s.TakeOrphans()) != 0 {
		t.Error("a question was taken twice")
	}
	s.route(nil, question(9), false)
	s.expireOrphans(time.Now().Add(2 * p.settings.OrphanTTL))
	p.raw.Wait("the refusal of the late one", func() bool { return p.refusals() == 2 })
	if s.HasOrphans() {
		t.Error("the question is still kept")
	}
}

// Progress goes by its token; a log message on the GET stream only to a call
// that is alone.
func TestNotificationsFindTheirCall(t *testing.T) {
	p := newPool(t, nil)
	s := p.acquire("a", false)
	defer s.Return(false)
	one, oneSink := p.prepared(s, true, mcp.LevelInfo)
	logged := &jsonrpc.Message{Method: mcp.NotifyMessage, Params: []byte(`{}`)}
	s.route(nil, logged, false)
	if got := oneSink.taken(); got != mcp.NotifyMessage+"{}" {
		t.Errorf("alone it was given %q", got)
	}
	two, twoSink := p.prepared(s, false, mcp.LevelDebug)
	s.route(nil, logged, false)
	if got := oneSink.taken() + twoSink.taken(); got != "" {
		t.Errorf("one of two was given %q", got)
	}
	s.route(two, logged, false)
	if got := twoSink.taken(); got != mcp.NotifyMessage+"{}" || oneSink.taken() != "" {
		t.Errorf("on its own stream it was given %q", got)
	}
	progress := func(token string) *jsonrpc.Message {
		return &jsonrpc.Message{Method: mcp.NotifyProgress, Params: []byte(`{"progressToken":` + token + `}`)}
	}
	s.route(two, progress(string(one.AppendID(nil))), false)
	if got := oneSink.taken(); !strings.HasPrefix(got, mcp.NotifyProgress) || twoSink.taken() != "" {
		t.Errorf("by its token it was given %q", got)
	}
	for _, token := range []string{`"r2-1"`, `1`, `"r1-999999"`, `null`} {
		s.route(two, progress(token), false)
	}
	if got := oneSink.taken() + twoSink.taken(); got != "" {
		t.Errorf("by a foreign token it was given %q", got)
	}
	one.Finish()
	two.Finish()
	s.route(nil, progress(`"r1-1"`), false) // nobody: nothing happens
}

// A response is good once, and for a call of its session only.
func TestResponsesFindTheirCall(t *testing.T) {
	p := newPool(t, nil)
	a, b := p.acquire("a", false), p.acquire("b", false)
	defer a.Return(false)
	defer b.Return(false)
	x, k := p.prepared(a, true, mcp.LevelNone)
	answer := &jsonrpc.Message{ID: x.AppendID(nil), Result: []byte(`{}`)}
	b.route(nil, answer, false)
	if got := k.taken(); got != "" || x.Ended() {
		t.Errorf("another session's response ended it: %q", got)
	}
	a.route(nil, answer, false)
	a.route(nil, answer, false)
	if got := k.taken(); got != string(x.AppendID(nil)) {
		t.Errorf("it was given %q, want one response", got)
	}
	x.Finish()
	a.route(nil, answer, false)
	if got := k.taken(); got != "" {
		t.Errorf("after its end it was given %q", got)
	}
}

// Where principals share a session, what the server asks after a call has ended
// without a response reaches no other call: neither one that runs by then nor the
// next.
func TestLateQuestionOfASharedSession(t *testing.T) {
	p := newPool(t, nil)
	key := p.key("a")
	key.Shared = true
	s := mustAcquire(t, p.Server, key, false) // a call of somebody's goes on throughout
	defer s.Return(false)
	lent := func() *Session {
		t.Helper()
		return mustAcquire(t, p.Server, key, true)
	}
	run := func(s *Session) (*Exchange, *sink) {
		k := &sink{}
		return s.Prepare(p.NextID(), k, nil, true, true, mcp.LevelNone), k
	}
	x, _ := run(lent())
	x.respond(&jsonrpc.Message{ID: x.AppendID(nil), Result: []byte(`{}`)}, false)
	x.Finish()
	unsent, _ := run(lent())
	unsent.Finish()
	x, _ = run(lent())
	if x.Session() != s {
		t.Fatal("a call that has ended in good order, or was never sent, has cost a session")
	}
	x.phase = phaseHead // it was sent
	x.Cancel("enough")
	x.Finish()
	s.route(nil, question(1), false)
	p.raw.Wait("the refusal", func() bool { return p.refusals() == 1 })
	if s.HasOrphans() {
		t.Error("the question waits for whoever comes next")
	}
	y, k := run(lent())
	s.route(nil, question(2), false)
	p.raw.Wait("the refusal", func() bool { return p.refusals() == 2 })
	if got := k.taken(); got != "" || y.Session() == s {
		t.Errorf("another call was given %q", got)
	}
	// What waits for a place gets a session of its own, too.
	y.phase = phaseHead
	y.Finish()
	if n := p.Sessions(); n > 2 {
		t.Errorf("%d sessions are on the books", n)
	}
	if z := lent(); z == y.Session() || z == s {
		t.Error("a call runs where another's question may come")
	} else {
		z.Return(true)
	}
}
