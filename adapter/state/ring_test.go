package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
)

const limit = 4096

func sample() *Token {
	return &Token{
		Owner:     "replica-7f3a",
		Call:      [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
		Round:     3,
		Upstream:  "everything",
		Principal: [16]byte{0xaa, 0xbb},
		Request:   [16]byte{0xcc, 15: 0xdd},
		Expires:   1_800_000_000,
	}
}

func newRing(t testing.TB, keys ...Key) *Ring {
	t.Helper()
	r, err := NewRing(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRoundTrip(t *testing.T) {
	r := newRing(t, NewKey())
	for name, want := range map[string]*Token{
		"sample":   sample(),
		"zero":     {},
		"greatest": {Round: math.MaxUint32, Expires: math.MaxInt64},
		"least":    {Expires: math.MinInt64},
		"long":     {Owner: strings.Repeat("o", 300), Upstream: strings.Repeat("u", 70)},
		"owner":    {Owner: "only"},
		"upstream": {Upstream: "only"},
		"binary":   {Owner: "\x00\xff", Upstream: "\xfe\n"},
		"parked":   parked(),
	} {
		text := r.Seal([]byte("before "), want)
		sealed, found := bytes.CutPrefix(text, []byte("before "))
		if !found {
			t.Fatalf("%s: Seal did not append: %q", name, text)
		}
		if bytes.ContainsFunc(sealed, func(c rune) bool {
			return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", c)
		}) {
			t.Errorf("%s: not base64url without padding: %s", name, sealed)
		}
		got, err := r.Open(sealed, len(sealed))
		if err != nil || !reflect.DeepEqual(got, *want) {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, *want)
		}
	}
}

// Nothing that was changed opens, and the reason is one that a caller can name.
func TestTampering(t *testing.T) {
	r := newRing(t, NewKey())
	text := r.Seal(nil, parked())
	known := []error{ErrTampered, ErrUnknownKey, ErrVersion}
	refused := func(name string, text []byte, want ...error) {
		t.Helper()
		tok, err := r.Open(text, limit)
		if !slices.ContainsFunc(want, func(e error) bool { return errors.Is(err, e) }) {
			t.Errorf("%s: got %+v, %v; want %v", name, tok, err, want)
		}
		if !reflect.DeepEqual(tok, Token{}) {
			t.Errorf("%s: a refused text gave a token", name)
		}
	}

	raw, err := encoding.AppendDecode(nil, text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			bad := slices.Clone(raw)
			bad[i] ^= 1 << bit
			want := ErrTampered
			switch {
			case i == 0:
				want = ErrVersion
			case i < headSize:
				want = ErrUnknownKey
			}
			refused("flipped byte", encoding.AppendEncode(nil, bad), want)
		}
	}
	for i := range text {
		for c := range 256 {
			if byte(c) == text[i] {
				continue
			}
			bad := slices.Clone(text)
			bad[i] = byte(c)
			refused("other character", bad, known...)
		}
		refused("cut", text[:i], ErrTampered)
		refused("cut in front", text[i+1:], known...)
		for _, c := range []string{"\n", "\r", "=", " ", "A"} {
			refused("inserted "+c, slices.Insert(slices.Clone(text), i, []byte(c)...), known...)
		}
	}
	for _, tail := range []string{"\n", "\r\n", "\r\n\r\n", "=", "==", "A", "AAAA", " ", "\x00"} {
		refused("tail", append(slices.Clone(text), tail...), ErrTampered)
	}
	refused("nil", nil, ErrTampered)
	refused("no token", []byte("hello"), known...)
	refused("head of another's", append(slices.Clone(text[:40]), r.Seal(nil, &Token{Owner: "x"})[40:]...), ErrTampered)

	if _, err := r.Open(text, len(text)-1); !errors.Is(err, ErrTooLong) {
		t.Errorf("over the limit: got %v, want ErrTooLong", err)
	}
	if _, err := r.Open(text, len(text)); err != nil {
		t.Errorf("the text itself: %v", err)
	}
}

// The spare bits of the last character have one value only, whatever the length.
func TestOneTextPerToken(t *testing.T) {
	r := newRing(t, NewKey())
	for n := range 3 {
		text := r.Seal(nil, &Token{Owner: strings.Repeat("o", n)})
		opened := 0
		for c := range 256 {
			text[len(text)-1] = byte(c)
			if _, err := r.Open(text, limit); err == nil {
				opened++
			}
		}
		if opened != 1 {
			t.Errorf("owner of %d bytes: %d last characters open, want 1", n, opened)
		}
	}
}

func TestForeignKey(t *testing.T) {
	ours, theirs := newRing(t, NewKey()), newRing(t, NewKey())
	if _, err := ours.Open(theirs.Seal(nil, sample()), limit); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("got %v, want ErrUnknownKey", err)
	}
	// Somebody else's token under our key's id was made up, not rotated away.
	raw, _ := encoding.AppendDecode(nil, theirs.Seal(nil, sample()))
	copy(raw[1:headSize], (*ours.keys.Load())[0].id[:])
	if _, err := ours.Open(encoding.AppendEncode(nil, raw), limit); !errors.Is(err, ErrTampered) {
		t.Errorf("under our id: got %v, want ErrTampered", err)
	}
}

