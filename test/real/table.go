package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// row is what came of all uses of one subject.
type row struct {
	subject
	uses        int
	differences []string
	masks       []string // names
	uncovered   string   // why it is not covered
	covered     bool     // at least one use is
	failures    int      // uses that ended with an error
}

func (r *row) differs(how string) { r.differences = append(r.differences, how) }

func (r *row) masked(m mask) {
	if !slices.Contains(r.masks, m.name) {
		r.masks = append(r.masks, m.name)
	}
}

// outcome is the row's last column.
func (r *row) outcome() string {
	switch {
	case len(r.differences) > 0:
		return "DIFFERS " + strings.Join(r.differences, "; ")
	case !r.covered:
		return "not covered: " + r.uncovered
	case len(r.masks) > 0:
		return "same, masked: " + strings.Join(r.masks, ", ")
	}
	return "same"
}

// table has a row for every subject, in the order of their first use.
type table struct{ rows []*row }

func (t *table) find(s subject) *row {
	if i := slices.IndexFunc(t.rows, func(r *row) bool { return r.subject == s }); i >= 0 {
		return t.rows[i]
	}
	return nil
}

func (t *table) row(s subject) *row {
	if r := t.find(s); r != nil {
		return r
	}
	r := &row{subject: s}
	t.rows = append(t.rows, r)
	return r
}

// same reports whether nothing differs.
func (t *table) same() bool {
	return !slices.ContainsFunc(t.rows, func(r *row) bool { return len(r.differences) > 0 })
}

// print prints the rows, kind by kind, then why things were masked, then the sums.
func (t *table) print(out io.Writer) {
	var kinds []string
	wide := 0
	for _, r := range t.rows {
		if !slices.Contains(kinds, r.kind) {
			kinds = append(kinds, r.kind)
		}
		wide = max(wide, len(r.name))
	}
	same, differ, uncovered := 0, 0, 0
	_, _ = fmt.Fprintf(out, "%-13s  %-*s  %4s  %s\n", "kind", wide, "name", "uses", "through Holdfast, against the server directly")
	for _, kind := range kinds {
		for _, r := range t.rows {
			if r.kind != kind {
				continue
			}
			_, _ = fmt.Fprintf(out, "%-13s  %-*s  %4d  %s\n", r.kind, wide, r.name, r.uses, r.outcome())
			switch {
			case len(r.differences) > 0:
				differ++
			case !r.covered:
				uncovered++
			default:
				same++
			}
		}
	}
	_, _ = fmt.Fprintln(out)
	explain(out, t.masked())
	_, _ = fmt.Fprintf(out, "\n%d same, %d differ, %d not covered\n", same, differ, uncovered)
}

// masked names the masks that hid something.
func (t *table) masked() []string {
	var names []string
	for _, r := range t.rows {
		names = append(names, r.masks...)
	}
	return names
}

// differences are all of them.
func (t *table) differences() string {
	var texts []string
	for _, r := range t.rows {
		for _, how := range r.differences {
			texts = append(texts, r.name+": "+how)
		}
	}
	return strings.Join(texts, "; ")
}

// explain prints why things were masked.
func explain(out io.Writer, names []string) {
	for _, m := range masks {
		if slices.Contains(names, m.name) {
			_, _ = fmt.Fprintf(out, "masked %q: %s\n", m.name, m.reason)
		}
	}
}

// sum says that all is the same, and of what.
func (t *table) sum() string {
	var called []string
	for _, r := range t.rows {
		if r.kind != "server" {
			called = append(called, r.name+strings.Repeat("*", min(r.failures, 1)))
		}
	}
	text := "same: lists, " + strings.Join(called, ", ")
	masked := slices.Compact(slices.Sorted(slices.Values(t.masked())))
	if len(masked) > 0 {
		text += "; masked: " + strings.Join(masked, ", ")
	}
	return text
}
