package legacy

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// A message that is broken or too long ends the call that it answers, and the
// process goes on.
func TestBrokenMessagesEndTheirCalls(t *testing.T) {
	s, _ := onStdio(t, "script", nil)
	session := mustAcquire(t, s, stdioKey(t), false)
	defer session.Return(false)
	beside := call(t, mustAcquire(t, s, stdioKey(t), true), "never")
	for _, tool := range []string{"broken", "broken last", "long", "long last"} {
		d := call(t, mustAcquire(t, s, stdioKey(t), true), tool)
		select {
		case err := <-d.failed:
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: the call was told %v", tool, err)
			}
		case m := <-d.got:
			t.Errorf("%s: the call was given %+v", tool, m)
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the call was told nothing", tool)
		}
		<-d.ended
	}
	if got, want := toolText(t, s, "pid"), session.pidOf(); got == "" || s.Sessions() != 2 || want == 0 {
		t.Errorf("pid %q of %d sessions, want the second of 2", got, s.Sessions())
	}
	if beside.Ended() {
		t.Error("another call has ended")
	}
	beside.Abort()
	<-beside.ended
}

func TestStdioKeepsTheOrderAndTakesBatches(t *testing.T) {
	s, log := onStdio(t, "script", nil)
	d := call(t, mustAcquire(t, s, stdioKey(t), true), "progress")
	for i := range 100 {
		if m := d.next(t); m.Method != mcp.NotifyProgress || !strings.HasSuffix(string(m.Params), `"progress":`+strconv.Itoa(i)+`}`) {
			t.Fatalf("message %d is %s %s", i, m.Method, m.Params)
		}
	}
	if got := textOf(d.next(t)); got != "done" {
		t.Errorf("the tool says %q", got)
	}
	<-d.ended
	d = call(t, mustAcquire(t, s, stdioKey(t), true), "batch")
	if m := d.next(t); m.Method != mcp.NotifyProgress {
		t.Errorf("the array begins with %+v", m)
	}
	if m := d.next(t); m.Result == nil {
		t.Errorf("the array ends with %+v", m)
	}
	<-d.ended
	for _, part := range []string{"My server, version 1", `"bytes":14`} {
		eventually(t, part+" in the log, which is no message", func() bool { return log.has(part) })
	}
}

func TestAnswerAfterItsCallWasCancelled(t *testing.T) {
	s, log := onStdio(t, "script", nil)
	d := call(t, mustAcquire(t, s, stdioKey(t), true), "never")
	d.Cancel("enough")
	d.Abort()
	<-d.ended
	eventually(t, "the cancellation to arrive", func() bool { return log.has("cancelled ") })
	if got := toolText(t, s, "pid"); got != strconv.Itoa(d.Session().pidOf()) {
		t.Errorf("the next call ran on process %s", got)
	}
	if len(d.got) > 0 {
		t.Error("the cancelled call was given something")
	}
}

// The environment of a process is what it was given, and nothing else.
func TestStdioEnvironment(t *testing.T) {
	t.Setenv("HOLDFAST_TEST_SECRET", "x")
	s, _ := onStdio(t, "script", func(set *Settings) { set.Command.Env = append(set.Command.Env, "A=b c") })
	if got, want := toolText(t, s, "env"), childMode+"=script A=b c"; got != want {
		t.Errorf("the environment is %q, want %q", got, want)
	}
}

// A process that does not read what it is sent is ended after the time that a
// write may take; who was not sent whole may be sent again.
func TestStdioProcessThatDoesNotRead(t *testing.T) {
	s, _ := onStdio(t, "script", func(set *Settings) { set.WriteTimeout, set.Command.Grace = 50*time.Millisecond, 10*time.Millisecond })
	session := mustAcquire(t, s, stdioKey(t), true)
	pid := session.pidOf()
	d := call(t, session, "deaf")
	large := []byte(`{"jsonrpc":"2.0","method":"` + strings.Repeat("x", 1<<20) + `"}`)
	if err := session.Post(t.Context(), nil, large); !errors.Is(err, ErrBroken) {
		t.Errorf("posting ended with %v", err)
	}
	if err := <-d.failed; !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "does not read") {
		t.Errorf("the call was told %v", err)
	}
	<-d.ended
	eventually(t, "the process to end", func() bool { return !alive(pid) })
	if got := toolText(t, s, "pid"); got == "" || got == strconv.Itoa(pid) {
		t.Errorf("the next call ran on process %s", got)
	}
}

