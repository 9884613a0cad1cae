package adapter

import (
	"strconv"
	"strings"
	"testing"
)

// told takes all that a backlog has, as words: n1 a notification, ?k a question,
// -2 a gap of two.
func (b *backlog) told() string {
	var words []string
	for len(b.waiting) > 0 {
		switch p := b.take(); {
		case p.note != nil:
			words = append(words, string(p.note))
		case p.key != "":
			words = append(words, "?"+p.key)
		default:
			words = append(words, strconv.Itoa(-p.lost))
		}
	}
	return strings.Join(words, " ")
}

func TestBacklogGivesWayToTheNewest(t *testing.T) {
	for name, test := range map[string]struct {
		most, bytes int
		do          func(b *backlog, s *Settings)
		want        string
	}{
		"all fit": {3, 100, func(b *backlog, s *Settings) {
			b.put([]byte("n1"), s)
			b.ask("k")
			b.put([]byte("n2"), s)
		}, "n1 ?k n2"},
		"too many": {2, 100, func(b *backlog, s *Settings) {
			for _, n := range []string{"n1", "n2", "n3", "n4"} {
				b.put([]byte(n), s)
			}
		}, "-2 n3 n4"},
		"a question never gives way": {1, 100, func(b *backlog, s *Settings) {
			b.put([]byte("n1"), s)
			b.ask("a")
			b.put([]byte("n2"), s)
			b.ask("b")
			b.put([]byte("n3"), s)
		}, "-1 ?a -1 ?b n3"},
		"too large": {9, 5, func(b *backlog, s *Settings) {
			for _, n := range []string{"n1", "n2", "n3"} {
				b.put([]byte(n), s)
			}
		}, "-1 n2 n3"},
		"one alone is never too large": {9, 1, func(b *backlog, s *Settings) { b.put([]byte("n1"), s) }, "n1"},
		"given back": {9, 100, func(b *backlog, s *Settings) {
			b.put([]byte("n1"), s)
			b.ask("k")
			b.put([]byte("n2"), s)
			taken := []pending{b.take(), b.take()}
			b.put([]byte("n3"), s)
			b.giveBack(taken, s)
		}, "n1 ?k n2 n3"},
		"given back, and too many": {2, 100, func(b *backlog, s *Settings) {
			for _, n := range []string{"n1", "n2", "n3"} {
				b.put([]byte(n), s)
			}
			gap, n2 := b.take(), b.take()
			b.put([]byte("n4"), s)
			b.put([]byte("n5"), s) // n3 has given way
			b.giveBack([]pending{gap, n2}, s)
		}, "-3 n4 n5"},
	} {
		t.Run(name, func(t *testing.T) {
			var b backlog
			test.do(&b, &Settings{MaxUndelivered: test.most, MaxUndeliveredBytes: test.bytes})
			if b.notes > test.most {
				t.Errorf("%d notifications are kept, of %d", b.notes, test.most)
			}
			if got := b.told(); got != test.want {
				t.Errorf("told %s, want %s", got, test.want)
			}
			if b.notes != 0 || b.bytes != 0 {
				t.Errorf("%d notifications of %d bytes are left of nothing", b.notes, b.bytes)
			}
		})
	}
}
