//go:build !linux

package child

// awaitExit returns at once: the process has to be waited for by reaping it, which
// takes a thread.
func awaitExit(int) {}
