package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
	"github.com/holdfast-mcp/holdfast/test/bench/report"
)

// trial is one run of the benchmark.
type trial struct {
	options
	root     string // of the checkout
	temp     string // folder that goes when the run ends
	report   *report.Report
	progress io.Writer
}

// parts are what is to be measured, in order.
func (b *trial) parts() []func(context.Context) error {
	var parts []func(context.Context) error
	if b.only == "profile" {
		return append(parts, b.profile)
	}
	if b.does("plain") {
		parts = append(parts, b.plain)
	}
	if b.does("mrtr") {
		parts = append(parts, b.mrtr)
	}
	if b.does("parked") && b.has(holdfast) {
		parts = append(parts, b.parkMany, b.callBeside)
	}
	if b.does("released") && b.has(holdfast) {
		parts = append(parts, b.letGo)
	}
	if b.does("dialects") && b.has(holdfast) {
		parts = append(parts, b.dialects)
	}
	if b.does("hop") && b.has(holdfast) {
		parts = append(parts, b.hop)
	}
	if b.does("replicas") && b.has(holdfast) {
		parts = append(parts, b.several)
	}
	if b.does("stdio") && b.has(holdfast) {
		parts = append(parts, b.stdio)
	}
	return parts
}

// say tells what is going on.
func (b *trial) say(format string, args ...any) { fmt.Fprintf(b.progress, format+"\n", args...) }

// command notes a command that made the figures.
func (b *trial) command(line string) {
	if !slices.Contains(b.report.Commands, line) {
		b.report.Commands = append(b.report.Commands, line)
	}
}

// file notes a configuration; the last one of a name counts, since only ports
// differ.
func (b *trial) file(f report.File) {
	b.report.Files = slices.DeleteFunc(b.report.Files, func(o report.File) bool { return o.Name == f.Name })
	b.report.Files = append(b.report.Files, f)
}

// fault notes calls that did not end as they should.
func (b *trial) fault(what string, r load.Result) {
	if r.Errors > 0 {
		b.report.Faults = append(b.report.Faults, fmt.Sprintf("%s: %d calls failed, %d ended well; one of the errors: %v", what, r.Errors, r.Calls, r.First))
	}
}

// goal notes a figure that has a goal.
func (b *trial) goal(what string, bound report.Bound, limit float64, unit string, measured float64, floor string) {
	b.report.Goals = append(b.report.Goals, report.Goal{
		What: what, Bound: bound, Limit: limit, Unit: unit, Measured: report.Figure(measured), Floor: floor,
	})
}

// figure notes a figure that has no goal, beside what it is compared with.
func (b *trial) figure(what, unit string, measured float64, floor string) {
	b.goal(what, report.Reported, 0, unit, measured, floor)
}
