package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second * slowness

// binary is the program under test, built once by TestMain.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "holdfast-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(suite{m, dir}, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir) // it is a temporary directory
		os.Exit(code)
	}))
}

// suite is the tests of this package with all that they need around them.
type suite struct {
	m   *testing.M
	dir string
}

// Run implements goleak.TestingM.
func (s suite) Run() int {
	if err := s.prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	code := s.m.Run()
	if err := stopCommonNATS(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = max(code, 1)
	}
	if err := roundsWereForwarded(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	if err := wiresWereValid(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = max(code, 1)
	}
	return code
}

func (s suite) prepare() error {
	if err := errors.Join(chooseMode(), chooseTransport(), chooseRevision(), loadSchemas()); err != nil {
		return err
	}
	var race []string
	if racing {
		race = append(race, "-race")
	}
	binary = filepath.Join(s.dir, "holdfast")
	if err := build(binary, "github.com/holdfast-mcp/holdfast/cmd/holdfast", race...); err != nil {
		return err
	}
	pipe = filepath.Join(s.dir, "pipe")
	if err := build(pipe, "github.com/holdfast-mcp/holdfast/test/fixture/pipe"); err != nil {
		return err
	}
	natsBinary.path = filepath.Join(s.dir, "nats-server")
	if mode == modeNATS {
		return startCommonNATS()
	}
	return nil
}

// build makes a program of this module or of one of its tools.
func build(to, from string, flags ...string) error {
	command := exec.Command("go", append(append([]string{"build", "-o", to}, flags...), from)...)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("build %s: %w", from, err)
	}
	return nil
}

// Options describe a process, or several that are alike.
type Options struct {
	// Upstream is the only upstream. Config must name no upstreams then.
	Upstream Upstream
	// Run has `holdfast run` start the upstream's command, not a configuration.
	Run bool
	// Config is the text of the configuration file.
	Config string
	// Args are further flags.
	Args []string
	// Env are further variables of the environment.
	Env []string
}

// Start runs Holdfast in the way that the mode says, one replica or several
// behind a balancer, and returns once it serves. It is stopped with the test,
// and must stop cleanly.
func Start(t testing.TB, o Options) *Holdfast {
	t.Helper()
	if mode == modeOne {
		return StartOne(t, o)
	}
	return StartFleet(t, o)
}

// StartAlone is Start(t, o).One(), for what each replica limits: one that has no
// others where they would keep some of its sessions.
func StartAlone(t testing.TB, o Options) *Holdfast {
	t.Helper()
	if oneStream(t) {
		return StartOne(t, o)
	}
	return Start(t, o).One()
}

// StartOne is Start with one replica alone in every mode, for what only a
// replica without others does.
func StartOne(t testing.TB, o Options) *Holdfast {
	t.Helper()
	logs := newLogs(1)
	p := launch(t, o, logs)
	t.Cleanup(func() { p.end(t) })
	p.listens(t)
	return p.alone()
}

// KeyFile writes a file of request-state keys, one a line.
func KeyFile(t testing.TB, keys ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	WriteKeys(t, file, keys...)
	return file
}

// within is a context that ends when patience does, or with the test.
func within(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), patience)
}

// WriteKeys replaces a file of request-state keys in one step.
func WriteKeys(t testing.TB, file string, keys ...string) {
	t.Helper()
	fresh := file + ".new"
	if err := os.WriteFile(fresh, []byte(strings.Join(keys, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(fresh, file); err != nil {
		t.Fatal(err)
	}
}
