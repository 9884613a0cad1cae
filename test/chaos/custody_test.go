package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// Which sessions may be left when all replicas have stopped, and why.
func TestCustody(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	during := func(from, to int) span { return span{at(from), at(to)} }
	for name, tt := range map[string]struct {
		custody *custody
		keepers []string
		last    int
		want    string
	}{
		"nothing happened":                      {keepers: []string{"0-01"}},
		"its only keeper was killed":            {keepers: []string{"1-01"}, custody: &custody{killed: map[string]time.Time{"1-01": at(50)}}, want: byKill},
		"who opened it was killed":              {keepers: []string{"1-01", "0-01"}, custody: &custody{killed: map[string]time.Time{"1-01": at(50)}}, want: byKill},
		"another was killed":                    {keepers: []string{"0-01"}, custody: &custody{killed: map[string]time.Time{"1-01": at(50)}}},
		"its keeper stopped":                    {keepers: []string{"1-01"}, custody: &custody{drained: map[string]span{"1-01": during(50, 51)}}},
		"its keeper stopped after a kill":       {keepers: []string{"1-01"}, custody: &custody{drained: map[string]span{"1-01": during(50, 51)}, killed: map[string]time.Time{"2-01": at(45)}}, want: byDrain},
		"its keeper stopped long after a kill":  {keepers: []string{"1-01"}, custody: &custody{drained: map[string]span{"1-01": during(50, 51)}, killed: map[string]time.Time{"2-01": at(30)}}},
		"its keeper stopped, another cut off":   {keepers: []string{"1-01"}, custody: &custody{drained: map[string]span{"1-01": during(50, 51)}, silent: []span{during(40, 60)}}, want: byDrain},
		"its keeper stopped, long healed":       {keepers: []string{"1-01"}, custody: &custody{drained: map[string]span{"1-01": during(50, 51)}, silent: []span{during(30, 40)}}},
		"a keeper before stopped, and its next": {keepers: []string{"1-01", "0-01"}, custody: &custody{drained: map[string]span{"1-01": during(50, 51)}, silent: []span{during(40, 60)}}},
		"the server not reached at its end":     {keepers: []string{"0-01"}, last: 50, custody: &custody{severed: []span{during(49, 50)}}, want: byBreak},
		"the server not reached at other times": {keepers: []string{"0-01"}, last: 50, custody: &custody{severed: []span{during(40, 41)}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.custody == nil {
				tt.custody = newCustody()
			}
			s := &session{id: "session1", keepers: tt.keepers, last: at(tt.last), get: newStream("get", false, superseded)}
			server := &Server{sessions: map[string]*session{s.id: s}}
			tally := NewTally(new(bytes.Buffer))
			broken := server.leftSessions(tt.custody, nil, tally)
			switch {
			case tt.want == "" && (len(broken) != 1 || !strings.Contains(broken[0], s.id)):
				t.Errorf("it may be left: %q, %v", broken, tally.left)
			case tt.want != "" && (len(broken) != 0 || tally.left[tt.want] != 1):
				t.Errorf("broken: %q, because of %v, want that it may be left because it was %s", broken, tally.left, tt.want)
			}
			s.get.connect(false)
			if held := server.Held(); !slices.Contains(held, s) || len(server.leftSessions(tt.custody, held, tally)) != 1 {
				t.Error("it may be left although a replica had it until it stopped")
			}
		})
	}
}
