package adapter

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

const toVisit = `{"mode":"url","elicitationId":"e","url":"https://example.com/","message":"m"}`

// A visit that is over after its call was handed over lets the call go on at the
// replica that has it now, whether a client has come there yet or not: the server says
// so once.
func TestVisitAfterAHandOver(t *testing.T) {
	t.Parallel()
	// asking begins a call, and returns once its question is open.
	type asking func(f *replicas) (handle string)
	task := func(f *replicas) string {
		release := make(chan struct{})
		f.raw.Tool("t", func(c *rawserver.Call) {
			<-release
			c.Text(string(c.Ask(mcp.MethodElicit, toVisit).Result))
		})
		begun := f.rigs[0].play(toolCall("t").with(func(q *query) { q.after, q.lasts = 300*time.Millisecond, time.Hour })).handle(f.t)
		close(release)
		f.rigs[0].until(begun, mcp.TaskInputRequired)
		return string(begun.State)
	}
	serverTask := func(f *replicas) string {
		f.raw.TaskTool("t", 100, func(task *rawserver.Task) {
			task.Start(mcp.MethodElicit, toVisit)
			task.Forsaken()
			task.Text(string(task.Ask(mcp.MethodElicit, toVisit).Result))
		})
		begun := f.rigs[0].play(toolCall("t").lasting()).handle(f.t)
		f.rigs[0].until(begun, mcp.TaskInputRequired)
		return string(begun.State)
	}
	followed := func(tool func(*rawserver.Call)) asking {
		return func(f *replicas) string {
			f.raw.Tool("t", tool)
			v, handle := f.rigs[0].handleFirst(toolCall("t").followed(time.Hour))
			v.hear(f.t, "?elicitation-1")
			v.nothing(f.t)
			v.Gone()
			v.close()
			f.rigs[0].unfollowed(handle)
			return handle
		}
	}
	asked := func(c *rawserver.Call) { c.Text(string(c.Ask(mcp.MethodElicit, toVisit).Result)) }
	gets := func(f *replicas, handle string) string {
		return f.rigs[1].until(&Outcome{State: []byte(handle)}, mcp.TaskCompleted).text(f.t)
	}
	resumes := func(f *replicas, handle string) string {
		v := f.rigs[1].mustBegin(ofFollower(mcp.MethodResume, handle))
		defer v.close()
		return strings.TrimPrefix(v.hears(f.t), "=")
	}
	const accepted = `{"action":"accept"}`
	for name, test := range map[string]struct {
		begin asking
		looks func(f *replicas, handle string) // before the visit is over
		ends  func(f *replicas, handle string) string
		want  string
	}{
		"task, nobody has come":     {task, nil, gets, accepted},
		"task of the server, too":   {serverTask, nil, gets, accepted},
		"followed, nobody has come": {followed(asked), nil, resumes, accepted},
		"task, looked at": {task, func(f *replicas, handle string) {
			if o := f.rigs[1].play(about(mcp.MethodTaskGet, &Outcome{State: []byte(handle)})); o.Standing.Status != mcp.TaskInputRequired || o.Inputs[0].Key != "elicitation-1" {
				f.t.Errorf("stands %v, with %+v", o.Standing.Status, o.Inputs)
			}
		}, gets, accepted},
		"followed, looked at": {followed(asked), func(f *replicas, handle string) {
			if got := f.rigs[1].stands(handle); got != "input_required 1" {
				f.t.Errorf("stands %s", got)
			}
		}, resumes, accepted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReplicas(t, 2, withTasks, func(_ *Settings, l *legacy.Settings, raw *rawserver.Settings) { raw.Prime = true })
			handle := test.begin(f)
			awaitStop(t, f.drain(f.rigs[0], 10*time.Second))
			id := f.rigs[1].callOf(&Outcome{State: []byte(handle)})
			var rec *record
			eventually(t, "the record", func() bool { rec = f.rigs[1].calls.records()[id]; return rec != nil })
			if test.looks != nil {
				test.looks(f, handle)
			}
			for i := range maxNames { // others take no room
				f.raw.Session().Notify(mcp.NotifyElicitationCompleted, fmt.Sprintf(`{"elicitationId":"another %d"}`, i))
			}
			f.raw.Session().Notify(mcp.NotifyElicitationCompleted, visited)
			if test.looks == nil {
				eventually(t, "the vigil", func() bool { return len(rec.vigil.heard()) == 1 })
			} else {
				eventually(t, "the answer", func() bool { return len(f.posted()) == 1 })
				if over := rec.vigil.heard(); len(over) > 0 { // the call itself hears by now
					t.Errorf("the vigil still hears of %v", over)
				}
			}
			if got := test.ends(f, handle); got != test.want {
				t.Errorf("ended with %s, want %s", got, test.want)
			}
			if got := f.posted(); len(got) != 1 || !strings.HasPrefix(got[0], "r2:") || !strings.HasSuffix(got[0], accepted) {
				t.Errorf("the server was answered %v", got)
			}
		})
	}
}

// So does one of a server that has ended the request, and wants it once more after the
// visit.
func TestVisitOfAnErrorAfterAHandOver(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, func(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) { raw.Prime = true })
	ready, times := make(chan struct{}), new(atomic.Int32)
	f.raw.Tool("visit", visitFirst(ready, times))
	v, handle := f.rigs[0].handleFirst(toolCall("visit").followed(time.Hour))
	close(ready)
	v.hear(t, "?elicitation-1")
	v.nothing(t)
	v.Gone()
	v.close()
	f.rigs[0].unfollowed(handle)
	awaitStop(t, f.drain(f.rigs[0], 10*time.Second))
	f.raw.Session().Notify(mcp.NotifyElicitationCompleted, visited)
	id := f.rigs[1].callOf(&Outcome{State: []byte(handle)})
	eventually(t, "the vigil", func() bool {
		rec := f.rigs[1].calls.records()[id]
		return rec != nil && len(rec.vigil.heard()) == 1
	})
	v = f.rigs[1].mustBegin(ofFollower(mcp.MethodResume, handle))
	v.hear(t, "=visited")
	v.close()
	if n := times.Load(); n != 2 {
		t.Errorf("the tool was called %d times", n)
	}
}

// A visit that is over while the call is about to go on is heard by the vigil that was
// kept for it.
func TestVisitWhileItsRecordIsReclaimed(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2, withTasks, func(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) { raw.Prime = true })
	f.raw.Tool("t", func(c *rawserver.Call) { c.Text(string(c.Ask(mcp.MethodElicit, toVisit).Result)) })
	v, handle := f.rigs[0].handleFirst(toolCall("t").followed(time.Hour))
	v.hear(t, "?elicitation-1")
	v.nothing(t)
	v.Gone()
	v.close()
	f.rigs[0].unfollowed(handle)
	awaitStop(t, f.drain(f.rigs[0], 10*time.Second))
	id := f.rigs[1].callOf(&Outcome{State: []byte(handle)})
	var rec *record
	eventually(t, "the record", func() bool { rec, _ = f.rigs[1].calls.claim(id); return rec != nil })
	f.raw.Session().Notify(mcp.NotifyElicitationCompleted, visited)
	eventually(t, "the vigil", func() bool { return len(rec.vigil.heard()) == 1 })
	if !f.rigs[1].calls.keepRecord(id, rec) {
		t.Fatal("the record is not kept")
	}
	v = f.rigs[1].mustBegin(ofFollower(mcp.MethodResume, handle))
	v.hear(t, `={"action":"accept"}`)
	v.close()
}
