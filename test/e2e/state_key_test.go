package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// newKey is what `holdfast keygen` prints.
func newKey(t *testing.T) string {
	t.Helper()
	out, err := exec.Command(binary, "keygen").Output()
	if err != nil {
		t.Fatal(err)
	}
	key := strings.TrimSpace(string(out))
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(key) {
		t.Fatalf("keygen printed %q, want 64 hexadecimal digits", out)
	}
	return key
}

const keysRead = `"message":"request-state keys read"`

// rotate replaces the key file and waits until it has been read again.
func rotate(t *testing.T, h *Holdfast, file string, keys ...string) {
	t.Helper()
	n := h.Logs.Count(keysRead)
	WriteKeys(t, file, keys...)
	h.Logs.WaitNth(t, n+h.Size(), keysRead) // each replica reads them
}

// The order that loses no token: a new key opens before it seals, and an old
// one opens for as long as its tokens live.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	server := asking(t)
	a, b := newKey(t), newKey(t)
	file := KeyFile(t, "# first", a, "")
	h := Start(t, Options{Upstream: to(server), Args: []string{"--state-key-file", file}})
	h.Logs.WaitNth(t, h.Size(), keysRead)
	park := func() *Reply {
		first := h.Send(t, CallTool("greet", nil))
		first.Asks(t, "elicitation-1")
		return first
	}
	finish := func(first *Reply) {
		t.Helper()
		if got := h.Retry(t, first, ada).Text(t); got != "greet Ada" {
			t.Errorf("got %q", got)
		}
	}
	before, old := park(), park()
	rotate(t, h, file, a, b)
	between, older := park(), park()
	finish(before)
	rotate(t, h, file, b, a)
	fresh, kept := park(), park()
	finish(between)
	finish(fresh)
	rotate(t, h, file, b)
	finish(kept)
	for _, lost := range []*Reply{old, older} {
		h.Retry(t, lost, ada).Fails(t, http.StatusBadRequest, -32602, "state_key")
	}
	// Nonsense in the file leaves the keys as they are, and is not repeated.
	last := park()
	WriteKeys(t, file, "no-key-at-all")
	line := h.Logs.WaitNth(t, h.Size(), `"level":"error"`, "request-state keys not read again")
	if strings.Contains(line, "no-key-at-all") {
		t.Errorf("the log repeats a key: %s", line)
	}
	finish(last)
	finish(park())
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	finish(park())
	for _, line := range h.Logs.Lines() {
		if strings.Contains(line, a) || strings.Contains(line, b) {
			t.Errorf("the log has a key: %s", line)
		}
	}
}

// A state of another key is refused, and says so.
func TestStateOfAnotherKey(t *testing.T) {
	t.Parallel()
	server := asking(t)
	one := Start(t, Options{Upstream: to(server), Config: "state: {keys: [" + newKey(t) + "]}"})
	two := Start(t, Options{Upstream: to(server), Config: "state: {keys: [" + newKey(t) + "]}"})
	first := one.Send(t, CallTool("greet", nil))
	first.Asks(t, "elicitation-1")
	two.Retry(t, first, ada).Fails(t, http.StatusBadRequest, -32602, "state_key")
	if n := len(server.Responses()); n != 0 {
		t.Error("the answer reached the server")
	}
	one.Retry(t, first, ada).Text(t)
}

// With the same key a state is good where nobody knows its call: after a
// restart, or where there is no common bus. Whoever it comes to goes on with the
// call if that can be done, and else says that it may have run.
func TestStateOfACallThatNobodyKnows(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		settings rawserver.Settings
		lost     bool
	}{
		"event ids":    {},
		"no event ids": {rawserver.Settings{NoEventIDs: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, test.settings)
			server.Tool("greet", greeting)
			key := newKey(t)
			one := Start(t, Options{Upstream: to(server), Config: hasty + "state: {keys: [" + key + "]}"})
			two := Start(t, Options{Upstream: to(server), Config: hasty + "state: {keys: [" + newKey(t) + ", " + key + "]}"})
			first := one.Send(t, CallTool("greet", nil))
			first.Asks(t, "elicitation-1")
			reply := two.Retry(t, first, ada)
			if !test.lost && !oneStream(t) {
				if got := reply.Text(t); got != "Hello Ada" {
					t.Errorf("got %q", got)
				}
				if n := len(server.Responses()); n != 1 {
					t.Errorf("the server got %d answers, want 1", n)
				}
			} else {
				reply.Fails(t, http.StatusOK, -32603, "call_lost")
				if !mayHaveRun(t, reply) {
					t.Error("the error does not say that the call may have run")
				}
				if got := one.Retry(t, first, ada).Text(t); got != "Hello Ada" { // its owner has it still
					t.Errorf("got %q", got)
				}
			}
			if n := server.ToolCalls("greet"); n != 1 {
				t.Errorf("the tool was called %d times, want once", n)
			}
		})
	}
}

func TestNoKeyIsSaid(t *testing.T) {
	t.Parallel()
	server := asking(t)
	// A fleet always has keys in common: this is about one that has none.
	line := StartOne(t, Options{Upstream: to(server)}).Logs.Wait(t, `"level":"warn"`, "no request-state key is set")
	for _, part := range []string{"random", "process ends", "replicas"} {
		if !strings.Contains(line, part) {
			t.Errorf("the line %s does not say %q", line, part)
		}
	}
	h := Start(t, Options{Upstream: to(server), Args: []string{"--state-key-file", KeyFile(t, newKey(t))}})
	if n := h.Logs.Count("no request-state key is set"); n != 0 {
		t.Error("the warning comes although there is a key")
	}
}

// What is wrong with keys is said at the start, without them.
func TestWrongKeysAtTheStart(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	short := strings.Repeat("ab", 31)
	for name, arguments := range map[string][]string{
		"missing file": {"--state-key-file", missing},
		"empty file":   {"--state-key-file", KeyFile(t)},
		"short key":    {"--state-key-file", KeyFile(t, short)},
		"no hex":       {"--state-key-file", KeyFile(t, strings.Repeat("xy", 32))},
	} {
		code, out := runs(t, nil, append([]string{"serve", "--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:1/mcp"}, arguments...)...)
		if code == 0 {
			t.Errorf("%s: holdfast served", name)
		}
		if !strings.Contains(out, "state.key_file") && !strings.Contains(out, "--state-key-file") {
			t.Errorf("%s: the error does not name the setting: %s", name, out)
		}
		if strings.Contains(out, short) {
			t.Errorf("%s: the error repeats the key: %s", name, out)
		}
	}
}
