package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Files raises the number of files that this process may open to the most that
// it may be, and returns it. What is started later inherits it.
func Files() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read limit of open files: %w", err)
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("raise limit of open files: %w", err)
	}
	return limit.Cur, nil
}
