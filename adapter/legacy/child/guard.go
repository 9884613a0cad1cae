package child

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Guard is a second process of this program, which does nothing but outlive it:
// where it ends without a word, as when it is killed, the guard ends the groups
// that it has left behind. A nil Guard guards nothing; the kernel then ends the
// processes themselves, on Linux, but not what they have started.
type Guard struct {
	cmd *exec.Cmd

	mu   sync.Mutex
	tell *os.File // what it reads; ends with this process, however that ends
}

// guardName is what a guard is called, in its arguments and in lists of
// processes.
const guardName = "holdfast-guard"

// ServeGuard makes this process a guard, if it was started as one, and then does
// not return. A program that uses StartGuard calls it before anything else.
func ServeGuard() {
	if len(os.Args) == 1 && os.Args[0] == guardName {
		// What ends the program it guards is not for it.
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
		endLeft(watch(os.Stdin))
		os.Exit(0)
	}
}

// StartGuard starts a guard. Close must be called.
func StartGuard() (*Guard, error) {
	self := "/proc/self/exe" // also when the file was replaced since
	if runtime.GOOS != "linux" {
		var err error
		if self, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	g := &Guard{tell: ours}
	g.cmd = &exec.Cmd{Path: self, Args: []string{guardName}, Env: []string{}, Dir: "/", Stdin: theirs, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	if err := g.cmd.Start(); err != nil {
		_ = ours.Close()
		return nil, fmt.Errorf("start the guard of child processes: %w", err)
	}
	return g, nil
}

// PID is the guard's process id.
func (g *Guard) PID() int { return g.cmd.Process.Pid }

// Close ends the guard, once nothing is left that it guards.
func (g *Guard) Close() {
	if g == nil {
		return
	}
	g.mu.Lock()
	_ = g.tell.Close()
	g.mu.Unlock()
	_ = g.cmd.Wait() // it has nothing to report
}

// begins and ends tell of a group.
func (g *Guard) begins(group int) { g.say('+', group) }
func (g *Guard) ends(group int)   { g.say('-', group) }

func (g *Guard) say(what byte, group int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// Where the guard was killed, there is nothing to be done.
	_, _ = g.tell.WriteString(string(what) + strconv.Itoa(group) + "\n")
}

// watch reads which groups begin and end, and returns those that are left when
// nobody tells any more.
func watch(from io.Reader) []int {
	groups := make(map[int]struct{})
	for lines := bufio.NewScanner(from); lines.Scan(); {
		line := lines.Text()
		group, err := strconv.Atoi(line[min(1, len(line)):])
		if err != nil || group <= 1 {
			continue
		}
		if line[0] == '+' {
			groups[group] = struct{}{}
		} else {
			delete(groups, group)
		}
	}
	return slices.Collect(maps.Keys(groups))
}

// endLeft ends groups: their standard input has ended, now comes SIGTERM, and
// after a while SIGKILL.
func endLeft(groups []int) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, group := range groups {
			_ = syscall.Kill(-group, sig) // an error says that nobody is left
		}
		for end := time.Now().Add(leftGrace); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			groups = slices.DeleteFunc(groups, func(group int) bool { return syscall.Kill(-group, 0) != nil })
			if len(groups) == 0 {
				return
			}
		}
	}
}

// leftGrace is how long what was left behind may take to end.
const leftGrace = 2 * time.Second
