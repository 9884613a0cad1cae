package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-mcp/holdfast/test/npm"
)

// install brings node_modules to what package-lock.json says: the suite, and the
// Node that it needs.
func install(ctx context.Context, home string, log io.Writer) error {
	if err := npm.Install(ctx, home, log); err != nil {
		return err
	}
	if err := nodeWorks(ctx, home); err != nil {
		return fmt.Errorf("npm ci ran, but its node does not (were install scripts forbidden? `npm config get ignore-scripts`; "+
			"remove node_modules to install again): %w", err)
	}
	return nil
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
