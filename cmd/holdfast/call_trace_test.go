package main

import (
	"strings"
	"testing"
)

func TestTraceShortensStateAndKeepsTheRest(t *testing.T) {
	state := strings.Repeat("s", 300)
	got, err := readable([]byte(`{"requestState":"` + state + `","a":{"requestState":"short","n":1.0e2},"requestStates":["` + state + `"],"t":"` +
		strings.Repeat("t", 500) + `","é":"\u00e9"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "requestState": "` + state[:24] + `… (300 bytes)",
  "a": {
    "requestState": "short",
    "n": 1.0e2
  },
  "requestStates": [
    "` + state + `"
  ],
  "t": "` + strings.Repeat("t", 400) + `… (500 bytes)",
  "é": "é"
}
`
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPlainTakesControlOverTheTerminalAway(t *testing.T) {
	const hostile = "a\x1b[2J\u202Eb\r\x00\u009b\u2066\tc\nd"
	if got, want := plain(hostile), "a\uFFFD[2J\uFFFDb\uFFFD\uFFFD\uFFFD\uFFFD\tc\nd"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := oneLine(" a\n b\t"); got != "a b" {
		t.Errorf("got %q", got)
	}
}
