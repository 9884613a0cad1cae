//go:build unix

package state

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// To open a pipe that nobody writes to would wait for ever.
func TestLoadKeyFilePipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKeyFile(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want an error that names %s", err, path)
	}
}
