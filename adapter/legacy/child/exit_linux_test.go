package child

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestProcessesTakeNoThreads: the runtime allows a program ten thousand threads, and
// a session with a process must cost less than one.
func TestProcessesTakeNoThreads(t *testing.T) {
	threads := func() int {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(tasks)
	}
	const processes = 30
	before := threads()
	var all []*Process
	for range processes {
		p := start(t, "echo", time.Minute, nil)
		if err := p.Write(t.Context(), []byte("here\n"), time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := next(t, p); got != "here" {
			t.Errorf("the line is %q", got)
		}
		all = append(all, p)
	}
	if got := threads() - before; got >= processes/2 {
		t.Errorf("%d processes have taken %d threads", processes, got)
	}
	for _, p := range all {
		p.Close(t.Context())
		if got, want := p.Story(0), "its process has ended: exit status 0"; got != want {
			t.Errorf("the story is %q, want %q", got, want)
		}
	}
}

// TestAnothersGroup: the number of a process that has ended by itself becomes
// another's, who is not signalled.
func TestAnothersGroup(t *testing.T) {
	const lastPID = "/proc/sys/kernel/ns_last_pid"
	for try := 0; ; try++ {
		p := start(t, "last", 50*time.Millisecond, nil)
		<-p.reaped
		if err := os.WriteFile(lastPID, []byte(strconv.Itoa(p.PID()-1)), 0); err != nil {
			t.Skipf("whose number comes next can be chosen by root only: %v", err)
		}
		other := exec.Command(os.Args[0])
		other.Env, other.SysProcAttr = []string{mode + "=polite"}, &syscall.SysProcAttr{Setpgid: true}
		out, err := other.StdoutPipe()
		if err == nil {
			err = other.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it minds SIGTERM from now on
			t.Fatal(err)
		}
		same := other.Process.Pid == p.PID()
		p.Close(t.Context())
		lives := syscall.Kill(other.Process.Pid, 0) == nil && running(other.Process.Pid)
		_ = other.Process.Kill() // it has done what it is for
		_ = other.Wait()         // so ended
		switch {
		case same && !lives:
			t.Fatal("another's process was ended")
		case same:
			return
		case try == 100:
			t.Skip("somebody else was faster, every time")
		}
	}
}
