package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/bench/proc"
)

// TestReleasedCallsComeBack: the part of the benchmark that measures released calls,
// with few of them.
func TestReleasedCallsComeBack(t *testing.T) {
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	args := []string{"-only", "released", "-released", "500", "-out", dir}
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s%s", code, stderr.String(), stdout.String())
	}
	text, err := os.ReadFile(filepath.Join(dir, "bench.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Goals []struct {
			What     string
			Measured *float64
		}
		Faults []string
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Faults) != 0 {
		t.Errorf("faults: %q", r.Faults)
	}
	sure := map[string]bool{"open streams at the server": false, "lost, of 250 resumed": false, "not told of at the end, of 250": false}
	for _, g := range r.Goals {
		_, what, _ := strings.Cut(g.What, ": ")
		if g.Measured == nil {
			t.Errorf("%s: not measured", what)
			continue
		}
		if _, ok := sure[what]; ok {
			if sure[what] = true; *g.Measured != 0 {
				t.Errorf("%s: %v", what, *g.Measured)
			}
		}
	}
	for what, seen := range sure {
		if !seen {
			t.Errorf("not reported: %s", what)
		}
	}
	if left, err := proc.Children(os.Getpid()); err != nil || len(left) != 0 {
		t.Errorf("processes left: %v, %v", left, err)
	}
}
