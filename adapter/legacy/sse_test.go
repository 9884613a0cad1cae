package legacy

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// decoded is an event that outlives the next call.
type decoded struct {
	data, name, id string
	hasID          bool
	retry          time.Duration
}

func (e decoded) String() string {
	s := fmt.Sprintf("%q", e.data)
	if e.name != "" {
		s += fmt.Sprintf(" event %q", e.name)
	}
	if e.hasID {
		s += fmt.Sprintf(" id %q", e.id)
	}
	if e.retry >= 0 {
		s += fmt.Sprintf(" retry %v", e.retry)
	}
	return s
}

func msg(data string) decoded { return decoded{data: data, retry: -1} }

func (e decoded) withName(name string) decoded       { e.name = name; return e }
func (e decoded) withID(id string) decoded           { e.id, e.hasID = id, true; return e }
func (e decoded) withRetry(ms time.Duration) decoded { e.retry = ms * time.Millisecond; return e }

// decode feeds the pieces to d, each in memory that is overwritten once it is
// used up, as a connection's buffer is.
func decode(t testing.TB, d *sseDecoder, pieces [][]byte) (events []decoded, err error) {
	t.Helper()
	for _, piece := range pieces {
		b := bytes.Clone(piece)
		for rest := b; ; {
			ev, after, ok, err := d.Next(rest)
			if err != nil {
				return events, err
			}
			if !ok {
				if len(after) != 0 {
					t.Fatalf("no event, but %q is left", after)
				}
				break
			}
			if len(after) > len(rest) {
				t.Fatalf("more is left than was given")
			}
			rest = after
			events = append(events, decoded{string(ev.Data), string(ev.Name), string(ev.ID), ev.HasID, ev.Retry})
		}
		for i := range b {
			b[i] = '#'
		}
	}
	return events, nil
}

func split(b []byte, sizes ...int) (pieces [][]byte) {
	for i := 0; len(b) > 0; i++ {
		n := min(max(sizes[i%len(sizes)], 1), len(b))
		pieces = append(pieces, b[:n])
		b = b[n:]
	}
	return pieces
}

// reference decodes a whole stream the plain way, line by line.
func reference(stream string, maxLine, maxEvent int) (events []decoded, err error) {
	stream = strings.TrimPrefix(stream, "\xef\xbb\xbf")
	stream = strings.ReplaceAll(stream, "\r\n", "\n")
	lines := strings.Split(strings.ReplaceAll(stream, "\r", "\n"), "\n")
	ev, data := msg(""), []string(nil)
	for i, line := range lines {
		if len(line) > maxLine {
			return events, ErrLineTooLong
		}
		if i == len(lines)-1 { // not ended
			break
		}
		if line == "" {
			ev.data = strings.Join(data, "\n")
			if data != nil || ev.hasID || ev.retry >= 0 {
				events = append(events, ev)
			}
			ev, data = msg(""), nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data = append(data, value)
			if len(strings.Join(data, "\n")) > maxEvent {
				return events, ErrEventTooLong
			}
		case "event":
			ev.name = value
		case "id":
			if !strings.Contains(value, "\x00") {
				if len(value) > maxEventID {
					value = ""
				}
				ev = ev.withID(value)
			}
		case "retry":
			if value != "" && strings.Trim(value, "0123456789") == "" {
				ms, err := strconv.ParseInt(value, 10, 64)
				if most := math.MaxInt64 / int64(time.Millisecond); err != nil || ms > most {
					ms = most
				}
				ev = ev.withRetry(time.Duration(ms))
			}
		}
	}
	return events, nil
}

func same(a, b []decoded) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

const wide = 1 << 20

