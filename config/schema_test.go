package config

import (
	"slices"
	"strings"
	"testing"
)

func TestSchema(t *testing.T) {
	seen := map[string]bool{}
	schema().leaves(func(s *setting) {
		if seen[s.key] {
			t.Errorf("%s is there twice", s.key)
		}
		seen[s.key] = true
		if s.doc == "" || s.name == "" || s.name != strings.ToLower(s.name) {
			t.Errorf("%s: a setting needs a lower-case name and a meaning, has %q and %q", s.key, s.name, s.doc)
		}
		switch s.kind {
		case kindNumber, kindDuration, kindSize:
			if !s.bounded || s.least > s.most {
				t.Errorf("%s has no range", s.key)
			}
		case kindTexts, kindPairs, kindEnv:
			if s.form == nil {
				t.Errorf("%s has no form", s.key)
			}
		}
	})
	if len(seen) < 60 {
		t.Errorf("only %d settings were found", len(seen))
	}
}

func TestDefaultsAreValid(t *testing.T) {
	if err := Defaults().Validate(); err != nil {
		t.Error(err)
	}
	c, u := Defaults(), DefaultUpstream()
	u.URL = "http://127.0.0.1:3001/mcp"
	c.Upstreams = []Upstream{u}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestWordsAreAllowed(t *testing.T) {
	for key, words := range map[string][]string{
		"log.format":              {FormatJSON, FormatConsole},
		"upstreams[].cache.scope": {ScopePrivate, ScopePublic},
		"upstreams[].transport":   {TransportAuto, TransportStreamable, TransportSSE, TransportStdio},
		"upstreams[].dialect":     {DialectMRTR, DialectIncompleteResult, DialectDependentRequests, DialectSaga, DialectResumeToken, DialectResumable},
		"sessions.scope":          {ScopePrincipal, ScopeShared, ScopeCall},
		"sessions.anonymous":      {AnonymousClientInfo, AnonymousShared, AnonymousCall},
		"sessions.eligible":       {EligibleOverflow, EligibleQueue},
	} {
		schema().leaves(func(s *setting) {
			if s.key == key && !slices.Equal(s.words, words) {
				t.Errorf("%s allows %q, the constants are %q", key, s.words, words)
			}
		})
	}
}

func TestTablesHaveEverySetting(t *testing.T) {
	table, usage := Markdown(), Usage()
	rows := strings.Count(table, "\n") - 2
	schema().leaves(func(s *setting) {
		rows--
		if !strings.Contains(table, "| `"+s.key+"` | ") || !strings.Contains(usage, "  "+s.key+"\n") {
			t.Errorf("%s is missing", s.key)
		}
	})
	if rows != 0 {
		t.Errorf("the table has %d rows too many", rows)
	}
	for _, want := range []string{
		"| `calls.park_ttl` | `10m` | 10ms to 168h | how long a parked call waits for its client |",
		"| `sessions.eligible` | `overflow` | overflow, queue |",
		"| `state.keys` | empty | 64 hexadecimal digits, not all zero |",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is missing in:\n%s", want, table)
		}
	}
	for line := range strings.Lines(usage) {
		if len(line) > 100 {
			t.Errorf("a line of %d characters: %q", len(line), line)
		}
	}
}
