package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter/lines"
)

func start(t testing.TB, what string, grace time.Duration, log io.Writer) *Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if log == nil {
		log = io.Discard
	}
	p, err := Start(&Command{Path: self, Env: []string{mode + "=" + what}, Grace: grace, MaxLine: 1000}, zerolog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(context.WithoutCancel(t.Context())) })
	return p
}

func next(t testing.TB, p *Process) string {
	t.Helper()
	line, err := p.Next()
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

// running reports whether a process runs: one that has ended and was not reaped
// does not.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestLinesGoBothWays(t *testing.T) {
	p := start(t, "echo", time.Minute, nil)
	if !p.TryWrite([]byte("one\n"), time.Minute) {
		t.Fatal("an empty pipe takes nothing")
	}
	if err := p.Write(t.Context(), []byte("two\r\n"), time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"one", "two"} {
		if got := next(t, p); got != want {
			t.Errorf("the line is %q, want %q", got, want)
		}
	}
	long := strings.Repeat("l", 20_000)
	if err := p.Write(t.Context(), []byte(long+"\nthree\n"), time.Minute); err != nil {
		t.Fatal(err)
	}
	var over *lines.TooLong
	if _, err := p.Next(); !errors.As(err, &over) || over.Size != len(long) {
		t.Errorf("a line over the limit is %v", err)
	}
	if got := next(t, p); got != "three" {
		t.Errorf("the line after it is %q", got)
	}
	p.Close(t.Context())
	if got, want := p.Story(0), "its process has ended: exit status 0"; got != want {
		t.Errorf("the story is %q, want %q", got, want)
	}
	if p.TryWrite([]byte("four\n"), time.Minute) {
		t.Error("a process that has ended is sent something")
	}
	if err := p.Write(t.Context(), []byte("four\n"), time.Minute); !errors.Is(err, ErrEnded) {
		t.Errorf("writing to a process that has ended: %v", err)
	}
}

// What a process has said before it ended is read, whoever finds out first.
func TestLastWords(t *testing.T) {
	p := start(t, "last", time.Minute, nil)
	eventually(t, "writing to fail", func() bool { return errors.Is(p.Write(t.Context(), []byte("x\n"), time.Minute), ErrEnded) })
	if got := next(t, p); got != "bye" {
		t.Errorf("it says %q", got)
	}
	if _, err := p.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("its end is %v", err)
	}
}

// A process that takes half a line and no more is of no more use, though it runs:
// who reads it learns of that, after what it has said.
func TestCutLineIsTheEnd(t *testing.T) {
	p := start(t, "deaf", time.Millisecond, nil)
	next(t, p)
	if !p.TryWrite(append(bytes.Repeat([]byte("x"), 1<<20), '\n'), time.Minute) {
		t.Fatal("an empty pipe takes nothing")
	}
	if got := next(t, p); got != "bye" {
		t.Errorf("it says %q", got)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := p.Next()
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, ErrCut) {
			t.Errorf("its end is %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it is still read")
		p.Close(t.Context())
		<-ended
	}
}

// What does not fit the pipe follows, in order with what comes after.
func TestWhatDoesNotFitFollows(t *testing.T) {
	p := start(t, "echo", time.Minute, nil)
	var want []string
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range 2000 {
			line := fmt.Appendf(nil, "%d %s\n", i, strings.Repeat("x", 900))
			for !p.TryWrite(line, time.Minute) {
				if err := p.Write(t.Context(), line, time.Minute); err != nil {
					t.Error(err)
				}
				break
			}
		}
	})
	for i := range 2000 {
		want = append(want, strconv.Itoa(i))
	}
	for _, w := range want {
		if got, _, _ := strings.Cut(next(t, p), " "); got != w {
			t.Fatalf("line %s comes where %s should", got, w)
		}
	}
	writing.Wait()
}

func TestEndsByForce(t *testing.T) {
	t.Run("after the grace", func(t *testing.T) {
		p := start(t, "stubborn", time.Millisecond, nil)
		next(t, p)
		p.Close(t.Context())
		if got := p.Story(0); got != "its process has ended: signal: killed" {
			t.Errorf("the story is %q", got)
		}
	})
	t.Run("at the end of a context", func(t *testing.T) {
		p := start(t, "stubborn", time.Hour, nil)
		next(t, p)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.Close(ctx)
		if p.Running() {
			t.Error("it runs")
		}
	})
	t.Run("by a signal that it heeds", func(t *testing.T) {
		p := start(t, "polite", 100*time.Millisecond, nil)
		next(t, p)
		p.Close(t.Context())
		if got, want := p.Story(time.Minute), `its process has ended: exit status 9; its standard error ended with "asked to end"`; got != want {
			t.Errorf("the story is %q, want %q", got, want)
		}
	})
}