// streams is what servers send and what the standard says of it.
var streams = []struct {
	name, in string
	want     []decoded
}{
	{"nothing", "", nil},
	{"go-sdk", "event: message\nid: 4_0\ndata: {\"a\":1}\n\n", []decoded{msg(`{"a":1}`).withName("message").withID("4_0")}},
	{"typescript", "event: message\ndata: {}\n\nevent: message\ndata: []\n\n",
		[]decoded{msg("{}").withName("message"), msg("[]").withName("message")}},
	{"priming", "id: 17\ndata: \n\nid: 18\ndata: x\n\n", []decoded{msg("").withID("17"), msg("x").withID("18")}},
	{"priming with retry", "id: 1\nretry: 500\ndata:\n\n", []decoded{msg("").withID("1").withRetry(500)}},
	{"id alone", "id: 5\n\n", []decoded{msg("").withID("5")}},
	{"id taken back", "id\n\n", []decoded{msg("").withID("")}},
	{"retry alone", "retry: 0\n\n", []decoded{msg("").withRetry(0)}},
	{"name alone", "event: x\n\ndata: y\n\n", []decoded{msg("y")}},
	{"comments", ":\n\n: keep-alive\n\n:\ndata: a\n: in between\n\n", []decoded{msg("a")}},
	{"several lines", "data: a\ndata\ndata:b\ndata:  c\n\n", []decoded{msg("a\n\nb\n c")}},
	{"two empty lines", "data\ndata\n\n", []decoded{msg("\n")}},
	{"one empty line", "data\n\n", []decoded{msg("")}},
	{"many blank lines", "\n\n\ndata: a\n\n\n\ndata: b\n\n", []decoded{msg("a"), msg("b")}},
	{"CRLF", "id: 1\r\ndata: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []decoded{msg("a\nb").withID("1"), msg("c")}},
	{"CR", "id: 1\rdata: a\rdata: b\r\rdata: c\r\r", []decoded{msg("a\nb").withID("1"), msg("c")}},
	{"mixed ends", "data: a\r\n\ndata: b\n\r\n\r\rdata: c\r\r\n", []decoded{msg("a"), msg("b"), msg("c")}},
	{"CR in front of LF is one end", "data: a\r\ndata: b\r\n\r\n", []decoded{msg("a\nb")}},
	{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []decoded{msg("a")}},
	{"byte order mark twice", "\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", []decoded{msg("b")}},
	{"byte order mark later", "\n\xef\xbb\xbfdata: a\n\ndata: b\n\n", []decoded{msg("b")}},
	{"half a byte order mark", "\xef\xbbdata: a\n\ndata: b\n\n", []decoded{msg("b")}},
	{"not ended", "data: a\n\ndata: b\n", []decoded{msg("a")}},
	{"line not ended", "data: a\n\nid: 7\ndata: b", []decoded{msg("a")}},
	{"last field counts", "id: 1\nid: 2\nevent: x\nevent: y\nretry: 1\nretry: 2\ndata: a\n\n",
		[]decoded{msg("a").withID("2").withName("y").withRetry(2)}},
	{"nothing carries over", "id: 1\nevent: x\nretry: 1\ndata: a\n\ndata: b\n\n",
		[]decoded{msg("a").withID("1").withName("x").withRetry(1), msg("b")}},
	{"id with NUL", "id: 1\nid: 2\x003\ndata: a\n\nid: \x00\ndata: b\n\n", []decoded{msg("a").withID("1"), msg("b")}},
	{"retry is digits only", "retry: 1s\nretry: -1\nretry: 1.5\nretry:\nretry:  2\nretry: 0x1\ndata: a\n\n", []decoded{msg("a")}},
	{"retry beyond all bounds", "retry: 99999999999999999999999\n\n",
		[]decoded{msg("").withRetry(math.MaxInt64 / time.Millisecond)}},
	{"unknown fields", "Data: a\ndata : b\n data: c\nfoo: d\ndatax\n\ndata: e\n\n", []decoded{msg("e")}},
	{"colons and spaces", "data:a:b\ndata: : c \nid:x y\n\n", []decoded{msg("a:b\n: c ").withID("x y")}},
	{"any bytes", "data: \xff\x00\u2028\n\n", []decoded{msg("\xff\x00\u2028")}},
	{"long lines", "data: " + strings.Repeat("x", 3000) + "\r\ndata: " + strings.Repeat("y", 700) + "\n\n",
		[]decoded{msg(strings.Repeat("x", 3000) + "\n" + strings.Repeat("y", 700))}},
}

func TestSSE(t *testing.T) {
	for _, s := range streams {
		if got, err := reference(s.in, wide, wide); err != nil || !same(got, s.want) {
			t.Errorf("%s: the reference says %v, %v; want %v", s.name, got, err, s.want)
		}
		check := func(pieces [][]byte) {
			t.Helper()
			d := &sseDecoder{maxLine: wide, maxEvent: wide}
			got, err := decode(t, d, pieces)
			if err != nil || !same(got, s.want) {
				t.Errorf("%s in %d pieces: got %v, %v; want %v", s.name, len(pieces), got, err, s.want)
			}
			d.free()
		}
		in := []byte(s.in)
		check([][]byte{in})
		check(split(in, 1))
		for i := range in {
			check([][]byte{in[:i], in[i:]})
			check([][]byte{in[:i], nil, in[i : i+1], in[i+1:]})
		}
	}
}

// An event that is whole comes as parts of the bytes that were given.
func TestSSEWithoutCopy(t *testing.T) {
	b := []byte("event: message\nid: 4_0\nretry: 10\ndata: {\"a\":1}\r\n\r\nrest")
	d := &sseDecoder{maxLine: wide, maxEvent: wide}
	ev, rest, ok, err := d.Next(b)
	if err != nil || !ok || string(rest) != "rest" {
		t.Fatalf("got %v, %q, %v", ok, rest, err)
	}
	for name, part := range map[string][]byte{"data": ev.Data, "name": ev.Name, "id": ev.ID} {
		i := bytes.Index(b, part)
		if unsafe.SliceData(part) != &b[i] {
			t.Errorf("%s was copied", name)
		}
		if cap(part) != len(part) {
			t.Errorf("an append to %s would write into the stream", name)
		}
	}
}

// Between events, and where only comments or ends of lines came, nothing is held.
func TestSSEHoldsNothingWhenIdle(t *testing.T) {
	if size := unsafe.Sizeof(sseDecoder{}); size > 32 {
		t.Errorf("a decoder takes %d bytes", size)
	}
	for _, s := range []string{
		"data: a\n\n", "data: a\r\n\r", "data: a\ndata: b\n\n", ": keep-alive\n", ": keep-alive\n\n",
		"\n", "event: x\n\n", "foo: bar\n", "id: 1\n\n", "id: \x00\n", "retry: x\n",
	} {
		for _, size := range []int{1, 3, len(s)} {
			d := &sseDecoder{maxLine: wide, maxEvent: wide}
			if _, err := decode(t, d, split([]byte(s), size)); err != nil {
				t.Fatal(err)
			}
			if d.pending != nil {
				t.Errorf("after %q in pieces of %d: memory is held", s, size)
			}
		}
	}
	// The event that was returned is all that is held, until release.
	d := &sseDecoder{maxLine: wide, maxEvent: wide}
	if _, _, ok, _ := d.Next([]byte("data: a")); ok || d.pending == nil {
		t.Fatal("the event's start is not held")
	}
	ev, rest, ok, err := d.Next([]byte("\n\n"))
	if !ok || err != nil || string(ev.Data) != "a" || len(rest) != 0 {
		t.Fatalf("got %q, %q, %v, %v", ev.Data, rest, ok, err)
	}
	if d.release(); d.pending != nil {
		t.Error("release left memory held")
	}
	d.Next([]byte("data: b"))
	if d.release(); d.pending == nil {
		t.Error("release dropped an event that goes on")
	}
	if d.free(); d.pending != nil {
		t.Error("free left memory held")
	}
}

func TestSSELimits(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		name, in string
		want     error
		events   int
	}{
		{"longest line", "data: " + x(94) + "\r\n\n", nil, 1},
		{"longest comment", ":" + x(99) + "\ndata: a\n\n", nil, 1},
		{"line", "data: a\n\ndata: " + x(95) + "\n\n", ErrLineTooLong, 1},
		{"comment", "data: a\n\n:" + x(100) + "\n\n", ErrLineTooLong, 1},
		{"unknown field", x(101) + "\n\n", ErrLineTooLong, 0},
		{"line without end", "data: " + x(95), ErrLineTooLong, 0},
		{"longest event", strings.Repeat("data:"+x(49)+"\n", 2) + "data:" + x(50) + "\n\n", nil, 1},
		{"event", strings.Repeat("data:"+x(49)+"\n", 2) + "data:" + x(51) + "\n\n", ErrEventTooLong, 0},
		{"event of empty lines", strings.Repeat("data\n", 152) + "\n", ErrEventTooLong, 0},
		{"longest event of empty lines", strings.Repeat("data\n", 151) + "\n", nil, 1},
		{"many comments are no event", strings.Repeat(":"+x(50)+"\n", 50) + "data: a\n\n", nil, 1},
	} {
		for _, size := range []int{1, 7, len(c.in)} {
			d := &sseDecoder{maxLine: 100, maxEvent: 150}
			got, err := decode(t, d, split([]byte(c.in), size))
			if !errors.Is(err, c.want) || len(got) != c.events {
				t.Errorf("%s in pieces of %d: got %d events, %v; want %d, %v", c.name, size, len(got), err, c.events, c.want)
			}
			if err != nil && d.pending != nil {
				t.Errorf("%s: memory is held after the error", c.name)
			}
		}
	}
	d := &sseDecoder{maxLine: 40, maxEvent: 10}
	if _, err := decode(t, d, [][]byte{[]byte("data: 01234567890\n\n")}); !errors.Is(err, ErrEventTooLong) {
		t.Errorf("one data line: got %v, want ErrEventTooLong", err)
	}
}