// The order that the README gives: the new key last everywhere, then first
// everywhere, then, once the old key's tokens have expired, the old key out.
// Replicas take each step one after the other, and calls go on meanwhile.
func TestRotationLosesNoToken(t *testing.T) {
	old, fresh := NewKey(), NewKey()
	replicas := []*Ring{newRing(t, old), newRing(t, old), newRing(t, old)}
	var live [][]byte
	exchange := func() (lost int) {
		for _, r := range replicas {
			live = append(live, r.Seal(nil, sample()))
		}
		for _, r := range replicas {
			for _, text := range live {
				if got, err := r.Open(text, limit); err != nil || !reflect.DeepEqual(got, *sample()) {
					lost++
				}
			}
		}
		return lost
	}
	step := func(name string, keys ...Key) {
		t.Helper()
		for i, r := range replicas {
			if err := r.Replace(keys...); err != nil {
				t.Fatal(err)
			}
			if lost := exchange(); lost != 0 {
				t.Errorf("%s on replica %d: %d tokens lost", name, i, lost)
			}
		}
	}
	exchange()
	step("add last", old, fresh)
	step("move first", fresh, old)
	live = nil // park_ttl goes by: what the old key sealed has expired
	step("remove old", fresh)

	// The short cut loses tokens, or the story above would prove nothing.
	if err := replicas[0].Replace(NewKey(), fresh); err != nil {
		t.Fatal(err)
	}
	if exchange() == 0 {
		t.Error("a key that seals before all replicas know it lost no token")
	}
}

func TestReplace(t *testing.T) {
	key := NewKey()
	r := newRing(t, key, key) // twice counts once
	if n := len(*r.keys.Load()); n != 1 {
		t.Errorf("%d keys, want 1", n)
	}
	twin, twin2 := sameID(t)
	many := make([]Key, MaxKeys+1)
	for i := range many {
		many[i] = NewKey()
	}
	text := r.Seal(nil, sample())
	for name, keys := range map[string][]Key{
		"none":        nil,
		"zero":        {NewKey(), {}},
		"too many":    many,
		"same id":     {NewKey(), twin, twin2},
		"placeholder": {{}},
	} {
		if err := r.Replace(keys...); !errors.Is(err, ErrKey) {
			t.Errorf("%s: got %v, want ErrKey", name, err)
		}
		if _, err := NewRing(keys...); !errors.Is(err, ErrKey) {
			t.Errorf("%s: NewRing: got %v, want ErrKey", name, err)
		}
		if _, err := r.Open(text, limit); err != nil {
			t.Errorf("%s: the ring lost its keys: %v", name, err)
		}
	}
	if err := r.Replace(many[:MaxKeys]...); err != nil {
		t.Errorf("%d keys: %v", MaxKeys, err)
	}
}

