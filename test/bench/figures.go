package main

import (
	"fmt"
	"math"

	"github.com/holdfast-mcp/holdfast/test/bench/report"
	"github.com/holdfast-mcp/holdfast/test/bench/stat"
)

// median is the median of a target's figures over its turns, or NaN where the
// target took none.
func median(all map[string]*series, name string, of func(*series) []float64) float64 {
	s := all[name]
	if s == nil {
		return math.NaN()
	}
	return stat.Median(of(s))
}

// What a series can be asked for.
func rate(s *series) []float64 { return s.rate }
func p50(s *series) []float64  { return s.p50 }
func p99(s *series) []float64  { return s.p99 }
func cpu(s *series) []float64  { return s.cpu }

func written(s *series) []float64 { return s.written }

// added is by how much a target's median latency exceeds that of the direct way.
func added(all map[string]*series, name string) float64 {
	return median(all, name, p50) - median(all, direct, p50)
}

// table puts the medians of all targets beside each other.
func (b *trial) table(title, unit string, perCall float64, targets []*target, all map[string]*series) {
	t := report.Table{
		Title: title,
		Head:  []string{"target", unit + "/s", "against nginx", "p50 us", "added p50 us", "p99 us", "proxy CPU us per call", "calls", "failed"},
		Note:  "medians over the slices",
	}
	for _, target := range targets {
		name, s := target.name, all[target.name]
		t.Rows = append(t.Rows, []string{
			name,
			report.Number(perCall * median(all, name, rate)),
			report.Number(median(all, name, rate) / median(all, nginx, rate)),
			report.Number(median(all, name, p50)),
			report.Number(added(all, name)),
			report.Number(median(all, name, p99)),
			report.Number(median(all, name, cpu)),
			fmt.Sprint(s.sum.Calls),
			fmt.Sprint(s.sum.Errors),
		})
	}
	b.report.Tables = append(b.report.Tables, t)
}

// distribution draws how many of the calls took at most how long.
func (b *trial) distribution(file, title string, targets []*target, all map[string]*series) {
	c := report.Chart{File: file, Title: title, X: "latency in us (logarithmic)", Y: "calls that took at most as long, %", LogX: true}
	for _, target := range targets {
		s := all[target.name]
		if len(s.latencies) == 0 {
			continue
		}
		line := report.Line{Name: target.name}
		for permille := 1; permille <= 999; permille += 2 {
			q := float64(permille) / 1000
			line.Points = append(line.Points, stat.Point{X: micros(stat.Quantile(s.latencies, q)), Y: 100 * q})
		}
		c.Lines = append(c.Lines, line)
	}
	b.report.Charts = append(b.report.Charts, c)
}
