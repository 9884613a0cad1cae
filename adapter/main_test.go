package adapter

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if file := os.Getenv(childFile); file != "" {
		os.Exit(serveStdio(file))
	}
	flag.Parse()
	// Tests that run in parallel mostly wait for a clock, not for a processor.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
