package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// endWithin is how long what a server has started may outlive it.
const endWithin = 3 * time.Second

// left is an error if a process of a server is still there, which it then ends:
// its environment names a folder of this run, whatever group it has gone to.
func (b *bench) left(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(endWithin)
	defer limit.Stop()
	for {
		found := processes("=" + b.dir + string(filepath.Separator))
		if len(found) == 0 {
			return nil
		}
		select {
		case <-tick.C:
			continue
		case <-limit.C:
		case <-ctx.Done():
		}
		var lines []string
		for pid, line := range found {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
			lines = append(lines, fmt.Sprintf("%d %s", pid, line))
		}
		return fmt.Errorf("%d processes left over: %s", len(found), strings.Join(lines, "; "))
	}
}

// processes are those with a text in their environment, and their command lines.
func processes(text string) map[int]string {
	found := map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is no bad one
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(environ, []byte(text)) {
			continue // it has ended, or is somebody else's
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")) // empty where it has ended
		found[pid] = strings.ReplaceAll(string(bytes.TrimRight(line, "\x00")), "\x00", " ")
	}
	return found
}