// What has met a process that is ending has not run, and goes to another.
func TestRequestForAProcessThatHasEnded(t *testing.T) {
	s, _ := onStdio(t, "script", nil)
	session := mustAcquire(t, s, stdioKey(t), false)
	d := call(t, mustAcquire(t, s, stdioKey(t), true), "die")
	if d.Session() != session {
		t.Fatal("the calls are on two sessions")
	}
	<-d.failed
	<-d.ended
	k := newTeller()
	x := session.Prepare(s.NextID(), k, nil, false, false, mcp.LevelNone)
	x.SetMessage(jsonrpc.AppendRequest(Text(), x.AppendID(nil), mcp.MethodToolsList, nil))
	if err := x.Send(t.Context(), false); !errors.Is(err, ErrDeadline) {
		t.Errorf("sending at once ended with %v", err)
	}
	if err := x.Send(t.Context(), true); err != nil {
		t.Errorf("sending ended with %v", err)
	}
	x.Run(t.Context())
	if err := <-k.failed; !errors.Is(err, ErrUnsent) || !x.HasMessage() {
		t.Errorf("the call was told %v, and its request is there to be sent again: %v", err, x.HasMessage())
	}
	x.Finish()
}

// A command that ends before the handshake does is reported with what it said,
// and started again after longer and longer pauses.
func TestCommandThatKeepsEnding(t *testing.T) {
	s, log := onStdio(t, "die", func(set *Settings) {
		set.Command.RestartMin, set.Command.RestartMax = time.Hour, 2*time.Hour
	})
	if err := s.Reachable(t.Context()); err != nil {
		t.Errorf("before its first start it is %v", err)
	}
	for i := range 3 {
		_, err := s.Acquire(t.Context(), stdioKey(t), true, nil)
		if err == nil {
			t.Fatal("there is a session")
		}
		for _, part := range []string{"exit status 3", "no licence found"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("start %d: %q is not in the error: %v", i, part, err)
			}
		}
		if paused := strings.Contains(err.Error(), "2 processes in a row"); paused != (i == 2) {
			t.Errorf("start %d: %v", i, err)
		}
	}
	if !log.has("no session with the upstream") {
		t.Error("the log does not say that there is no session")
	}
	s.restarts.mu.Lock()
	s.restarts.ends = keepsEnding
	s.restarts.mu.Unlock()
	if err := s.Reachable(t.Context()); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "no licence found") {
		t.Errorf("readiness says %v", err)
	}
}

func TestRestartPause(t *testing.T) {
	r := restarts{settings: &Command{RestartMin: time.Second, RestartMax: 5 * time.Second}}
	for i, want := range []time.Duration{0, 0, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
		if got := r.pause(); got != want {
			t.Errorf("after %d ends the pause is %v, want %v", i, got, want)
		}
		r.started()
		r.ended(false, time.Second, "")
	}
	r.started()
	r.ended(true, 0, "")
	if r.ends != 7 {
		t.Errorf("%d ends are counted, want 7", r.ends)
	}
	r.served()
	if r.pause() != 0 || r.running != 0 {
		t.Errorf("after an answer the pause is %v, with %d running", r.pause(), r.running)
	}
}

func TestCommandThatCannotBeRun(t *testing.T) {
	for _, path := range []string{"/nowhere/at/all", "no-such-command", "/etc/passwd", "/"} {
		s, _ := onStdio(t, "script", func(set *Settings) { set.Command.Path = path })
		if err := s.Reachable(t.Context()); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: readiness says %v", path, err)
		}
		if _, err := s.Acquire(t.Context(), stdioKey(t), false, nil); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: the call was told %v", path, err)
		}
	}
}

