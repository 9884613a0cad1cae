package main

import (
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

// both is a step whose sides got a result, the modern one dressed as such.
func both(t *testing.T, p *pair, s step, direct, through string) played {
	t.Helper()
	method := s.name
	if s.kind != "server" {
		method = "tools/call"
	} else {
		through = `"ttlMs":0,"cacheScope":"private",` + through
	}
	return played{
		pair: p, step: s,
		direct: side{outcomes: []peer.Outcome{{Method: method, Result: decoded(t, "{"+direct+"}")}}},
		modern: side{outcomes: []peer.Outcome{{Method: method, Result: decoded(t, modern(through))}}},
	}
}

func TestJudge(t *testing.T) {
	tools := step{subject: subject{"server", "tools/list"}}
	use := step{subject: subject{"tool", "a"}}
	first, tasks := &pair{name: mainPair}, &pair{name: tasksPair, directly: true}
	const a, b = `{"name":"a"}`, `{"name":"b"}`
	uncovered := use
	uncovered.uncovered = "no reason"
	for name, c := range map[string]struct {
		all  []played
		row  subject
		want string
	}{
		"used and the same":     {[]played{both(t, first, tools, `"tools":[`+a+`]`, `"tools":[`+a+`]`), both(t, first, use, `"n":1`, `"n":1`)}, use.subject, "same"},
		"offered and not used":  {[]played{both(t, first, tools, `"tools":[`+a+`]`, `"tools":[`+a+`]`)}, use.subject, "DIFFERS the server offers it, and the plan does not use it"},
		"not listed":            {[]played{both(t, first, tools, `"tools":[`+a+`]`, `"tools":[]`), both(t, first, use, `"n":1`, `"n":1`)}, use.subject, "DIFFERS not listed through Holdfast"},
		"listed too much":       {[]played{both(t, first, tools, `"tools":[]`, `"tools":[`+a+`]`)}, use.subject, "DIFFERS listed through Holdfast only"},
		"listed differently":    {[]played{both(t, first, tools, `"tools":[{"name":"a","title":"A"}]`, `"tools":[`+a+`]`), both(t, first, use, `"n":1`, `"n":1`)}, use.subject, "DIFFERS listed.title"},
		"not covered":           {[]played{both(t, first, uncovered, `"isError":true`, `"isError":true`)}, use.subject, "not covered: no reason"},
		"not covered, no error": {[]played{both(t, first, uncovered, `"n":1`, `"n":1`)}, use.subject, "DIFFERS a call without a task ends without an error"},
		"unknown further tool": {
			[]played{both(t, first, use, `"n":1`, `"n":1`), both(t, tasks, tools, `"tools":[`+a+`,`+b+`]`, ``+`"tools":[]`)},
			subject{"tool", "b"}, "DIFFERS offered to a client with legacy tasks only",
		},
	} {
		t.Run(name, func(t *testing.T) {
			table := judge(c.all)
			r := table.find(c.row)
			if r == nil {
				t.Fatalf("no row for %v", c.row)
			}
			if got := r.outcome(); !strings.HasPrefix(got, c.want) {
				t.Errorf("outcome: got %q, want %q", got, c.want)
			}
			if want := !strings.HasPrefix(c.want, "DIFFERS"); table.same() != want {
				t.Errorf("same: got %v, want %v", table.same(), want)
			}
			var out strings.Builder
			table.print(&out)
			if !strings.Contains(out.String(), c.row.name) || !strings.Contains(out.String(), " same, ") {
				t.Errorf("printed is %q, want the row and the sums", out.String())
			}
		})
	}
}

func TestMaskReasonsArePrinted(t *testing.T) {
	s := step{subject: subject{"tool", "a"}, masks: []mask{timeOfDay}}
	table := judge([]played{both(t, &pair{}, s, `"text":"created at 1:02:03 PM"`, `"text":"created at 2:02:03 PM"`)})
	var out strings.Builder
	table.print(&out)
	if !strings.Contains(out.String(), timeOfDay.reason) || strings.Contains(out.String(), sessionID.reason) {
		t.Errorf("printed is %q, want the reason of the mask that was used, and no other", out.String())
	}
}
