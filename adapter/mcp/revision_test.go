package mcp

import "testing"

func TestDifferences(t *testing.T) {
	table := Differences()
	if len(table) != int(features) {
		t.Fatalf("%d rows for %d features", len(table), features)
	}
	seen := map[string]bool{}
	for f, d := range table {
		switch {
		case d.What == "" || d.Source == "" || d.Here == "":
			t.Errorf("feature %d: a column is empty: %+v", f, d)
		case d.Since < R20241105 || d.Until > R20260728 || d.Since > d.Until:
			t.Errorf("%s: from %s to %s", d.What, d.Since, d.Until)
		case d.Since == R20241105 && d.Until == R20260728:
			t.Errorf("%s: all revisions have it", d.What)
		case seen[d.What]:
			t.Errorf("%s stands twice", d.What)
		}
		seen[d.What] = true
		for r := R20241105; r <= R20260728; r++ {
			if want := r >= d.Since && r <= d.Until; r.Has(Feature(f)) != want {
				t.Errorf("%s has %s: %v", r, d.What, !want)
			}
		}
	}
}

func TestRevisions(t *testing.T) {
	for r := R20241105; r <= R20260728; r++ {
		if got := ParseRevision(r.String()); got != r {
			t.Errorf("%s is read as %s", r, got)
		}
		if r.Legacy() != LegacyVersion(r.String()) {
			t.Errorf("%s: legacy %v", r, r.Legacy())
		}
	}
	for _, name := range []string{"", "draft", "2025-11-24", "2024-10-07"} {
		if got := ParseRevision(name); got != 0 || got.Legacy() || got.Has(Handshake) {
			t.Errorf("%q is read as %s", name, got)
		}
	}
}