// What a process has left behind is ended with it, and does not keep its reader
// waiting.
func TestGroupEnds(t *testing.T) {
	p := start(t, "parent", 50*time.Millisecond, nil)
	left, err := strconv.Atoi(next(t, p))
	if err != nil {
		t.Fatal(err)
	}
	if got := next(t, p); got != "ready" {
		t.Fatalf("it says %q", got)
	}
	if err := p.Write(t.Context(), []byte("end\n"), time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Next(); err == nil {
		t.Error("there is a line")
	}
	eventually(t, "what it has left behind to end", func() bool { return !running(left) })
}

// A Close that has no time gives none to what has been left behind.
func TestGroupEndsAtOnce(t *testing.T) {
	p := start(t, "parent", time.Hour, nil)
	left, err := strconv.Atoi(next(t, p))
	if err != nil {
		t.Fatal(err)
	}
	next(t, p) // it takes no hint from now on
	if err := p.Write(t.Context(), []byte("end\n"), time.Minute); err != nil {
		t.Fatal(err)
	}
	<-p.reaped
	if !running(left) {
		t.Error("what it has left behind has ended by itself")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.Close(ctx)
	eventually(t, "what it has left behind to end", func() bool { return !running(left) })
}

// A group that was empty once is another's if it is there again.
func TestEmptyGroupIsOver(t *testing.T) {
	var sent []syscall.Signal
	left := 2 // looks until nobody is there
	g := group{kill: func(sig syscall.Signal) error {
		sent = append(sent, sig)
		if left--; left < 0 {
			return syscall.ESRCH
		}
		return nil
	}}
	g.end(time.Minute, nil)
	left = 100
	if g.signal(syscall.SIGKILL) {
		t.Error("it is there again")
	}
	g.end(time.Minute, nil)
	if want := []syscall.Signal{syscall.SIGTERM, 0, 0}; !slices.Equal(sent, want) {
		t.Errorf("sent %v, want %v", sent, want)
	}
}

// A process that is killed can end nothing; its guard does.
func TestGuardEndsWhatIsLeft(t *testing.T) {
	p := start(t, "holder", 0, nil)
	var guard, child, left int
	if _, err := fmt.Sscan(next(t, p), &guard, &child, &left); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{guard, child, left} {
		if !running(pid) {
			t.Fatalf("process %d does not run", pid)
		}
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{guard, child, left} {
		eventually(t, "a process to end", func() bool { return !running(pid) })
	}
}

func TestGuardEndsWithoutChildren(t *testing.T) {
	g, err := StartGuard()
	if err != nil {
		t.Fatal(err)
	}
	g.begins(1 << 30)
	g.ends(1 << 30)
	g.Close()
	if !g.cmd.ProcessState.Success() {
		t.Errorf("it has ended with %v", g.cmd.ProcessState)
	}
	(*Guard)(nil).begins(2)
	(*Guard)(nil).Close()
}

func TestGroupsThatAreLeft(t *testing.T) {
	got := watch(strings.NewReader("+10\n+20\n-10\nx\n\n+1\n+-5\n+0\n+30"))
	if len(got) != 2 || got[0]+got[1] != 50 {
		t.Errorf("groups %v are left, want 20 and 30", got)
	}
}

// Whatever a process writes, its reader and the log have bounds.
func TestFlood(t *testing.T) {
	log := &bytes.Buffer{} // read after Close
	p := start(t, "flood", 0, log)
	for range 100 {
		var over *lines.TooLong
		if _, err := p.Next(); !errors.As(err, &over) {
			t.Fatalf("a line over the limit is %v", err)
		}
	}
	p.Close(t.Context())
	if n := len(p.said.String()); n > maxTail {
		t.Errorf("%d bytes of standard error are kept", n)
	}
	for line := range strings.SplitSeq(log.String(), "\n") {
		if len(line) > maxSaid {
			t.Errorf("a line of the log has %d bytes", len(line))
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"tool": 0o755, "data": 0o644} {
		if err := os.WriteFile(dir+"/"+name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	path := []string{"PATH=/nowhere:.:" + dir}
	for _, c := range []struct {
		command Command
		want    string
	}{
		{Command{Path: "tool", Env: path}, dir + "/tool"},
		{Command{Path: "tool", Env: []string{"PATH=relative"}}, ""},
		{Command{Path: "data", Env: path}, ""},
		{Command{Path: "./tool", Dir: dir}, dir + "/tool"},
		{Command{Path: dir + "/tool"}, dir + "/tool"},
		{Command{Path: dir}, ""},
		{Command{Path: ""}, ""},
	} {
		got, err := c.command.Find()
		if (err == nil) != (c.want != "") || err == nil && got != c.want {
			t.Errorf("%q in %q is %q, %v; want %q", c.command.Path, c.command.Dir, got, err, c.want)
		}
		if err != nil && !errors.Is(err, ErrNotRunnable) {
			t.Errorf("%q: %v", c.command.Path, err)
		}
	}
}

// What a process has not finished when reading it ends is read all the same:
// often it is why it has ended.
func TestTornLines(t *testing.T) {
	p := &Process{lines: lines.NewReader(&torn{"last words"}, 100)}
	if got := next(t, p); got != "last words" {
		t.Errorf("it says %q", got)
	}
	if line, err := p.Next(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after it come %q, %v", line, err)
	}
	listen(&torn{"why"}, &p.said, zerolog.Nop())
	if got := p.said.String(); got != "why" {
		t.Errorf("of standard error is kept %q", got)
	}
}

type torn struct{ text string }

func (*torn) Await() error { return nil }

func (s *torn) Read(b []byte) (int, error) {
	n := copy(b, s.text)
	if s.text = s.text[n:]; n == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return n, nil
}
