package npm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Errors that an [errors.Is] may ask for: the machine lacks something.
var (
	ErrNoNPM   = errors.New("npm is not there: install Node.js with npm (Debian: apt-get install npm; others: https://nodejs.org)")
	ErrNoNode  = errors.New("node is not there: install Node.js (Debian: apt-get install nodejs; others: https://nodejs.org)")
	ErrOldNode = errors.New("node is too old: install a newer Node.js (https://nodejs.org)")
)

// stampName is the file in node_modules that holds the digest of the lock file
// that it was made from. It is written last.
const stampName = ".installed-lock"

// Install brings dir/node_modules to what dir/package-lock.json says. What npm
// writes goes to log.
func Install(ctx context.Context, dir string, log io.Writer) error {
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(lock)
	want := hex.EncodeToString(sum[:])
	stamp := filepath.Join(dir, "node_modules", stampName)
	if have, err := os.ReadFile(stamp); err == nil && string(have) == want {
		return nil
	}
	program, err := exec.LookPath("npm")
	if err != nil {
		return ErrNoNPM
	}
	_, _ = fmt.Fprintln(log, "npm ci in", dir)
	command := exec.CommandContext(ctx, program, "ci", "--no-progress")
	command.Dir, command.Stdout, command.Stderr = dir, log, log
	if err := command.Run(); err != nil {
		return fmt.Errorf("npm ci in %s: %w", dir, err)
	}
	return os.WriteFile(stamp, []byte(want), 0o644)
}

// Node returns the path of the machine's node, which has to be of this major
// version or a newer one.
func Node(ctx context.Context, major int) (string, error) {
	program, err := exec.LookPath("node")
	if err != nil {
		return "", ErrNoNode
	}
	said, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("node --version: %w", err)
	}
	version := strings.TrimSpace(string(said))
	first, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	have, err := strconv.Atoi(first)
	if err != nil {
		return "", fmt.Errorf("node --version says %q", version)
	}
	if have < major {
		return "", fmt.Errorf("%w: it is %s, and v%d is needed", ErrOldNode, version, major)
	}
	return program, nil
}
