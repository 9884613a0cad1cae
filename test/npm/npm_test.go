package npm_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/npm"
)

// program puts a shell script of this name on a PATH of its own.
func program(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
}

// locked is a folder with a lock file.
func locked(t *testing.T) (dir string, digest string) {
	t.Helper()
	dir = t.TempDir()
	lock := []byte(`{"lockfileVersion":3}`)
	if err := os.WriteFile(filepath.Join(dir, "package-lock.json"), lock, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "node_modules"), 0o755); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	return dir, hex.EncodeToString(sum[:])
}

func TestMissingProgramsAreNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir, _ := locked(t)
	if err := npm.Install(t.Context(), dir, io.Discard); !errors.Is(err, npm.ErrNoNPM) {
		t.Errorf("Install without npm: got %v, want ErrNoNPM", err)
	}
	if _, err := npm.Node(t.Context(), 20); !errors.Is(err, npm.ErrNoNode) {
		t.Errorf("Node without node: got %v, want ErrNoNode", err)
	}
}

func TestInstallRunsOncePerLockFile(t *testing.T) {
	dir, digest := locked(t)
	program(t, "npm", `echo "$*" >> ran`)
	for range 2 {
		if err := npm.Install(t.Context(), dir, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	ran, err := os.ReadFile(filepath.Join(dir, "ran"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(ran), "ci --no-progress\n"; got != want {
		t.Errorf("npm was run with %q, want %q once", got, want)
	}
	stamp, err := os.ReadFile(filepath.Join(dir, "node_modules", ".installed-lock"))
	if err != nil || string(stamp) != digest {
		t.Errorf("stamp: got %q, %v, want the lock file's digest %q", stamp, err, digest)
	}
}

func TestFailedInstallLeavesNoStamp(t *testing.T) {
	dir, _ := locked(t)
	program(t, "npm", "exit 3")
	if err := npm.Install(t.Context(), dir, io.Discard); err == nil {
		t.Fatal("Install with a failing npm: no error")
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", ".installed-lock")); !os.IsNotExist(err) {
		t.Errorf("stamp after a failure: %v, want none", err)
	}
}

func TestNodeVersions(t *testing.T) {
	for said, want := range map[string]error{"v20.20.2": nil, "v22.0.0": nil, "v18.19.1": npm.ErrOldNode} {
		t.Run(said, func(t *testing.T) {
			program(t, "node", "echo "+said)
			if _, err := npm.Node(t.Context(), 20); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		})
	}
	t.Run("no version", func(t *testing.T) {
		program(t, "node", "echo hello")
		if _, err := npm.Node(t.Context(), 20); err == nil {
			t.Error("no error")
		}
	})
}

func TestCheckoutsShareTheCache(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	program(t, "npm", `PATH=/usr/bin:/bin; mkdir -p node_modules; echo "$*" >> ran; cat .npmrc >> ran`)
	var dirs []string
	for range 2 {
		from, _ := locked(t)
		for name, text := range map[string]string{"package.json": "{}", ".npmrc": "audit=false\n"} {
			if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		dir, err := npm.Cached(t.Context(), from, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	if dirs[0] != dirs[1] || filepath.Dir(filepath.Dir(filepath.Dir(dirs[0]))) != cache {
		t.Errorf("folders: got %v, want one below %s", dirs, cache)
	}
	ran, err := os.ReadFile(filepath.Join(dirs[0], "ran"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(ran), "ci --no-progress\naudit=false\n"; got != want {
		t.Errorf("npm was run with %q, want %q once", got, want)
	}
}
