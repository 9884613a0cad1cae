package legacy

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// shownLog is a log that a test waits on.
type shownLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *shownLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *shownLog) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), part)
}

// onStdio is a Server of a command.
func onStdio(t testing.TB, mode string, change func(*Settings)) (*Server, *shownLog) {
	t.Helper()
	settings := testSettings("")
	settings.Transport, settings.Command = TransportStdio, command(t, mode)
	if change != nil {
		change(&settings)
	}
	log := &shownLog{}
	s, err := NewServer(settings, zerolog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.WithoutCancel(t.Context())) })
	return s, log
}

func stdioKey(t testing.TB) *Key { return &Key{Caps: capabilities(t, `{"elicitation":{}}`)} }

// textOf is the text of a tool's result.
func textOf(m jsonrpc.Message) string {
	list := jsonrpc.Array(jsonrpc.Get(m.Result, "content"))
	list.Next()
	text, _ := jsonrpc.Unquote(jsonrpc.Get(list.Value(), "text"))
	return text
}

// toolText calls a tool on a session of its own and returns its text.
func toolText(t testing.TB, s *Server, tool string) string {
	t.Helper()
	d := call(t, mustAcquire(t, s, stdioKey(t), true), tool)
	text := textOf(d.next(t))
	<-d.ended
	return text
}

// pidOf is the id of the process that a session is with.
func (s *Session) pidOf() int { return s.channel.(*pipes).process.PID() }

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// A server of the official SDK: handshake, list, a call with a question, a
// cancelled call, and the end of the process.
func TestStdioServerOfTheSDK(t *testing.T) {
	s, log := onStdio(t, "sdk", nil)
	session := mustAcquire(t, s, stdioKey(t), true)
	pid := session.pidOf()
	if v := session.Info().Version; v != mcp.Latest {
		t.Errorf("version %q was negotiated, want %q", v, mcp.Latest)
	}
	tools, err := session.Request(t.Context(), nil, mcp.MethodToolsList, nil)
	if err != nil || !bytes.Contains(tools, []byte(`"greet"`)) {
		t.Fatalf("tools/list: %s, %v", tools, err)
	}
	d := call(t, session, "greet")
	question := d.next(t)
	if question.Method != mcp.MethodElicit {
		t.Fatalf("the server says %+v, want a question", question)
	}
	if err := session.Post(t.Context(), nil, answerText(question.ID, "Ada")); err != nil {
		t.Fatal(err)
	}
	if got := textOf(d.next(t)); got != "Hello Ada" {
		t.Errorf("the tool says %q", got)
	}
	<-d.ended
	waiting := call(t, mustAcquire(t, s, stdioKey(t), true), "wait")
	eventually(t, "the call to begin", func() bool { return log.has("wait has begun") })
	waiting.Cancel("enough")
	eventually(t, "the cancellation to arrive", func() bool { return log.has("wait was cancelled") })
	waiting.Abort()
	<-waiting.ended
	s.Close(t.Context())
	if alive(pid) {
		t.Errorf("process %d is left over", pid)
	}
}

func TestStdioCallsShareAProcess(t *testing.T) {
	s, _ := onStdio(t, "script", nil)
	asking := call(t, mustAcquire(t, s, stdioKey(t), true), "ask")
	question := asking.next(t)
	first := asking.Session().pidOf()
	// What cannot be asked runs beside it; what can gets a process of its own.
	list := mustAcquire(t, s, stdioKey(t), false)
	if list.pidOf() != first {
		t.Error("a list started a process")
	}
	if _, err := list.Request(t.Context(), nil, mcp.MethodToolsList, nil); err != nil {
		t.Error(err)
	}
	list.Return(false)
	if got := toolText(t, s, "pid"); got == strconv.Itoa(first) {
		t.Error("two calls that can be asked ran on one process")
	}
	if err := asking.Session().Post(t.Context(), nil, answerText(question.ID, "x")); err != nil {
		t.Fatal(err)
	}
	if got := textOf(asking.next(t)); got != "answered" {
		t.Errorf("the tool says %q", got)
	}
	<-asking.ended
}

func TestStdioProcessDies(t *testing.T) {
	s, log := onStdio(t, "script", nil)
	d := call(t, mustAcquire(t, s, stdioKey(t), true), "die")
	err := <-d.failed
	if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "exit status 7") || !strings.Contains(err.Error(), "out of luck") {
		t.Errorf("the call was told %v", err)
	}
	<-d.ended
	eventually(t, "the death to be logged", func() bool { return log.has("exit status 7") })
	if got := toolText(t, s, "pid"); got == "" {
		t.Error("there is no new process")
	}
	eventually(t, "the dead session to be off the books", func() bool { return s.Sessions() == 1 })
}

// running reports whether a process runs: one that has ended and was not reaped
// does not.
func running(t testing.TB, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// What may be a message, with what a user has answered, is not logged.
func TestBrokenMessageIsNotLogged(t *testing.T) {
	s, log := onStdio(t, "script", nil)
	e, err := s.entry(stdioKey(t))
	if err != nil {
		t.Fatal(err)
	}
	session := s.newSession(e, nil)
	for _, text := range []string{
		"My server, version 1", `{"method":"x","params":{"pin":"1234`, ` [{"pin":"1234"`, `"pin":"1234",`, `[{"pin":"1234"}]`,
	} {
		session.take([]byte(text))
	}
	if log.has("1234") {
		t.Error("the log has what was answered")
	}
	if !log.has("My server, version 1") || !log.has(`"bytes":35`) {
		t.Errorf("the log does not have what was skipped: %s", log.text.String())
	}
}
