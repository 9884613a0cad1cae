package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the processor time that a process has used with all its threads,
// those that have ended included. It reads the process's CPU clock, which
// counts nanoseconds where /proc/PID/stat counts hundredths of a second.
func CPU(pid int) (time.Duration, error) {
	const processClock = 2 // CPUCLOCK_SCHED; clock_getcpuclockid(3) makes the same number
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|processClock), &ts); err != nil {
		return 0, fmt.Errorf("read CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// CPUs returns the sum of what several processes have used.
func CPUs(pids []int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		d, err := CPU(pid)
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}

// Written returns how many bytes processes have written with write(2) and its
// kin, to sockets as well. The kernel does not count send(2) and its kin there.
func Written(pids []int) (int64, error) {
	var sum int64
	for _, pid := range pids {
		name := fmt.Sprintf("/proc/%d/io", pid)
		text, err := os.ReadFile(name)
		if err != nil {
			return 0, fmt.Errorf("read what was written: %w", err)
		}
		_, rest, _ := bytes.Cut(text, []byte("wchar: "))
		value, _, _ := bytes.Cut(rest, []byte("\n"))
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read what was written: %s: %w", name, err)
		}
		sum += n
	}
	return sum, nil
}

// RSS returns the resident memory of a process in bytes.
func RSS(pid int) (int64, error) {
	name := fmt.Sprintf("/proc/%d/statm", pid)
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("read resident memory: %w", err)
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, fmt.Errorf("read resident memory: %s has %d fields", name, len(fields))
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read resident memory: %w", err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// Descriptors returns how many file descriptors a process has open.
func Descriptors(pid int) (int, error) {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0, fmt.Errorf("count open descriptors: %w", err)
	}
	return len(open), nil
}

// Children returns the processes whose parent is pid.
func Children(pid int) ([]int, error) {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var children []int
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended since
		}
		// The command's name stands in parentheses and may contain any byte.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 2 || string(fields[1]) != strconv.Itoa(pid) {
			continue
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	return children, nil
}
