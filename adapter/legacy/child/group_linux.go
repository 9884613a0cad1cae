package child

import "syscall"

// ownGroup: a group of its own, which is signalled as one; and an end with this
// process, however that ends. What it has started itself sees its standard input
// end.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
