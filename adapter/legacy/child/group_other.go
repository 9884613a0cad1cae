//go:build unix && !linux

package child

import "syscall"

// ownGroup: a group of its own, which is signalled as one. Where this process is
// killed, its standard input ends, and no more can be done.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
