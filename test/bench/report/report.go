package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/proc"
)

// Report is what one run found.
type Report struct {
	Commit   string        `json:"commit"`
	Started  time.Time     `json:"started"`
	Took     time.Duration `json:"took_ns"`
	Machine  proc.Machine  `json:"machine"`
	Settings string        `json:"settings"`
	Commands []string      `json:"commands"` // that made the figures, the run's own first
	Files    []File        `json:"files"`    // which those commands were given
	Goals    []Goal        `json:"goals"`
	Tables   []Table       `json:"tables"`
	Charts   []Chart       `json:"-"`
	Faults   []string      `json:"faults"` // what went wrong; figures beside a fault mean little
}

// File is a configuration that a measured program had.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Goal is one figure and what it should be.
type Goal struct {
	What     string  `json:"what"`
	Bound    Bound   `json:"bound"`
	Limit    float64 `json:"limit"`
	Unit     string  `json:"unit"`
	Floor    string  `json:"floor,omitempty"` // what is known to be possible
	Measured Figure  `json:"measured"`
}

// Bound says on which side of its limit a figure should lie.
type Bound string

// The bounds that a goal may have.
const (
	AtLeast Bound = "at least"
	AtMost  Bound = "at most"

	Reported Bound = "reported" // the figure has no limit
)

// Figure is a measured number; NaN, which JSON gets as null, means that it was
// not measured.
type Figure float64

// MarshalJSON writes the number.
func (f Figure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// Mark says whether the goal is reached.
func (g Goal) Mark() string {
	value := float64(g.Measured)
	switch {
	case math.IsNaN(value):
		return "not measured"
	case g.Bound == Reported:
		return ""
	case g.Bound == AtLeast && value >= g.Limit, g.Bound == AtMost && value <= g.Limit:
		return "reached"
	}
	return "MISSED"
}

// limit says what the figure should be.
func (g Goal) limit() string {
	if g.Bound == Reported {
		return string(g.Bound)
	}
	return string(g.Bound) + " " + Number(g.Limit) + g.Unit
}

// Number writes a figure with about three digits that count.
func Number(value float64) string {
	switch size := math.Abs(value); {
	case math.IsNaN(value):
		return "-"
	case size >= 100 || value == math.Trunc(value):
		return fmt.Sprintf("%.0f", value)
	case size >= 10:
		return fmt.Sprintf("%.1f", value)
	}
	return fmt.Sprintf("%.2f", value)
}

// Table is a titled table of figures.
type Table struct {
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Rows  [][]string `json:"rows"`
	Note  string     `json:"note,omitempty"`
}

// goals is the table of the goals.
func (r *Report) goals() Table {
	t := Table{Title: "Goals", Head: []string{"what", "goal", "measured", "", "known floor"}}
	for _, g := range r.Goals {
		t.Rows = append(t.Rows, []string{
			g.What, g.limit(), Number(float64(g.Measured)) + g.Unit, g.Mark(), g.Floor,
		})
	}
	return t
}

// tables are all tables, that of the goals first.
func (r *Report) tables() []Table {
	if len(r.Goals) == 0 {
		return r.Tables
	}
	return append([]Table{r.goals()}, r.Tables...)
}

// facts are the lines that say where the figures come from.
func (r *Report) facts() []string {
	m := r.Machine
	return []string{
		"commit: " + r.Commit,
		fmt.Sprintf("machine: %s, %d cores, kernel %s, %s, load before the run %s", m.CPU, m.Cores, m.Kernel, m.Go, m.Load),
		fmt.Sprintf("run: %s, took %s", r.Started.UTC().Format("2006-01-02 15:04 UTC"), r.Took.Round(100*time.Millisecond)),
		"settings: " + r.Settings,
	}
}

// Text writes the report for a terminal.
func (r *Report) Text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, t := range r.tables() {
		fmt.Fprintf(w, "\n%s\n", t.Title)
		for _, row := range append([][]string{t.Head}, t.Rows...) {
			fmt.Fprintf(w, "  %s\n", strings.Join(row, "\t"))
		}
		if t.Note != "" {
			fmt.Fprintf(w, "  (%s)\n", t.Note)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	for _, fact := range r.facts() {
		fmt.Fprintln(w, fact)
	}
	for _, command := range r.Commands {
		fmt.Fprintln(w, "command: "+command)
	}
	for _, fault := range r.Faults {
		fmt.Fprintln(w, "FAULT: "+fault)
	}
	return w.Flush()
}

// markdown returns the report as Markdown.
func (r *Report) markdown() string {
	var b strings.Builder
	b.WriteString("# Benchmark\n\n")
	for _, fact := range r.facts() {
		b.WriteString("- " + fact + "\n")
	}
	for _, fault := range r.Faults {
		b.WriteString("- **fault:** " + fault + "\n")
	}
	for _, t := range r.tables() {
		fmt.Fprintf(&b, "\n## %s\n\n| %s |\n|%s\n", t.Title, strings.Join(t.Head, " | "), strings.Repeat(" --- |", len(t.Head)))
		for _, row := range t.Rows {
			b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		}
		if t.Note != "" {
			b.WriteString("\n" + t.Note + "\n")
		}
	}
	for _, c := range r.Charts {
		fmt.Fprintf(&b, "\n![%s](%s)\n", c.Title, c.File)
	}
	b.WriteString("\n## Commands\n\n```sh\n" + strings.Join(r.Commands, "\n") + "\n```\n")
	for _, f := range r.Files {
		fmt.Fprintf(&b, "\n`%s`:\n\n```\n%s```\n", f.Name, f.Text)
	}
	return b.String()
}

// Write writes bench.md, bench.json and the charts into dir, which it makes.
func (r *Report) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	files := []File{{"bench.json", string(text) + "\n"}, {"bench.md", r.markdown()}}
	for _, c := range r.Charts {
		files = append(files, File{c.File, c.SVG()})
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), []byte(f.Text), 0o644); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	return nil
}
