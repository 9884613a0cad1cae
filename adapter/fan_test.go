package adapter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/modernserver"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// tasked is a modern server whose calls become tasks, of which it tells who listens.
type tasked struct {
	*modernserver.Server
	name string
	ends chan string   // ids of tasks that end
	left chan struct{} // a listener has gone
}

func newTasked(t *testing.T, name string) *tasked {
	s := &tasked{Server: modernserver.New(t), name: name, ends: make(chan string, 4), left: make(chan struct{}, 8)}
	s.Handle(mcp.MethodToolsCall, func(x *modernserver.Exchange) {
		x.Result(`{"resultType":"task","taskId":"` + name + `","status":"working","createdAt":"2026-11-21T00:00:00Z","lastUpdatedAt":"2026-11-21T00:00:00Z","ttlMs":60000}`)
	})
	s.Handle(mcp.MethodListen, func(x *modernserver.Exchange) {
		x.Notify(`{"jsonrpc":"2.0","method":"` + mcp.NotifyAcknowledged + `","params":{"_meta":{"` + mcp.MetaSubscriptionID + `":` + string(x.ID) + `},"notifications":` + x.Param("notifications") + `}}`)
		ends := s.ends
		if !strings.Contains(x.Param("notifications"), "taskIds") {
			ends = nil
		}
		for {
			select {
			case id := <-ends:
				x.Notify(`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"` + id + `","status":"completed","result":{"by":"` + name + `"},"_meta":{"` + mcp.MetaSubscriptionID + `":` + string(x.ID) + `}}}`)
			case <-x.Gone():
				s.left <- struct{}{}
				return
			}
		}
	})
	return s
}

// at makes queries those of one caller whom an endpoint serves: by what the client
// declares.
func (r *rig) at(url string) func(*query) {
	r.t.Helper()
	for i := range 64 {
		at := func(q *query) {
			q.auth, q.caps = "Bearer mine", fmt.Sprintf(`{"elicitation":{},"experimental":{"n":%d}}`, i)
		}
		v := r.decode(toolCall("t").with(at))
		caps, err := r.caps.get(v.req.Capabilities)
		if err != nil {
			r.t.Fatal(err)
		}
		key := r.key(v.req, caps)
		if r.groups["up"].order(&key)[0].id == EndpointID(url) {
			return at
		}
	}
	r.t.Fatal("the endpoint serves nobody")
	return nil
}

func (r *rig) taskAt(url string) string {
	r.t.Helper()
	id, _ := jsonrpc.Unquote(jsonrpc.Get(r.play(toolCall("t").with(r.at(url))).Result, "taskId"))
	return id
}

func listenTo(others string, handles ...string) query {
	return query{method: mcp.MethodListen, params: `"notifications":{` + others + `"taskIds":["` + strings.Join(handles, `","`) + `"]}`, auth: "Bearer mine"}
}

