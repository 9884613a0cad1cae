package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// report prints the table, the failing checks and the counts; it tells whether
// everything that has to pass did, and everything else has a reason.
func report(out io.Writer, wanted requirements, outcomes map[string]outcome) bool {
	mandatory := slices.Concat(wanted.required, extras)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SCENARIO\tRESULT\tPASSED\tFAILED\tWARNED\tSKIPPED")
	for _, scenario := range slices.Concat(mandatory, wanted.tasks()) {
		o := outcomes[scenario]
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\n", scenario, verdict(o),
			o.count("SUCCESS"), o.count("FAILURE"), o.count("WARNING"), o.count("SKIPPED"))
	}
	_ = table.Flush() // out is a terminal or a buffer

	for _, scenario := range mandatory {
		explain(out, scenario, outcomes[scenario])
	}

	fmt.Fprintln(out, "\nNot required and not passed:")
	explained := true
	for _, scenario := range wanted.notScored {
		o := outcomes[scenario]
		reason, known := skips[scenario]
		switch {
		case slices.Contains(extras, scenario):
		case known && o.skipped():
			fmt.Fprintf(out, "  %s: %s\n", scenario, reason)
		case known && o.passed():
			explained = false
			fmt.Fprintf(out, "  %s: STALE: it passes, and has a reason not to: this counts as a failure\n", scenario)
		case !o.passed():
			explained = false
			fmt.Fprintf(out, "  %s: NO REASON IS KNOWN: this counts as a failure\n", scenario)
			explain(out, scenario, o)
		}
	}

	required := count(wanted.required, outcomes)
	extra := count(extras, outcomes)
	fmt.Fprintf(out, "\n%d of %d required, %d of %d extra, %d of %d of tasks\n", required, len(wanted.required), extra, len(extras),
		count(wanted.tasks(), outcomes), len(wanted.tasks()))
	return explained && required == len(wanted.required) && extra == len(extras)
}

func verdict(o outcome) string {
	switch {
	case o.passed():
		return "pass"
	case !o.ran:
		return "DID NOT RUN"
	case o.skipped():
		return "skip"
	case o.count("FAILURE") == 0 && o.count("WARNING") > 0:
		return "WARN"
	default:
		return "FAIL"
	}
}

// explain prints the checks for which a scenario did not pass.
func explain(out io.Writer, scenario string, o outcome) {
	if o.passed() {
		return
	}
	fmt.Fprintf(out, "\n%s: %s\n", scenario, verdict(o))
	for _, c := range o.checks {
		if c.Status == "FAILURE" || c.Status == "WARNING" {
			fmt.Fprintf(out, "  %s %s (%s)\n    %s\n", c.Status, c.ID, c.Name, c.Message)
		}
	}
}

func count(scenarios []string, outcomes map[string]outcome) (n int) {
	for _, scenario := range scenarios {
		if outcomes[scenario].passed() {
			n++
		}
	}
	return n
}
