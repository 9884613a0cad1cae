//go:build !linux

package child

import "syscall"

// leader would be a handle of a process that leads a group, which other systems do
// not have.
type leader struct{}

func lead(int) *leader { return nil }

// awaitExit returns at once: the process has to be waited for by reaping it, which
// takes a thread.
func (*leader) awaitExit() {}

func (*leader) signaller(pid int) func(syscall.Signal) error { return byNumber(pid) }

func (*leader) close() {}