// sameID finds two keys with one id; ids have 32 bits, so that takes some 80,000 tries.
func sameID(t *testing.T) (a, b Key) {
	seen := make(map[[keyIDSize]byte]uint32)
	for i := uint32(1); i < 1<<21; i++ {
		var k Key
		binary.BigEndian.PutUint32(k[:], i)
		if j, ok := seen[k.id()]; ok {
			binary.BigEndian.PutUint32(a[:], j)
			return a, k
		}
		seen[k.id()] = i
	}
	t.Fatal("no two keys with one id found")
	return a, b
}

func TestNoncesAreUsedOnce(t *testing.T) {
	r := newRing(t, NewKey())
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := make(map[string]bool)
	const workers, each = 4, 5 * nonceBatch
	for range workers {
		wg.Go(func() {
			for range each {
				raw, err := encoding.AppendDecode(nil, r.Seal(nil, sample()))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[string(raw[headSize:headSize+nonceSize])] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != workers*each {
		t.Errorf("%d tokens have %d nonces", workers*each, len(seen))
	}
	if seen[string(make([]byte, nonceSize))] {
		t.Error("a nonce is all zero")
	}
}

func TestReplaceWhileInUse(t *testing.T) {
	a, b := NewKey(), NewKey()
	r := newRing(t, a, b)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				if _, err := r.Open(r.Seal(nil, sample()), limit); err != nil {
					t.Errorf("open: %v", err)
				}
			}
		})
	}
	for range 50 {
		for _, keys := range [][]Key{{b, a}, {a, b}} {
			if err := r.Replace(keys...); err != nil {
				t.Error(err)
			}
		}
	}
	wg.Wait()
}

func TestAllocations(t *testing.T) {
	needExactAllocations(t)
	r := newRing(t, NewKey())
	tok := sample()
	buf := make([]byte, 0, 512)
	if n := testing.AllocsPerRun(200, func() { buf = r.Seal(buf[:0], tok) }); n != 0 {
		t.Errorf("Seal: %v allocations, want 0", n)
	}
	// One: the two names.
	if n := testing.AllocsPerRun(200, func() {
		if _, err := r.Open(buf, limit); err != nil {
			t.Error(err)
		}
	}); n != 1 {
		t.Errorf("Open: %v allocations, want 1", n)
	}
	// Four: strings, inputs, answers and JSON objects, however many there are.
	long := r.Seal(nil, parked())
	if n := testing.AllocsPerRun(200, func() {
		if _, err := r.Open(long, limit); err != nil {
			t.Error(err)
		}
	}); n != 4 {
		t.Errorf("Open of a parked call's token: %v allocations, want 4", n)
	}
	bad := slices.Clone(buf)
	bad[len(bad)-3] ^= 1
	if n := testing.AllocsPerRun(200, func() {
		if _, err := r.Open(bad, limit); err == nil {
			t.Error("opened")
		}
	}); n > 1 { // the decoder's error
		t.Errorf("Open of a forgery: %v allocations, want at most 1", n)
	}
}

func BenchmarkSeal(b *testing.B) { benchmarkSeal(b, sample()) }

func BenchmarkSealParked(b *testing.B) { benchmarkSeal(b, parked()) }

func benchmarkSeal(b *testing.B, tok *Token) {
	r := newRing(b, NewKey(), NewKey())
	buf := make([]byte, 0, 2048)
	b.ReportAllocs()
	for b.Loop() {
		buf = r.Seal(buf[:0], tok)
	}
}

func BenchmarkOpen(b *testing.B) { benchmarkOpen(b, sample()) }

func BenchmarkOpenParked(b *testing.B) { benchmarkOpen(b, parked()) }

func benchmarkOpen(b *testing.B, tok *Token) {
	r := newRing(b, NewKey(), NewKey())
	text := r.Seal(nil, tok)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Open(text, limit); err != nil {
			b.Fatal(err)
		}
	}
}
