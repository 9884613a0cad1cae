package legacy

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		os.Exit(serveStdio(mode))
	}
	goleak.VerifyTestMain(m)
}
