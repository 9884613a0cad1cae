package proc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine is what a figure depends on besides the code.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Load   string `json:"load"` // averages over 1, 5 and 15 minutes when the run began
}

// ThisMachine describes the machine that the benchmark runs on.
func ThisMachine() (Machine, error) {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH, CPU: "unknown"}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return m, fmt.Errorf("read kernel version: %w", err)
	}
	m.Kernel = unix.ByteSliceToString(name.Release[:])
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return m, err
	}
	if fields := strings.Fields(string(load)); len(fields) >= 3 {
		m.Load = strings.Join(fields[:3], " ")
	}
	info, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return m, err
	}
	defer info.Close()
	for lines := bufio.NewScanner(info); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	return m, nil
}

// Commit returns the commit of the checkout in dir, with a mark where files
// differ from it, or "none" where there is no commit.
func Commit(dir string) string {
	commit, err := exec.Command("git", "-C", dir, "rev-parse", "--verify", "--short=12", "HEAD").Output()
	if err != nil {
		return "none"
	}
	changed, err := exec.Command("git", "--no-optional-locks", "-C", dir, "status", "--porcelain").Output()
	if err != nil || len(changed) > 0 {
		return strings.TrimSpace(string(commit)) + " and changes"
	}
	return strings.TrimSpace(string(commit))
}