// A client that leaves while its session is opened is no fault of the server's.
func TestLeavingDuringTheHandshake(t *testing.T) {
	s, _ := onStdio(t, "silent", nil)
	e, err := s.entry(stdioKey(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan error)
	go func() {
		_, err := s.open(ctx, e, nil)
		opened <- err
	}()
	eventually(t, "the process to run", func() bool {
		s.restarts.mu.Lock()
		defer s.restarts.mu.Unlock()
		return s.restarts.running == 1
	})
	cancel()
	if err := <-opened; !errors.Is(err, context.Canceled) {
		t.Errorf("opening ended with %v", err)
	}
	if s.restarts.ends != 0 || s.restarts.running != 0 {
		t.Errorf("%d ends are counted, with %d running", s.restarts.ends, s.restarts.running)
	}
}

// What a process has started is ended with it, whoever of them is ended.
func TestNothingIsLeftBehind(t *testing.T) {
	s, _ := onStdio(t, "script", func(set *Settings) { set.Command.Env = append(set.Command.Env, "PATH=/usr/bin:/bin") })
	left, err := strconv.Atoi(toolText(t, s, "leave one behind"))
	if err != nil {
		t.Fatal(err)
	}
	if !alive(left) {
		t.Fatal("there is nothing to end")
	}
	d := call(t, mustAcquire(t, s, stdioKey(t), true), "die")
	<-d.failed
	<-d.ended
	eventually(t, "what the process left behind to end", func() bool { return !running(t, left) })
}

func FuzzNamedBy(f *testing.F) {
	settings := testSettings("http://127.0.0.1:1/mcp")
	s := newTestServer(f, settings)
	e, err := s.entry(&Key{Caps: capabilities(f, `{}`)})
	if err != nil {
		f.Fatal(err)
	}
	session := s.newSession(e, nil)
	x := session.Prepare(5, newTeller(), nil, false, false, mcp.LevelNone)
	for text, named := range map[string]bool{
		`{"jsonrpc":"2.0","id":"r1-5","result":{"a":`:              true,
		`[1]}},"jsonrpc":"2.0","id":"r1-5"}`:                       true,
		`[1]}},"id":"r1-5","jsonrpc":"2.0"}`:                       true,
		`[1]},"structured":{"id":"r1-5"}},"jsonrpc":"2.0"}`:        false,
		`{"jsonrpc":"2.0","id":"r1-6","result":{"a":`:              false,
		`{"jsonrpc":"2.0","id":"r1-5","method":"ping","params":{:`: false,
		`{"jsonrpc":"2.0","result":{"id":"r1-5","b":`:              false,
		`"text":"\"id\":\"r1-5\"}`:                                 false,
		`{"`:                                                       false,
		`"id"`:                                                     false,
	} {
		if got := session.namedBy([]byte(text), []byte(text)); (got == x) != named || !named && got != nil {
			f.Errorf("%s names the call: %v, want %v", text, got == x, named)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := session.namedBy([]byte(text), []byte(text)); got != nil && got != x {
			t.Errorf("%q names a call that there is not", text)
		}
	})
}

// Whenever a process is killed, every call on it ends, with a response or with
// an error that says so, the next one gets another process, and nothing is left.
func TestProcessesAreKilledUnderLoad(t *testing.T) {
	s, _ := onStdio(t, "script", nil)
	var mu sync.Mutex
	pids := make(map[int]bool)
	answered := 0
	var load sync.WaitGroup
	for worker := range 4 {
		load.Go(func() {
			for i := range 25 {
				session, err := s.Acquire(t.Context(), stdioKey(t), true, nil)
				if err != nil {
					if !errors.Is(err, ErrBroken) && !errors.Is(err, ErrUnreachable) {
						t.Errorf("no session: %v", err)
					}
					continue
				}
				pid := session.pidOf()
				mu.Lock()
				pids[pid] = true
				mu.Unlock()
				d := call(t, session, "pid")
				if i%5 == worker {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
				select {
				case <-d.got:
					mu.Lock()
					answered++
					mu.Unlock()
				case err := <-d.failed:
					if !errors.Is(err, ErrBroken) && !errors.Is(err, ErrUnsent) {
						t.Errorf("a call was told %v", err)
					}
				case <-time.After(10 * time.Second):
					t.Error("a call was told nothing")
				}
				<-d.ended
			}
		})
	}
	load.Wait()
	if answered < 50 {
		t.Errorf("%d of 100 calls were answered", answered)
	}
	s.Close(t.Context())
	for pid := range pids {
		if running(t, pid) {
			t.Errorf("process %d is left over", pid)
		}
	}
	if n := s.Sessions(); n != 0 || s.restarts.running != 0 {
		t.Errorf("%d sessions and %d processes are on the books", n, s.restarts.running)
	}
}
