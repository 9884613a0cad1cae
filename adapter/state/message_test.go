package state

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

var (
	secret  = []byte("Bearer 4f1c-credentials")
	purpose = []byte("round of call 17")
)

func TestMessageRoundTrip(t *testing.T) {
	r := newRing(t, NewKey())
	for name, c := range map[string]struct{ plain, context []byte }{
		"message":    {secret, purpose},
		"no context": {secret, nil},
		"empty":      {nil, purpose},
		"nothing":    {nil, nil},
		"long":       {bytes.Repeat([]byte("0123456789abcdef"), 1<<14), bytes.Repeat([]byte("c"), 2*maxScratch)},
	} {
		before := []byte("before ")
		sealed, found := bytes.CutPrefix(r.SealMessage(before, c.plain, c.context), before)
		if !found || len(sealed) != len(c.plain)+MessageOverhead {
			t.Fatalf("%s: %d bytes appended (%t), want %d", name, len(sealed), found, len(c.plain)+MessageOverhead)
		}
		if len(c.plain) > 0 && bytes.Contains(sealed, c.plain) {
			t.Errorf("%s: the plain text is in the sealed one", name)
		}
		kept := bytes.Clone(sealed)
		got, err := r.OpenMessage(before, sealed, c.context)
		if err != nil || !bytes.Equal(got, slices.Concat(before, c.plain)) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		if !bytes.Equal(sealed, kept) {
			t.Errorf("%s: OpenMessage changed what was sealed", name)
		}
		if bytes.Equal(r.SealMessage(nil, c.plain, c.context), sealed) {
			t.Errorf("%s: sealed twice alike", name)
		}
	}
}

// Nothing that was changed opens, under the reasons that Open gives.
func TestMessageTampering(t *testing.T) {
	r := newRing(t, NewKey())
	sealed := r.SealMessage(nil, secret, purpose)
	refused := func(name string, b, context []byte, want error) {
		t.Helper()
		dst := make([]byte, 0, 256)
		got, err := r.OpenMessage(dst, b, context)
		if !errors.Is(err, want) || got != nil {
			t.Errorf("%s: got %q, %v; want %v", name, got, err, want)
		}
		if bytes.Contains(dst[:cap(dst)], secret[:8]) {
			t.Errorf("%s: the room behind dst holds what was refused", name)
		}
	}
	for i := range sealed {
		want := ErrTampered
		switch {
		case i == 0:
			want = ErrVersion
		case i < headSize:
			want = ErrUnknownKey
		}
		for bit := range 8 {
			bad := bytes.Clone(sealed)
			bad[i] ^= 1 << bit
			refused("flipped bit", bad, purpose, want)
		}
		refused("cut", sealed[:i], purpose, ErrTampered)
	}
	refused("nil", nil, purpose, ErrTampered)
	refused("tail", append(bytes.Clone(sealed), 0), purpose, ErrTampered)
	refused("no context", sealed, nil, ErrTampered)
	refused("other context", sealed, []byte("round of call 18"), ErrTampered)
	refused("shorter context", sealed, purpose[:len(purpose)-1], ErrTampered)
	refused("longer context", sealed, append(bytes.Clone(purpose), 0), ErrTampered)

	theirs := newRing(t, NewKey()).SealMessage(nil, secret, purpose)
	refused("another's key", theirs, purpose, ErrUnknownKey)
	copy(theirs[1:headSize], sealed[1:headSize])
	refused("another's key under our id", theirs, purpose, ErrTampered)
}

// A message never opens as a token, nor a token as a message, also where the
// version is written over and the plain text would do.
func TestMessagesAreNoTokens(t *testing.T) {
	r := newRing(t, NewKey())
	token, err := encoding.AppendDecode(nil, r.Seal(nil, parked()))
	if err != nil {
		t.Fatal(err)
	}
	// A context that looks like a token's additional data.
	context := bytes.Clone(token[:headSize])
	message := r.SealMessage(nil, parked().appendPlain(nil), context)
	for _, c := range []struct {
		name               string
		asToken, asMessage byte // versions
		want               error
	}{
		{"as it is", message[0], token[0], ErrVersion},
		{"relabelled", tokenVersion, messageVersion, ErrTampered},
	} {
		message[0], token[0] = c.asToken, c.asMessage
		if _, err := r.Open(encoding.AppendEncode(nil, message), limit); !errors.Is(err, c.want) {
			t.Errorf("message %s as a token: got %v, want %v", c.name, err, c.want)
		}
		if _, err := r.OpenMessage(nil, token, context); !errors.Is(err, c.want) {
			t.Errorf("token %s as a message: got %v, want %v", c.name, err, c.want)
		}
	}
}

