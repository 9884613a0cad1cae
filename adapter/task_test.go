package adapter

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

func withTasks(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) {
	raw.Capabilities = rawserver.TaskCapabilities
}

// A tool that demands it is called as a task, and the client notices nothing.
func TestToolRunsAsTask(t *testing.T) {
	for _, json := range []bool{true, false} {
		r := newRig(t, withTasks, func(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) { raw.JSON = json })
		var call *rawserver.Call
		r.raw.TaskTool("long", 100, func(task *rawserver.Task) {
			call = task.Call
			task.Polled(2)
			task.Text("done")
		})
		r.raw.Tool("short", func(c *rawserver.Call) { c.Text("short") })
		if got := r.play(toolCall("long")).text(t); got != "done" {
			t.Errorf("got %q", got)
		}
		if got := string(call.Params); !strings.Contains(got, `"task":{}`) {
			t.Errorf("the tool was called with %s", got)
		}
		if got := r.play(toolCall("short")).text(t); got != "short" {
			t.Errorf("got %q", got)
		}
		for _, rec := range r.raw.Records() {
			for _, m := range rec.Messages {
				if m.Method == mcp.MethodToolsCall && strings.Contains(string(m.Params), `"short"`) && strings.Contains(string(m.Params), `"task"`) {
					t.Errorf("a tool that runs as no task was called with %s", m.Params)
				}
			}
		}
	}
}

// Over one stream for all of a session, the result is heard where the task was
// made, and nothing is sent twice.
func TestToolRunsAsTaskOverHTTPSSE(t *testing.T) {
	r := newRig(t, withTasks, func(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) { raw.Transport = rawserver.SSE })
	r.raw.TaskTool("long", 100, func(task *rawserver.Task) {
		task.Polled(2)
		task.Text("done")
	})
	if got := r.play(toolCall("long")).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	if got := r.raw.Count(mcp.MethodTaskResult); got != 1 {
		t.Errorf("the result was asked for %d times, want once", got)
	}
}

// The questions of a task are asked on the stream of tasks/result; they park the
// call as any other's.
func TestTaskParks(t *testing.T) {
	r := newRig(t, withTasks)
	r.raw.TaskTool("greet", 100, func(task *rawserver.Task) {
		name := task.Ask(mcp.MethodElicit, askFor("name"))
		title := task.Ask(mcp.MethodElicit, askFor("title"))
		task.Text(title.Content("title") + " " + name.Content("name"))
	})
	q := toolCall("greet")
	first := r.play(q)
	if got := first.asked(t); got != "elicitation-1" {
		t.Fatalf("asked %q", got)
	}
	if got := string(first.Inputs[0].Params); strings.Contains(got, "related-task") {
		t.Errorf("the client was asked %s", got)
	}
	second := r.play(q.retry(first, accept("elicitation-1", "name", "Ada")))
	last := r.play(q.retry(second, accept("elicitation-2", "title", "Dr")))
	if got := last.text(t); got != "Dr Ada" {
		t.Errorf("got %q", got)
	}
	if n := r.raw.Count(mcp.MethodTaskResult); n != 1 {
		t.Errorf("the result was asked for %d times, want once", n)
	}
}

// "The progressToken provided in the initial request remains valid throughout
// the task lifetime."
func TestTaskReportsProgress(t *testing.T) {
	r := newRig(t, withTasks)
	heard := make(chan struct{})
	r.raw.TaskTool("long", 100, func(task *rawserver.Task) {
		token := string(task.Call.Token())
		task.Call.Session.Notify(mcp.NotifyProgress, `{"progressToken":`+token+`,"progress":1}`) // on the GET stream
		<-heard
		task.Waiting().Notify(mcp.NotifyProgress, `{"progressToken":`+token+`,"progress":2}`)
		task.Text("done")
	})
	v := r.mustBegin(toolCall("long").with(func(q *query) { q.token = `"mine"` }))
	ev, err := v.Next(time.Now().Add(10 * time.Second))
	if err != nil || !strings.Contains(string(ev.Notification), `"progressToken":"mine","progress":1`) {
		t.Errorf("the client heard %s, %v", ev.Notification, err)
	}
	close(heard)
	o, notes, err := v.finish()
	if err != nil || o.text(t) != "done" {
		t.Fatal(o, err)
	}
	if got := strings.Join(notes, " "); strings.Count(got, `"progressToken":"mine"`) != 1 {
		t.Errorf("the client heard %s", got)
	}
}

