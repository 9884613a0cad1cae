package bus

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"
)

func someFrame() frame {
	return frame{
		version: version, typ: typeOpen, flags: flagOpener | flagMore, token: token{1, 2, 3, 4, 5, 6, 7, 8},
		seq: 9, acked: 1 << 40, window: 1 << 20, kind: 'e', from: []byte("abc123"), payload: []byte("payload"),
	}
}

func (f frame) encode() []byte { return append(f.appendHeader(nil), f.payload...) }

func someBeat() beat {
	return beat{
		number: 7, uptime: time.Hour, routePort: 6222, version: "1.2.3", about: []byte("calls=3"),
		heard: []hearing{{"a", false, 5, time.Second}, {"b", true, 6, time.Minute}},
	}
}

func TestFrameRoundTrip(t *testing.T) {
	want := someFrame()
	got, err := parseFrame(want.encode())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

// A later version may append to the header.
func TestFrameHeaderMayGrow(t *testing.T) {
	want := someFrame()
	head := want.appendHeader(nil)
	b := append(head, "new fields"...)
	b[2] = byte(len(b))
	got, err := parseFrame(append(b, want.payload...))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestFrameOfAnotherVersion(t *testing.T) {
	b := someFrame().encode()
	b[0] = 2
	f, err := parseFrame(b)
	if !errors.Is(err, errVersion) || string(f.from) != "abc123" || f.token != someFrame().token || f.version != 2 {
		t.Errorf("got %+v, %v; want errVersion and who sent it", f, err)
	}
}

func TestBadFrames(t *testing.T) {
	good := someFrame().encode()
	for name, change := range map[string]func(b []byte) []byte{
		"empty":             func(b []byte) []byte { return nil },
		"short":             func(b []byte) []byte { return b[:fixedHeader-1] },
		"header past end":   func(b []byte) []byte { b[2] = 255; return b },
		"header too small":  func(b []byte) []byte { b[2] = fixedHeader; return b },
		"id past header":    func(b []byte) []byte { b[33] = 200; return b },
		"no id":             func(b []byte) []byte { b[33] = 0; return b },
		"id with a dot":     func(b []byte) []byte { b[fixedHeader] = '.'; return b },
		"id with wildcards": func(b []byte) []byte { b[fixedHeader] = '>'; return b },
		"tiny window":       func(b []byte) []byte { copy(b[28:], []byte{0, 0, 0, 1}); return b },
	} {
		if f, err := parseFrame(change(bytes.Clone(good))); err == nil {
			t.Errorf("%s: taken as %+v", name, f)
		}
	}
}

func TestBeatRoundTrip(t *testing.T) {
	want := someBeat()
	got, err := parseBeat(want.append(nil))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	got, err = parseBeat(append(want.append(nil), "later fields"...))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("with later fields: got %+v, %v; want %+v", got, err, want)
	}
	for n := range want.append(nil) {
		if _, err := parseBeat(want.append(nil)[:n]); err == nil {
			t.Errorf("taken when cut to %d bytes", n)
		}
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(someFrame().encode())
	f.Add(frame{typ: typeReset, from: []byte("a"), kind: byte(codeRefused), payload: []byte("no")}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseFrame(b)
		if err != nil {
			return
		}
		again, err := parseFrame(got.encode())
		if err != nil || !reflect.DeepEqual(got, again) {
			t.Errorf("%+v became %+v, %v", got, again, err)
		}
	})
}

func FuzzBeat(f *testing.F) {
	some := someBeat()
	f.Add(some.append(nil))
	f.Add((&beat{}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseBeat(b)
		if err != nil {
			return
		}
		again, err := parseBeat(got.append(nil))
		if err != nil || !reflect.DeepEqual(got, again) {
			t.Errorf("%+v became %+v, %v", got, again, err)
		}
	})
}
