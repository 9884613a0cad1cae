package child

import (
	"os"
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
