package legacy

import (
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestIDRoundTrip(t *testing.T) {
	s := newTestServer(t, testSettings("http://127.0.0.1:1/mcp"))
	for _, id := range []uint64{0, 1, 9, 10, 12345, math.MaxUint64 - 1, math.MaxUint64} {
		raw := s.AppendID(nil, id)
		if want := `"r1-` + strconv.FormatUint(id, 10) + `"`; string(raw) != want {
			t.Errorf("id %d is %s, want %s", id, raw, want)
		}
		if got, ok := s.parseID(raw); !ok || got != id {
			t.Errorf("%s is read as %d, %v", raw, got, ok)
		}
	}
}

// A server may answer with anything; only what AppendID wrote is an id of ours.
func TestForeignIDs(t *testing.T) {
	s := newTestServer(t, testSettings("http://127.0.0.1:1/mcp"))
	for _, raw := range []string{
		"", "1", "null", `""`, `"1"`, `"r1"`, `"r1-"`, `"r2-1"`, `"r11"`, `"r1-x"`, `"r1-1x"`, `"r1--1"`, `"r1-+1"`, `"r1- 1"`, `"r1-1.0"`,
		`"r1-01"`, `"r1-00"`, `"r1-18446744073709551616"`, `"r1-18446744073709551617"`, `"r1-99999999999999999999"`,
		`"r1-184467440737095516150"`, `"R1-1"`, `"xr1-1"`, `{"r1-1":1}`,
	} {
		if n, ok := s.parseID([]byte(raw)); ok {
			t.Errorf("%s is read as our id %d", raw, n)
		}
	}
	for n := range 30 { // no index out of range
		s.parseID([]byte(`"r1-123456789012345678901234567890"`)[:n])
	}
}

func FuzzParseID(f *testing.F) {
	s := newTestServer(f, testSettings("http://127.0.0.1:1/mcp"))
	for _, seed := range []string{`"r1-1"`, `"r1-18446744073709551615"`, `"r1-18446744073709551616"`, `"r1-01"`, "17", `"x"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if n, ok := s.parseID(raw); ok && string(s.AppendID(nil, n)) != string(raw) {
			t.Errorf("%q is read as %d, which is written %s", raw, n, s.AppendID(nil, n))
		}
	})
}

func TestNextIDsDiffer(t *testing.T) {
	s := newTestServer(t, testSettings("http://127.0.0.1:1/mcp"))
	seen := make(map[uint64]bool)
	for range 1000 {
		id := s.NextID()
		if seen[id] {
			t.Fatalf("id %d came twice", id)
		}
		seen[id] = true
	}
}

// Two keys that read the same would let callers into each other's session.
func TestKeysOfDifferentCallersDiffer(t *testing.T) {
	texts := make(map[string]Key)
	for _, principal := range [][16]byte{{}, {1}, {15: 1}} {
		for _, extra := range []string{"", "1", "1:", "0:", `{"name":"x"}`, `{"name":"x"}{}`, ":{}"} {
			for _, caps := range []string{"{}", `{"roots":{}}`, `{"elicitation":{}}`} {
				k := Key{Principal: principal, Extra: []byte(extra), Caps: capabilities(t, caps)}
				text := string(k.appendText(nil))
				if other, ok := texts[text]; ok {
					t.Errorf("keys %+v and %+v read the same: %q", k, other, text)
				}
				texts[text] = k
			}
		}
	}
}

func TestKeyTextIsUnambiguous(t *testing.T) {
	caps := []*Capabilities{}
	for _, raw := range []string{"{}", `{"roots":{}}`, `{"elicitation":{"form":{},"url":{}}}`} {
		c := Capabilities(capabilities(t, raw))
		caps = append(caps, &c)
	}
	key := rapid.Custom(func(t *rapid.T) Key {
		k := Key{Caps: *rapid.SampledFrom(caps).Draw(t, "caps")}
		// Few letters, so that parts of one key often look like parts of another.
		k.Extra = []byte(rapid.StringOfN(rapid.SampledFrom([]rune(`01:{}"`)), 0, 20, -1).Draw(t, "extra"))
		copy(k.Principal[:], rapid.StringOfN(rapid.SampledFrom([]rune("01:{")), 0, 16, 16).Draw(t, "principal"))
		return k
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := key.Draw(t, "a"), key.Draw(t, "b")
		same := a.Principal == b.Principal && string(a.Extra) == string(b.Extra) && a.Caps.Raw == b.Caps.Raw
		if equal := string(a.appendText(nil)) == string(b.appendText(nil)); equal != same {
			t.Errorf("keys %+v and %+v: text equal %v", a, b, equal)
		}
	})
}
