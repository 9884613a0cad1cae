package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseRequirements(t *testing.T) {
	got, err := parseRequirements([]byte(`
server: [one, two]
client: [three]
not_scored:
  - {scenario: four, leg: client, reason: extension}
  - {scenario: five, leg: server, reason: pending}
`))
	if err != nil || !slices.Equal(got.required, []string{"one", "two"}) || !slices.Equal(got.notScored, []string{"five"}) {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range []string{"", "server: {}", "sever: [one]"} {
		if got, err := parseRequirements([]byte(bad)); err == nil {
			t.Errorf("%q: %+v, want an error", bad, got)
		}
	}
}

func TestReadOutcomes(t *testing.T) {
	results := t.TempDir()
	write := func(folder, checks string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(results, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		if checks != "" {
			if err := os.WriteFile(filepath.Join(results, folder, "checks.json"), []byte(checks), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("server-json-schema-2020-12-2026-11-21T09-47-20-410Z", `[{"id":"a","status":"SUCCESS"}]`)
	write("server-broke-off-2026-11-21T09-47-20-410Z", "")
	write("something-else", "")
	got, err := readOutcomes(results, requirements{required: []string{"broke-off"}})
	if err != nil {
		t.Fatal(err)
	}
	if !got["json-schema-2020-12"].passed() {
		t.Errorf("json-schema-2020-12: %+v", got["json-schema-2020-12"])
	}
	if o := got["broke-off"]; o.ran || o.passed() {
		t.Errorf("broke-off: %+v, want one that did not run", o)
	}
	write("server-bad-2026-11-21T09-47-20-410Z", `{`)
	if _, err := readOutcomes(results, requirements{}); err == nil || !strings.Contains(err.Error(), "server-bad") {
		t.Errorf("a broken record: %v, want an error that names it", err)
	}
}

func ended(statuses ...string) outcome {
	o := outcome{ran: true}
	for _, status := range statuses {
		o.checks = append(o.checks, check{ID: "some-id", Status: status, Message: "some message"})
	}
	return o
}

func TestReport(t *testing.T) {
	for _, test := range []struct {
		name     string
		required outcome
		extra    outcome
		unscored outcome
		reason   bool
		want     bool
		says     string
	}{
		{"all pass", ended("SUCCESS", "SKIPPED", "INFO"), ended("SUCCESS"), ended("SUCCESS"), false, true, "1 of 1 required, 3 of 3 extra"},
		{"a required one fails", ended("SUCCESS", "FAILURE"), ended("SUCCESS"), ended("SUCCESS"), false, false, "FAILURE some-id"},
		{"a required one warns", ended("SUCCESS", "WARNING"), ended("SUCCESS"), ended("SUCCESS"), false, false, "WARNING some-id"},
		{"a required one checks nothing", ended("SKIPPED"), ended("SUCCESS"), ended("SUCCESS"), false, false, "0 of 1 required"},
		{"a required one does not run", outcome{}, ended("SUCCESS"), ended("SUCCESS"), false, false, "DID NOT RUN"},
		{"an extra fails", ended("SUCCESS"), ended("FAILURE"), ended("SUCCESS"), false, false, "0 of 3 extra"},
		{"another fails", ended("SUCCESS"), ended("SUCCESS"), ended("FAILURE"), false, false, "NO REASON IS KNOWN"},
		{"another is skipped with a reason", ended("SUCCESS"), ended("SUCCESS"), ended("SKIPPED"), true, true, "tasks-status-notifications: " + unheard},
		{"another is skipped without", ended("SUCCESS"), ended("SUCCESS"), ended("SKIPPED"), false, false, "NO REASON IS KNOWN"},
		{"one with a reason fails", ended("SUCCESS"), ended("SUCCESS"), ended("FAILURE"), true, false, "NO REASON IS KNOWN"},
		{"one with a reason passes", ended("SUCCESS"), ended("SUCCESS"), ended("SUCCESS"), true, false, "STALE"},
	} {
		t.Run(test.name, func(t *testing.T) {
			unscored := "tasks-unheard-of"
			if test.reason {
				unscored = "tasks-status-notifications"
			}
			outcomes := map[string]outcome{"needed": test.required, unscored: test.unscored}
			for _, extra := range extras {
				outcomes[extra] = test.extra
			}
			var out strings.Builder
			got := report(&out, requirements{required: []string{"needed"}, notScored: append([]string{unscored}, extras...)}, outcomes)
			if got != test.want || !strings.Contains(out.String(), test.says) {
				t.Errorf("passed %v, want %v with %q:\n%s", got, test.want, test.says, &out)
			}
		})
	}
}
