package main

import (
	"os"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/legacy/child"
)

// TestMain: what the tests run may start this program anew as a guard.
func TestMain(m *testing.M) {
	child.ServeGuard()
	os.Exit(m.Run())
}
