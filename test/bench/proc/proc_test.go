package proc_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-mcp/holdfast/test/bench/proc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestChildEndsWithItsOwnChildren(t *testing.T) {
	parent, err := proc.Start("parent", "sh", "-c", "sleep 1000 & echo started; wait")
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var children []int
	err = parent.Until(ctx, func() error {
		if children, err = proc.Children(parent.PID()); err != nil || len(children) == 0 {
			return errors.New("no child yet")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	parent.Stop()
	parent.Stop() // once more does nothing
	if text, err := os.ReadFile("/proc/" + strconv.Itoa(children[0]) + "/cmdline"); err == nil && strings.Contains(string(text), "sleep") {
		t.Errorf("the child's child still runs: %q", text)
	}
	if all, err := proc.Children(os.Getpid()); err != nil || slices.Contains(all, parent.PID()) {
		t.Errorf("children after Stop: %v, %v", all, err)
	}
}

func TestUntilSaysWhyAProcessEnded(t *testing.T) {
	c, err := proc.Start("failing", "sh", "-c", "echo no such thing >&2; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	err = c.Until(t.Context(), func() error { return errors.New("not ready") })
	if !errors.Is(err, proc.ErrEnded) || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("got %v", err)
	}
}

func TestUsage(t *testing.T) {
	self := os.Getpid()
	before, err := proc.CPU(self)
	if err != nil {
		t.Fatal(err)
	}
	held := make([]byte, 32<<20)
	for at := range held {
		held[at] = byte(at)
	}
	after, err := proc.CPUs([]int{self})
	if err != nil || after <= before {
		t.Errorf("CPU time: %v, then %v, %v", before, after, err)
	}
	if rss, err := proc.RSS(self); err != nil || rss < int64(len(held)) {
		t.Errorf("resident: got %d, %v, want at least %d", rss, err, len(held))
	}
	if held[77] != 77 {
		t.Error("memory lost")
	}
	const nobody = 1 << 23 // beyond what the kernel gives out
	if _, err := proc.CPU(nobody); err == nil {
		t.Error("a process that is not there has a CPU clock")
	}
	if _, err := proc.RSS(nobody); err == nil {
		t.Error("a process that is not there has memory")
	}
}

func TestWritten(t *testing.T) {
	self := []int{os.Getpid()}
	before, err := proc.Written(self)
	if err != nil {
		t.Fatal(err)
	}
	const size = 100_000
	if err := os.WriteFile(t.TempDir()+"/file", make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	if after, err := proc.Written(self); err != nil || after-before < size {
		t.Errorf("written: got %d, %v, want at least %d", after-before, err, size)
	}
}

func TestStartWithAddsVariables(t *testing.T) {
	t.Setenv("HOLDFAST_LISTEN", "of whoever runs the benchmark")
	c, err := proc.StartWith([]string{"HOLDFAST_ADMIN=ours"}, "shell", "sh", "-c", "echo $HOLDFAST_LISTEN$HOLDFAST_ADMIN; sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err = c.Until(ctx, func() error {
		if got := c.Log(); got != "ours\n" {
			return errors.New("got " + got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
