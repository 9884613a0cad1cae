package child

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Command says what to run. The environment is exactly Env.
type Command struct {
	Path    string // a path, or a name that is looked up in Env's PATH, else in this process's
	Args    []string
	Env     []string // NAME=value
	Dir     string   // "": this process's
	Grace   time.Duration
	MaxLine int    // bytes of a line of standard output
	Guard   *Guard // ends the group where this process is killed; may be nil
}

// ErrNotRunnable: the command is not there, or cannot be executed.
var ErrNotRunnable = errors.New("command cannot be run")

// Find returns the path of the file that Start would run.
func (c *Command) Find() (string, error) {
	if strings.ContainsRune(c.Path, filepath.Separator) {
		path := c.Path
		if !filepath.IsAbs(path) { // exec takes it from where the child starts
			path = filepath.Join(c.Dir, path)
		}
		return path, runnable(path)
	}
	for _, dir := range filepath.SplitList(c.searchPath()) {
		if !filepath.IsAbs(dir) {
			continue // what is run must not depend on where
		}
		path := filepath.Join(dir, c.Path)
		if runnable(path) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: no %q in PATH", ErrNotRunnable, c.Path)
}

func (c *Command) searchPath() string {
	for _, field := range c.Env {
		if path, ok := strings.CutPrefix(field, "PATH="); ok {
			return path
		}
	}
	return os.Getenv("PATH")
}

func runnable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotRunnable, err)
	case info.IsDir() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%w: %s is no executable file", ErrNotRunnable, path)
	}
	return nil
}
