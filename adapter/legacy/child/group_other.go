//go:build unix && !linux

package child

import "syscall"

// group: a group of its own, which is signalled as one. Where this process is
// killed, its standard input ends, and no more can be done.
func group() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