// The first key seals and every key opens, as with tokens.
func TestMessagesOutliveRotation(t *testing.T) {
	old, fresh := NewKey(), NewKey()
	r := newRing(t, old)
	sealed := r.SealMessage(nil, secret, purpose)
	for _, keys := range [][]Key{{old, fresh}, {fresh, old}} {
		if err := r.Replace(keys...); err != nil {
			t.Fatal(err)
		}
		if got, err := r.OpenMessage(nil, sealed, purpose); err != nil || !bytes.Equal(got, secret) {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if err := r.Replace(fresh); err != nil {
		t.Fatal(err)
	}
	if _, err := r.OpenMessage(nil, sealed, purpose); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("after the key is gone: got %v, want ErrUnknownKey", err)
	}
}

func TestOlderVersion(t *testing.T) {
	r := newRing(t, NewKey())
	raw, _ := encoding.AppendDecode(nil, r.Seal(nil, sample()))
	raw[0] = 1 // the form before Position
	if _, err := r.Open(encoding.AppendEncode(nil, raw), limit); !errors.Is(err, ErrVersion) {
		t.Errorf("got %v, want ErrVersion", err)
	}
}

// No error tells of what was refused, or of a key.
func TestErrorsKeepSecrets(t *testing.T) {
	key := NewKey()
	r := newRing(t, key)
	text := r.Seal(nil, parked())
	sealed := r.SealMessage(nil, secret, purpose)
	foreign := newRing(t, NewKey())
	bad := bytes.Clone(text)
	bad[len(bad)/2] ^= 1
	var errs []error
	for _, open := range []func() (Token, error){
		func() (Token, error) { return r.Open(bad, limit) },
		func() (Token, error) { return r.Open(text, 10) },
		func() (Token, error) { return r.Open(text[4:], limit) },
		func() (Token, error) { return foreign.Open(text, limit) },
	} {
		_, err := open()
		errs = append(errs, err)
	}
	for _, open := range []func() ([]byte, error){
		func() ([]byte, error) { return r.OpenMessage(nil, sealed, nil) },
		func() ([]byte, error) { return r.OpenMessage(nil, sealed[1:], purpose) },
		func() ([]byte, error) { return foreign.OpenMessage(nil, sealed, purpose) },
	} {
		_, err := open()
		errs = append(errs, err)
	}
	for i, err := range errs {
		if err == nil {
			t.Fatalf("%d: opened", i)
		}
		for _, s := range []string{key.Hex()[:8], key.ID(), string(text[:12]), string(bad[8:20]), parked().Position.Session, string(secret[:12]), string(purpose[:8])} {
			if strings.Contains(err.Error(), s) {
				t.Errorf("%d: %q is in %q", i, s, err)
			}
		}
	}
}

func TestMessageAllocations(t *testing.T) {
	needExactAllocations(t)
	r := newRing(t, NewKey())
	sealed := make([]byte, 0, len(secret)+MessageOverhead)
	plain := make([]byte, 0, len(secret))
	if n := testing.AllocsPerRun(200, func() { sealed = r.SealMessage(sealed[:0], secret, purpose) }); n != 0 {
		t.Errorf("SealMessage: %v allocations, want 0", n)
	}
	if n := testing.AllocsPerRun(200, func() {
		if _, err := r.OpenMessage(plain, sealed, purpose); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("OpenMessage: %v allocations, want 0", n)
	}
}

func BenchmarkSealMessage(b *testing.B) {
	r := newRing(b, NewKey(), NewKey())
	plain := bytes.Repeat([]byte("x"), 1024)
	buf := make([]byte, 0, len(plain)+MessageOverhead)
	b.ReportAllocs()
	b.SetBytes(int64(len(plain)))
	for b.Loop() {
		buf = r.SealMessage(buf[:0], plain, purpose)
	}
}

func BenchmarkOpenMessage(b *testing.B) {
	r := newRing(b, NewKey(), NewKey())
	sealed := r.SealMessage(nil, bytes.Repeat([]byte("x"), 1024), purpose)
	buf := make([]byte, 0, len(sealed))
	b.ReportAllocs()
	b.SetBytes(1024)
	for b.Loop() {
		if _, err := r.OpenMessage(buf, sealed, purpose); err != nil {
			b.Fatal(err)
		}
	}
}
