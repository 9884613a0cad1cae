package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestCallsOfEveryDialect(t *testing.T) {
	of := map[Dialect]int{}
	for i := range 120 {
		p := PlanOf(7, i, modeCluster)
		of[p.Dialect]++
		for _, step := range p.Script.Steps {
			for _, kind := range step.Asks {
				if p.Dialect == ResumeToken || kind == Roots && (p.Dialect == Saga || p.Bare) {
					t.Errorf("a call of %s is asked for %s", p.Dialect, kind)
				}
			}
		}
		if stdio := PlanOf(7, i, modeStdio); stdio.Dialect != MRTR {
			t.Errorf("a call of %s over stdio", stdio.Dialect)
		}
	}
	for _, d := range Dialects {
		want := 10
		if d == MRTR {
			want = 60
		}
		if of[d] != want {
			t.Errorf("%d of 120 calls are of %s, want %d", of[d], d, want)
		}
	}
}

// TestTerms: a call that was promised, and one whose loss was not told as it has to
// be, break the run; others do not.
func TestTerms(t *testing.T) {
	lost := func(d Dialect, tool Tool, reason string) Ended {
		return Ended{End: Lost, State: true, Task: true, Dialect: d, Tool: tool, Key: "k", Reason: reason, MayRun: true}
	}
	silent := lost(MRTR, Unsafe, "call_lost")
	silent.MayRun = false
	asked := lost(Tasks, ReadOnly, "call_lost")
	asked.Task = false
	for _, test := range []struct {
		end  Ended
		want string
	}{
		{lost(MRTR, Unsafe, "call_lost"), ""},
		{lost(Following, Unsafe, "upstream_lost"), ""},
		{lost(Tasks, Idempotent, "call_lost"), ""},
		{lost(Tasks, Unsafe, "shutdown"), "without being told"},
		{lost(Tasks, Resumable, "call_lost"), "was lost"},
		{lost(Following, ReadOnly, "call_lost"), "was lost"},
		{lost(Saga, Resumable, "call_lost"), "was lost"},
		{lost(MRTR, Unsafe, "shutdown"), "without being told"},
		{lost(Tasks, Unsafe, "call_timeout"), "without being told"},
		{silent, "without being told"},
		{asked, "was lost"}, // its client has a request state, and no task yet
	} {
		l := &Load{server: &Server{Ledger: NewLedger()}, tally: NewTally(new(bytes.Buffer))}
		l.judge(&test.end)
		got := strings.Join(l.server.Ledger.Broken(), "\n")
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s of %s, %s: %q, want %q", test.end.Tool, test.end.Dialect, test.end.Reason, got, test.want)
		}
	}
}

// TestForms reads what each dialect says of a call that goes on, and of its end.
func TestForms(t *testing.T) {
	state := strings.Repeat("s", 96)
	for _, test := range []struct {
		dialect    Dialect
		text, want string // Reply.String, then the state
	}{
		{MRTR, `{"resultType":"complete","content":[{"type":"text","text":"x"}]}`, "result: x "},
		{MRTR, `{"content":[{"type":"text","text":"x"}]}`, `broken: result {"content":[{"type":"text","text":"x"}]} in mrtr `},
		{MRTR, `{"resultType":"input_required","requestState":"S","inputRequests":{"k":{"method":"roots/list","params":{}}}}`, "asked: [{k roots/list {}}] S"},
		{IncompleteResult, `{"requestState":"S"}`, "asked: [] S"},
		{IncompleteResult, `{"resultType":"complete","content":[{"type":"text","text":"x"}]}`, `broken: result {"resultType":"complete","content":[{"type":"text","text":"x"}]} in incomplete-result `},
		{DependentRequests, `{"k~` + state + `":{"method":"roots/list","params":{}}}`, "asked: [{k roots/list {}}] k~" + state},
		{DependentRequests, `{"wait~` + state + `":{"method":"ping","params":{}}}`, "asked: [] wait~" + state},
		{DependentRequests, `{"k":{"method":"roots/list","params":{}}}`, "broken: dependent_requests without a state: [{k roots/list {}}] "},
		{Saga, `{"state":"suspended","sagaToken":"S","steps":[{"type":"sampling","stepId":"k","params":{}}]}`, "asked: [{k sampling/createMessage {}}] S"},
		{ResumeToken, `{"content":[],"nextResumeToken":"S"}`, "asked: [] S"},
		{ResumeToken, `{"content":[{"type":"text","text":"x"}],"nextResumeToken":"S"}`, `broken: a payload beside a token: {"content":[{"type":"text","text":"x"}],"nextResumeToken":"S"} S`},
		{Following, `{"status":"working","pendingMessages":0,"maxWait":10}`, "status: working "},
		{Tasks, `{"resultType":"complete"}`, "result: acknowledged "},
		{Tasks, `{"resultType":"task","taskId":"12345678","status":"working"}`, "task 12345678 is working "},
	} {
		r := new(Reply)
		if test.dialect == DependentRequests {
			var requests map[string]asked
			if err := json.Unmarshal([]byte(test.text), &requests); err != nil {
				t.Fatal(err)
			}
			r.dependent(requests)
		} else {
			r.result(test.dialect, json.RawMessage(test.text))
		}
		if got := r.String() + " " + r.State; got != test.want {
			t.Errorf("%s of %s\nis   %q\nwant %q", test.text, test.dialect, got, test.want)
		}
	}
}

// TestOutcomeMayBeForgotten only with the replicas that had it.
func TestOutcomeMayBeForgotten(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		name   string
		killed []time.Duration // after it was told
		want   bool
	}{
		{"no death", nil, false},
		{"a death before", []time.Duration{-3 * copied}, false},
		{"before there was a copy", []time.Duration{copied / 2}, true},
		{"its own replica", []time.Duration{2 * copied}, false},
		{"and that of the copy", []time.Duration{2 * copied, 3 * copied}, true},
	} {
		tally := NewTally(new(bytes.Buffer))
		for _, after := range test.killed {
			tally.killed = append(tally.killed, now.Add(after))
		}
		if got := tally.outlived(now); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestStrangers: they are there from when one was started while another was cut off,
// or just before, until that was healed, and some.
func TestStrangers(t *testing.T) {
	for name, first := range map[string]func(*strangers){
		"started before": func(s *strangers) { s.start(); s.cutOff(2) },
		"started after":  func(s *strangers) { s.cutOff(2); s.start() },
	} {
		tally := NewTally(new(bytes.Buffer))
		s, now := &tally.strangers, time.Now()
		s.cutOff(1)
		s.heal(1)
		if s.since(now) {
			t.Errorf("%s: there are strangers although none was started", name)
		}
		first(s)
		if !s.since(now) {
			t.Errorf("%s: there are no strangers", name)
		}
		s.heal(2)
		if !s.since(now) || s.since(now.Add(3*met)) {
			t.Errorf("%s: they are there for too short, or too long", name)
		}
	}
}
