package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/config"
)

// holdfast runs a command line with some variables.
func holdfast(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, notes bytes.Buffer
	code = run(t.Context(), args, environ, strings.NewReader(""), &out, &notes)
	return code, out.String(), notes.String()
}

func TestWrongCommandLines(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "usage: holdfast COMMAND"},
		{[]string{"sreve"}, `no command "sreve"`},
		{[]string{"help", "sreve"}, `no command "sreve"`},
		{[]string{"help", "serve", "config"}, "one command at a time"},
		{[]string{"serve"}, "upstreams: none; give --upstream URL"},
		{[]string{"serve", "--upstraem", "http://a"}, "-upstraem"},
		{[]string{"serve", "http://a"}, `unexpected argument "http://a"`},
		{[]string{"serve", "--upstream", "a"}, `upstreams[0].url: "a"`},
		{[]string{"config", "--calls.timeout", "5"}, `calls.timeout: "5"`},
		{[]string{"config", "x"}, `unexpected argument "x"`},
		{[]string{"config", "--state.keys", "x"}, "-state.keys"},
		{[]string{"version", "x"}, `unexpected argument "x"`},
		{[]string{"keygen", "-x"}, "-x"},
	} {
		code, stdout, stderr := holdfast(t, nil, test.args...)
		if code != exitMisused || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("holdfast %q: exit code %d, stdout %q, stderr %q; want %d and %q", test.args, code, stdout, stderr, exitMisused, test.want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"help"}, "usage: holdfast COMMAND"},
		{[]string{"--help"}, "usage: holdfast COMMAND"},
		{[]string{"help", "help"}, "usage: holdfast COMMAND"},
		{[]string{"help", "serve"}, "calls.park_ttl"},
		{[]string{"serve", "--help"}, "calls.park_ttl"},
		{[]string{"help", "run"}, "usage: holdfast run"},
		{[]string{"run", "--help"}, "usage: holdfast run"},
		{[]string{"help", "config"}, "usage: holdfast config"},
		{[]string{"config", "-h"}, "usage: holdfast config"},
		{[]string{"help", "version"}, "usage: holdfast version"},
		{[]string{"version", "-h"}, "usage: holdfast version"},
		{[]string{"help", "keygen"}, "usage: holdfast keygen"},
		{[]string{"keygen", "-h"}, "usage: holdfast keygen"},
		{[]string{"help", "call"}, "usage: holdfast call"},
	} {
		code, stdout, stderr := holdfast(t, nil, test.args...)
		if code != exitDone || stderr != "" || !strings.Contains(stdout, test.want) {
			t.Errorf("holdfast %q: exit code %d, stdout %q, stderr %q; want %q", test.args, code, stdout, stderr, test.want)
		}
	}
}

// writeFile writes a configuration file.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestConfigPrintsWhatServeWouldUse(t *testing.T) {
	file := writeFile(t, "listen: :1\nadmin: :2\nupstreams:\n  - {url: 'http://a/mcp', headers: {Authorization: s3cret}}\n  - {command: b, env: {TOKEN: s3cret}, name: b, path: /b}\n")
	key := state.NewKey().Hex()
	code, stdout, stderr := holdfast(t, []string{"HOLDFAST_ADMIN=:3", "HOLDFAST_STATE__KEYS=" + key}, "config", "--config", file, "--calls.park-ttl", "7m")
	if code != exitDone || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{"listen: :1\n", "admin: :3\n", "  park_ttl: 7m\n", "url: http://a/mcp\n", "TOKEN=" + config.Mask, config.Mask} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "s3cret") || strings.Contains(stdout, key) {
		t.Errorf("a secret is in:\n%s", stdout)
	}
}

func TestConfigMarkdown(t *testing.T) {
	if code, stdout, _ := holdfast(t, nil, "config", "--markdown"); code != exitDone || stdout != config.Markdown() {
		t.Errorf("exit code %d, got:\n%s", code, stdout)
	}
}

func TestKeygen(t *testing.T) {
	_, first, _ := holdfast(t, nil, "keygen")
	code, second, _ := holdfast(t, nil, "keygen")
	if code != exitDone || first == second {
		t.Errorf("exit code %d, keys %q and %q", code, first, second)
	}
	key, err := state.ParseKey(strings.TrimSuffix(first, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if hex.EncodeToString(key[:])+"\n" != first {
		t.Errorf("printed %q", first)
	}
}

func TestVersion(t *testing.T) {
	code, stdout, stderr := holdfast(t, nil, "version")
	if want := regexp.MustCompile(`(?m)\Aholdfast .+\n(commit .+\n)?go1\.\S+ \w+/\w+$`); code != exitDone || stderr != "" || !want.MatchString(stdout) {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, stderr, stdout)
	}
}

func TestVersionText(t *testing.T) {
	got := versionText(&debug.BuildInfo{
		GoVersion: "go1.26.8",
		Main:      debug.Module{Version: "v1.2.3"},
		Deps: []*debug.Module{
			{Path: "example.org/other", Version: "v0.0.1"},
			{Path: "github.com/rs/zerolog", Version: "v1.0.0"},
			{Path: "github.com/valyala/fasthttp", Version: "v1.0.0", Replace: &debug.Module{Version: "v1.0.1"}},
		},
		Settings: []debug.BuildSetting{
			{Key: "GOOS", Value: "plan9"}, {Key: "GOARCH", Value: "mips"}, {Key: "vcs.revision", Value: "abc"},
			{Key: "vcs.time", Value: "2026-11-21T00:00:00Z"}, {Key: "vcs.modified", Value: "true"},
		},
	})
	want := "holdfast v1.2.3\ncommit abc 2026-11-21T00:00:00Z (modified)\ngo1.26.8 plan9/mips\n" +
		"github.com/rs/zerolog v1.0.0\ngithub.com/valyala/fasthttp v1.0.1\n"
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, command := range []string{"help", "config", "version", "keygen"} {
		var notes bytes.Buffer
		code := run(context.Background(), []string{command}, nil, strings.NewReader(""), full{}, &notes)
		if code != exitFailed || !strings.Contains(notes.String(), errFull.Error()) {
			t.Errorf("holdfast %s: exit code %d, stderr %q", command, code, notes.String())
		}
	}
}

// full is a disk without room.
type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }
