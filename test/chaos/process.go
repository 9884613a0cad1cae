package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one that runs a program of this run, as /proc shows it.
type process struct {
	pid, parent int
	program     string // its path
}

func (p process) String() string {
	return fmt.Sprintf("%s %d of %d", filepath.Base(p.program), p.pid, p.parent)
}

// pipe is the program of the upstreams that are commands.
func (f *Fleet) pipe() string { return filepath.Join(f.dir, "pipe") }

// processes are those that run a program of this run, and have not ended.
func (f *Fleet) processes() (list []process, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		program, err := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		if err != nil || filepath.Dir(program) != f.dir { // another user's, or it has ended
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// Behind its name, which may hold anything, come its state and its parent.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 {
			return nil, fmt.Errorf("process %d: stat is %q", pid, stat)
		}
		parent, err := strconv.Atoi(string(fields[1]))
		if err != nil {
			return nil, fmt.Errorf("process %d: %w", pid, err)
		}
		list = append(list, process{pid, parent, program})
	}
	return list, nil
}

// startedBy are the processes that a replica has started, and those that they
// have.
func (f *Fleet) startedBy(r *Replica) (list []process, err error) {
	all, err := f.processes()
	if err != nil {
		return nil, err
	}
	parents := []int{r.cmd.Process.Pid}
	for len(parents) > 0 {
		var next []int
		for _, p := range all {
			if slices.Contains(parents, p.parent) {
				list, next = append(list, p), append(next, p.pid)
			}
		}
		parents = next
	}
	return list, nil
}

// endsWithin is how long processes may outlive the replica that has started
// them, also where it was killed: twice what its guard leaves them, and some.
const endsWithin = 8 * time.Second

// awaitEnd waits for the end of what a replica has started, which has ended.
func (f *Fleet) awaitEnd(slot int, signal syscall.Signal, theirs []process) {
	for give := time.Now().Add(endsWithin); ; {
		all, err := f.processes()
		if err != nil {
			f.server.Ledger.Break("%v", err)
			return
		}
		left := slices.DeleteFunc(slices.Clone(theirs), func(p process) bool {
			return !slices.ContainsFunc(all, func(q process) bool { return q.pid == p.pid && q.program == p.program })
		})
		if len(left) == 0 {
			f.tally.event("nothing is left of %d processes that %d had started", len(theirs), slot)
			return
		}
		if time.Now().After(give) {
			f.server.Ledger.Break("%d processes are left over %v after replica %d ended with %v: %v", len(left), endsWithin, slot, signal, left)
			return
		}
		sleep(context.Background(), 50*time.Millisecond)
	}
}

// killChild kills a process that a replica has started for an upstream.
func (f *Fleet) killChild(ctx context.Context, r *rand.Rand) error {
	for give := time.Now().Add(startWithin); ; {
		all, err := f.processes()
		if err != nil {
			return err
		}
		var replicas []int
		for _, r := range f.Replicas() {
			replicas = append(replicas, r.cmd.Process.Pid)
		}
		all = slices.DeleteFunc(all, func(p process) bool { return p.program != f.pipe() || !slices.Contains(replicas, p.parent) })
		if len(all) > 0 {
			p := all[r.IntN(len(all))]
			if err := syscall.Kill(p.pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) { // else it has just ended
				f.tally.event("kill %v", p)
				return err
			}
		}
		if time.Now().After(give) || !sleep(ctx, 50*time.Millisecond) {
			return errors.New("no replica has a process of an upstream")
		}
	}
}

// childrenLeft says which processes of upstreams there are although no replica
// has a session.
func (f *Fleet) childrenLeft(ctx context.Context) []string {
	return f.left(ctx, "no replica has a session", func(p process) bool { return p.program == f.pipe() })
}

// processesLeft says which processes there are although all have ended that the
// run has started itself.
func (f *Fleet) processesLeft(ctx context.Context) []string {
	return f.left(ctx, "all replicas have ended", func(process) bool { return true })
}

func (f *Fleet) left(ctx context.Context, when string, of func(process) bool) []string {
	for give := time.Now().Add(endsWithin); ; {
		all, err := f.processes()
		if err != nil {
			return []string{err.Error()}
		}
		all = slices.DeleteFunc(all, func(p process) bool { return !of(p) })
		f.tally.event("%s: %d processes", when, len(all))
		if len(all) == 0 {
			return nil
		}
		if time.Now().After(give) || !sleep(ctx, 50*time.Millisecond) {
			var names []string
			for _, p := range all {
				names = append(names, p.String())
			}
			return []string{fmt.Sprintf("%s, and there are %d processes: %s", when, len(all), strings.Join(names, ", "))}
		}
	}
}
