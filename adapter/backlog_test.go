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
	for p, ok := b.take(); ok; p, ok = b.take() {
		switch {
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

func (b *backlog) taken() pending {
	p, _ := b.take()
	return p
}

func TestBacklogGivesWayToTheNewest(t *testing.T) {
	for name, test := range map[string]struct {
		most, bytes int
		do          func(b *backlog, s *Settings, here bool)
		want        string
	}{
		"all fit": {3, 100, func(b *backlog, s *Settings, here bool) {
			b.put([]byte("n1"), s, here)
			b.ask("k")
			b.put([]byte("n2"), s, here)
		}, "n1 ?k n2"},
		"too many": {2, 100, func(b *backlog, s *Settings, here bool) {
			for _, n := range []string{"n1", "n2", "n3", "n4"} {
				b.put([]byte(n), s, here)
			}
		}, "-2 n3 n4"},
		"a question never gives way": {1, 100, func(b *backlog, s *Settings, here bool) {
			b.put([]byte("n1"), s, here)
			b.ask("a")
			b.put([]byte("n2"), s, here)
			b.ask("b")
			b.put([]byte("n3"), s, here)
		}, "-1 ?a -1 ?b n3"},
		"too large": {9, 5, func(b *backlog, s *Settings, here bool) {
			for _, n := range []string{"n1", "n2", "n3"} {
				b.put([]byte(n), s, here)
			}
		}, "-1 n2 n3"},
		"each too large": {9, 1, func(b *backlog, s *Settings, here bool) {
			b.put([]byte("n1"), s, here)
			b.ask("k")
			b.put([]byte("n2"), s, here)
		}, "-1 ?k -1"},
		"one too large": {9, 2, func(b *backlog, s *Settings, here bool) {
			b.put([]byte("n1"), s, here)
			b.put([]byte("n02"), s, here)
			b.put([]byte("n3"), s, here)
		}, "-2 n3"},
		"one alone is told to a client that is here": {9, 1, func(b *backlog, s *Settings, _ bool) { b.put([]byte("n1"), s, true) }, "n1"},
		"but not kept once it has gone": {9, 1, func(b *backlog, s *Settings, here bool) {
			b.put([]byte("n1"), s, true)
			taken := []pending{b.taken()}
			b.put([]byte("n2"), s, true)
			b.giveBack(taken, s, here)
		}, "-2"},
		"given back": {9, 100, func(b *backlog, s *Settings, here bool) {
			b.put([]byte("n1"), s, here)
			b.ask("k")
			b.put([]byte("n2"), s, here)
			taken := []pending{b.taken(), b.taken()}
			b.put([]byte("n3"), s, here)
			b.giveBack(taken, s, here)
		}, "n1 ?k n2 n3"},
		"given back, and too many": {2, 100, func(b *backlog, s *Settings, here bool) {
			for _, n := range []string{"n1", "n2", "n3"} {
				b.put([]byte(n), s, here)
			}
			gap, n2 := b.taken(), b.taken()
			b.put([]byte("n4"), s, here)
			b.put([]byte("n5"), s, here) // n3 has given way
			b.giveBack([]pending{gap, n2}, s, here)
		}, "-3 n4 n5"},
	} {
		t.Run(name, func(t *testing.T) {
			var b backlog
			test.do(&b, &Settings{MaxUndelivered: test.most, MaxUndeliveredBytes: test.bytes}, false)
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
