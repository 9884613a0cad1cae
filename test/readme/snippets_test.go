package readme

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/config"
)

// stubs are programs that stand first in the PATH of the snippets. What would
// serve for ever is checked instead: holdfast serve has its flags and settings
// read, and so has holdfast run, to which a setting is given that is wrong, and
// must be all that is; a program of the checkout must be there, and
// TestMakeTargets looks after make. What fails in the background, where the shell
// does not mind, is noted in a file.
var stubs = map[string]string{
	"holdfast": `if [ "$1" = run ]; then
	HOLDFAST_LOG__LEVEL=- "$BINARY" "$@" 2>&1 </dev/null | grep -q '^holdfast run: settings: log.level: "-"' || { echo "$@" >>"$FAILED"; exit 1; }
	exit
fi
[ "$1" != serve ] || { shift; set -- config "$@"; }` + "\n\"$BINARY\" \"$@\" || { echo \"$@\" >>\"$FAILED\"; exit 1; }\n",
	"go":   `case "$1" in run | test) [ -d "$ROOT/$2" ] ;; *) false ;; esac` + "\n",
	"make": "exit 0\n",
}

// TestSnippets runs what the page says, with the curl that is installed, where
// one is, and with one of our own.
func TestSnippets(t *testing.T) {
	at := serve(t)
	p := parsePage(t)
	t.Run("own curl", func(t *testing.T) { runSnippets(t, p, at, os.Args[0]) })
	if installed, err := exec.LookPath("curl"); err == nil {
		t.Run("installed curl", func(t *testing.T) { runSnippets(t, p, at, installed) })
	}
	metrics(t, p, at)
}