func (v *visit) told(t *testing.T) Event {
	t.Helper()
	ev, err := v.Next(time.Now().Add(10 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func acknowledgement(notifications string) string {
	return `{"jsonrpc":"2.0","method":"` + mcp.NotifyAcknowledged + `","params":{"_meta":{"` + mcp.MetaSubscriptionID + `":1},"notifications":{` + notifications + `}}}`
}

func taskList(handles ...string) string { return `"taskIds":["` + strings.Join(handles, `","`) + `"]` }

// Each endpoint hears of the tasks that it has, under its own ids, and one of what else
// is wanted; the client hears of all under the ids that it has.
func TestListenerOfTasksAtSeveralEndpoints(t *testing.T) {
	a, b := newTasked(t, "a"), newTasked(t, "b")
	raw := rawserver.New(t, rawserver.Settings{})
	release := make(chan struct{})
	finish := sync.OnceFunc(func() { close(release) })
	defer finish()
	raw.Tool("t", func(c *rawserver.Call) { <-release; c.Text("done") })
	one := func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { // however many endpoints it is at
		s.MaxListeners, s.MaxListenersPerPrincipal = 1, 1
	}
	r := newModernRig(t, []string{a.URL, b.URL, raw.URL}, one)
	ofA, ofB := r.taskAt(a.URL), r.taskAt(b.URL)
	ours := string(r.play(toolCall("t").lasting().with(r.at(raw.URL))).handle(t).State)
	foreign, _ := jsonrpc.Unquote(jsonrpc.Get(r.play(toolCall("t").with(r.servedBy(a.URL))).Result, "taskId"))

	v := r.mustBegin(listenTo(`"toolsListChanged":true,`, ofB, ours, "strange", foreign, ofA).with(r.at(b.URL)))
	defer v.close()
	if got := string(v.told(t).Notification); got != acknowledgement(`"toolsListChanged":true,`+taskList(ofB, ours, ofA)) {
		t.Errorf("acknowledged with %s", got)
	}
	wanted := func(s *tasked) (all []string) {
		for _, record := range s.Records(mcp.MethodListen) {
			all = append(all, string(jsonrpc.Get(jsonrpc.Get([]byte(record.Body), "params"), "notifications")))
		}
		return all
	}
	if got := wanted(a); !slices.Equal(got, []string{`{"taskIds":["a"]}`}) {
		t.Errorf("one server was asked for %q", got)
	}
	got := wanted(b)
	slices.Sort(got)
	if !slices.Equal(got, []string{`{"taskIds":["b"]}`, `{"toolsListChanged":true}`}) {
		t.Errorf("the other was asked for %q", got)
	}
	if ev := v.told(t); ev.Standing == nil || string(ev.Standing.Standing.Handle) != ours {
		t.Fatalf("told %s", ev.Notification)
	}
	for s, handle := range map[*tasked]string{a: ofA, b: ofB} {
		s.ends <- s.name
		want := `"status":"completed","result":{"by":"` + s.name + `"},"_meta":{"` + mcp.MetaSubscriptionID + `":1},"taskId":"` + handle + `"`
		if got := string(v.told(t).Notification); !strings.Contains(got, want) || strings.Contains(got, `"taskId":"`+s.name) {
			t.Errorf("told %s, want %s", got, want)
		}
	}
	finish()
	if ev := v.told(t); ev.Standing == nil || ev.Standing.Standing.Status != mcp.TaskCompleted || string(ev.Standing.Subscription) != "1" {
		t.Errorf("told %+v", ev)
	}
	r.mu.Lock()
	if n, all := r.listening[r.keyOf(t, listenTo("", ofA))], len(r.listeners)-r.parts; n != 1 || all != 1 {
		t.Errorf("%d listeners of the caller's are counted, %d overall", n, all)
	}
	r.mu.Unlock()
	v.Gone()
	if _, err := v.Next(time.Now().Add(10 * time.Second)); !errors.Is(err, ErrGone) {
		t.Errorf("ended with %v", err)
	}
	for _, s := range []*tasked{a, b} { // closing its connection is what tells a server
		select {
		case <-s.left:
		case <-time.After(10 * time.Second):
			t.Error("a server still has the listener")
		}
	}
}

func (r *rig) keyOf(t *testing.T, q query) principal {
	t.Helper()
	p, _ := principalOf(r.decode(q).req)
	return p
}

// What an endpoint does not serve is not agreed to; where there is nothing else, the
// client is told why.
func TestListenerOfTasksThatAreNotServed(t *testing.T) {
	const refusal = `{"code":-32021,"message":"no"}`
	a, b := newTasked(t, "a"), newTasked(t, "b")
	r := newModernRig(t, []string{a.URL, b.URL})
	ofA, ofB := r.taskAt(a.URL), r.taskAt(b.URL)
	refuses := func(x *modernserver.Exchange) { x.Error(400, refusal) }
	b.Handle(mcp.MethodListen, refuses)
	v := r.mustBegin(listenTo("", ofA, ofB))
	if got := string(v.told(t).Notification); got != acknowledgement(taskList(ofA)) {
		t.Errorf("acknowledged with %s", got)
	}
	a.ends <- "a"
	if got := string(v.told(t).Notification); !strings.Contains(got, ofA) {
		t.Errorf("told %s", got)
	}
	v.close()
	if o := r.play(listenTo("", ofB)); string(o.Error) != refusal {
		t.Errorf("got %+v", o)
	}
	a.Close()
	var down *Refusal
	o, _, err := r.mustBegin(listenTo("", ofB, ofA)).finish() // of two errors one is told
	if errors.As(err, &down) && down.Reason != ReasonUpstreamDown || down == nil && (o == nil || string(o.Error) != refusal) {
		t.Errorf("got %+v, %v", o, err)
	}
}

// An endpoint that says nothing has agreed to nothing once it has had its time, and is
// heard no more; alone it is waited for.
func TestListenerOfTasksThatAServerDoesNotAcknowledge(t *testing.T) {
	a, b := newTasked(t, "a"), newTasked(t, "b")
	r := newModernRig(t, []string{a.URL, b.URL}, func(_ *Settings, l *legacy.Settings, _ *rawserver.Settings) { l.OpenTimeout = time.Second })
	ofA, ofB := r.taskAt(a.URL), r.taskAt(b.URL)
	left := make(chan struct{}, 8)
	b.Handle(mcp.MethodListen, func(x *modernserver.Exchange) {
		<-x.Gone()
		left <- struct{}{}
	})
	v := r.mustBegin(listenTo("", ofB, ofA))
	defer v.close()
	if got := string(v.told(t).Notification); got != acknowledgement(taskList(ofA)) {
		t.Errorf("acknowledged with %s", got)
	}
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Error("the silent server still has the listener")
	}
	a.ends <- "a"
	if got := string(v.told(t).Notification); !strings.Contains(got, ofA) {
		t.Errorf("told %s", got)
	}
	alone := r.mustBegin(listenTo("", ofB))
	defer alone.close()
	if ev, err := alone.Next(time.Now().Add(2 * time.Second)); !errors.Is(err, ErrDeadline) {
		t.Errorf("told %s, %v", ev.Notification, err)
	}
}

// Callers who share sessions have listeners of their own.
func TestListenersOfCallersWhoShareSessions(t *testing.T) {
	a, b := newTasked(t, "a"), newTasked(t, "b")
	r := newModernRig(t, []string{a.URL, b.URL}, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) {
		s.Scope, s.MaxListenersPerPrincipal = ScopeShared, 1
	})
	ofA, ofB := r.taskAt(a.URL), r.taskAt(b.URL)
	for name, q := range map[string]query{
		"of tasks": listenTo("", ofA, ofB),
		"of lists": {method: mcp.MethodListen, params: `"notifications":{"toolsListChanged":true}`, auth: "Bearer mine"},
	} {
		v := r.mustBegin(q)
		v.told(t)
		r.refused(q, ReasonQuota)
		r.mu.Lock()
		if n := r.listening[r.keyOf(t, q)]; n != 1 {
			t.Errorf("%s: %d listeners of the caller's are counted", name, n)
		}
		r.mu.Unlock()
		other := r.mustBegin(query{method: mcp.MethodListen, params: `"notifications":{"toolsListChanged":true}`, auth: "Bearer another"})
		if got := string(other.told(t).Notification); got != acknowledgement(`"toolsListChanged":true`) {
			t.Errorf("%s: another is told %s", name, got)
		}
		other.close()
		v.close()
	}
}

// A listener ends gracefully with its replica, and with any of its servers.
func TestListenerOfTasksEnds(t *testing.T) {
	a, b := newTasked(t, "a"), newTasked(t, "b")
	r := newModernRig(t, []string{a.URL, b.URL})
	ofA, ofB := r.taskAt(a.URL), r.taskAt(b.URL)
	begin := func() *visit {
		v := r.mustBegin(listenTo("", ofA, ofB))
		if got := string(v.told(t).Notification); got != acknowledgement(taskList(ofA, ofB)) {
			t.Fatalf("acknowledged with %s", got)
		}
		return v
	}
	v := begin()
	var ended sync.WaitGroup
	ended.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		r.Shutdown(ctx)
	})
	if ev := v.told(t); ev.Outcome == nil || string(ev.Outcome.Subscription) != "1" {
		t.Errorf("no graceful end: %+v", ev)
	}
	v.close()
	ended.Wait()

	r = newModernRig(t, []string{a.URL, b.URL}, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.MaxListenersPerPrincipal = 1 })
	ofA, ofB = r.taskAt(a.URL), r.taskAt(b.URL)
	v = begin()
	r.refused(listenTo("", ofA, ofB), ReasonQuota)
	b.Server.Close()
	var refusal *Refusal
	if ev, err := v.Next(time.Now().Add(10 * time.Second)); !errors.As(err, &refusal) {
		t.Errorf("told %+v, %v", ev, err)
	}
	v.close()
}
