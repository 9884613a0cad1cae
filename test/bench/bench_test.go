package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-mcp/holdfast/test/bench/proc"
	"github.com/holdfast-mcp/holdfast/test/bench/report"
)

// TestMain lets this program be started as the mock, as the benchmark does
// with itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-role" {
		os.Exit(start())
	}
	goleak.VerifyTestMain(m)
}

func TestOptions(t *testing.T) {
	o, err := parse([]string{"-quick", "-slice", "2s", "-targets", "nginx,direct", "-serve", "--log-level warn"}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if o.rounds != 3 || o.repeats != 1 || o.slice != 2*time.Second {
		t.Errorf("quick with a slice given: got %d rounds, %d repeats, slice %s", o.rounds, o.repeats, o.slice)
	}
	if o.has(holdfast) || !o.has(direct) || !o.does("mrtr") || len(o.serve) != 2 {
		t.Errorf("got %+v", o)
	}
}

func TestOptionsRefuse(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-targets direct,apache", `"apache"`},
		{"-only fast", `"fast"`},
		{"-only parked -targets direct", "-only parked"},
		{"-only hop -targets nginx", "-only hop"},
		{"-only released -targets nginx", "-only released"},
		{"-released 99", "-released: 99"},
		{"-keep -1", "-keep: -1"},
		{"-only dialects -targets nginx", "-only dialects"},
		{"-meeting 0", "-meeting: 0"},
		{"-parked 0", "-parked: 0"},
		{"-concurrency 65", "between 1 and 64"},
		{"-slice -1s", "-slice"},
		{"-get 200", "-get"},
		{"-only stdio -targets direct", "-only stdio"},
		{"-sessions 7", "-sessions: 7"},
		{"-starts 0", "-starts: 0"},
		{"-takes -1s", "-takes"},
		{"more", `"more"`},
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(c.args), &stderr, &stderr); code != 1 || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: got code %d, %s, want 1 and %s", c.args, code, stderr.String(), c.want)
		}
	}
}

func TestFigures(t *testing.T) {
	all := map[string]*series{
		direct:   {p50: []float64{100, 90, 500}, rate: []float64{10}},
		nginx:    {p50: []float64{200, 210, 190}},
		holdfast: {p50: []float64{250}},
	}
	if got := added(all, nginx); got != 100 {
		t.Errorf("nginx adds %v, want 100", got)
	}
	if got := added(all, holdfast) / added(all, nginx); got != 1.5 {
		t.Errorf("ratio of what is added: got %v, want 1.5", got)
	}
	if got := median(all, "nobody", rate); !math.IsNaN(got) {
		t.Errorf("a target that took no turn: got %v, want NaN", got)
	}
}

func TestFloorIsARequestBetweenTwoProcesses(t *testing.T) {
	b := &trial{report: &report.Report{}, progress: io.Discard}
	f, err := b.startFloor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer f.stop()
	for _, size := range []struct{ request, answer int }{{4, 4}, {1000, 200}, {5, 300_000}} {
		f.carry(size.request, size.answer)
		if err := f.do(); err != nil || len(f.request) != size.request || f.answer != size.answer {
			t.Errorf("%d and %d bytes: got %v", size.request, size.answer, err)
		}
	}
	if routes := f.server.NumRoutes(); routes == 0 {
		t.Error("the answer came from the asking node itself")
	}
}

func TestHopFigures(t *testing.T) {
	all := map[string]*series{
		atOwner:   {p50: []float64{200}},
		atOther:   {p50: []float64{340, 320, 900}},
		plainNATS: {p50: []float64{100}},
	}
	if got := hopRatio(all); got != 1.4 {
		t.Errorf("what the hop adds against NATS: got %v, want 1.4", got)
	}
}

func TestRunMeasuresTheServerItself(t *testing.T) {
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	args := []string{"-targets", "direct", "-rounds", "2", "-slice", "50ms", "-concurrency", "2", "-out", dir}
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	for _, want := range []string{"Plain tools/call", "Calls with a question", "not measured", "commit: ", "machine: "} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, stdout.String())
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "bench.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Tables []struct{ Rows [][]string }
		Faults []string
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Tables) != 2 || len(r.Faults) != 0 {
		t.Fatalf("got %d tables, faults %q", len(r.Tables), r.Faults)
	}
	for _, table := range r.Tables {
		if row := table.Rows[0]; row[0] != direct || row[1] == "-" || row[1] == "0" {
			t.Errorf("got row %q", row)
		}
	}
	for _, name := range []string{"bench.md", "plain.svg", "mrtr.svg"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if left, err := proc.Children(os.Getpid()); err != nil || len(left) != 0 {
		t.Errorf("processes left: %v, %v", left, err)
	}
}

// TestServersOverStdioAreMeasuredDirectly: both ways of sharing, against the time
// that their calls take.
func TestServersOverStdioAreMeasuredDirectly(t *testing.T) {
	b := &trial{report: &report.Report{}, progress: io.Discard}
	b.rounds, b.slice = 2, 50*time.Millisecond
	const callers, takes = 4, 5 * time.Millisecond
	for _, mute := range []bool{true, false} {
		s := &pipeScene{}
		defer s.stop()
		if err := b.setDirect(t.Context(), s, ways{callers: callers, takes: takes, mute: mute}); err != nil {
			t.Fatal(err)
		}
		want := callers
		if mute {
			want = 1
		}
		if got, err := s.ways[0].servers(); err != nil || got != want {
			t.Errorf("mute %v: %d servers, %v, want %d", mute, got, err, want)
		}
		if got, err := serversOf(os.Getpid()); err != nil || len(got) != want {
			t.Errorf("mute %v: processes %v, %v, want %d", mute, got, err, want)
		}
		op := client.Echo
		if !mute {
			op = client.Ask
		}
		all, err := b.takeTurns(t.Context(), "calls", s.targets, op)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Duration(median(all, atPipes, p50) * 1000); took < takes {
			t.Errorf("mute %v: calls that take %s took %s", mute, takes, took)
		}
		s.stop()
	}
	if len(b.report.Faults) != 0 {
		t.Errorf("faults: %q", b.report.Faults)
	}
}

func TestFirstAnswerOfTheServerItself(t *testing.T) {
	b := &trial{report: &report.Report{}, progress: io.Discard}
	var f firstAnswers
	if err := b.startDirect(t.Context(), &f); err != nil {
		t.Fatal(err)
	}
	if len(f.direct) != 1 || f.direct[0] <= 0 {
		t.Errorf("got %v", f.direct)
	}
	f = firstAnswers{direct: []float64{10, 30, 20}}
	if got := f.later([]float64{15, 31, 22}); got != 2 {
		t.Errorf("the median of what each came later is %v, want 2", got)
	}
}