func runSnippets(t *testing.T, p page, at addresses, curl string) {
	bin, work := t.TempDir(), t.TempDir()
	for name, script := range stubs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	own, err := filepath.Abs(curl)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(own, filepath.Join(bin, "curl")); err != nil {
		t.Fatal(err)
	}
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range p.kinds("yaml") {
		if name, ok := strings.CutPrefix(strings.SplitN(f.text, "\n", 2)[0], "# "); ok {
			if err := os.WriteFile(filepath.Join(work, name), []byte(f.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	const end, keys = "\x1e", "\x1f" // of an output, and of the key file after it
	script := "set -eu\n"
	for _, f := range p.kinds("sh") {
		script += at.play(f.text) + "\nprintf '\\036'; [ ! -e keys ] || cat keys; printf '\\037'\n"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience) // all of the page's commands, one after the other
	defer cancel()
	failed := filepath.Join(bin, "failed")
	shell := exec.CommandContext(ctx, "sh", "-c", script)
	shell.Dir = work
	shell.Env = append(environment(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "BINARY="+binary, "ROOT="+checkout, "FAILED="+failed)
	var stderr bytes.Buffer
	shell.Stderr = &stderr
	stdout, err := shell.Output()
	outputs := strings.Split(string(stdout), keys)
	if err != nil {
		t.Fatalf("README.md:%d: %v\n%s%s", p.kinds("sh")[len(outputs)-1].line, err, outputs[len(outputs)-1], stderr.String())
	}
	if commands, err := os.ReadFile(failed); err == nil {
		t.Errorf("in the background failed\n%s%s", commands, stderr.String())
	}
	var files []string
	for i := range outputs {
		var file string
		if outputs[i], file, _ = strings.Cut(outputs[i], end); file != "" {
			files = append(files, file)
		}
	}
	rotated(t, slices.Compact(files))
	ran := 0
	for i, f := range p.fences {
		if f.kind == "sh" {
			ran++
		}
		if f.kind == "json" {
			if i == 0 || p.fences[i-1].kind != "sh" {
				t.Fatalf("README.md:%d: no command is before the answer", f.line)
			}
			compare(t, f, outputs[ran-1])
		}
	}
}

// rotated checks what the key file went through: the order that loses no state.
func rotated(t *testing.T, files []string) {
	t.Helper()
	if len(files) != 4 {
		t.Fatalf("the key file had %d states, want 4", len(files))
	}
	before, after := files[0], files[3]
	for _, key := range []string{before, after} {
		if _, err := state.ParseKey(strings.TrimSpace(key)); err != nil {
			t.Errorf("a key file of one key: %v", err)
		}
	}
	if before == after || files[1] != before+after || files[2] != after+before {
		t.Errorf("the key file went through\n%s\nwant old, old and new, new and old, new", strings.Join(files, "\n"))
	}
}

// compare holds what a command printed against what the page shows.
func compare(t *testing.T, f fence, output string) {
	t.Helper()
	var want, got any
	if err := json.Unmarshal([]byte(f.text), &want); err != nil {
		t.Fatalf("README.md:%d: %v", f.line, err)
	}
	if err := json.Unmarshal([]byte(output), &got); err != nil {
		t.Fatalf("README.md:%d: %v in the answer %q", f.line, err, output)
	}
	if !same(want, got) {
		t.Errorf("README.md:%d: the answer is\n%s", f.line, output)
	}
}

// same: a text, or a member's name, that ends with … stands for any that is
// longer; of the name, the part before the last ~ must be the same.
func same(want, got any) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(w) != len(g) {
			return false
		}
		for name := range w {
			value, ok := g[name]
			if start, open := strings.CutSuffix(name, "…"); open {
				start = start[:strings.LastIndexByte(start, '~')+1]
				for other := range g {
					if strings.HasPrefix(other, start) && len(other) > len(name) {
						value, ok = g[other], true
					}
				}
			}
			if !ok || !same(w[name], value) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		return ok && slices.EqualFunc(w, g, same)
	case string:
		g, ok := got.(string)
		start, open := strings.CutSuffix(w, "…")
		return ok && (w == g || open && len(g) > len(start))
	}
	return reflect.DeepEqual(want, got)
}

// metrics: the page explains all of Holdfast's metrics, and no others.
func metrics(t *testing.T, p page, at addresses) {
	var text bytes.Buffer
	if err := curl([]string{"-sS", "http://" + at.admin + "/metrics"}, &text); err != nil {
		t.Fatal(err)
	}
	var served, explained []string
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (holdfast_\w+) `).FindAllStringSubmatch(text.String(), -1) {
		served = append(served, m[1])
	}
	for _, row := range p.rows(t, "## Metrics") {
		explained = append(explained, names(row[0])...)
		for _, label := range names(row[1]) {
			if !strings.Contains(text.String(), label+`="`) {
				t.Errorf("%s: no label %q is served", row[0], label)
			}
		}
	}
	slices.Sort(served)
	slices.Sort(explained)
	if !slices.Equal(served, explained) {
		t.Errorf("/metrics has\n%s\nREADME.md explains\n%s", strings.Join(served, "\n"), strings.Join(explained, "\n"))
	}
	for _, name := range regexp.MustCompile(`\bholdfast_\w+`).FindAllString(p.code(), -1) {
		if !slices.Contains(served, name) {
			t.Errorf("README.md mentions the metric %q, which is not served", name)
		}
	}
}

// TestCommands: the commands and flags that the prose mentions exist. Those of
// the snippets are run.
func TestCommands(t *testing.T) {
	flags := map[string][]string{"config": {"markdown"}}
	serve := flag.NewFlagSet("", flag.ContinueOnError)
	config.AddFlags(serve)
	serve.VisitAll(func(f *flag.Flag) { flags["serve"] = append(flags["serve"], f.Name) })
	flags["config"] = append(flags["config"], flags["serve"]...)
	for _, m := range regexp.MustCompile(`(?m)^  -([a-z-]+)`).FindAllStringSubmatch(help(t, "call"), -1) {
		flags["call"] = append(flags["call"], m[1])
	}
	flags["run"] = slices.Clone(flags["serve"])
	for _, m := range regexp.MustCompile(`--([a-z]+)`).FindAllStringSubmatch(help(t, "run"), -1) {
		flags["run"] = append(flags["run"], m[1])
	}
	all := slices.Concat(flags["config"], flags["call"], flags["run"])
	command := regexp.MustCompile(`^holdfast ([a-z]+)`)
	option := regexp.MustCompile(`(?:^| )--([a-z][a-z.-]*)`)
	for _, span := range parsePage(t).spans() {
		known := all
		if m := command.FindStringSubmatch(span); m != nil {
			help(t, m[1])
			known = flags[m[1]]
		} else if !strings.HasPrefix(span, "--") {
			continue
		}
		for _, m := range option.FindAllStringSubmatch(span, -1) {
			if !slices.Contains(known, m[1]) {
				t.Errorf("README.md mentions %q, but there is no flag --%s", span, m[1])
			}
		}
	}
}

func help(t *testing.T, command string) string {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), binary, "help", command).Output()
	if err != nil {
		t.Errorf("holdfast help %s: %v", command, err)
	}
	return string(text)
}