// An id that no header could carry back takes the one before it back as well.
func TestSSEIDTooLong(t *testing.T) {
	for n, want := range map[int]string{maxEventID: strings.Repeat("i", maxEventID), maxEventID + 1: ""} {
		in := []byte("id: 1\nid: " + strings.Repeat("i", n) + "\ndata: a\n\n")
		for _, size := range []int{1000, len(in)} {
			got, err := decode(t, &sseDecoder{maxLine: wide, maxEvent: wide}, split(in, size))
			if err != nil || !same(got, []decoded{msg("a").withID(want)}) {
				t.Errorf("id of %d bytes: got %.60v, %v", n, got, err)
			}
		}
	}
}

func TestSSEAllocations(t *testing.T) {
	for name, in := range map[string]string{
		"data":      "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
		"all":       "event: message\r\nid: 4_0\r\nretry: 500\r\ndata: {}\r\n\r\n",
		"keepalive": ": keep-alive\n\n",
		"three":     "data: 1\n\nid: 2\ndata: 2\n\ndata: 3\n\n",
	} {
		b := []byte(in)
		d := &sseDecoder{maxLine: wide, maxEvent: wide}
		if n := testing.AllocsPerRun(200, func() {
			for rest, ok := b, true; ok; {
				var err error
				if _, rest, ok, err = d.Next(rest); err != nil {
					t.Error(err)
				}
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

// A large event in small pieces is copied a few times over, not once a piece.
func TestSSELargeEventIsLinear(t *testing.T) {
	const size = 5 << 20
	pieces := split([]byte("data: "+strings.Repeat("x", size)+"\n\n"), 4<<10)
	d := &sseDecoder{maxLine: 8 << 20, maxEvent: 8 << 20}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := 0
	for _, piece := range pieces {
		ev, _, _, err := d.Next(piece)
		if err != nil {
			t.Fatal(err)
		}
		got += len(ev.Data)
	}
	runtime.ReadMemStats(&after)
	if got != size {
		t.Errorf("got %d bytes, want %d", got, size)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 8*size {
		t.Errorf("%d bytes allocated for an event of %d", used, size)
	}
	d.free()
}

func FuzzSSE(f *testing.F) {
	for _, s := range streams {
		f.Add([]byte(s.in), []byte{1, 2, 3}, uint16(wide>>8), uint16(wide>>8))
	}
	f.Add([]byte("data: 123456789\ndata: 2\n\n"), []byte{4}, uint16(12), uint16(9))
	f.Fuzz(func(t *testing.T, in, cuts []byte, maxLine, maxEvent uint16) {
		limits := sseDecoder{maxLine: max(int(maxLine), len(byteOrderMark)), maxEvent: int(maxEvent)}
		want, wantErr := reference(string(in), limits.maxLine, limits.maxEvent)
		sizes := []int{1}
		for _, c := range cuts {
			sizes = append(sizes, int(c))
		}
		for _, pieces := range [][][]byte{{in}, split(in, 1), split(in, sizes...)} {
			d := limits
			got, err := decode(t, &d, pieces)
			if !same(got, want) || err != wantErr {
				t.Fatalf("%q in %d pieces: got %v, %v; want %v, %v", in, len(pieces), got, err, want, wantErr)
			}
			if ended := bytes.HasSuffix(in, []byte("\n\n")) || len(in) == 0; ended && d.pending != nil {
				t.Fatalf("%q in %d pieces: memory is held", in, len(pieces))
			}
			d.free()
		}
	})
}

func benchmarkSSE(b *testing.B, in []byte, size, events int) {
	pieces := split(in, size)
	d := &sseDecoder{maxLine: 16 << 20, maxEvent: 16 << 20}
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, rest := range pieces {
			for ok := true; ok; {
				var err error
				if _, rest, ok, err = d.Next(rest); err != nil {
					b.Fatal(err)
				}
				if ok {
					n++
				}
			}
		}
		if n != events {
			b.Fatalf("%d events, want %d", n, events)
		}
	}
}

func BenchmarkSSE(b *testing.B) {
	event := func(size int) []byte {
		return []byte("event: message\nid: 12_34\ndata: " + strings.Repeat("x", size) + "\n\n")
	}
	b.Run("200B", func(b *testing.B) { benchmarkSSE(b, event(200), wide, 1) })
	b.Run("200B in two", func(b *testing.B) { benchmarkSSE(b, event(200), 120, 1) })
	b.Run("1000 events", func(b *testing.B) { benchmarkSSE(b, bytes.Repeat(event(200), 1000), 4096, 1000) })
	b.Run("1000 events CR", func(b *testing.B) {
		benchmarkSSE(b, bytes.ReplaceAll(bytes.Repeat(event(200), 1000), []byte("\n"), []byte("\r")), wide, 1000)
	})
	// Three times the bytes take three times as long.
	for _, mib := range []int{5, 15} {
		b.Run(fmt.Sprintf("%dMiB in 4KiB", mib), func(b *testing.B) { benchmarkSSE(b, event(mib<<20), 4096, 1) })
	}
	b.Run("5MiB in lines", func(b *testing.B) {
		benchmarkSSE(b, []byte(strings.Repeat("data: "+strings.Repeat("x", 100)+"\n", 5<<20/107)+"\n"), 4096, 1)
	})
}