// What a task tells of itself names the task, which the client knows nothing of.
func TestTaskNotificationsNameNoTask(t *testing.T) {
	r := newRig(t, withTasks)
	r.raw.TaskTool("long", 100, func(task *rawserver.Task) {
		const related = `"io.modelcontextprotocol/related-task":{"taskId":"T-1"}`
		c := task.Waiting()
		c.Notify(mcp.NotifyProgress, `{"progressToken":`+string(task.Call.Token())+`,"progress":1,"_meta":{`+related+`}}`)
		c.Notify(mcp.NotifyProgress, `{"_meta":{"a/b": [1],`+related+`},"progressToken":`+string(task.Call.Token())+`,"progress":2}`)
		c.Notify(mcp.NotifyMessage, `{"_meta":{`+related+`,"c": 2},"level":"error","data":"x"}`)
		task.Text("done")
	})
	o, notes, err := r.mustBegin(toolCall("long").with(func(q *query) { q.token, q.level = `"mine"`, mcp.LevelDebug })).finish()
	if err != nil || o.text(t) != "done" {
		t.Fatal(o, err)
	}
	want := []string{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mine","progress":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mine","progress":2,"_meta":{"a/b":[1]}}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x","_meta":{"c":2}}}`,
	}
	if !slices.Equal(notes, want) {
		t.Errorf("the client heard\n%s\nwant\n%s", strings.Join(notes, "\n"), strings.Join(want, "\n"))
	}
}

// A client that goes away cancels the task, not the request that made it.
func TestTaskIsCancelled(t *testing.T) {
	r := newRig(t, withTasks)
	running := make(chan *rawserver.Task, 1)
	r.raw.TaskTool("long", 100, func(task *rawserver.Task) {
		task.Waiting()
		running <- task
		task.AwaitCancel()
	})
	v := r.mustBegin(toolCall("long"))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _, _ = v.finish() // ErrGone
	}()
	task := <-running
	v.Gone()
	<-ended
	select {
	case <-task.Cancelled():
	case <-time.After(10 * time.Second):
		t.Fatal("the task was not cancelled")
	}
}

// A task whose name comes when nobody waits any more is cancelled all the same.
func TestTaskIsCancelledBeforeItHasAName(t *testing.T) {
	r := newRig(t, withTasks)
	named := make(chan struct{})
	cancelled := make(chan *rawserver.Task, 1)
	r.raw.TaskTool("long", 100, func(task *rawserver.Task) { cancelled <- task })
	arrived := make(chan struct{})
	r.raw.Hook(func(x *rawserver.Exchange) bool {
		if x.Record.Method() == mcp.MethodToolsCall {
			close(arrived)
			<-named
		}
		return false
	})
	v := r.mustBegin(toolCall("long"))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _, _ = v.finish() // ErrGone
	}()
	<-arrived
	v.Gone()
	<-ended
	close(named)
	var task *rawserver.Task
	select {
	case task = <-cancelled:
	case <-time.After(10 * time.Second):
		t.Fatal("the tool was not called")
	}
	select {
	case <-task.Cancelled():
	case <-time.After(10 * time.Second):
		t.Fatal("the task was not cancelled")
	}
	if n := r.raw.Count(mcp.NotifyCancelled); n != 0 {
		t.Errorf("notifications/cancelled was sent %d times for a request that runs as a task", n)
	}
}

// Waiting for the name of a task that is to be cancelled is part of Shutdown: it
// ends with it, and the server is told before.
func TestShutdownEndsTheWaitForATasksName(t *testing.T) {
	r := newRig(t, withTasks)
	r.raw.TaskTool("long", 100, func(*rawserver.Task) {})
	arrived := make(chan struct{})
	r.raw.Once(rawserver.ForMethod(mcp.MethodToolsCall), func(x *rawserver.Exchange) {
		close(arrived)
		x.Silence()
	})
	v := r.mustBegin(toolCall("long"))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _, _ = v.finish() // ErrGone
	}()
	<-arrived
	v.Gone()
	<-ended
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	r.Shutdown(ctx)
	if took := time.Since(begun); took >= taskGrace*3/4 {
		t.Errorf("Shutdown took %v of its 400ms", took)
	}
	if n := r.raw.Count(mcp.NotifyCancelled); n != 1 {
		t.Errorf("the server was told %d times that nobody waits, want once", n)
	}
}

// A task outlives the stream of tasks/result, also where its events have no ids:
// it is asked for its result anew, and runs once.
func TestTaskOutlivesItsStream(t *testing.T) {
	r := newRig(t, withTasks, noEventIDs)
	runs := 0
	r.raw.TaskTool("greet", 100, func(task *rawserver.Task) {
		runs++
		c := task.Waiting()
		task.Forsaken()
		c.Cut()
		task.Waiting()
		name := task.Start(mcp.MethodElicit, askFor("name"))
		task.Waiting().Cut() // the question is out, and the answer comes by another way
		task.Forsaken()
		a := name.Wait()
		task.Text("Hello " + a.Content("name"))
	})
	q := toolCall("greet")
	first := r.play(q)
	if got := r.play(q.retry(first, accept("elicitation-1", "name", "Ada"))).text(t); got != "Hello Ada" {
		t.Errorf("got %q", got)
	}
	if runs != 1 {
		t.Errorf("the task ran %d times, want once", runs)
	}
}

