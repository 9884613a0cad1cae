package adapter

import (
	"strconv"
	"testing"
	"time"
)

func TestGathererLearnsWhoAsksAlone(t *testing.T) {
	var g gatherer
	s := g.of("tools/call", []byte("a"))
	for range enoughAlone {
		if got := s.wait(time.Second); got != time.Second {
			t.Fatalf("it waits %v before it knows enough, want 1s", got)
		}
		s.parked(1)
	}
	if got := s.wait(time.Second); got != 0 {
		t.Errorf("it waits %v for a tool that always asks one thing", got)
	}
	if g.of("tools/call", []byte("a")) != s {
		t.Error("what was learned is forgotten")
	}
	for name, other := range map[string]*gatherStat{"tool": g.of("tools/call", []byte("b")), "method": g.of("prompts/get", []byte("a"))} {
		if other.wait(time.Second) != time.Second {
			t.Errorf("another %s is judged by this one", name)
		}
	}
	s.late()
	if got := s.wait(time.Second); got != time.Second {
		t.Errorf("it waits %v after a sibling that came late, want 1s", got)
	}
	for range enoughAlone - 1 {
		s.parked(1)
	}
	s.parked(2)
	s.parked(1)
	if got := s.wait(time.Second); got != time.Second {
		t.Errorf("it waits %v for a tool that asks two things at times, want 1s", got)
	}
}

func TestGathererIsBounded(t *testing.T) {
	var g gatherer
	for n := range 3 * maxGathered {
		g.of("tools/call", []byte(strconv.Itoa(n)))
		if len(g.stats) > maxGathered {
			t.Fatalf("%d names are remembered, want at most %d", len(g.stats), maxGathered)
		}
	}
}
