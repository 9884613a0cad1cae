package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProcessesAreFound: a process of an upstream that is left over is seen, and
// whose it is; one that has ended is not.
func TestProcessesAreFound(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &Fleet{Mode: modeStdio, dir: dir, tally: NewTally(new(bytes.Buffer))}
	copyOfCat(t, f.pipe())
	child := exec.Command(f.pipe())
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	self := &Replica{cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}
	theirs, err := f.startedBy(self)
	if err != nil || len(theirs) != 1 || theirs[0].pid != child.Process.Pid {
		t.Fatalf("started by this process: %v (%v), want %d", theirs, err, child.Process.Pid)
	}
	now, cancel := context.WithCancel(t.Context())
	cancel() // it does not wait for their end
	for _, left := range [][]string{f.childrenLeft(now), f.processesLeft(now)} {
		if len(left) != 1 || !strings.Contains(left[0], theirs[0].String()) {
			t.Errorf("left over: %q, want %v", left, theirs[0])
		}
	}
	_ = input.Close() // cat ends with it
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if left := f.processesLeft(now); len(left) != 0 {
		t.Errorf("left over after its end: %q", left)
	}
}

func copyOfCat(t *testing.T, to string) {
	t.Helper()
	path, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(file, from); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}
