package report_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/bench/report"
	"github.com/holdfast-mcp/holdfast/test/bench/stat"
)

func TestMark(t *testing.T) {
	for _, c := range []struct {
		bound           report.Bound
		limit, measured float64
		want            string
	}{
		{report.AtLeast, 0.8, 0.8, "reached"},
		{report.AtLeast, 0.8, 0.79, "MISSED"},
		{report.AtMost, 8, 7.9, "reached"},
		{report.AtMost, 8, 8.1, "MISSED"},
		{report.AtMost, 0, 0, "reached"},
		{report.AtMost, 8, math.NaN(), "not measured"},
		{report.Reported, 0, 5, ""},
	} {
		g := report.Goal{Bound: c.bound, Limit: c.limit, Measured: report.Figure(c.measured)}
		if got := g.Mark(); got != c.want {
			t.Errorf("%s %v, measured %v: got %s, want %s", c.bound, c.limit, c.measured, got, c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 0.456: "0.46", 7.849: "7.85", 13.52: "13.5", 15000.4: "15000", 3: "3"} {
		if got := report.Number(value); got != want {
			t.Errorf("%v: got %s, want %s", value, got, want)
		}
	}
}

func TestWrite(t *testing.T) {
	r := report.Report{
		Commit:   "abc",
		Commands: []string{"go run ./test/bench"},
		Files:    []report.File{{Name: "nginx.conf", Text: "daemon off;\n"}},
		Goals: []report.Goal{
			{What: "throughput", Bound: report.AtLeast, Limit: 0.8, Unit: "x", Measured: 0.9},
			{What: "memory", Bound: report.AtMost, Limit: 8, Unit: " KiB", Measured: report.Figure(math.NaN())},
			{What: "latency", Bound: report.Reported, Unit: " us", Measured: 120, Floor: "11 us"},
		},
		Charts: []report.Chart{
			{File: "a.svg", Title: "a < b", LogX: true, Lines: []report.Line{{Name: "x & y", Points: []stat.Point{{X: 20, Y: 1}, {X: 9000, Y: 99}}}}},
			{File: "empty.svg", Title: "empty"},
		},
	}
	dir := filepath.Join(t.TempDir(), "out")
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := read("bench.json"); !json.Valid([]byte(got)) || !strings.Contains(got, `"measured": null`) {
		t.Errorf("bench.json: %s", got)
	}
	markdown := read("bench.md")
	for _, want := range []string{"| throughput | at least 0.80x | 0.90x | reached |", "| memory | at most 8 KiB |", "not measured", "| latency | reported | 120 us |  | 11 us |", "![a < b](a.svg)", "daemon off;"} {
		if !strings.Contains(markdown, want) {
			t.Errorf("bench.md lacks %q:\n%s", want, markdown)
		}
	}
	for _, name := range []string{"a.svg", "empty.svg"} {
		text := read(name)
		wellFormed(t, name, text)
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%s has places that are none:\n%s", name, text)
		}
	}
	var out strings.Builder
	if err := r.Text(&out); err != nil || !strings.Contains(out.String(), "reached") || !strings.Contains(out.String(), "commit: abc") {
		t.Errorf("text: %v\n%s", err, out.String())
	}
}

func wellFormed(t *testing.T, name, text string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}
