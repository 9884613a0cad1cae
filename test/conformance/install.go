package main

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
	"strings"
)

// install brings node_modules to what package-lock.json says; it does nothing
// where they are that already.
func install(ctx context.Context, home string, log io.Writer) error {
	lock, err := os.ReadFile(filepath.Join(home, "package-lock.json"))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(lock)
	want := hex.EncodeToString(sum[:])
	stamp := filepath.Join(home, "node_modules", ".installed-lock")
	if have, err := os.ReadFile(stamp); err == nil && string(have) == want && nodeWorks(ctx, home) == nil {
		return nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return errors.New("npm is not there, and the conformance suite comes from npm: " +
			"install Node.js with npm (Debian: apt-get install npm; others: https://nodejs.org) and run this again")
	}
	fmt.Fprintln(log, "conformance: npm ci in", home)
	command := exec.CommandContext(ctx, npm, "ci", "--no-progress")
	command.Dir, command.Stdout, command.Stderr = home, log, log
	if err := command.Run(); err != nil {
		return fmt.Errorf("npm ci in %s: %w", home, err)
	}
	if err := nodeWorks(ctx, home); err != nil {
		return fmt.Errorf("npm ci ran, but its node does not (were install scripts forbidden? `npm config get ignore-scripts`): %w", err)
	}
	return os.WriteFile(stamp, []byte(want), 0o644)
}

func nodePath(home string) string { return filepath.Join(home, "node_modules", ".bin", "node") }

func suitePath(home string, elements ...string) string {
	return filepath.Join(append([]string{home, "node_modules", "@modelcontextprotocol", "conformance"}, elements...)...)
}

// nodeWorks says why the installed Node is not the one that the suite needs.
func nodeWorks(ctx context.Context, home string) error {
	version, err := exec.CommandContext(ctx, nodePath(home), "--version").Output()
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(version), "v22.") {
		return fmt.Errorf("version %s, want v22", strings.TrimSpace(string(version)))
	}
	return nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if file == "" || file == os.DevNull {
		return "", errors.New("run this inside the module: go run ./test/conformance")
	}
	return filepath.Dir(file), nil
}