// Errors of a task are the call's own.
func TestTaskFails(t *testing.T) {
	r := newRig(t, withTasks)
	r.raw.TaskTool("fail", 100, func(task *rawserver.Task) { task.Fail(-32050, "no more paper") })
	o, _, err := r.mustBegin(toolCall("fail")).finish()
	if err != nil || !strings.Contains(string(o.Error), "no more paper") {
		t.Errorf("got %s, %v", o.Error, err)
	}
}

// A server whose tasks/result does not wait is asked again when the task is over.
func TestTaskResultThatDoesNotWait(t *testing.T) {
	r := newRig(t, withTasks)
	r.raw.TaskTool("long", 100, func(task *rawserver.Task) {
		task.Polled(3)
		task.Text("done")
	})
	r.raw.Once(rawserver.ForMethod(mcp.MethodTaskResult), func(x *rawserver.Exchange) {
		x.Reply(200, `{"jsonrpc":"2.0","id":`+string(x.Record.Messages[0].ID)+`,"error":{"code":-32600,"message":"not yet"}}`, "Content-Type", "application/json")
	})
	if got := r.play(toolCall("long")).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
}

// A task that is known to live is not silent.
func TestTaskIsSilentForLongerThanTheTimeout(t *testing.T) {
	r := newRig(t, withTasks, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.Timeout = 400 * time.Millisecond })
	r.raw.TaskTool("long", 100, func(task *rawserver.Task) {
		task.Polled(9)
		task.Text("done")
	})
	if got := r.play(toolCall("long")).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
}

// Errors in between say nothing of the task.
func TestTaskThatCannotBeAskedForAWhile(t *testing.T) {
	r := newRig(t, withTasks, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.Timeout = time.Second })
	for range 3 {
		r.raw.Once(rawserver.ForMethod(mcp.MethodTaskGet), func(x *rawserver.Exchange) { x.Reply(502, "") })
	}
	r.raw.TaskTool("long", 100, func(task *rawserver.Task) {
		task.Polled(12)
		task.Text("done")
	})
	if got := r.play(toolCall("long")).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
}

// A parked call that runs as a task is let go and taken back although its stream
// cannot be resumed; when nobody comes back, the task is cancelled.
func TestTaskIsReleased(t *testing.T) {
	changes := []change{withTasks, noEventIDs, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) {
		s.ReleaseAfter, s.MaxReleased = 50*time.Millisecond, 10
	}}
	greetAsTask := func(task *rawserver.Task) {
		name := task.Ask(mcp.MethodElicit, askFor("name"))
		task.Text("Hello " + name.Content("name"))
	}
	t.Run("taken back", func(t *testing.T) {
		r := newRig(t, changes...)
		r.raw.TaskTool("greet", 100, greetAsTask)
		q := toolCall("greet")
		first := r.play(q)
		eventually(t, "the release", func() bool { return r.released() == 1 })
		if got := r.play(q.retry(first, accept("elicitation-1", "name", "Ada"))).text(t); got != "Hello Ada" {
			t.Errorf("got %q", got)
		}
		if n := r.raw.ToolCalls("greet"); n != 1 {
			t.Errorf("the tool was called %d times, want once", n)
		}
	})
	t.Run("expired", func(t *testing.T) {
		r := newRig(t, append(changes, func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.ParkTTL = time.Second })...)
		tasks := make(chan *rawserver.Task, 1)
		r.raw.TaskTool("greet", 100, func(task *rawserver.Task) {
			tasks <- task
			task.Ask(mcp.MethodElicit, askFor("name"))
			task.AwaitCancel()
		})
		r.play(toolCall("greet"))
		select {
		case <-(<-tasks).Cancelled():
		case <-time.After(10 * time.Second):
			t.Fatal("the task was not cancelled")
		}
	})
}

// A task goes on at another replica also where its stream cannot be resumed: it
// is asked for its result there, and runs once.
func TestTaskIsTakenOver(t *testing.T) {
	for name, changes := range map[string][]change{"with event ids": {withTasks}, "without": {withTasks, noEventIDs}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReplicas(t, 2, changes...)
			f.raw.TaskTool("greet", 100, func(task *rawserver.Task) {
				name := task.Ask(mcp.MethodElicit, askFor("name"))
				task.Text("Hello " + name.Content("name"))
			})
			q := toolCall("greet")
			first := f.rigs[0].play(q)
			f.die(f.rigs[0])
			f.giveUp()
			if got := f.rigs[1].served(q.retry(first, accept("elicitation-1", "name", "Ada")), ServedTakenOver).text(t); got != "Hello Ada" {
				t.Errorf("got %q", got)
			}
			if n := f.raw.ToolCalls("greet"); n != 1 {
				t.Errorf("the tool was called %d times, want once", n)
			}
		})
	}
}
